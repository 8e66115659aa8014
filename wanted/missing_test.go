package wanted

import (
	"errors"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/culvert-net/culvert/api"
	"github.com/culvert-net/culvert/api/v1alpha1"
	"github.com/culvert-net/culvert/vf"
)

// I9: pools may be missing until the policies are merged, and while a policy that makes
// pools is not followed with any content.
func TestI9MissingPools(t *testing.T) {
	sources := NewSources(&Current{}, func() []vf.PF { return nil }, func() []api.Problem { return nil })
	policy := func(name, device string) *v1alpha1.NodePolicy {
		return &v1alpha1.NodePolicy{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.NodePolicySpec{
			Pools: []v1alpha1.Pool{{Name: "fast", DeviceType: device}},
		}}
	}
	expect := func(step, want string) {
		t.Helper()
		err := sources.MissingPools()
		if (want == "") != (err == nil) || err != nil && (!errors.Is(err, vf.ErrNotReady) || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: got %v, want %q", step, err, want)
		}
	}
	set := func(policies ...*v1alpha1.NodePolicy) { sources.SetPolicies(policies); sources.Merge() }
	expect("at the start", "not known yet")
	sources.Merge()
	expect("after host.yaml was read", "not known yet")
	sources.SetPolicies(nil)
	expect("before the merge", "not known yet")
	set(policy("a", "nonsense"))
	expect("a policy that cannot be read", "NodePolicy a cannot be read")
	set(policy("a", "vfio-pci"), policy("b", "netdevice"))
	expect("a pool that two policies contest", "policies a, b contradict each other")
	set(policy("a", "vfio-pci"))
	expect("one policy", "")
	set(policy("a", "vfio-pci"), policy("b", "netdevice"))
	expect("contested, and as it was", "")
	set(policy("a", "nonsense"))
	expect("followed as it was", "")
}
