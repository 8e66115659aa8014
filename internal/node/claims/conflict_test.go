package claims

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestConflicts(t *testing.T) {
	for _, tc := range []struct {
		c         Claim
		mtu       int
		what      string
		conflicts bool
	}{
		{Claim{Manager: NetworkManager, Setting: Count, Value: "8", Says: "total-vfs=8"}, 0, "NetworkManager sets sriov_numvfs to 8 (total-vfs=8)", true},
		{Claim{Manager: Netplan, Setting: MTU, Value: "9000", Says: "mtu=9000"}, 9000, "netplan sets MTU to 9000 (mtu=9000)", false},
		{Claim{Manager: Netplan, Setting: MTU, Value: "1500", Says: "mtu=1500"}, 9000, "netplan sets MTU to 1500 (mtu=1500)", true},
		{Claim{Manager: Netplan, Setting: MTU, Value: "1500", Says: "mtu=1500"}, 0, "netplan sets MTU to 1500 (mtu=1500)", false},
		{Claim{Manager: Netplan, Setting: MTU, Value: "1500", Says: "mtu=1500", VFs: []int{0, 1, 2, 5}}, 0, "netplan sets MTU of vf 0-2,5 to 1500 (mtu=1500)", true},
		{Claim{Manager: Networkd, Setting: VFSettings, Says: "[SR-IOV] VirtualFunction=1", VFs: []int{1}}, 0, "systemd-networkd sets VF settings of vf 1 ([SR-IOV] VirtualFunction=1)", true},
		{Claim{Manager: Networkd, Setting: Managed, Says: "Name=en*"}, 0, "systemd-networkd manages it (Name=en*)", false},
		{Claim{Manager: Networkd, Setting: Managed, Says: "Name=en*", VFs: []int{3}}, 0, "systemd-networkd manages vf 3 (Name=en*)", true},
		{Claim{Manager: Netplan, Setting: Switch, Value: "switchdev", Says: "embedded-switch-mode=switchdev"}, 0, "netplan sets eswitch mode to switchdev (embedded-switch-mode=switchdev)", true},
		{Claim{Manager: NetworkManager, Setting: Switch, Value: "legacy", Says: "eswitch-mode=0"}, 0, "NetworkManager sets eswitch mode to legacy (eswitch-mode=0)", false},
		{Claim{Manager: "driverctl", Setting: Binding, Value: "vfio-pci", Says: "x", VFs: []int{1}}, 0, "driverctl sets driver of vf 1 to vfio-pci (x)", true},
		{Claim{Manager: "systemd", Setting: Binding, Says: "unbind"}, 0, "systemd sets driver (unbind)", true},
	} {
		if tc.c.Conflicts(tc.mtu) != tc.conflicts {
			t.Errorf("%s: conflicts: %v", tc.what, !tc.conflicts)
		}
		if diff := cmp.Diff(tc.what, tc.c.Describe()); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
		if tc.c.Consequence() == "" {
			t.Errorf("%s: no consequence", tc.what)
		}
	}
}
