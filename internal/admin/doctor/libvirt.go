package doctor

import (
	"strings"

	"github.com/culvert-net/culvert/internal/api"
)

// Libvirt is the content of libvirt's folders.
type Libvirt struct {
	There bool
	Hooks []Hook // those of Culvert, in the order in which libvirt runs them
}

// Hook is a program of Culvert's that libvirt runs, or another author's script that runs such a
// program.
type Hook struct {
	Event  string // qemu or network
	File   string
	Build  string // the revision that it was built from; empty: unknown
	Script bool
}

// HooksDir is the folder in which libvirt looks for hooks.
const HooksDir = "/etc/libvirt/hooks"

// HookEvents returns the hooks that libvirt has to run for Culvert.
func HookEvents() []string { return []string{"qemu", "network"} }

// checkLibvirt checks libvirt's hooks, which report guests to culvertd.
func checkLibvirt(e *examination) {
	if !e.Libvirt.There {
		return
	}
	reinstall := []string{"culvert host install", "systemctl restart libvirtd    # or virtqemud and virtnetworkd; guests go on running"}
	bad := false
	for _, event := range HookEvents() {
		place := HooksDir + "/" + event + ".d/culvert"
		var files, mend []string
		for _, h := range e.Libvirt.Hooks {
			if h.Event != event {
				continue
			}
			files = append(files, h.File)
			switch {
			case h.Script:
				mend = append(mend, "editor "+h.File+"    # take out what runs Culvert's hook")
			case h.File != place:
				mend = append(mend, "rm "+h.File)
			}
			if h.Build != "" && e.CNI.OwnBuild != "" && h.Build != e.CNI.OwnBuild {
				bad = true
				e.addFinding(finding{check: "libvirt", severity: api.SeverityWarning, object: h.File, why: "what one knows the other may not",
					mend: []string{"culvert host install --from FOLDER    # that has programs of one build"}},
					"libvirt's hook was built from %s, culvert from %s", shortRevision(h.Build), shortRevision(e.CNI.OwnBuild))
			}
		}
		switch {
		case len(files) == 0:
			bad = true
			f := finding{check: "libvirt", severity: api.SeverityNote, object: place, why: "culvertd does not hear of libvirt's guests", mend: reinstall}
			if _, runs := findRunning(e.Host, "libvirtd", "virtqemud"); runs && len(e.PFs) > 0 {
				f.severity = api.SeverityWarning
			}
			e.addFinding(f, "libvirt is installed, and Culvert's hook is not there")
		case len(files) > 1:
			bad = true
			e.addFinding(finding{check: "libvirt", severity: api.SeverityWarning, object: HooksDir, why: "culvertd hears of each guest more than once, and one of them may be an older one",
				mend: mend}, "Culvert's hook is there more than once: %s", strings.Join(files, ", "))
		}
	}
	if !bad {
		e.addOK("libvirt", HooksDir, "Culvert's hooks are there")
	}
	e.guestsOfLibvirt()
}

// guestsOfLibvirt repeats culvertd's problems about libvirt and its guests: the differences between
// libvirt's list of guests and the ledger.
func (e *examination) guestsOfLibvirt() {
	if e.Status == nil {
		return
	}
	agree := true
	for _, p := range e.Status.Problems {
		f := finding{check: "libvirt", severity: api.SeverityWarning, object: p.Object, mend: []string{p.Next}}
		switch {
		case p.Object == "libvirt":
			f.why = "a guest whose start or end the hooks do not tell is noticed late, or not by its name"
			f.mend = []string{"systemctl status libvirtd virtqemud", "journalctl -u culvertd"}
			e.addFinding(f, "culvertd cannot ask it which guests there are: %s", p.Reason)
		case strings.HasPrefix(p.Object, "guest "):
			f.why = "libvirt and the ledger do not say the same of who has the VF"
			e.addFinding(f, "%s", p.Reason)
		default:
			continue
		}
		agree = false
	}
	if _, runs := findRunning(e.Host, "libvirtd", "virtqemud"); runs && agree {
		e.addOK("libvirt", "culvertd", "libvirt's guests and the ledger say the same of who has which VF")
	}
}
