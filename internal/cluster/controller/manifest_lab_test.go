//go:build lab

package controller

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/culvert-net/culvert/api/v1alpha1"
	"github.com/culvert-net/culvert/internal/node/kube"
	"github.com/culvert-net/culvert/test/apiserver"
)

// install creates the objects of some kinds of the one manifest that people apply.
func install(t *testing.T, c client.Client, kinds ...string) {
	t.Helper()
	create(t, c, manifest(t), kinds...)
}

// create creates the objects of some kinds.
func create(t *testing.T, c client.Client, all []*unstructured.Unstructured, kinds ...string) {
	t.Helper()
	made := map[string]int{}
	for _, o := range all {
		for _, kind := range kinds {
			if o.GetKind() == kind {
				made[kind]++
				apiserver.Eventually(t, kind, func() error { return client.IgnoreAlreadyExists(c.Create(t.Context(), o)) })
			}
		}
	}
	if len(made) != len(kinds) {
		t.Fatalf("there are %v of %v", made, kinds)
	}
}

// as is a connection to the cluster with the rights of culvertd on a node.
func as(config *rest.Config, node string) *rest.Config {
	c := rest.CopyConfig(config)
	c.Impersonate = rest.ImpersonationConfig{
		UserName: "system:serviceaccount:culvert-system:culvertd",
		Groups:   []string{"system:serviceaccounts", "system:authenticated"},
		Extra:    map[string][]string{"authentication.kubernetes.io/node-name": {node}},
	}
	return c
}

// The manifest gives culvertd the rights that it needs, and no more. culvertd receives all objects
// that it watches, among ConfigMaps only the device plugin's, and writes its own NodeState and no
// other node's.
func TestManifestsRightsAreCulvertds(t *testing.T) {
	config := apiServer(t)
	c, err := client.New(config, client.Options{Scheme: Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	install(t, c, "Namespace", "CustomResourceDefinition", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding", "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding")
	for _, name := range []string{"sriovdp-config", "another"} {
		m := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: name}, Data: map[string]string{"config.json": name}}
		apiserver.Eventually(t, "ConfigMap", func() error { return client.IgnoreAlreadyExists(c.Create(t.Context(), m)) })
	}
	if err := c.Create(t.Context(), newNode("n1", nil)); err != nil {
		t.Fatal(err)
	}
	k, err := kube.New(as(config, "n1"), "n1", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	if err := k.FollowDevicePlugin("kube-system/sriovdp-config"); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var g errgroup.Group
	g.Go(func() error { return k.Run(ctx) })
	t.Cleanup(func() { cancel(); _ = g.Wait() })
	apiserver.Eventually(t, "all is heard of", func() error {
		data, plugin := k.DevicePluginConfig()
		_, policies := k.Policies()
		_, pools := k.AddressPools()
		if !plugin || !policies || !pools || !k.Synced() || data["config.json"] != "sriovdp-config" {
			return fmt.Errorf("ConfigMap %t %v, policies %t, pools %t, pods and networks %t", plugin, data, policies, pools, k.Synced())
		}
		return nil
	})
	for _, version := range []string{"1", "2"} { // made, and changed
		apiserver.Eventually(t, "its own NodeState", func() error { return k.WriteState(ctx, v1alpha1.NodeStateStatus{Version: version}) })
	}
	k.NodeEvent("Warning", "Quarantined", "text")
	apiserver.Eventually(t, "an event of the Node", func() error {
		return wantEvents(ctx, c, 1, "Quarantined")
	})
	other, err := kube.New(as(config, "n1"), "n2", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	tries := 0
	apiserver.Eventually(t, "another node's NodeState is refused", func() error {
		tries++ // a state that got there before the policy was in force is not written again
		if err := other.WriteState(ctx, v1alpha1.NodeStateStatus{Version: fmt.Sprint(tries)}); err == nil || !strings.Contains(err.Error(), "its own node's NodeState only") {
			return fmt.Errorf("%w", err)
		}
		return nil
	})
	node, err := client.New(as(config, "n1"), client.Options{Scheme: Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	for name, err := range map[string]error{
		"another ConfigMap":  node.Get(ctx, client.ObjectKey{Namespace: "kube-system", Name: "another"}, &corev1.ConfigMap{}),
		"all ConfigMaps":     node.List(ctx, &corev1.ConfigMapList{}, client.InNamespace("kube-system")),
		"Secrets":            node.List(ctx, &corev1.SecretList{}),
		"a pool's addresses": node.Create(ctx, &v1alpha1.AddressPool{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Spec: v1alpha1.AddressPoolSpec{Network: "p"}}),
	} {
		if !apierrors.IsForbidden(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// I4: the API server refuses to delete a pool of which nodes have blocks, alone or with
// all others. A pool without blocks can be deleted, and so can the CRD with its pools.
func TestI4PoolInUseIsNotDeleted(t *testing.T) {
	c, err := client.New(apiServer(t), client.Options{Scheme: Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	install(t, c, "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding")
	pool := func(name string, blocks ...v1alpha1.AddressBlock) *v1alpha1.AddressPool {
		o := &v1alpha1.AddressPool{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.AddressPoolSpec{Network: name, Blocks: blocks}}
		apiserver.Eventually(t, "AddressPool", func() error { return client.IgnoreAlreadyExists(c.Create(t.Context(), o)) })
		return o
	}
	used := pool("used", v1alpha1.AddressBlock{Node: "n1", First: "10.0.0.2", Last: "10.0.0.9"})
	const want = "nodes give out addresses of AddressPool used"
	apiserver.Eventually(t, "the pool in use stays", func() error {
		if err := c.Delete(t.Context(), used, client.DryRunAll); err == nil || !strings.Contains(err.Error(), want) {
			return fmt.Errorf("I4: %w", err) // the policy is not in force yet
		}
		return nil
	})
	if err := c.Delete(t.Context(), used); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("I4: %v", err)
	}
	if err := c.DeleteAllOf(t.Context(), used); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("I4: of all pools: %v", err)
	}
	if err := c.Delete(t.Context(), pool("empty")); err != nil {
		t.Errorf("a pool that nobody uses: %v", err)
	}
	crd := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
		"metadata": map[string]any{"name": "addresspools.culvert.dev"}}}
	if err := c.Delete(t.Context(), crd); err != nil {
		t.Fatal(err)
	}
	apiserver.Eventually(t, "the CRD goes", func() error {
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(crd), crd); !apierrors.IsNotFound(err) {
			return fmt.Errorf("it is there: %w", err)
		}
		return nil
	})
}

// wantEvents wants a number of events with one of the reasons in the namespace default, where the
// API server writes events of its own.
func wantEvents(ctx context.Context, c client.Client, want int, reasons ...string) error {
	var events corev1.EventList
	err := c.List(ctx, &events, client.InNamespace("default"))
	events.Items = slices.DeleteFunc(events.Items, func(e corev1.Event) bool { return !slices.Contains(reasons, e.Reason) })
	if err != nil || len(events.Items) != want {
		return fmt.Errorf("%d events %v, want %d: %w", len(events.Items), reasons, want, err)
	}
	return nil
}
