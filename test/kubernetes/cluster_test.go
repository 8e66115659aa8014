//go:build kubernetes

package kubernetes

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/culvert-net/culvert/lab/cluster"
	"github.com/culvert-net/culvert/test/soak"
)

// A lab's cluster works as a cluster. Pods reach each other over Flannel's overlay, by name and
// through a Service, the control plane reaches pods, and the audit log names the users of requests.
func TestCluster(t *testing.T) {
	soak.Only(t, "the lab itself; TestI4XL710AsItStands has pods on both nodes")
	need(t, twoNodes)
	again, err := cluster.Open(k8s.Lab.Name())
	if err != nil || again.Kubeconfig != k8s.Kubeconfig || again.Parts != k8s.Parts {
		t.Fatalf("opened again: %+v, %v", again, err)
	}
	if err := again.Close(); err != nil {
		t.Error(err)
	}
	objects, err := os.ReadFile("testdata/cluster.yaml")
	if err != nil {
		t.Fatal(err)
	}
	apply(t, string(objects))
	ready(t, "pod/near", "pod/far")
	far := kubectl(t, "get", "pod", "far", "--output", "jsonpath={.status.podIP}")
	kubectl(t, "exec", "near", "--", "ping", "-c", "3", "-w", "300", far) // over the overlay
	// CoreDNS and kube-proxy get the endpoints some time after the pods are ready. The server in
	// the pod begins to listen about then.
	answers := func(what, want string, command ...string) {
		t.Helper()
		eventually(t, what, func() error {
			out, err := k8s.Kubectl(t.Context(), append([]string{"exec", "near", "--"}, command...)...)
			if err == nil && !strings.Contains(string(out), want) {
				err = fmt.Errorf("%q, and no %s in it", out, want)
			}
			return err
		})
	}
	answers("the name of the far pod is its address", far+" ", "getent", "hosts", "far.default.svc.cluster.local")
	answers("through kube-proxy", "Hello", "curl", "--silent", "--show-error", "--max-time", "20", "http://clusterip")
	controlPlaneReaches(t, far)
	audited(t, "admin", "flannel", "system:kube-proxy", "system:node:worker01", "system:node:worker02")
}

// controlPlaneReaches checks that the control plane's network namespace has a route to pods, which
// webhooks need.
func controlPlaneReaches(t *testing.T, pod string) {
	t.Helper()
	address, err := k8s.Lab.Relay(t.Context(), pod+":8080")
	if err != nil {
		t.Fatal(err)
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+address.String(), http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := (&http.Client{Timeout: soon}).Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if body, err := io.ReadAll(answer.Body); err != nil || !strings.Contains(string(body), "Hello") {
		t.Errorf("from the control plane: %q, %v", body, err)
	}
}

// audited waits until the API server's audit log has requests of all these users.
func audited(t *testing.T, users ...string) {
	t.Helper()
	eventually(t, "the audit log has requests of all", func() error {
		requests := make(map[string]int)
		for _, r := range auditLog(t) {
			requests[r.User.Username]++
		}
		for _, who := range users {
			if requests[who] == 0 {
				return fmt.Errorf("no request of %s among %v", who, requests)
			}
		}
		return nil
	})
}

// request is the part of an event of the audit log that the tests look at.
type request struct {
	Verb   string `json:"verb"`
	User   struct{ Username string }
	Object struct {
		Resource    string `json:"resource"`
		Subresource string `json:"subresource"`
		Name        string `json:"name"`
	} `json:"objectRef"`
	Status struct {
		Code int `json:"code"`
	} `json:"responseStatus"`
}

// auditLog returns the requests that the API server has answered so far.
func auditLog(t *testing.T) (all []request) {
	t.Helper()
	body, err := os.ReadFile(k8s.AuditLog)
	if err != nil {
		t.Fatal(err)
	}
	for in := json.NewDecoder(bytes.NewReader(body[:bytes.LastIndexByte(body, '\n')+1])); ; {
		var r request
		switch err := in.Decode(&r); {
		case errors.Is(err, io.EOF):
			return all
		case err != nil:
			t.Fatal(err)
		}
		all = append(all, r)
	}
}

// countWrites counts, by resource, the writes of the nodes' culvertds about pods: those to the
// pods' objects, and events about them, whose names begin with the pod's. It leaves out failed
// writes, which culvertd repeats.
func countWrites(all []request, pods ...string) map[string]int {
	out := map[string]int{}
	for _, r := range all {
		about, _, _ := strings.Cut(r.Object.Name, ".")
		if r.User.Username == "system:serviceaccount:"+cluster.Namespace+":culvertd" && slices.Contains([]string{"create", "update", "patch"}, r.Verb) && slices.Contains(pods, about) && r.Status.Code < http.StatusMultipleChoices {
			out[r.Object.Resource]++
		}
	}
	return out
}

// refusedEvictions counts how often the API server kept a pod from being evicted.
func refusedEvictions(t *testing.T, pod string) (count int) {
	t.Helper()
	for _, r := range auditLog(t) {
		if r.Verb == "create" && r.Object.Resource == "pods" && r.Object.Subresource == "eviction" && r.Object.Name == pod && r.Status.Code == http.StatusTooManyRequests {
			count++
		}
	}
	return count
}
