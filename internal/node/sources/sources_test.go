package sources

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/culvert-net/culvert/api/v1alpha1"
	"github.com/culvert-net/culvert/internal/node/desired"
)

func newPolicy(name string, priority int32, pools ...v1alpha1.Pool) *v1alpha1.NodePolicy {
	return &v1alpha1.NodePolicy{
		ObjectMeta: metav1.ObjectMeta{Name: name, Generation: 3}, Spec: v1alpha1.NodePolicySpec{Priority: priority, Pools: pools},
	}
}

// asRead returns policies as culvertd reads those of its own version.
func asRead(policies ...*v1alpha1.NodePolicy) (out []Policy) {
	for _, p := range policies {
		out = append(out, Policy{NodePolicy: p})
	}
	return out
}

// The policy of a newer version has a field that this culvertd does not know. culvertd does not
// follow the rest of it: the NodeState says why, and its last readable content stays.
func TestPolicyOfANewerVersion(t *testing.T) {
	s, current := newSet()
	first, second := newPolicy("p", 0, v1alpha1.Pool{Name: "one"}), newPolicy("p", 0, v1alpha1.Pool{Name: "two"})
	newer := errors.New("it has the field \"frob\", which this version of Culvert does not know")
	s.SetPolicies([]Policy{{NodePolicy: first, Unknown: newer}})
	s.Merge()
	if err := s.MissingPools(); err == nil || !strings.Contains(err.Error(), "frob") {
		t.Errorf("the policy was never readable: %v", err)
	}
	s.SetPolicies(asRead(first))
	s.SetPolicies([]Policy{{NodePolicy: second, Unknown: newer}})
	s.Merge()
	states := s.PolicyStates()
	if len(states) != 1 || states[0].Applied || !strings.Contains(states[0].Reason, newer.Error()) {
		t.Errorf("%+v", states)
	}
	c := s.Conditions(states)[0]
	if c.Status != metav1.ConditionFalse || !strings.Contains(c.Message, "NodePolicy p: "+newer.Error()) {
		t.Errorf("%+v", c)
	}
	if pools := current.Spec().Pools; len(pools) != 1 || pools[0].Name != "one" {
		t.Errorf("pools %+v", pools)
	}
	if p := s.Problems(); len(p) != 1 || p[0].Object != "NodePolicy p" || p[0].Reason != newer.Error() {
		t.Errorf("%+v", p)
	}
}

func hostPool(name string) desired.Spec {
	return desired.Spec{Pools: []desired.Pool{{Name: name, Prefix: "x"}}}
}

// A watcher of the wanted Spec wakes when a merge changes it, and sleeps through a merge that does
// not.
func TestWatchSpecWakesAtAChange(t *testing.T) {
	s, current := newSet()
	s.Merge()
	for _, tt := range []struct {
		name  string
		host  desired.Spec
		wakes bool
	}{
		{"a pool", hostPool("a"), true},
		{"the same pool", hostPool("a"), false},
		{"another pool", hostPool("b"), true},
		{"nothing", desired.Spec{}, true},
		{"nothing again", desired.Spec{}, false},
	} {
		before, changed := current.WatchSpec()
		s.SetHost(tt.host)
		if got := s.Merge(); got != tt.wakes {
			t.Errorf("%s: Merge reports the change %t, want %t", tt.name, got, tt.wakes)
		}
		isAwake := false
		select {
		case <-changed:
			isAwake = true
		default:
		}
		if isAwake != tt.wakes || cmp.Equal(before, current.Spec()) == tt.wakes {
			t.Errorf("%s: awake %t, want %t; the Spec was %+v and is %+v", tt.name, isAwake, tt.wakes, before, current.Spec())
		}
	}
}

// A preview of host.yaml has the pools of the cluster as well, and changes nothing that is wanted.
func TestPreviewHostChangesNothing(t *testing.T) {
	s, current := newSet()
	s.InCluster = true
	s.SetHost(hostPool("a"))
	s.SetPolicies(asRead(newPolicy("p", 0, v1alpha1.Pool{Name: "tenants"})))
	s.Merge()
	before := current.Spec()
	if diff := cmp.Diff([]string{"x/b", "culvert.dev/tenants"}, poolNames(s.PreviewHost(hostPool("b")))); diff != "" {
		t.Errorf("preview (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(before, current.Spec()); diff != "" {
		t.Errorf("the preview changed what is wanted (-before +after):\n%s", diff)
	}
}

// Policies that cannot be read, and those that contradict each other, are problems with a next step
// until they are corrected.
func TestProblemsOfPolicies(t *testing.T) {
	pool := func(device string) v1alpha1.Pool { return v1alpha1.Pool{Name: "fast", DeviceType: device} }
	s, _ := newSet()
	for _, tt := range []struct {
		name     string
		policies []*v1alpha1.NodePolicy
		want     []string
	}{
		{"sound", []*v1alpha1.NodePolicy{newPolicy("a", 0, pool("netdevice"))}, nil},
		{"two that cannot be read", []*v1alpha1.NodePolicy{newPolicy("b", 0, pool("nonsense")), newPolicy("a", 0, pool("nonsense"))}, []string{
			"NodePolicy a: pools[0].deviceType", "NodePolicy b: pools[0].deviceType",
		}},
		{"a contradiction", []*v1alpha1.NodePolicy{newPolicy("b", 0, pool("vfio-pci")), newPolicy("a", 0, pool("netdevice"))}, []string{
			"NodePolicies a, b: pool culvert.dev/fast: policies a, b contradict each other",
		}},
		{"a priority settles it", []*v1alpha1.NodePolicy{newPolicy("b", 1, pool("vfio-pci")), newPolicy("a", 0, pool("netdevice"))}, nil},
	} {
		s.SetPolicies(asRead(tt.policies...))
		s.Merge()
		checkProblems(t, tt.name, s.Problems(), tt.want)
	}
}
