package controller

import (
	"context"
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/culvert-net/culvert/api/v1alpha1"
	"github.com/culvert-net/culvert/internal/network/ipam/blocks"
)

// States deletes NodeStates that outlive their Node objects. A request is the name of a node.
// NodeStates that name their Node as owner are deleted by the garbage collector.
type States struct {
	Client client.Client
	Live   client.Reader // the API server itself
	Now    func() time.Time

	mu    sync.Mutex           // guards first
	first map[string]time.Time // when a NodeState was first seen without its Node
}

// Reconcile deletes the NodeState of one node when its Node object is gone for
// blocks.Grace: until then a node that was registered again may write to it.
func (s *States) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	state := &v1alpha1.NodeState{}
	err := s.Live.Get(ctx, req.NamespacedName, state)
	if apierrors.IsNotFound(err) {
		s.absence(req.Name, false)
		return ctrl.Result{}, nil
	}
	if err != nil {
		return ctrl.Result{}, fmt.Errorf("read NodeState %s: %w", req.Name, err)
	}
	n := node()
	err = s.Live.Get(ctx, req.NamespacedName, n)
	if client.IgnoreNotFound(err) != nil {
		return ctrl.Result{}, fmt.Errorf("read Node %s: %w", req.Name, err)
	}
	if err == nil && isOf(state, n.UID) {
		s.absence(req.Name, false)
		return ctrl.Result{}, nil
	}
	if left := blocks.Grace - s.absence(req.Name, true); left > 0 {
		return ctrl.Result{RequeueAfter: left}, nil
	}
	// If the NodeState was written meanwhile, its node still runs, and the delete fails.
	err = s.Client.Delete(ctx, state, client.Preconditions{UID: &state.UID, ResourceVersion: &state.ResourceVersion})
	if client.IgnoreNotFound(err) != nil {
		return ctrl.Result{}, fmt.Errorf("delete NodeState %s, whose Node is gone: %w", req.Name, err)
	}
	return ctrl.Result{}, nil
}

// absence returns for how long this controller has seen a NodeState without its Node, by
// its own clock.
func (s *States) absence(node string, absent bool) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !absent {
		delete(s.first, node)
		return 0
	}
	if s.first == nil {
		s.first = map[string]time.Time{}
	}
	now := s.Now()
	if first, seen := s.first[node]; !seen || first.After(now) {
		s.first[node] = now
	}
	return now.Sub(s.first[node])
}
