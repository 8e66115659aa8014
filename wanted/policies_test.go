package wanted

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/culvert-net/culvert/api"
	"github.com/culvert-net/culvert/api/v1alpha1"
	"github.com/culvert-net/culvert/vf"
)

// A policy is not applied while a PF has another MTU, and the reason names the bond of the host
// that sets it.
func TestReasonNamesTheHostBond(t *testing.T) {
	pf := vf.PF{ID: vf.PFID{MAC: vf.MAC{2, 0, 0, 0, 0, 1}}, Name: "enp1s0", MTU: 1500, TotalVFs: 7}
	sources := NewSources(&Current{}, func() []vf.PF { return []vf.PF{pf} }, func() []api.Problem { return nil })
	mtu := int32(9000)
	sources.SetPolicies([]*v1alpha1.NodePolicy{{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Spec: v1alpha1.NodePolicySpec{
		PFs: []v1alpha1.PFRule{{Name: "enp1s0", VFs: intstr.FromInt32(0), MTU: &mtu}},
	}}})
	sources.Merge()
	for _, tt := range []struct {
		master *vf.Master
		want   string
	}{
		{nil, "PF enp1s0 has MTU 1500, wanted is 9000"},
		{&vf.Master{Name: "br0", Kind: vf.MasterBridge}, "PF enp1s0 has MTU 1500, wanted is 9000"},
		{&vf.Master{Name: "bond0", Kind: vf.MasterBond}, "PF enp1s0 has MTU 1500, wanted is 9000, and bond0 of the host sets it for its members"},
	} {
		pf.Master = tt.master
		if got := sources.PolicyStates(); len(got) != 1 || got[0].Applied || got[0].Reason != tt.want {
			t.Errorf("%v: %+v, want %q", tt.master, got, tt.want)
		}
	}
}
