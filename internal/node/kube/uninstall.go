package kube

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

// An API server that has just started refuses every client for a moment, so culvertd asks again
// after a refusal: refusals times, refusedWait apart.
const (
	refusals    = 4
	refusedWait = 2 * time.Second
)

// ownSet is culvertd's own DaemonSet.
type ownSet struct {
	namespace, name string
	rest            rest.Interface
	seen            cache.SharedIndexInformer
}

// FollowDaemonSet makes Run follow culvertd's DaemonSet, namespace/name. Call it before Run. An
// uninstallation may remove culvertd's rights before culvertd ends. A watch that has begun goes
// on without these rights, and receives the deletion.
func (c *Client) FollowDaemonSet(daemonSet string) error {
	namespace, name, ok := strings.Cut(daemonSet, "/")
	if !ok {
		return fmt.Errorf("DaemonSet %q: want namespace/name", daemonSet)
	}
	apps, err := c.groupClient(appsV1)
	if err != nil {
		return err
	}
	pods := len(c.informer)
	o := ownSet{namespace: namespace, name: name, rest: apps}
	o.seen = c.newInformer(apps, "daemonsets", namespace, fields.OneTermEqualSelector("metadata.name", name), &daemonSetMeta{}, stripObject)
	c.others, c.informer = append(c.others, o.seen), c.informer[:pods:pods] // pods are served without it
	c.own = o
	return nil
}

// Uninstalled reports whether the DaemonSet that FollowDaemonSet named is deleted or about to be:
// then no other culvertd replaces this one. Only an API server that accepts culvertd's credential
// can show that, now or earlier to the watch. If it refuses the credential or does not answer, and
// the watch saw no deletion, Uninstalled returns an error.
func (c *Client) Uninstalled(ctx context.Context) (gone bool, err error) {
	for range refusals {
		gone, err = c.daemonSetGone(ctx)
		if err == nil {
			return gone, nil
		}
		if c.own.sawDeletion() {
			return true, nil
		}
		if !apierrors.IsForbidden(err) && !apierrors.IsUnauthorized(err) {
			break
		}
		later := time.NewTimer(c.pause)
		select {
		case <-later.C:
		case <-ctx.Done():
			later.Stop()
			return false, context.Cause(ctx)
		}
	}
	return false, fmt.Errorf("read DaemonSet %s/%s: %w", c.own.namespace, c.own.name, err)
}

// sawDeletion reports whether the DaemonSet was gone, or about to be, by the last event of the
// watch.
func (o ownSet) sawDeletion() bool {
	if o.seen == nil || !o.seen.HasSynced() {
		return false
	}
	for _, v := range o.seen.GetStore().List() {
		if d, ok := v.(*daemonSetMeta); ok && d.DeletionTimestamp == nil {
			return false
		}
	}
	return true
}

// daemonSetGone asks the API server whether the DaemonSet is gone.
func (c *Client) daemonSetGone(ctx context.Context) (bool, error) {
	if c.own.rest == nil {
		return false, errors.New("it is not followed")
	}
	ctx, cancel := context.WithTimeout(ctx, callBound)
	defer cancel()
	answer := c.own.rest.Get().Namespace(c.own.namespace).Resource("daemonsets").Name(c.own.name).Do(ctx)
	if isAbsent(answer, "daemonsets", c.own.name) {
		return true, nil
	}
	raw, err := answer.Raw()
	if err != nil {
		return false, err
	}
	var o metav1.PartialObjectMetadata
	if err := json.Unmarshal(raw, &o); err != nil {
		return false, err
	}
	if o.Name != c.own.name {
		return false, fmt.Errorf("the answer is about %q", o.Name)
	}
	return o.DeletionTimestamp != nil, nil
}

// isAbsent reports whether an API server answered that there is no such object. A 404 counts only
// if an API server sent it about this object, since a proxy in front of it may answer with a 404 of
// its own.
func isAbsent(answer rest.Result, resource, name string) bool {
	raw, err := answer.Raw()
	var s metav1.Status
	return apierrors.IsNotFound(err) && json.Unmarshal(raw, &s) == nil && s.Kind == "Status" && s.Reason == metav1.StatusReasonNotFound &&
		s.Details != nil && s.Details.Kind == resource && s.Details.Name == name
}
