package kube

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// An API server that has just started refuses everybody for a moment: so rights
// are gone when that is said so many times, so far apart.
const (
	refusals    = 4
	refusedWait = 2 * time.Second
)

// Uninstalled reports whether the DaemonSet that culvertd is of, namespace/name,
// is there no more or is about to go: then culvertd ends for good, and not to be
// replaced. Rights that are gone say the same, since an uninstall takes the
// objects away in any order. An error says that nobody knows.
func (c *Client) Uninstalled(ctx context.Context, daemonSet string) (gone bool, err error) {
	namespace, name, ok := strings.Cut(daemonSet, "/")
	if !ok {
		return false, fmt.Errorf("DaemonSet %q: want namespace/name", daemonSet)
	}
	for range refusals {
		gone, err = c.daemonSetGone(ctx, namespace, name)
		if !apierrors.IsForbidden(err) && !apierrors.IsUnauthorized(err) {
			break
		}
		gone, err = true, nil
		later := time.NewTimer(c.pause)
		select {
		case <-later.C:
		case <-ctx.Done():
			later.Stop()
			return false, context.Cause(ctx)
		}
	}
	if err != nil {
		return false, fmt.Errorf("read DaemonSet %s: %w", daemonSet, err)
	}
	return gone, nil
}

func (c *Client) daemonSetGone(ctx context.Context, namespace, name string) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, callBound)
	defer cancel()
	raw, err := c.core.Get().AbsPath("/apis/apps/v1/namespaces", namespace, "daemonsets", name).DoRaw(ctx)
	if apierrors.IsNotFound(err) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	var o metav1.PartialObjectMetadata
	if err := json.Unmarshal(raw, &o); err != nil {
		return false, err
	}
	return o.DeletionTimestamp != nil, nil
}
