package doctor

import (
	"slices"
	"strings"

	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/kernel/survey"
	"github.com/culvert-net/culvert/internal/node/claims"
	"github.com/culvert-net/culvert/internal/vf"
)

// checkClaims reports other programs that are set up to configure the PFs. Culvert does not
// fight them: it keeps its own rules, and reports.
func checkClaims(e *examination) {
	if e.ClaimsErr != "" {
		e.addFinding(finding{check: "claims", severity: api.SeverityWarning, object: host, why: "claims that cannot be read come as a surprise"}, "%s", e.ClaimsErr)
	}
	conflicts := 0
	for _, c := range e.Claims {
		if isVFIOOption(c, e.PFs, e.Host.Modules) || e.addClaim(c) {
			conflicts++
		}
	}
	for _, other := range []struct{ name, what string }{
		{"sriovdp", "the SR-IOV device plugin runs: it gives the same VFs to pods, without asking Culvert"},
		{"sriov-network-c", "the config daemon of the SR-IOV operator runs: it writes sriov_numvfs on its own"},
	} {
		if p, ok := findRunning(e.Host, other.name); ok {
			conflicts++
			e.addFinding(finding{check: "claims", severity: api.SeverityError, object: host, why: "a VF gets two owners, or none",
				mend: []string{"delete its DaemonSet from the cluster; Culvert reads its resource names and networks"}}, "%s (process %d)", other.what, p.PID)
		}
	}
	if conflicts == 0 && e.ClaimsErr == "" && len(e.PFs) > 0 {
		e.addOK("claims", host, "no file of NetworkManager, networkd, netplan, ifupdown or udev goes against Culvert")
	}
}

// isVFIOOption reports whether a claim is an option ids= of vfio-pci that the check of modules names.
func isVFIOOption(c claims.Claim, pfs []vf.PF, m survey.Modules) bool {
	if c.Setting != claims.Binding || c.Value != "vfio-pci" || len(c.VFs) == 0 {
		return false
	}
	place := c.File + ":"
	if c.File == "/proc/cmdline" {
		place = survey.OfArgument
	}
	for _, pf := range pfs {
		for _, v := range pf.VFs {
			if pf.Label() != c.PF || !slices.Contains(c.VFs, v.ID.Index) {
				continue
			}
			if !strings.HasPrefix(m.VFIOIDs[v.Vendor+":"+v.Device], place) {
				return false
			}
		}
	}
	return true
}

// addClaim adds a finding, and reports whether it is a conflict.
func (e *examination) addClaim(c claims.Claim) bool {
	f := finding{check: "claims", severity: api.SeverityNote, object: "PF " + c.PF, why: c.Consequence(), mend: c.HandOver}
	mtu, wanted := 0, c.PF == "" && len(e.Spec.PFs) > 0
	if c.PF == "" {
		f.object = host
	}
	for _, pf := range e.PFs {
		if want, ok := e.Spec.ForPF(pf); ok && pf.Label() == c.PF {
			mtu, wanted = want.MTU, true
		}
	}
	conflict := wanted && c.Conflicts(mtu)
	switch {
	case !conflict && c.Conflicts(mtu):
		f.why = "Culvert leaves this PF alone as long as host.yaml does not name it"
		f.mend = nil
	case !conflict:
		f.mend = nil // the claim may stay
		if c.Setting == claims.MTU {
			f.why = ""
		}
	case c.PF == "" || c.Setting == claims.MTU || c.Setting == claims.Managed || c.Setting == claims.Binding:
		f.severity = api.SeverityWarning
	default:
		f.severity = api.SeverityError
	}
	e.addFinding(f, "%s, %s", c.Describe(), c.Where())
	return conflict
}
