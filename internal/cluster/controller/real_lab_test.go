//go:build lab

package controller

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/culvert-net/culvert/api/v1alpha1"
	"github.com/culvert-net/culvert/internal/node/kube"
	"github.com/culvert-net/culvert/test/apiserver"
)

// apiServer starts a real API server with Culvert's CRDs, and returns its configuration.
func apiServer(t *testing.T) *rest.Config {
	t.Helper()
	s := apiserver.New(t)
	s.CRDs()
	return s.Config()
}

// I4, on a real API server: nodes report their needs through package kube, the
// controller starts and stops, and each node has its own block. The CRDs refuse wrong
// objects, and the controller writes a policy's status.
func TestI4OnARealAPIServer(t *testing.T) {
	config := apiServer(t)
	log := slog.New(slog.DiscardHandler)
	ctx, cancel := context.WithCancel(t.Context())
	var g, controllers errgroup.Group
	t.Cleanup(func() { cancel(); _, _ = g.Wait(), controllers.Wait() })
	c, err := client.New(config, client.Options{Scheme: Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	var nodes []*kube.Client
	for i := range 5 {
		name := fmt.Sprintf("worker0%d", i)
		if err := c.Create(ctx, newNode(name, map[string]string{"nic": "igb"})); err != nil {
			t.Fatal(err)
		}
		k, err := kube.New(config, name, log)
		if err != nil {
			t.Fatal(err)
		}
		g.Go(func() error { return k.Run(ctx) })
		nodes = append(nodes, k)
	}
	crdsRefuse(t, c)
	policy := &v1alpha1.NodePolicy{Spec: v1alpha1.NodePolicySpec{NodeSelector: map[string]string{"nic": "igb"}, PFs: []v1alpha1.PFRule{{Driver: "igb", VFs: intstr.FromString("max")}}}}
	policy.Name = "p"
	if err := c.Create(ctx, policy); err != nil {
		t.Fatal(err)
	}
	for used := range 4 { // each time another controller, which is stopped in the middle of something
		life, stop := context.WithCancel(ctx)
		controllers.Go(func() error {
			return Run(life, Config{Kube: config, Namespace: "default", Metrics: "0", Health: "0", Log: log})
		})
		for i, k := range nodes {
			state := asking("", int64(used*used*(i+1))).Status
			state.Policies = []v1alpha1.PolicyState{{Name: "p", Generation: policy.Generation, Applied: true}}
			apiserver.Eventually(t, "NodeState", func() error { return k.WriteState(ctx, state) })
		}
		if used == 3 {
			settled(t, c, nodes, func() { stop(); _ = controllers.Wait() })
		}
		stop()
	}
}

// settled waits until the nodes, which answer the controller's roll call, have what they ask for,
// and stops the controllers. Then another controller, which finishes their work, keeps all blocks,
// and a further one has nothing left to do.
func settled(t *testing.T, c client.Client, nodes []*kube.Client, stop func()) {
	t.Helper()
	apiserver.Eventually(t, "blocks and the policy's status", func() error {
		answerRoll(t, c)
		p := &v1alpha1.NodePolicy{}
		if err := c.Get(t.Context(), client.ObjectKey{Name: "p"}, p); err != nil || p.Status.AppliedNodes != 5 {
			return fmt.Errorf("policy: %d nodes, %w", p.Status.AppliedNodes, err)
		}
		for i, k := range nodes {
			pools, known := k.AddressPools()
			if policies, ok := k.Policies(); !known || !ok || len(pools) != 1 || len(policies) != 1 {
				return fmt.Errorf("node %d sees %d pools, %d policies", i, len(pools), len(policies))
			}
			have := map[string]int{}
			for _, line := range show(pools[0]) {
				node, _, _ := strings.Cut(line, " ")
				have[node]++
			}
			if len(have) != 5 || pools[0].Status.Granted < 9*15 {
				return fmt.Errorf("%v, %d granted", show(pools[0]), pools[0].Status.Granted)
			}
		}
		return nil
	})
	stop()
	begun := show(poolOf(t, c))
	look(t, addresses(c, time.Now()))
	before := show(poolOf(t, c))
	look(t, addresses(c, time.Now()))
	if after := show(poolOf(t, c)); len(before) < len(begun) || !slices.Equal(before, after) {
		t.Errorf("%v, then %v, then %v", begun, before, after)
	}
}

// crdsRefuse writes NodePolicies that the rules of the CRD must refuse.
func crdsRefuse(t *testing.T, c client.Client) {
	t.Helper()
	for text, want := range map[string]string{
		`{"pfs":[{"vfs":7}]}`:                             "which PFs? Write name, mac, pciAddress, vendor, device or driver",
		`{"pfs":[{"name":"a","vfs":"all"}]}`:              "should match '^max$'",
		`{"pfs":[{"name":"a","vfs":1,"mtu":7}]}`:          "spec.pfs[0].mtu",
		`{"pools":[{"name":"a b"}]}`:                      "spec.pools[0].name",
		`{"pools":[{"name":"a","deviceType":"magic"}]}`:   "spec.pools[0].deviceType",
		`{"pools":[{"name":"a","selectors":{"pf":"x"}}]}`: "spec.pools[0].selectors",
	} {
		o := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(`{"apiVersion":"culvert.dev/v1alpha1","kind":"NodePolicy","metadata":{"name":"bad"},"spec":`+text+`}`), &o.Object); err != nil {
			t.Fatal(err)
		}
		var err error
		apiserver.Eventually(t, "the CRD is served", func() error {
			if err = c.Create(t.Context(), o.DeepCopy()); err != nil && strings.Contains(err.Error(), "no matches for kind") {
				return err
			}
			return nil
		})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v\nwant %s", text, err, want)
		}
	}
}
