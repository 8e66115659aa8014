package kernel

import (
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/culvert-net/culvert/internal/kernel/rtnl"
	"github.com/culvert-net/culvert/internal/vf"
)

func TestReadMaster(t *testing.T) {
	links := told{
		{Index: 2, Name: "enp1s0"}, {Index: 3, Name: "enp2s0"},
		{Index: 10, Name: "br0", Kind: vf.MasterBridge},
		{Index: 11, Name: "bond0", Kind: vf.MasterBond, Bond: &rtnl.Bond{Mode: 1, Active: 3}},
		{Index: 12, Name: "bond1", Kind: vf.MasterBond, Bond: &rtnl.Bond{Mode: 4}},
		{Index: 13, Name: "bond2", Kind: vf.MasterBond, Bond: &rtnl.Bond{Mode: 1, Active: 99}},
		{Index: 14, Name: "ovs-system", Kind: "openvswitch"},
		{Index: 15, Name: "bond3", Kind: vf.MasterBond, Master: 10, Bond: &rtnl.Bond{Mode: 4}},
	}
	for name, tt := range map[string]struct {
		index int
		want  *vf.Master
	}{
		"none":                                 {0, nil},
		"removed meanwhile":                    {42, nil},
		"a bridge":                             {10, &vf.Master{Name: "br0", Kind: vf.MasterBridge}},
		"a bond":                               {11, &vf.Master{Name: "bond0", Kind: vf.MasterBond, Mode: vf.BondActiveBackup, Active: "enp2s0"}},
		"a bond without an active member":      {12, &vf.Master{Name: "bond1", Kind: vf.MasterBond, Mode: "802.3ad"}},
		"a bond whose active member just went": {13, &vf.Master{Name: "bond2", Kind: vf.MasterBond, Mode: vf.BondActiveBackup}},
		"a bond in a bridge":                   {15, &vf.Master{Name: "bond3", Kind: vf.MasterBond, Mode: "802.3ad", IsMember: true}},
		"another kind":                         {14, &vf.Master{Name: "ovs-system", Kind: "openvswitch"}},
	} {
		got, err := readMaster(links, rtnl.Link{Index: 2, Name: "enp1s0", Master: tt.index})
		if diff := gocmp.Diff(tt.want, got); diff != "" || err != nil {
			t.Errorf("%s: %v (-want +got):\n%s", name, err, diff)
		}
	}
}
