//go:build lab

package e2e

import (
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/vf"
	"github.com/culvert-net/culvert/lab/demo/node"
	"github.com/culvert-net/culvert/test/soak"
)

// The bits of the AER status registers (include/uapi/linux/pci_regs.h).
const (
	badTLP            = 0x40   // correctable
	completionTimeout = 0x4000 // nonfatal, unless the register of severities says otherwise
)

// injectError makes the kernel handle an error of PCIe as if the device had reported it: the
// module aer_inject takes a struct aer_error_inj (drivers/pci/pcie/aer_inject.c). The error is
// correctable if uncorrectable is 0.
func injectError(t *testing.T, n node.Node, addr vf.PCIAddr, uncorrectable, correctable uint32) {
	t.Helper()
	var b [32]byte // bus, device, function, padding, two words of status, four of a header, the domain
	b[0], b[1], b[2] = addr.Bus, addr.Device, addr.Function
	binary.LittleEndian.PutUint32(b[4:], uncorrectable)
	binary.LittleEndian.PutUint32(b[8:], correctable)
	binary.LittleEndian.PutUint32(b[28:], addr.Domain)
	text := ""
	for _, c := range b {
		text += fmt.Sprintf(`\%03o`, c)
	}
	must(t, n, "sh", "-c", "modprobe aer_inject && printf '"+text+"' >/dev/aer_inject")
}

// withErrors attaches a VF to a pod of a node, and returns the attachment, the VF and the status of its
// PF. When the test ends, culvertd starts anew, which ends the problems that it reports.
func withErrors(t *testing.T, n node.Node) (a node.Attachment, held api.VF, before api.PF) {
	t.Helper()
	leavesNothing(t, n)
	t.Cleanup(func() {
		if out, err := n.Run(context.Background(), "sh", "-c", "systemctl restart culvertd && rmmod aer_inject"); err != nil {
			t.Errorf("%v: %s", err, out)
		}
	})
	a = network(t, n, "errors", "1.1.0", pool+`, "vlan": 7, "mtu": 1400, "ipam": {"type": "host-local", "subnet": "10.84.0.0/24"}`)
	netns(t, n, a.Netns)
	add(t, n, a)
	held = holder(t, n, "errors")
	return a, held, pfOf(t, status(t, n), held.PF)
}

// culvertd counts an error that PCIe corrects, and does not report it.
func TestErrorsOfPCIe(t *testing.T) {
	n := nodes[1]
	_, held, before := withErrors(t, n)
	injectError(t, n, before.PCI, 0, badTLP)
	awaitTrue(t, "culvertd counts an error that PCIe corrects, and does not report it", func() (any, bool) {
		st := status(t, n)
		pf := pfOf(t, st, held.PF)
		return pf.Errors, pf.Errors.Correctable == before.Errors.Correctable+1 && len(pf.Faults)+len(st.Problems) == 0
	})
}

// culvertd counts and reports an error that PCIe does not correct. The drivers then reset the PF and
// its VFs, and the interface in the pod is as it was.
func TestUncorrectedErrorOfPCIe(t *testing.T) {
	soak.Only(t, "on a machine with other load, igb's reset after the error sometimes hangs the node's kernel")
	n := nodes[1]
	a, held, before := withErrors(t, n)
	injectError(t, n, held.PCI, completionTimeout, 0)
	awaitTrue(t, "culvertd counts and reports an error of a VF", func() (any, bool) {
		st := status(t, n)
		pf := pfOf(t, st, held.PF)
		i := slices.IndexFunc(st.Problems, func(p api.Problem) bool { return p.Object == "PCIe of PF "+held.PF })
		return []any{pf, st.Problems}, pf.Errors.Nonfatal == before.Errors.Nonfatal+1 && slices.Contains(pf.Faults, vf.FaultPCIe) &&
			i >= 0 && strings.Contains(st.Problems[i].Reason, held.PCI.String())
	})
	awaitRecovery(t, n)
	awaitTrue(t, "the interface in the pod is as it was", func() (any, bool) {
		_, err := n.CNI(t.Context(), "check", a)
		return err, err == nil && !holder(t, n, "errors").NoCarrier
	})
}

// awaitRecovery waits until the drivers have reset the devices after an error.
func awaitRecovery(t *testing.T, n node.Node) {
	t.Helper()
	awaitTrue(t, "the drivers recover", func() (any, bool) {
		log := string(must(t, n, "sh", "-c", "dmesg | grep AER: | tail -1"))
		return log, strings.Contains(log, "device recovery successful")
	})
}

// pfOf returns the PF with a name.
func pfOf(t *testing.T, st api.NodeStatus, name string) api.PF {
	t.Helper()
	i := slices.IndexFunc(st.PFs, func(pf api.PF) bool { return pf.Name == name })
	if i < 0 {
		t.Fatalf("no PF %s in %v", name, st.PFs)
	}
	return st.PFs[i]
}

// awaitTrue calls ask until it returns true. ask also returns the state that it saw, for the
// error.
func awaitTrue(t *testing.T, what string, ask func() (any, bool)) {
	t.Helper()
	for begin := time.Now(); ; time.Sleep(100 * time.Millisecond) {
		seen, is := ask()
		if is {
			t.Logf("%s: after %s", what, time.Since(begin).Round(10*time.Millisecond))
			return
		}
		if time.Since(begin) > bound {
			t.Fatalf("not after %s: %s; now %+v", bound, what, seen)
		}
	}
}
