package kube

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Uninstalled reports whether the DaemonSet that culvertd is of, namespace/name,
// is there no more or is about to go: then culvertd ends for good, and not to be
// replaced. Rights that are gone say the same, since an uninstall takes the
// objects away in any order. An error says that nobody knows.
func (c *Client) Uninstalled(ctx context.Context, daemonSet string) (bool, error) {
	namespace, name, ok := strings.Cut(daemonSet, "/")
	if !ok {
		return false, fmt.Errorf("DaemonSet %q: want namespace/name", daemonSet)
	}
	ctx, cancel := context.WithTimeout(ctx, callBound)
	defer cancel()
	raw, err := c.core.Get().AbsPath("/apis/apps/v1/namespaces", namespace, "daemonsets", name).DoRaw(ctx)
	switch {
	case apierrors.IsNotFound(err), apierrors.IsForbidden(err), apierrors.IsUnauthorized(err):
		return true, nil
	case err != nil:
		return false, fmt.Errorf("read DaemonSet %s: %w", daemonSet, err)
	}
	var o metav1.PartialObjectMetadata
	if err := json.Unmarshal(raw, &o); err != nil {
		return false, fmt.Errorf("read DaemonSet %s: %w", daemonSet, err)
	}
	return o.DeletionTimestamp != nil, nil
}
