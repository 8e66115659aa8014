package controller

import (
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/culvert-net/culvert/api/v1alpha1"
	"github.com/culvert-net/culvert/internal/network/ipam/blocks"
)

// A NodeState goes when its Node object is gone for the grace period, by this
// controller's own clock; that of a Node which is there stays.
func TestStateEndsWithItsNode(t *testing.T) {
	replaced := asking("b", 0)
	replaced.Status.NodeUID = "an earlier b"
	c := newCluster(newNode("a", nil), newNode("b", nil), asking("a", 0), replaced, asking("gone", 0))
	now := time.Now()
	s := &States{Client: c, Live: c, Now: func() time.Time { return now }}
	left := func() (names string) {
		t.Helper()
		for _, node := range []string{"a", "b", "gone"} {
			if _, err := s.Reconcile(t.Context(), named([]string{node})[0]); err != nil {
				t.Fatal(err)
			}
			err := c.Get(t.Context(), client.ObjectKey{Name: node}, &v1alpha1.NodeState{})
			if err == nil {
				names += node + " "
			} else if !apierrors.IsNotFound(err) {
				t.Fatal(err)
			}
		}
		return names
	}
	if got := left(); got != "a b gone " {
		t.Errorf("at first: %q", got)
	}
	now = now.Add(blocks.Grace - time.Second)
	if got := left(); got != "a b gone " {
		t.Errorf("before the grace period ends: %q", got)
	}
	now = now.Add(time.Second)
	if got := left(); got != "a " {
		t.Errorf("after it: %q", got)
	}
}
