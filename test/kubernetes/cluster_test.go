//go:build kubernetes

package kubernetes

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/culvert-net/culvert/lab/cluster"
)

// A lab's cluster is one: pods reach each other over Flannel's overlay, by name and
// through a Service, the control plane reaches pods, and the audit log has who
// asked.
func TestCluster(t *testing.T) {
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
	kubectl(t, "wait", "--for=condition=Ready", "pod/near", "pod/far", "--timeout=5m")
	far := kubectl(t, "get", "pod", "far", "--output", "jsonpath={.status.podIP}")
	if out := kubectl(t, "exec", "near", "--", "ping", "-c", "3", "-W", "10", far); !strings.Contains(out, " 0% packet loss") {
		t.Errorf("ping over the overlay:\n%s", out)
	}
	if out := kubectl(t, "exec", "near", "--", "getent", "hosts", "far.default.svc.cluster.local"); !strings.HasPrefix(out, far) {
		t.Errorf("the name of the far pod is %q, and not %s", out, far)
	}
	if out := kubectl(t, "exec", "near", "--", "curl", "--silent", "--max-time", "20", "http://clusterip"); !strings.Contains(out, "Hello") {
		t.Errorf("through kube-proxy: %q", out)
	}
	controlPlaneReaches(t, far)
	audited(t, "admin", "flannel", "system:kube-proxy", "system:node:worker01", "system:node:worker02")
}

// controlPlaneReaches sees that the control plane's namespace has a way to pods,
// which webhooks need.
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
	answer, err := (&http.Client{Timeout: 20 * time.Second}).Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if body, err := io.ReadAll(answer.Body); err != nil || !strings.Contains(string(body), "Hello") {
		t.Errorf("from the control plane: %q, %v", body, err)
	}
}

// audited sees that users are in the API server's audit log.
func audited(t *testing.T, users ...string) {
	t.Helper()
	requests := make(map[string]int)
	for _, r := range auditLog(t) {
		requests[r.User.Username]++
	}
	for _, who := range users {
		if requests[who] == 0 {
			t.Errorf("no request of %s among %v", who, requests)
		}
	}
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

// auditLog reads what the API server has answered so far.
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
