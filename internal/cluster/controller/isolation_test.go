package controller

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/culvert-net/culvert/internal/network/netannotation"
	"github.com/culvert-net/culvert/internal/network/service"
	"github.com/culvert-net/culvert/internal/reasons"
)

// isolation is that of the tests, whose pods are in namespace default.
var isolation = netannotation.Isolation{On: true, Global: []string{"shared"}}

// reading is an API server that records what is read.
func reading(reads *[]string, objects ...client.Object) client.Reader {
	return interceptor.NewClient(newCluster(objects...), interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			*reads = append(*reads, fmt.Sprintf("%T %s", o, key))
			return c.Get(ctx, key, o, opts...)
		},
	})
}

// ofOthers are networks of namespace other that pods of namespace default may not use.
func ofOthers(admits string) []client.Object {
	pooled, bare, pair := definitionOf("other", "pooled", "intel.com/x"), definitionOf("other", "bare", ""), definitionOf("other", "pair", "intel.com/x")
	pair.Object["spec"] = map[string]any{"config": `{"cniVersion":"1.1.0","type":"culvert","bond":{}}`}
	for _, n := range []client.Object{pooled, bare, pair} {
		annotations := n.GetAnnotations()
		if annotations == nil {
			annotations = map[string]string{}
		}
		annotations[netannotation.Namespaces] = admits
		n.SetAnnotations(annotations)
	}
	return []client.Object{pooled, bare, pair}
}

// I9: the webhook answers a pod that names a network of another namespace in the same bytes, after
// the same reads, whether the network exists or not.
func TestI9WebhookHidesNetworksOfOthers(t *testing.T) {
	handle := func(raw string, objects ...client.Object) (answer string, reads []string) {
		c := reading(&reads, objects...)
		got := (&pods{client: c, live: c, isolation: isolation, log: slog.New(slog.DiscardHandler)}).Handle(t.Context(), request(raw))
		text, err := json.Marshal(got)
		if err != nil {
			t.Fatal(err)
		}
		return string(text), reads
	}
	const spec = `{"containers":[{"name":"c","resources":{}}]}`
	for _, network := range []string{"pooled", "bare", "pair"} {
		inDefault := strings.Replace(podAsking("other/"+network, spec), netannotation.Networks, netannotation.DefaultNetwork, 1)
		for what, raw := range map[string]string{
			"short": podAsking("other/"+network, spec), "JSON": podAsking(`[{"name":"`+network+`","namespace":"other"}]`, spec), "default network": inDefault,
		} {
			missing, missingReads := handle(raw)
			there, thereReads := handle(raw, ofOthers("team,defaults")...)
			if diff := cmp.Diff(missing, there); diff != "" {
				t.Errorf("%s, %s (-missing +there):\n%s", network, what, diff)
			}
			if diff := cmp.Diff(missingReads, thereReads); diff != "" {
				t.Errorf("%s, %s: reads (-missing +there):\n%s", network, what, diff)
			}
			want := "pods of namespace default may use networks of their own namespace and of shared only: to admit them, set the annotation culvert.dev/namespaces of NetworkAttachmentDefinition other/" + network + " to default; the pod starts when"
			if !strings.Contains(missing, want) || strings.Contains(missing, "intel.com") {
				t.Errorf("%s, %s: %s", network, what, missing)
			}
		}
	}
}

// The webhook adds the resources of networks that a pod may use: of its own namespace, of a global
// one, and of one that admits it, also where only the API server knows that yet.
func TestWebhookServesNetworksThatPodsMayUse(t *testing.T) {
	const spec = `{"containers":[{"name":"c","resources":{}}]}`
	closed, open := ofOthers(""), ofOthers("x, default")
	own := []client.Object{definitionOf("default", "pooled", "intel.com/x"), definitionOf("shared", "pooled", "intel.com/x")}
	for name, tc := range map[string]struct {
		network       string
		cached, there []client.Object
		patched       bool
	}{
		"own":                {"pooled", own, own, true},
		"global":             {"shared/pooled", own, own, true},
		"admitted":           {"other/pooled", open, open, true},
		"admitted, and late": {"other/pooled", closed, open, true},
		"closed":             {"other/pooled", closed, closed, false},
		"closed, and late":   {"other/pooled", nil, closed, false},
	} {
		p := &pods{client: newCluster(tc.cached...), live: newCluster(tc.there...), isolation: isolation, log: slog.New(slog.DiscardHandler)}
		got := p.Handle(t.Context(), request(podAsking(tc.network, spec)))
		if patched := len(got.Patches) > 0; patched != tc.patched || patched == (len(got.Warnings) > 0) {
			t.Errorf("%s: %v, warnings %q", name, got.Patches, got.Warnings)
		}
	}
}

// over makes a Service ask for a network.
func over(network string) func(*corev1.Service) {
	return func(s *corev1.Service) { s.Annotations[service.NetworkAnnotation] = network }
}

// backendsOn are the pods of twoBackends on another network, which they have.
func backendsOn(network string) []client.Object {
	objects := twoBackends()
	for _, o := range objects {
		if pod, is := o.(*corev1.Pod); is {
			pod.Annotations[netannotation.Networks] = network
			pod.Annotations[netannotation.Status] = strings.Replace(pod.Annotations[netannotation.Status], "default/net1", network, 1)
		}
	}
	return objects
}

// I9: the status and the events of a Service over a network of another namespace are the same
// whether the network exists or not. So are its selector and its endpoints. The cases are a Service
// without pods, with pods that do not ask for the network, and with pods that have it.
func TestI9ServiceHidesNetworksOfOthers(t *testing.T) {
	for _, pods := range [][]client.Object{nil, twoBackends(), backendsOn("other/pooled")} {
		seen := func(objects ...client.Object) string {
			w := newServing(t, nil, append(slices.Concat(pods, objects), webService(over("other/pooled")))...)
			w.s.Isolation = isolation
			var b strings.Builder
			for range 2 {
				r := w.reconcile()
				svc := w.service()
				text, err := json.Marshal(map[string]any{"status": svc.Status, "spec": svc.Spec, "events": w.said(), "addresses": w.addresses(), "again": r})
				if err != nil {
					t.Fatal(err)
				}
				b.Write(append(text, '\n'))
				w.now = w.now.Add(missingGrace)
			}
			return b.String()
		}
		missing := seen()
		if diff := cmp.Diff(missing, seen(ofOthers("team")...)); diff != "" {
			t.Errorf("%d pods (-missing +there):\n%s", len(pods), diff)
		}
		if !strings.Contains(missing, `"reason":"NetworkMissing"`) || !strings.Contains(missing, "network other/pooled: invalid: pods of namespace default may use") {
			t.Error(missing)
		}
		if admitted := seen(ofOthers("default")...); strings.Contains(admitted, reasons.NetworkMissing) {
			t.Errorf("a network that admits the Service's namespace: %s", admitted)
		}
	}
}

// Pods keep a network that is closed to them: their endpoints stay, as those of a deleted one.
func TestServiceKeepsEndpointsOfAClosedNetwork(t *testing.T) {
	w := newServing(t, nil, slices.Concat(backendsOn("other/pooled"), ofOthers(""), []client.Object{webService(over("other/pooled"))})...)
	w.reconcile()
	served := w.addresses()
	if len(served) != 2 || w.condition() != "True Served" {
		t.Fatalf("without isolation: %v, %s", served, w.condition())
	}
	w.s.Isolation = isolation
	if w.reconcile(); !slices.Equal(w.addresses(), served) || w.condition() != "False NetworkMissing" {
		t.Errorf("%v, %s", w.addresses(), w.condition())
	}
}
