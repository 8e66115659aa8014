package agent

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"

	"github.com/culvert-net/culvert/bench"
	"github.com/culvert-net/culvert/bench/engine"
	"github.com/culvert-net/culvert/bench/evidence"
	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/rpc"
	"github.com/culvert-net/culvert/internal/vf"
)

// noDevice is the version of testpmd where no VF is named.
func noDevice(context.Context) (string, error) {
	return "", errors.New("testpmd drives a VF that is bound to vfio-pci: name it with the end, as in ,pci=0000:01:10.0")
}

// describeDevice describes the VF with a PCI address as the agent's one end. It starts testpmd on the
// VF once, so that all that is missing shows before a run.
func (a *agent) describeDevice(ctx context.Context, pci string, d *Description) {
	device := a.Reader.Device(pci)
	d.Ends = []bench.End{device.End(pci)}
	d.Machine.Interfaces = slices.DeleteFunc(d.Machine.Interfaces, func(i bench.Interface) bool { return i.Name != device.PF }) // others take no part
	version, err := a.tryTestpmd(ctx, pci)
	if err != nil {
		d.Lacking = []Lack{{Engine: engine.Testpmd, Why: err.Error()}}
		return
	}
	d.Machine.Tools = append(d.Machine.Tools, bench.Setting{Name: engine.Testpmd, Value: version})
}

// tryTestpmd returns the version of DPDK if testpmd can drive the VF.
func (a *agent) tryTestpmd(ctx context.Context, pci string) (version string, err error) {
	if _, err := a.checkDevice(ctx, pci); err != nil {
		return "", err
	}
	a.mu.Lock()
	version, tried := a.testpmd[pci]
	a.mu.Unlock()
	if tried {
		return version, nil
	}
	t := Task{Interface: pci, Workload: bench.Workload{Engine: engine.Testpmd}}
	h, err := a.startTestpmd(ctx, t, testpmdReceives, Ready{})
	if err != nil {
		return "", err
	}
	version = h.describeReady().Version
	a.mu.Lock()
	if a.testpmd == nil {
		a.testpmd = map[string]string{}
	}
	a.testpmd[pci] = version
	a.mu.Unlock()
	return version, h.close()
}

// checkDevice returns the VF that testpmd may drive. An error says what is missing, and how to get it.
func (a *agent) checkDevice(ctx context.Context, pci string) (evidence.Device, error) {
	d := a.Reader.Device(pci)
	if err := a.checkPrograms(); err != nil {
		return d, err
	}
	if err := checkBinding(pci, d); err != nil {
		return d, err
	}
	if err := a.checkLedger(ctx, pci); err != nil {
		return d, err
	}
	if err := checkUnopened(pci, a.Reader.GroupFile(d)); err != nil {
		return d, err
	}
	return d, a.checkMemory()
}

// checkPrograms checks what testpmd needs of the machine, whatever the VF.
func (a *agent) checkPrograms() error {
	e, _ := engine.FindEngine(engine.Testpmd)
	if _, err := exec.LookPath(e.Program); err != nil {
		return fmt.Errorf("%s is not installed here: apt-get install %s (Debian), and the driver of the NIC if your system has it apart, such as librte-net-e1000-25 for igb", e.Program, e.Package)
	}
	const instructions = "sse4_2"
	if a.Reader.LacksInstruction(instructions) {
		return errors.New("DPDK needs a processor with SSE4.2, and this one has none: if this is a virtual machine, give it a processor model that has it (QEMU: -cpu host or max)")
	}
	if os.Geteuid() != 0 {
		return errors.New("testpmd opens /dev/vfio and huge pages as root: run the agent as root (ssh:root@HOST, or sudo)")
	}
	return nil
}

// checkBinding checks that the VF is one, and that vfio-pci has it behind an IOMMU.
func checkBinding(pci string, d evidence.Device) error {
	const pool = "put it into a pool with deviceType: vfio-pci in host.yaml or a NodePolicy, and culvertd binds it"
	_, err := vf.ParsePCIAddr(pci)
	switch {
	case err != nil:
		return err
	case !d.Present:
		return fmt.Errorf("there is no PCI device %s here: culvert vf list has the VFs", pci)
	case d.VF == nil:
		return fmt.Errorf("%s is no VF: culvert vf list has the VFs", pci)
	case d.Driver == "":
		return fmt.Errorf("the VF %s is bound to no driver: %s", pci, pool)
	case d.Driver != vf.DriverVFIO:
		return fmt.Errorf("the VF %s is bound to %s and not to %s: %s", pci, d.Driver, vf.DriverVFIO, pool)
	case d.Group == "":
		return fmt.Errorf("the VF %s is in no IOMMU group: turn the IOMMU on in the firmware and on the kernel's command line (culvert doctor says how)", pci)
	case d.Unsafe:
		return fmt.Errorf("the VF %s is bound without an IOMMU (enable_unsafe_noiommu_mode), so that it could write to all memory: turn the IOMMU on (culvert doctor says how)", pci)
	}
	return nil
}

// checkLedger asks this machine's culvertd whether the VF is free. The VF needs no lease: culvertd
// gives out no VF that a program has open.
func (a *agent) checkLedger(ctx context.Context, pci string) error {
	var st api.NodeStatus
	if err := rpc.Call(ctx, a.Culvertd, api.MethodStatus, nil, &st); err != nil {
		return fmt.Errorf("whether a pod or a guest has the VF %s is not known without culvertd: %w", pci, err)
	}
	return checkFree(st, pci)
}

// openBy begins what culvertd says of a VF that a program has open.
const openBy = "open by "

// checkFree returns an error unless a VF is free by culvertd's ledger. culvertd may have seen a
// program that has it open and that ended since, such as the testpmd of the run before; checkUnopened
// sees what has it open now.
func checkFree(st api.NodeStatus, pci string) error {
	i := slices.IndexFunc(st.VFs, func(v api.VF) bool { return v.PCI.String() == pci })
	if i < 0 {
		return fmt.Errorf("culvertd does not know the VF %s: declare its PF in host.yaml, and a pool with deviceType: vfio-pci", pci)
	}
	v := st.VFs[i]
	switch {
	case v.Owner != nil:
		return fmt.Errorf("the VF %s belongs to %s: name one that is free (culvert vf list --phase free)", pci, v.Owner)
	case v.UsedBy != "" && !strings.HasPrefix(v.UsedBy, openBy):
		return fmt.Errorf("the VF %s is in use, %s: name one that is free (culvert vf list --phase free)", pci, v.UsedBy)
	case v.Phase != string(vf.PhaseFree) && v.Phase != api.PhaseOutside:
		return fmt.Errorf("the VF %s is %s in culvertd's ledger, and not free: name one that is free (culvert vf list --phase free)", pci, v.Phase)
	case v.Pool == "":
		return fmt.Errorf("the VF %s is in no pool: put it into one with deviceType: vfio-pci", pci)
	}
	return nil
}

// checkUnopened checks that no program has the VF's IOMMU group open: the kernel lets one have it at a
// time (VFIO, "VFIO Usage Example").
func checkUnopened(pci, file string) error {
	f, err := os.OpenFile(file, os.O_RDWR, 0)
	if err != nil {
		return explainOpening(pci, file, err)
	}
	return f.Close()
}

func explainOpening(pci, file string, err error) error {
	if errors.Is(err, syscall.EBUSY) {
		return fmt.Errorf("a program has the VF %s open by %s: end it, or name another VF", pci, file)
	}
	return fmt.Errorf("open the IOMMU group of the VF %s: %w", pci, err)
}

func (a *agent) checkMemory() error {
	if !a.Reader.HasHugetlbfs() {
		return errors.New("no file system of huge pages is mounted, which DPDK needs: mkdir -p /dev/hugepages && mount -t hugetlbfs none /dev/hugepages")
	}
	if free := a.Reader.FreeHugePages(); free < testpmdMemory {
		return fmt.Errorf("%d MiB of huge pages are free, and testpmd takes %d: sysctl -w vm.nr_hugepages=N, where a page of x86 has 2 MiB", free, testpmdMemory)
	}
	return nil
}

// explainStart adds to testpmd's own words what they mean.
func (a *agent) explainStart(pci string, p *testpmdProcess, err error) error {
	said := string(p.out.copyBytes()) + string(p.said.copyBytes())
	switch {
	case strings.Contains(said, "No probed ethernet devices"):
		err = fmt.Errorf("testpmd has no driver for the VF %s, model %s: install the package of it (Debian: librte-net-e1000-25 for igb, librte-net-ixgbe25, librte-net-iavf25): %w", pci, a.Reader.Device(pci).Model, err)
	case strings.Contains(said, "error while loading shared libraries"):
		err = fmt.Errorf("testpmd lacks a library: install all that the package dpdk-dev needs: %w", err)
	}
	return err
}

// chooseCPUs returns those processors of a cpulist, such as "0-3,8", that this process may use, or all
// that it may use if that is none.
func chooseCPUs(list string) (all []int) {
	all = evidence.UsableCPUs()
	near := slices.DeleteFunc(slices.Clone(all), func(cpu int) bool { return !isListed(list, cpu) })
	if len(near) > 0 {
		return near
	}
	return all
}

// isListed reports whether a cpulist has a processor (cpuset(7), "List format").
func isListed(list string, cpu int) bool {
	for part := range strings.SplitSeq(list, ",") {
		var from, to int
		switch n, _ := fmt.Sscanf(part, "%d-%d", &from, &to); {
		case n == 1 && cpu == from, n == 2 && from <= cpu && cpu <= to:
			return true
		}
	}
	return false
}
