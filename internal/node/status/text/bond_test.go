package text

import (
	"strings"
	"testing"
	"time"

	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/vf"
)

// Both VFs of a bond name it, and say which one sends.
func TestBond(t *testing.T) {
	v := api.VF{
		Name: "enp1s0#0", Phase: "attached", Netdevice: "net1a", Bond: &vf.Bond{Links: 2, Mode: vf.BondActiveBackup},
		Owner: &vf.Owner{Kind: vf.OwnerPod, UID: "c1", Name: "default/a", Interface: "net1"},
	}
	if list := VFs([]api.VF{v}, time.Time{}, plainText); !strings.Contains(list, "pod default/a (bond net1)") {
		t.Errorf("the list is\n%s", list)
	}
	for name, tt := range map[string]struct {
		link *vf.Link
		want string
	}{
		"its netns was not read": {nil, "net1, active-backup of 2 VFs\n"},
		"sends":                  {&vf.Link{Bond: &vf.BondState{Active: true}}, "net1, active-backup of 2 VFs, and this one sends\n"},
		"waits":                  {&vf.Link{Bond: &vf.BondState{}}, "net1, active-backup of 2 VFs, and another one sends\n"},
	} {
		v.Link = tt.link
		if shown := VF(v, api.NodeStatus{}, plainText); !strings.Contains(shown, tt.want) {
			t.Errorf("%s:\n%s", name, shown)
		}
	}
}
