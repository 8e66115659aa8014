package bench

import (
	"fmt"
	"slices"
)

// Mismatch describes how the settings of a path's two ends disagree, or returns "" if they agree.
func (p Path) Mismatch() string {
	if p.From.MTU != p.To.MTU && p.From.MTU > 0 && p.To.MTU > 0 {
		return fmt.Sprintf("the MTU is %d on %s of %s and %d on %s of %s: larger packets are dropped or split on the way; make them alike (ip link set %[2]s mtu N)",
			p.From.MTU, p.From.Interface, p.From.Name, p.To.MTU, p.To.Interface, p.To.Name)
	}
	return ""
}

// mismatchRemarks describes the paths with a mismatch. Their runs may carry traffic all the same.
func (r Result) mismatchRemarks() (out []string) {
	for _, a := range r.Arms {
		for _, p := range a.Paths() {
			if why := p.Mismatch(); why != "" && !slices.Contains(out, why) {
				out = append(out, why)
			}
		}
	}
	return out
}
