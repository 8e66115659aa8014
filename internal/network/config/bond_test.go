package config

import (
	"errors"
	"fmt"
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/network/netconf"
	"github.com/culvert-net/culvert/internal/vf"
)

func TestParseBond(t *testing.T) {
	plain := vf.Bond{Links: 2, Mode: vf.BondActiveBackup, AntiAffinity: vf.ApartPF}
	watched := plain
	watched.Links, watched.ARPInterval, watched.ARPTargets = 3, 50, []netip.Addr{netip.MustParseAddr("10.1.0.1"), netip.MustParseAddr("10.1.0.2")}
	watched.Primary, watched.AntiAffinity, watched.ARPMissedMax = "enp1s0f0", vf.ApartNUMA, 1
	patient := watched
	patient.ARPMissedMax = 2
	forced, located := plain, plain
	forced.Mode = "802.3ad"
	located.Primary = "0000:3b:00.1"
	for raw, want := range map[string]vf.Bond{
		`"bond":{}`: plain,
		`"bond":{"links":2,"mode":"active-backup","antiAffinity":"pf","arpInterval":0,"arpIPTargets":[],"primary":"","force":false}`:             plain,
		`"bond":{"links":3,"arpInterval":50,"arpIPTargets":["10.1.0.1","10.1.0.2"],"primary":"enp1s0f0","antiAffinity":"numa"}`:                  watched,
		`"bond":{"links":3,"arpInterval":50,"arpIPTargets":["10.1.0.1","10.1.0.2"],"arpMissedMax":2,"primary":"enp1s0f0","antiAffinity":"numa"}`: patient,
		`"bond":{"mode":"802.3ad","force":true}`: forced,
		`"bond":{"primary":"3b:00.1"}`:           located,
	} {
		c, err := Parse([]byte(strict(raw)))
		if err != nil || c.Bond == nil {
			t.Errorf("%s: %v", raw, err)
			continue
		}
		if diff := cmp.Diff(want, *c.Bond, byValue); diff != "" {
			t.Errorf("%s (-want +got):\n%s", raw, diff)
		}
	}
	c, err := Parse([]byte(strict(`"bond":{},"deviceIDs":["3b:01.0","3c:01.0"]`)))
	if err != nil || fmt.Sprint(c.VF, c.VFs) != "0000:3b:01.0 [0000:3b:01.0 0000:3c:01.0]" {
		t.Errorf("named VFs: %v %v, %v", c.VF, c.VFs, err)
	}
}

func TestParseBondRefuses(t *testing.T) {
	for raw, want := range map[string]string{
		`"bond":true`:                                           `bond true: want an object`,
		`"bond":{"link":2}`:                                     `bond.link: did you mean links? (unknown key, value 2)`,
		`"bond":{"links":1}`:                                    `bond.links 1: want a number between 2 and 8`,
		`"bond":{"links":9}`:                                    `bond.links 9: want a number between 2 and 8`,
		`"bond":{"mode":"lacp"}`:                                `bond.mode: "lacp": want active-backup`,
		`"bond":{"mode":"802.3ad"}`:                             `bond.mode 802.3ad: mode 802.3ad needs a port group on the switch over the ports of all PFs, for the VFs alone: want active-backup, or "force": true if you know better`,
		`"bond":{"mode":"balance-xor"}`:                         `bond.mode balance-xor: mode balance-xor needs a port group on the switch over the ports of all PFs, for the VFs alone: want active-backup, or "force": true if you know better`,
		`"bond":{"mode":"balance-alb"}`:                         `bond.mode balance-alb: mode balance-alb moves MAC addresses between the members, and the PF pins the MAC address of a VF: want active-backup, or "force": true if you know better`,
		`"bond":{"antiAffinity":"rack"}`:                        `bond.antiAffinity: "rack": want pf, nic, numa or none`,
		`"bond":{"arpInterval":100}`:                            `bond.arpInterval 100: needs arpIPTargets: addresses that answer ARP requests, such as the gateway`,
		`"bond":{"arpIPTargets":["10.1.0.1"]}`:                  `bond.arpIPTargets ["10.1.0.1"]: needs arpInterval: the milliseconds between two requests, e.g. 100`,
		`"bond":{"arpInterval":100,"arpIPTargets":["fd00::1"]}`: `bond.arpIPTargets ["fd00::1"]: want IPv4 addresses that differ, e.g. 10.1.0.1`,
		`"bond":{"arpInterval":100,"arpIPTargets":["10.1.0.1","10.1.0.2","10.1.0.3","10.1.0.4","10.1.0.5","10.1.0.6","10.1.0.7","10.1.0.8","10.1.0.9","10.1.0.10","10.1.0.11","10.1.0.12","10.1.0.13","10.1.0.14","10.1.0.15","10.1.0.16","10.1.0.17"]}`: `bond.arpIPTargets ["10.1.0.1","10.1.0.2","10.1.0.3","10.1.0.4","10.1.0.5","10.1.0.6","10.1.0.7","10.1.0.8","10.1.0.9",... (96 more characters): want at most 16 addresses`,
		`"bond":{"arpInterval":100,"arpIPTargets":["10.1.0.1"],"mode":"802.3ad","force":true}`: `bond.arpInterval 100: mode 802.3ad watches the carrier and cannot send ARP requests`,
		`"bond":{"arpMissedMax":2}`: `bond.arpMissedMax 2: needs arpInterval and arpIPTargets: it counts intervals without an answer. Set both, or take it out`,
		`"bond":{"arpInterval":100,"arpIPTargets":["10.1.0.1"],"arpMissedMax":0}`: `bond.arpMissedMax 0: want a number between 1 and 255`,
		`"bond":{"primary":"a/b"}`:                                         `bond.primary a/b: want a PF: its interface, e.g. enp1s0f0, or its PCI address`,
		`"bond":{"primary":"p","mode":"broadcast","force":true}`:           `bond.primary p: only mode active-backup has a primary member`,
		`"deviceIDs":["3b:01.0"]`:                                          `deviceIDs ["3b:01.0"]: these are the VFs of a bond; a VF of its own is named by deviceID`,
		`"bond":{},"deviceIDs":["3b:01.0"]`:                                `deviceIDs ["3b:01.0"]: want 2, as many as the bond has links`,
		`"bond":{},"deviceIDs":["3b:01.0","3b:01.0"]`:                      `deviceIDs ["3b:01.0","3b:01.0"]: want PCI addresses of VFs that differ, e.g. 0000:3b:02.1`,
		`"bond":{},"deviceID":"3d:01.0","deviceIDs":["3b:01.0","3c:01.0"]`: `deviceIDs ["3b:01.0","3c:01.0"]: the first one is not deviceID 0000:3d:01.0; want one`,
	} {
		_, err := Parse([]byte(strict(raw)))
		if got := fmt.Sprint(err); got != want || !errors.Is(err, vf.ErrInvalid) {
			t.Errorf("%s\n got %s\nwant %s", raw, got, want)
		}
	}
}

func TestVFsOf(t *testing.T) {
	for keys, want := range map[string]int{``: 1, `"bond":{}`: 2, `"bond":{"links":4}`: 4, `"bond":{"links":99}`: 1, `"pool":"bond"`: 1} {
		l, err := ParseDefinition(api.NetworkDefinition{Name: "n", Config: strict(keys)})
		if err != nil {
			t.Fatal(err)
		}
		if got := VFsOf(l); got != want {
			t.Errorf("%s: %d VFs, want %d", keys, got, want)
		}
	}
	if got := VFsOf(netconf.List{}); got != 1 {
		t.Errorf("no plugin: %d", got)
	}
}

// checkBond checks a bond that FuzzParse found to be accepted.
func checkBond(t *testing.T, c Config) {
	b := *c.Bond
	targets := len(b.ARPTargets)
	if b.Links < vf.MinLinks || b.Links > vf.MaxLinks || (b.ARPInterval == 0) != (targets == 0) || targets > vf.MaxARPTargets || len(c.VFs) > 0 && len(c.VFs) != b.Links {
		t.Fatalf("%+v of %v", b, c.VFs)
	}
}
