package kube

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/culvert-net/culvert/api/v1alpha1"
)

// writtenState is the node's NodeState as the API server had it last.
type writtenState struct {
	mu     sync.Mutex          // guards object, and lets one caller write at a time
	object *v1alpha1.NodeState // nil until it was read or written
}

// WriteState sets the status of the node's NodeState. Only this node writes it, so the last writer
// is right. A write is one request, since WriteState remembers the version of the last one. If
// another writer was first, WriteState reads the object and writes again. If a caller repeats a
// status, WriteState reads the object, and writes it only if it differs. Times of observation are
// not compared, but the first write of a Client always has its own.
func (c *Client) WriteState(ctx context.Context, status v1alpha1.NodeStateStatus) error {
	ctx, cancel := context.WithTimeout(ctx, callBound)
	defer cancel()
	c.state.mu.Lock()
	defer c.state.mu.Unlock()
	known := c.state.object
	if known != nil && !isSameState(known.Status, status) {
		err := c.putState(ctx, known, status)
		if err == nil || !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
			return err
		}
	}
	there := &v1alpha1.NodeState{}
	err := c.objects.rest.Get().Resource("nodestates").Name(c.node).Do(ctx).Into(there)
	switch {
	case apierrors.IsNotFound(err):
		there = &v1alpha1.NodeState{ObjectMeta: metav1.ObjectMeta{Name: c.node, OwnerReferences: c.nodeOwner()}}
	case err != nil:
		return fmt.Errorf("read NodeState %s: %w", c.node, err)
	}
	there.ManagedFields = nil // the API server keeps them
	if known != nil && there.ResourceVersion != "" && isSameState(there.Status, status) {
		c.state.object = there
		return nil
	}
	return c.putState(ctx, there, status)
}

// putState writes status over the NodeState that is there, or makes one where it has no version.
func (c *Client) putState(ctx context.Context, there *v1alpha1.NodeState, status v1alpha1.NodeStateStatus) error {
	next := &v1alpha1.NodeState{ObjectMeta: there.ObjectMeta, Status: status}
	next.APIVersion, next.Kind = v1alpha1.GroupVersion.String(), "NodeState"
	next.Status.Conditions = keepTransitionTimes(there.Status.Conditions, status.Conditions)
	request := c.objects.rest.Put().Resource("nodestates").Name(c.node)
	if there.ResourceVersion == "" {
		request = c.objects.rest.Post().Resource("nodestates")
	}
	result := request.Body(next).Do(ctx)
	var answer struct {
		Metadata struct {
			ResourceVersion string `json:"resourceVersion"`
		} `json:"metadata"`
	}
	err := result.Error() // Raw's error does not have the API server's message
	if err == nil {
		raw, _ := result.Raw() // its error is that of Error
		err = json.Unmarshal(raw, &answer)
	}
	if err != nil {
		return fmt.Errorf("write NodeState %s: %w", c.node, err)
	}
	next.ResourceVersion = answer.Metadata.ResourceVersion
	c.state.object = next
	return nil
}

// isSameState reports whether two NodeStates differ at most in times: those of conditions, and when
// they were read from the node.
func isSameState(a, b v1alpha1.NodeStateStatus) bool {
	a.Observed, b.Observed = nil, nil
	a.Conditions = keepTransitionTimes(b.Conditions, a.Conditions)
	return equality.Semantic.DeepEqual(a, b)
}
