package doctor

import (
	"strings"

	"github.com/culvert-net/culvert/api"
)

// Libvirt is what stands in libvirt's folders.
type Libvirt struct {
	There bool
	Hooks []Hook // those of Culvert, in the order in which libvirt runs them
}

// Hook is a program of Culvert's that libvirt runs.
type Hook struct {
	Event string // qemu or network
	File  string
	Build string // the revision that it was built from; empty: unknown
}

// HooksDir is where libvirt looks for hooks.
const HooksDir = "/etc/libvirt/hooks"

// HookEvents are those of which Culvert is told.
func HookEvents() []string { return []string{"qemu", "network"} }

// checkLibvirt: culvertd hears of guests by libvirt's hooks.
func checkLibvirt(e *exam) {
	if !e.Libvirt.There {
		return
	}
	reinstall := []string{"culvert host install", "systemctl restart libvirtd    # or virtqemud and virtnetworkd; guests go on running"}
	bad := false
	for _, event := range HookEvents() {
		place := HooksDir + "/" + event + ".d/culvert"
		var files, others []string
		for _, h := range e.Libvirt.Hooks {
			if h.Event != event {
				continue
			}
			files = append(files, h.File)
			if h.File != place {
				others = append(others, h.File)
			}
			if h.Build != "" && e.CNI.OwnBuild != "" && h.Build != e.CNI.OwnBuild {
				bad = true
				e.add(finding{check: "libvirt", severity: api.SeverityWarning, object: h.File, why: "what one knows the other may not",
					mend: []string{"culvert host install --from FOLDER    # that has programs of one build"}},
					"libvirt's hook was built from %s, culvert from %s", short(h.Build), short(e.CNI.OwnBuild))
			}
		}
		switch {
		case len(files) == 0:
			bad = true
			f := finding{check: "libvirt", severity: api.SeverityNote, object: place, why: "culvertd does not hear of libvirt's guests", mend: reinstall}
			if _, runs := e.running("libvirtd", "virtqemud"); runs && len(e.PFs) > 0 {
				f.severity = api.SeverityWarning
			}
			e.add(f, "libvirt is installed, and Culvert's hook is not there")
		case len(files) > 1:
			bad = true
			e.add(finding{check: "libvirt", severity: api.SeverityWarning, object: HooksDir, why: "culvertd hears of each guest more than once, and one of them may be an older one",
				mend: []string{"rm " + strings.Join(others, " ")}}, "Culvert's hook is there more than once: %s", strings.Join(files, ", "))
		}
	}
	if !bad {
		e.ok("libvirt", HooksDir, "Culvert's hooks are there")
	}
}
