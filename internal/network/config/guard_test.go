package config

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/culvert-net/culvert/internal/vf"
)

// A bond may have a guard, but not in a mode in which the kernel itself sends frames that the guard
// drops.
func TestGuardOfABond(t *testing.T) {
	for keys, want := range map[string]string{
		`"guard":"ip","bond":{}`:                                                     "",
		`"guard":"ip","bond":{"mode":"balance-xor","force":true}`:                    "",
		`"guard":"arp","guardAllow":["lacp"],"bond":{"mode":"802.3ad","force":true}`: "",
		`"guard":"arp","bond":{"mode":"802.3ad","force":true}`:                       `guard arp: drops the LACP frames of a bond in mode 802.3ad: add "guardAllow": ["lacp"], or use mode active-backup`,
		`"guard":"arp","bond":{"mode":"balance-alb","force":true}`:                   "guard arp: does not work with a bond in mode balance-alb",
		`"guard":"ip","bond":{"mode":"balance-tlb","force":true}`:                    "guard ip: does not work with a bond in mode balance-tlb",
	} {
		c, err := Parse([]byte(strict(keys + `,"ipam":{"type":"host-local","subnet":"10.0.0.0/24"}`)))
		if want == "" && (err != nil || c.Spec.Guard == "" || c.Bond == nil) {
			t.Errorf("%s: guard %q, bond %v, %v", keys, c.Spec.Guard, c.Bond, err)
		}
		if want != "" && (!errors.Is(err, vf.ErrInvalid) || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %s", keys, err, want)
		}
	}
}

// The key guard is read strictly in a network of type sriov, too. It needs an ipam section that
// gives addresses before the pod sends.
func TestGuardKey(t *testing.T) {
	const own = `"ipam":{"type":"host-local","subnet":"10.0.0.0/24"}`
	for _, with := range []func(string) string{with, strict} {
		for keys, want := range map[string]string{
			`"guard":"arp",` + own: "",
			`"guard":"ip",` + own:  "",
			`"guard":"ip","ipam":{"type":"whereabouts","range":"10.0.0.0/24"}`: "",
			`"guard":"mac",` + own:                                    `guard: "mac": want arp or ip`,
			`"guard":true,` + own:                                     `guard true: want`,
			`"guardAllow":["vrrp"],` + own:                            `guardAllow ["vrrp"]: needs a guard`,
			`"guard":"ip","guardAllow":["dhcp"],` + own:               `guardAllow ["dhcp"]: "dhcp": want one of dhcp-server, router`,
			`"guard":"ip","guardAllow":"vrrp",` + own:                 `guardAllow vrrp: want a list of strings`,
			`"guard":"ip","guardAllow":["vrrp","lacp","vrrp"],` + own: "",
			`"guard":"ip"`:                                            `guard ip: needs an ipam section`,
			`"guard":"ip","ipam":{}`:                                  `guard ip: needs an ipam section`,
			`"guard":"ip","ipam":{"type":"dhcp"}`:                     `guard ip: does not work with ipam of type dhcp`,
		} {
			c, err := Parse([]byte(with(keys)))
			if want == "" && (err != nil || c.Spec.Guard == "" || strings.Contains(keys, "guardAllow") != slices.Equal(c.Spec.GuardAllow, []vf.GuardKey{vf.AllowLACP, vf.AllowVRRP})) {
				t.Errorf("%s: guard %q, %v, %v", keys, c.Spec.Guard, c.Spec.GuardAllow, err)
			}
			if want != "" && (!errors.Is(err, vf.ErrInvalid) || !strings.Contains(err.Error(), want)) {
				t.Errorf("%s: %v, want %s", keys, err, want)
			}
		}
	}
}
