package alloc_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/culvert-net/culvert/internal/node/alloc"
	"github.com/culvert-net/culvert/internal/node/desired"
	"github.com/culvert-net/culvert/internal/node/journal"
	"github.com/culvert-net/culvert/internal/vf"
)

// rack has four PFs with two free VFs each in pool x/a. PFs a and b are ports of one card on NUMA
// node 0, c is a card there, and d is a card on node 1.
func rack() alloc.Host {
	h := alloc.Host{Spec: desired.Spec{Pools: []desired.Pool{{Name: "a", Prefix: "x", DeviceType: desired.NetDevice}}}}
	for p, at := range []struct {
		bus, function uint8
		numa          int
	}{{1, 0, 0}, {1, 1, 0}, {2, 0, 0}, {3, 0, 1}} {
		pf := vf.PF{ID: vf.PFID{MAC: vf.MAC{2, 0, 0, 0, 0, byte(p + 1)}}, Name: string(rune('a' + p)), PCI: vf.PCIAddr{Bus: at.bus, Function: at.function}, NUMA: at.numa}
		for i := range 2 {
			id, pci := vf.ID{PF: pf.ID, Index: i}, vf.PCIAddr{Bus: at.bus, Device: uint8(0x10 + p), Function: uint8(i)}
			pf.VFs = append(pf.VFs, vf.State{ID: id, PCI: pci})
			h.Records = append(h.Records, journal.Record{ID: id, PCI: pci, Phase: vf.PhaseFree})
		}
		h.PFs = append(h.PFs, pf)
	}
	return h
}

// name returns a VF as PF and index: a0.
func name(id vf.ID) string {
	return string(rune('a'+int(id.PF.MAC[5])-1)) + string(rune('0'+id.Index))
}

func TestChooseMembers(t *testing.T) {
	for title, tt := range map[string]struct {
		bond vf.Bond
		free string // PFs that have free VFs
		want string
	}{
		"another card, on the node of the first":    {vf.Bond{Links: 2, AntiAffinity: vf.ApartPF}, "abcd", "a0 c0"},
		"another card comes before the NUMA node":   {vf.Bond{Links: 2, AntiAffinity: vf.ApartPF}, "abd", "a0 d0"},
		"another port where there is no other card": {vf.Bond{Links: 2, AntiAffinity: vf.ApartPF}, "ab", "a0 b0"},
		"four PFs":                               {vf.Bond{Links: 4, AntiAffinity: vf.ApartPF}, "abcd", "a0 c0 d0 b0"},
		"another card":                           {vf.Bond{Links: 2, AntiAffinity: vf.ApartNIC}, "abc", "a0 c0"},
		"another NUMA node":                      {vf.Bond{Links: 2, AntiAffinity: vf.ApartNUMA}, "abcd", "a0 d0"},
		"any, of other PFs where there are such": {vf.Bond{Links: 2, AntiAffinity: vf.ApartNone}, "ab", "a0 b0"},
		"any, where there is one PF":             {vf.Bond{Links: 2, AntiAffinity: vf.ApartNone}, "a", "a0 a1"},
		"the primary PF first":                   {vf.Bond{Links: 2, AntiAffinity: vf.ApartPF, Primary: "c"}, "abcd", "c0 a0"},
		"the primary PF by its address":          {vf.Bond{Links: 2, AntiAffinity: vf.ApartPF, Primary: "0000:03:00.0"}, "abcd", "d0 a0"},
		"no other PF":                            {vf.Bond{Links: 2, AntiAffinity: vf.ApartPF}, "a", "a0 and then 1 free, of which each shares PF a with another member of the bond: a bond with antiAffinity pf needs others"},
		"no other card":                          {vf.Bond{Links: 2, AntiAffinity: vf.ApartNIC}, "ab", "a0 and then 3 free, of which each shares PF a with another member of the bond"},
		"no other NUMA node":                     {vf.Bond{Links: 2, AntiAffinity: vf.ApartNUMA}, "ac", "a0 and then 3 free, of which each shares PF a with another member"},
		"no VF on the primary PF":                {vf.Bond{Links: 2, AntiAffinity: vf.ApartPF, Primary: "d"}, "ab", "and then 4 free, of which each is not on d, the primary PF of the bond: leave primary out of the bond"},
		"more links than PFs":                    {vf.Bond{Links: 3, AntiAffinity: vf.ApartPF}, "ab", "a0 b0 and then 2 chosen for this bond of 3, 4 quarantined (culvert vf list says why), 2 free, of which each shares PF a with another member of the bond"},
	} {
		t.Run(title, func(t *testing.T) {
			h := rack()
			for i, r := range h.Records {
				if !strings.Contains(tt.free, name(r.ID)[:1]) {
					h.Records[i].Phase = vf.PhaseQuarantined
				}
			}
			if got := members(h, alloc.Want{For: me, Bond: &tt.bond}); !matches(got, tt.want) {
				t.Errorf("got %s\nwant %s", got, tt.want)
			}
		})
	}
}

// members chooses the VFs of a bond one after the other, and returns their names and the error.
func members(h alloc.Host, w alloc.Want) string {
	var got []string
	for range w.Bond.Links {
		c, err := alloc.Choose(h, w)
		if err != nil {
			return strings.TrimSpace(strings.Join(got, " ")+" and then ") + " " + err.Error()
		}
		got = append(got, name(c.Record.ID))
		w.Members = append(w.Members, c.Record.ID)
		for i := range h.Records {
			if h.Records[i].ID == c.Record.ID {
				h.Records[i].Phase, h.Records[i].Lease.Owner = vf.PhaseConfiguring, me
			}
		}
	}
	return strings.Join(got, " ")
}

// matches compares names, and the error by a part of it.
func matches(got, want string) bool {
	gotNames, gotError, failed := strings.Cut(got, "and then ")
	wantNames, wantError, fails := strings.Cut(want, "and then ")
	return gotNames == wantNames && failed == fails && strings.Contains(gotError, wantError)
}

// Choose accepts or refuses the VF that the kubelet chose, and does not replace it. If the runtime
// does not name a member, Choose takes a VF that the kubelet gave to the same pod.
func TestChooseMembersOfTheKubelet(t *testing.T) {
	bond := &vf.Bond{Links: 2, AntiAffinity: vf.ApartPF}
	h := rack()
	given := map[vf.PCIAddr]string{h.Records[0].PCI: me.Name, h.Records[1].PCI: me.Name, h.Records[2].PCI: "default/other"}
	w := alloc.Want{For: me, Bond: bond, Members: []vf.ID{h.Records[0].ID}, Given: func(a vf.PCIAddr) string { return given[a] }}
	w.VF = h.Records[1].PCI
	_, err := alloc.Choose(h, w)
	if !errors.Is(err, vf.ErrInvalid) || !strings.Contains(err.Error(), "VF 0000:01:10.1 of PF a cannot be in the bond of pod default/c: invalid: it shares PF a with another member of the bond: the kubelet chose these VFs (antiAffinity pf)") {
		t.Errorf("a second VF of the PF: %v", err)
	}
	w.VF, w.OfPod = vf.PCIAddr{}, true
	if _, err := alloc.Choose(h, w); !errors.Is(err, vf.ErrNothingFree) {
		t.Errorf("the pod has none on another PF: %v", err)
	}
	given[h.Records[5].PCI] = me.Name
	if c, err := alloc.Choose(h, w); err != nil || name(c.Record.ID) != "c1" {
		t.Errorf("%s, %v: want c1, which the kubelet gave to the pod", name(c.Record.ID), err)
	}
}

// VFs of two PFs that are in one bond of the host are as good for a bond as others: the host's bond
// is over two wires of one segment.
func TestChooseMembersOfAHostBond(t *testing.T) {
	h := rack()
	for i := range h.PFs[:2] {
		h.PFs[i].Master = &vf.Master{Name: "bond0", Kind: vf.MasterBond, Mode: vf.BondActiveBackup, Active: "a"}
		h.PFs[i].MAC = h.PFs[0].ID.MAC
	}
	for i, r := range h.Records {
		if name(r.ID) > "b1" { // on PF c or d
			h.Records[i].Phase = vf.PhaseQuarantined
		}
	}
	bond := vf.Bond{Links: 2, AntiAffinity: vf.ApartPF}
	if got := members(h, alloc.Want{For: me, Bond: &bond}); got != "a0 b0" {
		t.Errorf("got %s", got)
	}
}
