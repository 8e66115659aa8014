package sources

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/culvert-net/culvert/api/v1alpha1"
	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/vf"
)

// host.yaml cannot be read since culvertd started, so culvertd does not know what comes before the
// NodePolicies. It follows none of them (I9), and what the Spec does not name stays as it is.
func TestI9UnreadHostFileHoldsPoliciesBack(t *testing.T) {
	current := &Current{}
	sources := NewSet(current, func() []vf.PF { return nil }, func() []api.Problem { return nil })
	sources.InCluster = true
	f := &HostFile{Path: filepath.Join(t.TempDir(), "host.yaml"), Optional: true, Sources: sources, Log: slog.New(slog.DiscardHandler)}
	policy := &v1alpha1.NodePolicy{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Spec: v1alpha1.NodePolicySpec{Pools: []v1alpha1.Pool{{Name: "tenants"}}}}
	expect := func(step string, pools int, isPartial bool) {
		t.Helper()
		if s := current.Spec(); len(s.Pools) != pools || s.Partial != isPartial || (sources.MissingPools() != nil) != isPartial {
			t.Errorf("%s: %d pools, partial %t, %v; want %d, %t", step, len(s.Pools), s.Partial, sources.MissingPools(), pools, isPartial)
		}
	}
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(f.Path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		f.Read()
	}
	expect("at the start", 0, true)
	f.Read()
	expect("there is no host.yaml, and the policies are not known", 0, true)
	write("pools: [{nam: a}]\n")
	sources.SetPolicies(asRead(policy))
	sources.Merge()
	expect("a mistake in host.yaml", 0, true)
	write("pools: [{name: a}]\n")
	expect("corrected", 2, false)
	write("pools: [{nam: a}]\n")
	expect("a mistake later", 2, false)
}

// I9: pools may be missing until the policies are merged, and while a policy that makes
// pools is not followed with any content.
func TestI9MissingPools(t *testing.T) {
	sources := NewSet(&Current{}, func() []vf.PF { return nil }, func() []api.Problem { return nil })
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
	set := func(policies ...*v1alpha1.NodePolicy) { sources.SetPolicies(asRead(policies...)); sources.Merge() }
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
