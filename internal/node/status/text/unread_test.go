package text

import (
	"strings"
	"testing"

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
