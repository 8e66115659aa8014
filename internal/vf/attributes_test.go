package vf

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestAttributesKeepTheirValues(t *testing.T) {
	a := NewAttributes(map[string]string{"group": "0", "altnames": `"enp1s0v0" "vf0"`, "alias": ""})
	if want := Attributes("alias \naltnames \"enp1s0v0\" \"vf0\"\ngroup 0\n"); a != want {
		t.Errorf("NewAttributes gives %q, not %q", a, want)
	}
	for name, want := range map[string]string{"group": "0", "altnames": `"enp1s0v0" "vf0"`, "alias": "", "missing": ""} {
		if have := a.Value(name); have != want {
			t.Errorf("Value(%q) is %q, not %q", name, have, want)
		}
	}
}

func TestAttributesDiffer(t *testing.T) {
	want := NewAttributes(map[string]string{"group": "0", "qlen": "1000", "xps_cpus": "0:1"})
	for name, c := range map[string]struct {
		have map[string]string
		want []Difference
	}{
		"same":                   {map[string]string{"group": "0", "qlen": "1000", "xps_cpus": "0:1"}, nil},
		"changed":                {map[string]string{"group": "7", "qlen": "1000"}, []Difference{{"group", "0", "7"}}},
		"not shown":              {map[string]string{"group": "0"}, nil},
		"chosen as driver bound": {map[string]string{"group": "0", "xps_cpus": "0:3"}, nil},
		"unset":                  {map[string]string{"group": ""}, []Difference{{"group", "0", ""}}},
	} {
		t.Run(name, func(t *testing.T) {
			if d := cmp.Diff(c.want, want.Diff(NewAttributes(c.have))); d != "" {
				t.Error(d)
			}
		})
	}
}

// A ledger of an earlier version holds fewer attributes. The VF's own reading completes the
// baseline, and replaces no attribute that the baseline has, except those that a driver
// chooses as it binds.
func TestBaselineOfAnEarlierVersionIsCompleted(t *testing.T) {
	seen := dirty()
	seen.Link.Attributes = NewAttributes(map[string]string{"group": "5", "qlen": "1000", "xps_cpus": "0:3"})
	for name, c := range map[string]struct {
		have     map[string]string
		complete bool
		want     map[string]string
	}{
		"empty":           {nil, false, map[string]string{"group": "5", "qlen": "1000", "xps_cpus": "0:3"}},
		"one is missing":  {map[string]string{"group": "0", "xps_cpus": "0:3"}, false, map[string]string{"group": "0", "qlen": "1000", "xps_cpus": "0:3"}},
		"other at a bind": {map[string]string{"group": "0", "qlen": "1", "xps_cpus": "0:1"}, false, map[string]string{"group": "0", "qlen": "1", "xps_cpus": "0:3"}},
		"all are there":   {map[string]string{"group": "0", "qlen": "1", "xps_cpus": "0:3"}, true, map[string]string{"group": "0", "qlen": "1", "xps_cpus": "0:3"}},
		"same":            {map[string]string{"group": "5", "qlen": "1000", "xps_cpus": "0:3"}, true, map[string]string{"group": "5", "qlen": "1000", "xps_cpus": "0:3"}},
	} {
		t.Run(name, func(t *testing.T) {
			b := BaselineOf(seen)
			b.Attributes = NewAttributes(c.have)
			if have := b.IsComplete(seen); have != c.complete {
				t.Errorf("IsComplete is %v", have)
			}
			completed := b.Completed(seen)
			if d := cmp.Diff(NewAttributes(c.want), completed.Attributes); d != "" {
				t.Error(d)
			}
			if !completed.IsComplete(seen) {
				t.Error("Completed leaves the baseline incomplete")
			}
		})
	}
}

func TestBaselineStaysWithoutNetdevice(t *testing.T) {
	seen := dirty()
	b := BaselineOf(seen)
	for name, change := range map[string]func(*Baseline, *State){
		"VF of vfio-pci":        func(b *Baseline, _ *State) { b.Name = "" },
		"VF whose link is away": func(_ *Baseline, s *State) { s.Link = nil },
	} {
		b, s := b, seen
		change(&b, &s)
		b.Attributes = "group 9\n"
		if !b.IsComplete(s) {
			t.Errorf("%s: the baseline counts as incomplete", name)
		}
		if have := b.Completed(s); have != b {
			t.Errorf("%s: Completed gives %+v", name, have)
		}
		if have := b.WithInterface(s); have != b {
			t.Errorf("%s: WithInterface gives %+v", name, have)
		}
	}
	away := seen
	away.Link = &Link{Name: "net1", Netns: "/run/netns/a", Attributes: "mpls 1\n"}
	if have := b.Completed(away); have != b {
		t.Errorf("Completed takes attributes of a VF inside a pod: %+v", have)
	}
}

func TestBaselineTakesANewInterface(t *testing.T) {
	b := BaselineOf(dirty())
	s := dirty()
	s.Driver, s.Admin.MAC = "vfio-pci", MAC{8}
	s.Link = &Link{Name: "v9", MAC: MAC{8}, MTU: 9000, Up: true, Attributes: "group 3\n"}
	want := b
	want.Name, want.MTU, want.Up, want.Attributes = "v9", 9000, true, "group 3\n"
	if d := cmp.Diff(want, b.WithInterface(s)); d != "" {
		t.Error(d)
	}
}
