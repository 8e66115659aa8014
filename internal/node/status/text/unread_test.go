package text

import (
	"strings"
	"testing"
	"time"

	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/vf"
)

// A VF whose PF cannot be read is shown with the ledger's phase and a mark, and with no settings,
// which were not read.
func TestUnreadVF(t *testing.T) {
	v := api.VF{Name: "enp1s0#0", PF: "enp1s0", Phase: "attached", Pool: "intel.com/vfs", Unread: true}
	if got := phaseCell(v).Text; got != "attached ?" {
		t.Errorf("the list has %q", got)
	}
	st := api.NodeStatus{VFs: []api.VF{v}}
	got := VF(v, st, Options{})
	for _, want := range []string{"when last read; its PF cannot be read now", "intel.com/vfs"} {
		if !strings.Contains(got, want) {
			t.Errorf("there is no %q in\n%s", want, got)
		}
	}
	if strings.Contains(got, "spoofchk") || describeBriefly(v) != "" {
		t.Errorf("settings are shown that were not read:\n%s", got)
	}
}

// The status keeps a bounded number of differences and processes of a VF, and says how many more there are.
func TestMoreThanTheStatusKeeps(t *testing.T) {
	v := api.VF{
		Name: "enp1s0#0", Phase: "quarantined", Differences: []vf.Difference{{Attribute: "trust", Want: "off", Have: "on"}}, MoreDifferences: 1234,
		OpenBy: []vf.Process{{PID: 7, Name: "dpdk"}}, MoreOpenBy: 3,
	}
	got := VF(v, api.NodeStatus{VFs: []api.VF{v}}, Options{})
	for _, want := range []string{"trust", "and 1,234 more", "dpdk (process 7), and 3 more"} {
		if !strings.Contains(got, want) {
			t.Errorf("there is no %q in\n%s", want, got)
		}
	}
}

// Where there is nothing to list, the answer says so and how it comes.
func TestNothingToShow(t *testing.T) {
	for name, tc := range map[string]struct{ got, want string }{
		"events": {Events(nil, plainText), "No events.\n"},
		"guests": {Guests(nil, plainText), "No guest has a VF.\n"},
		"pools":  {Pools(nil, plainText), "No pool is declared: host.yaml says which there are, or a NodePolicy.\n"},
	} {
		if tc.got != tc.want {
			t.Errorf("%s: %q, want %q", name, tc.got, tc.want)
		}
	}
}

// VF shows who uses a VF outside Culvert, and the time of the next retry.
func TestPhasesOfAVF(t *testing.T) {
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	for name, tc := range map[string]struct {
		v    api.VF
		want string
	}{
		"outside":      {api.VF{Phase: api.PhaseOutside, UsedBy: "bridge br0"}, "used outside Culvert: bridge br0\n"},
		"next retry":   {api.VF{Phase: "quarantined", Attempts: 3, NextRetry: now.Add(40 * time.Second)}, "3 so far, next in 40s\n"},
		"at an event":  {api.VF{Phase: "quarantined", Attempts: 3, NextRetry: now.Add(api.LongestRetry)}, "3 so far, next in 0s\n"},
		"a clock back": {api.VF{Phase: "attached", Since: now.Add(time.Hour)}, "which is yet to come: the clock was set back"},
	} {
		if got := VF(tc.v, api.NodeStatus{Time: now}, plainText); !strings.Contains(got, tc.want) {
			t.Errorf("%s: no %q in\n%s", name, tc.want, got)
		}
	}
}
