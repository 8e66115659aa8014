package ipam

import (
	"errors"
	"strings"
	"testing"

	"github.com/culvert-net/culvert/internal/vf"
)

// Only the plugins of the list are executed as IPAM plugins. The refusal names the key, the list and
// the administrator's setting. A plugin that would execute itself is never on the list.
func TestTypes(t *testing.T) {
	more, err := ParseTypes([]string{"calico-ipam"})
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		types Types
		name  string
		want  string
	}{
		{Types{}, "host-local", ""},
		{Types{}, "static", ""},
		{Types{}, "dhcp", ""},
		{Types{}, "whereabouts", ""},
		{Types{}, "calico-ipam", "ipam.type calico-ipam: invalid: this node executes host-local, static, dhcp, whereabouts for addresses: an administrator adds a type by culvertd --ipam-types=calico-ipam (chart: node.ipamTypes)"},
		{more, "calico-ipam", ""},
		{more, "nv-ipam", "ipam.type nv-ipam: invalid: this node executes host-local, static, dhcp, whereabouts, calico-ipam for addresses: an administrator adds a type by culvertd --ipam-types=calico-ipam,nv-ipam (chart: node.ipamTypes)"},
		{AnyType(), "nv-ipam", ""},
		{AnyType(), "ptp", "ipam.type ptp: invalid: that plugin gives no addresses"},
		{AnyType(), "../sh", `ipam.type "../sh": invalid: want the name of a CNI plugin`},
		{AnyType(), "a;b", `ipam.type "a;b": invalid: want the name of a CNI plugin`},
	} {
		got := ""
		if err := tc.types.Check(tc.name); err != nil {
			if got = err.Error(); !errors.Is(err, vf.ErrInvalid) {
				t.Errorf("%s: %v", tc.name, err)
			}
		}
		if got != tc.want && (tc.want == "" || !strings.HasPrefix(got, tc.want)) {
			t.Errorf("%s\n got %s\nwant %s", tc.name, got, tc.want)
		}
	}
	for _, name := range []string{"ptp", "bridge", "macvlan", "ipvlan", "host-device", "vlan", "sriov", "culvert", "multus", "tuning"} {
		if _, err := ParseTypes([]string{"calico-ipam", name}); err == nil || !strings.HasPrefix(err.Error(), "--ipam-types: ipam.type "+name+": ") {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := Parse([]byte(`{"type":"` + name + `"}`)); (err == nil) != (name == TypeCulvert) && name != TypeCulvert || err != nil && !errors.Is(err, vf.ErrInvalid) {
			t.Errorf("a section of type %s: %v", name, err)
		}
	}
}
