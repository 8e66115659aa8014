package doctor

import (
	"fmt"
	"slices"

	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/kernel/survey"
	"github.com/culvert-net/culvert/internal/screen"
)

// checkCulvertd asks whether culvertd runs and is ready, and whether its version is that of
// culvert.
func checkCulvertd(e *examination) {
	if e.SpecErr != "" {
		e.addFinding(finding{check: "culvertd", severity: api.SeverityError, object: "host.yaml", why: "culvertd leaves the host as it is until that is mended",
			mend: []string{"culvert host validate"}}, "%s", e.SpecErr)
	}
	if e.SpecMissing && len(e.PFs) > 0 {
		e.addFinding(finding{check: "culvertd", severity: api.SeverityNote, object: "host.yaml", why: "nothing is wanted of this host, so no VFs are made",
			mend: []string{"write it (culvert host --help shows how), then: culvert host apply"}}, "there is none")
	}
	st := e.Status
	if st == nil {
		e.noDaemon()
		return
	}
	if st.Version != e.Version {
		e.addFinding(finding{check: "culvertd", severity: api.SeverityWarning, object: "culvertd", why: "what one knows the other may not",
			mend: []string{"systemctl restart culvertd"}}, "it is version %s, and culvert is %s", st.Version, e.Version)
	}
	switch {
	case !st.Ready:
		e.addFinding(finding{check: "culvertd", severity: api.SeverityWarning, object: "culvertd", why: "containers that want a VF wait",
			mend: []string{"culvert status", "journalctl -u culvertd"}}, "it runs and is not ready")
	case len(st.Problems) > 0:
		e.addFinding(finding{check: "culvertd", severity: api.SeverityWarning, object: "culvertd", mend: []string{"culvert status"}}, "it runs, and reports %s", screen.Plural(len(st.Problems), "problem"))
	default:
		e.addOK("culvertd", "culvertd", "it runs and is ready; nothing is wrong with %s", screen.Plural(len(st.VFs), "VF"))
	}
}

func (e *examination) noDaemon() {
	f := finding{check: "culvertd", severity: api.SeverityError, object: "culvertd", why: "no VF can be given out or taken back",
		mend: []string{"systemctl enable --now culvertd", "journalctl -u culvertd"}}
	switch {
	case len(e.PFs) == 0:
		f.severity, f.why, f.mend = api.SeverityNote, "without a PF it has nothing to do", nil
	case !e.Root:
		e.addNote("culvertd", "culvertd", "only root may ask it")
		return
	case !hasProgram(e.Host, "culvertd.service"):
		f.mend = []string{"culvert host install    # docs/install.md", "systemctl enable --now culvertd"}
	}
	e.addFinding(f, "%s", e.StatusErr)
}

// Limits below which the doctor warns.
const (
	leastFiles  = 4096      // 256 VFs given out at once take a few files each
	leastMemory = 512 << 20 // bytes that a DPDK container locks at least
)

// checkLimits checks the limits of the programs that give VFs out or use them.
func checkLimits(e *examination) {
	if p, ok := findRunning(e.Host, "culvertd"); ok {
		if n := p.Limits.OpenFiles; n >= 0 && n < leastFiles {
			e.addFinding(finding{check: "limits", severity: api.SeverityWarning, object: "culvertd", why: fmt.Sprintf("a burst of containers needs more: %d are enough for 256 VFs", leastFiles),
				mend: []string{"systemctl edit culvertd    # [Service] LimitNOFILE=65536", "systemctl restart culvertd"}}, "it may have %d files open", n)
		} else if n >= 0 {
			e.addOK("limits", "culvertd", "it may have %s files open", describeLimit(n))
		}
	}
	pool, ok := e.vfioPool()
	if !ok {
		return
	}
	if p, ok := findRunning(e.Host, "libvirtd", "virtqemud"); ok && p.UID > 0 {
		e.addFinding(finding{check: "limits", severity: api.SeverityWarning, object: p.Name, why: "it must raise the limit of locked memory for each VM that has a VF, which takes root",
			mend: []string{"use the system's libvirt: virsh -c qemu:///system"}}, "process %d runs as user %d", p.PID, p.UID)
	} else if ok {
		e.addOK("limits", p.Name, "it runs as root, and raises the locked memory of each VM that has a VF")
	}
	if p, ok := findRunning(e.Host, "containerd", "crio", "dockerd"); ok {
		if n := p.Limits.LockedMemory; n >= 0 && n < leastMemory {
			e.addFinding(finding{check: "limits", severity: api.SeverityWarning, object: p.Name,
				why:  "a container with a VF of pool " + pool.FullName() + " (vfio-pci) locks all memory that the VF reaches",
				mend: []string{"systemctl edit " + p.Name + "    # [Service] LimitMEMLOCK=infinity", "systemctl restart " + p.Name}}, "its containers may lock %d KiB of memory", n>>10)
		} else if n >= 0 {
			e.addOK("limits", p.Name, "its containers may lock %s bytes of memory", describeLimit(n))
		}
	}
}

func describeLimit(n int64) string {
	if n == survey.Unlimited {
		return "any number of"
	}
	return fmt.Sprint(n)
}

// Free space that the ledger needs, in bytes. It has about 2 KiB for each VF.
const (
	leastFree   = 4 << 20
	enoughFree  = 64 << 20
	leastInodes = 16
)

// checkLedger checks the folder of the ledger: the ledger must be on disk before culvertd changes
// anything in the kernel.
func checkLedger(e *examination) {
	d := e.Ledger
	f := finding{check: "ledger", severity: api.SeverityError, object: d.Path, why: "culvertd gives out nothing that it could not write down",
		mend: []string{"df -h " + d.Path, "findmnt -T " + d.Path}}
	switch {
	case d.Path == "":
	case d.Missing:
		e.addNote("ledger", d.Path, "it is not there yet: culvertd makes it at its first start")
	case d.ReadOnly:
		e.addFinding(f, "its file system (%s) is read-only", d.Type)
	case d.SyncErr != "" && !e.Root:
		e.addNote("ledger", d.Path, "only root can try whether it keeps what is written: sudo culvert doctor")
	case d.SyncErr != "":
		e.addFinding(f, "nothing can be written durably there: %s", d.SyncErr)
	case d.Free < leastFree || d.FreeFiles < leastInodes:
		e.addFinding(f, "its file system is full: %d KiB are free", d.Free>>10)
	case d.Free < enoughFree:
		f.severity, f.why = api.SeverityWarning, "culvertd stops giving out VFs when it is full"
		e.addFinding(f, "%d MiB are free there", d.Free>>20)
	case slices.Contains([]string{"nfs", "cifs", "fuse", "ceph", "9p"}, d.Type):
		f.severity, f.why = api.SeverityWarning, "locks and syncs of such file systems do not always hold, and culvertd must start before the network"
		f.mend = []string{"put " + d.Path + " on a disk of this host"}
		e.addFinding(f, "it is on %s", d.Type)
	case d.Unknown:
		e.addOK("ledger", d.Path, "%s, %d MiB free; whether it syncs could not be tried", d.Type, d.Free>>20)
	default:
		e.addOK("ledger", d.Path, "%s, %d MiB free, syncs", d.Type, d.Free>>20)
	}
}
