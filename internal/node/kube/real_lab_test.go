//go:build lab

package kube

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"testing"

	"github.com/culvert-net/culvert/internal/vf"
	"github.com/culvert-net/culvert/test/apiserver"
)

const crd = `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"network-attachment-definitions.k8s.cni.cncf.io"},
"spec":{"group":"k8s.cni.cncf.io","scope":"Namespaced","names":{"plural":"network-attachment-definitions","singular":"network-attachment-definition","kind":"NetworkAttachmentDefinition"},
"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object","properties":{"spec":{"type":"object","properties":{"config":{"type":"string"}}}}}}}]}}`

func podBody(name, node string) string {
	return fmt.Sprintf(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":%q,"annotations":{"k8s.v1.cni.cncf.io/networks":"x"}},"spec":{"nodeName":%q,"containers":[{"name":"c","image":"i"}]}}`, name, node)
}

// The client reads pods and networks from a real API server, and a pod that is not in its informer
// yet by one GET. It keeps them while the API server is down. It makes its writes when the API
// server is back, but none to another pod of the same name.
func TestRealAPIServer(t *testing.T) {
	r := apiserver.New(t)
	r.Must(http.MethodPost, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", crd)
	nads := "/apis/k8s.cni.cncf.io/v1/namespaces/default/network-attachment-definitions"
	apiserver.Eventually(t, "namespace and CRD", func() error {
		return errors.Join(r.Do(http.MethodGet, "/api/v1/namespaces/default", "", nil), r.Do(http.MethodGet, nads, "", nil))
	})
	r.Must(http.MethodPost, nads, `{"apiVersion":"k8s.cni.cncf.io/v1","kind":"NetworkAttachmentDefinition","metadata":{"name":"x"},"spec":{"config":"{}"}}`)
	c, err := New(r.Config(), "n1", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	r.Must(http.MethodPost, "/api/v1/namespaces/default/pods", podBody("early", "n1"))
	early, err := c.Pod(t.Context(), "default", "early", "") // nothing watches yet
	if err != nil || early.Annotations["k8s.v1.cni.cncf.io/networks"] != "x" {
		t.Fatalf("by GET: %+v, %v", early, err)
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- c.Run(ctx) }()
	defer func() { stop(); <-done }()
	if !c.WaitForSync(ctx) {
		t.Fatal("the informers do not get there")
	}
	r.Must(http.MethodPost, "/api/v1/namespaces/default/pods", podBody("late", "n1"))
	r.Must(http.MethodPost, "/api/v1/namespaces/default/pods", podBody("elsewhere", "n2"))
	apiserver.Eventually(t, "the pod that came later", func() error {
		if _, ok := c.Known("default", "late"); !ok {
			return errors.New("it is not known")
		}
		return nil
	})
	if _, ok := c.Known("default", "elsewhere"); ok {
		t.Error("the pod of another node is kept")
	}
	r.Stop()
	if p, err := c.Pod(t.Context(), "default", "early", early.UID); err != nil || p.UID != early.UID {
		t.Errorf("while the API server is down: %+v, %v", p, err)
	}
	if n, err := c.Network(t.Context(), "default", "x"); err != nil || n.Config != "{}" {
		t.Errorf("while the API server is down: %+v, %v", n, err)
	}
	if _, err := c.Pod(t.Context(), "default", "none", ""); !errors.Is(err, vf.ErrNotReady) {
		t.Errorf("a pod that nobody knows: %v", err)
	}
	c.Annotate(early, map[string]string{"k8s.v1.cni.cncf.io/network-status": "[]"})
	c.PodEvent(early, "Warning", "NetworkFailed", "text")
	late, _ := c.Known("default", "late")
	late.UID = "another"
	c.Annotate(late, map[string]string{"k8s.v1.cni.cncf.io/network-status": "wrong"})
	r.Start()
	apiserver.Eventually(t, "what was to be written", func() error {
		var p struct {
			Metadata struct{ Annotations map[string]string }
		}
		var events struct {
			Items []struct{ Reason, Message string }
		}
		err := errors.Join(r.Do(http.MethodGet, "/api/v1/namespaces/default/pods/early", "", &p), r.Do(http.MethodGet, "/api/v1/namespaces/default/events", "", &events))
		written := 0
		for _, event := range events.Items {
			if event.Reason == "NetworkFailed" { // the API server writes events of its own
				written++
			}
		}
		if err == nil && (p.Metadata.Annotations["k8s.v1.cni.cncf.io/network-status"] != "[]" || written != 1) {
			err = fmt.Errorf("%v, events %v", p.Metadata.Annotations, events.Items)
		}
		return err
	})
	var p struct {
		Metadata struct{ Annotations map[string]string }
	}
	if err := r.Do(http.MethodGet, "/api/v1/namespaces/default/pods/late", "", &p); err != nil || p.Metadata.Annotations["k8s.v1.cni.cncf.io/network-status"] != "" {
		t.Errorf("another pod of that name was written to: %v, %v", p.Metadata.Annotations, err)
	}
	apiserver.Eventually(t, "the annotation comes back by the watch", func() error {
		if known, _ := c.Known("default", "early"); known.Annotations["k8s.v1.cni.cncf.io/network-status"] != "[]" {
			return fmt.Errorf("%v", known.Annotations)
		}
		return nil
	})
}
