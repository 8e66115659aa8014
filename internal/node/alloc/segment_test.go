package alloc_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/culvert-net/culvert/internal/node/alloc"
	"github.com/culvert-net/culvert/internal/node/desired"
	"github.com/culvert-net/culvert/internal/node/journal"
	"github.com/culvert-net/culvert/internal/vf"
)

// onSegments names the segments of the PFs of a rack, a letter of segments for each PF; "-" names
// none. Each entry of pools makes a pool x/entry with the VFs of the PFs that its letters name.
func onSegments(names string, pools ...string) alloc.Host {
	h := rack()
	h.Spec.Pools = nil
	for i, name := range names {
		rule := desired.PFRule{Name: h.PFs[i].Name, Want: desired.PFSpec{VFs: 2, From: "host.yaml:1"}}
		if name != '-' {
			rule.Want.Segment = vf.Segment("seg-" + string(name))
		}
		h.Spec.PFs = append(h.Spec.PFs, rule)
	}
	for _, pfs := range pools {
		p := desired.Pool{Name: pfs, Prefix: "x", DeviceType: desired.NetDevice}
		for _, pf := range pfs {
			p.Selectors = append(p.Selectors, desired.Selector{PFNames: []desired.Part[string]{{PF: string(pf)}}})
		}
		h.Spec.Pools = append(h.Spec.Pools, p)
	}
	return h
}

func TestChooseOnASegment(t *testing.T) {
	for title, tt := range map[string]struct {
		host alloc.Host
		want alloc.Want
		got  string // the VF, or a part of the error
		is   error
	}{
		"no names":                             {onSegments("----", "abcd"), alloc.Want{}, "a0", nil},
		"the network's":                        {onSegments("-s--", "abcd"), alloc.Want{Segment: "seg-s"}, "b0", nil},
		"of a PF without a name":               {onSegments("-s--", "abcd"), alloc.Want{}, "a0", nil},
		"none of the pool":                     {onSegments("ff--", "abcd"), alloc.Want{Segment: "seg-s"}, "pool x/abcd has VFs of a on segment seg-f, b on segment seg-f, c on no named segment, d on no named segment, and network net asks for segment seg-s: invalid for pod default/c: ask for a pool on segment seg-s", vf.ErrInvalid},
		"a pool over two":                      {onSegments("sf--", "abcd"), alloc.Want{}, "pod default/c wants a VF: pool x/abcd: it has VFs on two segments, whose pods do not reach each other: seg-f (b) and seg-s (a): invalid", vf.ErrInvalid},
		"a pool over two, and the network's":   {onSegments("sf--", "abcd"), alloc.Want{Segment: "seg-s"}, "it has VFs on two segments", vf.ErrInvalid},
		"a pool over two, none made on one":    {unmade(onSegments("sf--", "abcd"), 1), alloc.Want{}, "a0", nil},
		"a named VF of such a pool":            {unmade(onSegments("sf--", "abcd"), 1), alloc.Want{VF: at(0)}, "a0", nil},
		"two pools on two":                     {onSegments("sf--", "a", "b"), alloc.Want{Pool: "b"}, "b0", nil},
		"a named VF":                           {onSegments("s---", "abcd"), alloc.Want{VF: at(0), Segment: "seg-s"}, "a0", nil},
		"a named VF elsewhere":                 {onSegments("f---", "abcd"), alloc.Want{VF: at(0), Segment: "seg-s"}, "VF 0000:01:10.0, wanted for pod default/c, is of PF a on segment seg-f, and network net asks for segment seg-s: invalid: ask for a pool on segment seg-s, or correct the segment of the network or of the PF (host.yaml:1)", vf.ErrInvalid},
		"a named VF of a PF without a name":    {onSegments("----", "abcd"), alloc.Want{VF: at(0), Segment: "seg-s"}, "is of PF a on no named segment, and network net asks for segment seg-s: invalid: name the segment of the PF (host.yaml:1)", vf.ErrInvalid},
		"a named VF of a pool over two":        {onSegments("sf--", "abcd"), alloc.Want{VF: at(0)}, "VF 0000:01:10.0 on a, wanted for pod default/c: pool x/abcd: it has VFs on two segments", vf.ErrInvalid},
		"a VF that its guest has already":      {onSegments("sf--", "abcd"), alloc.Want{VF: at(0), Owned: true}, "a0", nil},
		"a VF of no pool beside two segments":  {onSegments("sf--", "c"), alloc.Want{VF: at(0)}, "a0", nil},
		"a pool over one beside two segments":  {onSegments("sffs", "bc", "ad"), alloc.Want{Pool: "bc"}, "b0", nil},
		"all on the segment are held, not off": {full(onSegments("-s--", "abcd"), "b"), alloc.Want{Segment: "seg-s"}, "6 free, of which each is of PF a on no named segment, and network net asks for segment seg-s: nothing free", vf.ErrNothingFree},
	} {
		tt.want.For, tt.want.Network = me, "net"
		c, err := alloc.Choose(tt.host, tt.want)
		if tt.is == nil && (err != nil || name(c.Record.ID) != tt.got) {
			t.Errorf("%s: %s, %v", title, name(c.Record.ID), err)
		}
		if tt.is != nil && (!errors.Is(err, tt.is) || !strings.Contains(err.Error(), tt.got)) {
			t.Errorf("%s: %v\nwant %s", title, err, tt.got)
		}
	}
}

// at returns the address of a record of a rack.
func at(i int) vf.PCIAddr { return rack().Records[i].PCI }

// unmade removes the VFs of a PF, as if Culvert had never made them.
func unmade(h alloc.Host, pf int) alloc.Host {
	h.PFs[pf].VFs = nil
	h.Records = slices.DeleteFunc(h.Records, func(r journal.Record) bool { return r.ID.PF == h.PFs[pf].ID })
	return h
}

// full gives all VFs of a PF to an owner.
func full(h alloc.Host, pf string) alloc.Host {
	for i, r := range h.Records {
		if strings.HasPrefix(name(r.ID), pf) {
			hold(h, i, "default/other")
		}
	}
	return h
}

// A bond has no VFs of two named segments, even if the kubelet gave the pod VFs of two pools.
func TestChooseMembersOfOneSegment(t *testing.T) {
	bond := vf.Bond{Links: 2, AntiAffinity: vf.ApartPF}
	for title, tt := range map[string]struct {
		host alloc.Host
		want string
	}{
		"of two segments":             {onSegments("sf--", "a", "b"), "a0 and then VF 0000:01:11.0 of PF b cannot be in the bond of pod default/c: invalid: it is on segment seg-f, and PF a of another member of the bond is on segment seg-s: give the bond VFs of PFs on one segment"},
		"of one segment":              {onSegments("ss--", "a", "b"), "a0 b0"},
		"of a PF whose is not named":  {onSegments("s---", "a", "b"), "a0 b0"},
		"of PFs of which none is not": {onSegments("----", "a", "b"), "a0 b0"},
	} {
		w := alloc.Want{For: me, Network: "net", Bond: &bond, VF: tt.host.Records[0].PCI}
		first, err := alloc.Choose(tt.host, w)
		if err != nil {
			t.Fatalf("%s: %v", title, err)
		}
		got := name(first.Record.ID)
		w.Members, w.VF = append(w.Members, first.Record.ID), tt.host.Records[2].PCI
		if c, err := alloc.Choose(tt.host, w); err != nil {
			got += " and then " + err.Error()
		} else {
			got += " " + name(c.Record.ID)
		}
		if got != tt.want {
			t.Errorf("%s: %s\nwant %s", title, got, tt.want)
		}
	}
}

// STATUS of a network that asks for a segment counts only the VFs on it. It refuses a pool or a VF
// if each ADD for it would fail.
func TestCheckFreeOnASegment(t *testing.T) {
	for title, tt := range map[string]struct {
		host alloc.Host
		want alloc.Want
		is   error
		says string
	}{
		"one is free":                     {onSegments("-s--", "abcd"), alloc.Want{Segment: "seg-s", Pool: "abcd"}, nil, ""},
		"none is free":                    {full(onSegments("-s--", "abcd"), "b"), alloc.Want{Segment: "seg-s", Pool: "abcd"}, vf.ErrNothingFree, "none of 2 VFs"},
		"no PF is on it":                  {onSegments("-s--", "abcd"), alloc.Want{Segment: "seg-t"}, vf.ErrNothingFree, "none of 8 VFs is on segment seg-t"},
		"a pool over two":                 {onSegments("fs--", "abcd"), alloc.Want{Pool: "abcd"}, vf.ErrInvalid, "network net: pool x/abcd: it has VFs on two segments"},
		"a pool over two, none made on a": {unmade(onSegments("fs--", "abcd"), 1), alloc.Want{Pool: "abcd"}, nil, ""},
		"of no pool's name":               {onSegments("-s--", "abcd"), alloc.Want{Segment: "seg-s"}, nil, ""},
		"the only pool is over two":       {onSegments("fs--", "abcd"), alloc.Want{}, vf.ErrInvalid, "network net: pool x/abcd: it has VFs on two segments"},
		"all pools are over two":          {onSegments("fsfs", "ab", "cd"), alloc.Want{}, vf.ErrInvalid, "pool x/cd: it has VFs on two segments"},
		"one of two pools is over two":    {onSegments("fs--", "ab", "cd"), alloc.Want{}, nil, ""},
		"the other pool has none free":    {full(full(onSegments("fs--", "ab", "cd"), "c"), "d"), alloc.Want{}, vf.ErrNothingFree, "none of 4 VFs"},
		"a named VF":                      {onSegments("s---", "abcd"), alloc.Want{VF: at(0), Segment: "seg-s"}, nil, ""},
		"a named VF that is held":         {full(onSegments("s---", "abcd"), "a"), alloc.Want{VF: at(0), Segment: "seg-s"}, vf.ErrNothingFree, "none of 1 VFs"},
		"a named VF elsewhere":            {onSegments("f---", "abcd"), alloc.Want{VF: at(0), Segment: "seg-s"}, vf.ErrInvalid, "VF 0000:01:10.0, wanted for network net, is of PF a on segment seg-f, and network net asks for segment seg-s"},
		"a named VF of a pool over two":   {onSegments("fs--", "abcd"), alloc.Want{VF: at(0)}, vf.ErrInvalid, "VF 0000:01:10.0 on a, wanted for network net: pool x/abcd: it has VFs on two segments"},
		"a named VF of no pool":           {onSegments("fs--", "c"), alloc.Want{VF: at(0)}, nil, ""},
		"a named VF that is not there":    {onSegments("----", "abcd"), alloc.Want{VF: vf.PCIAddr{Bus: 0xff}}, vf.ErrNotFound, "VF 0000:ff:00.0"},
	} {
		tt.want.Network = "net"
		err := alloc.CheckFree(tt.host, tt.want)
		if !errors.Is(err, tt.is) || err != nil && !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%s: %v", title, err)
		}
	}
}
