package clusterview

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/rest"

	"github.com/culvert-net/culvert/internal/api"
)

// serve is an API server that answers with h.
func serve(t *testing.T, h http.HandlerFunc) *Cluster {
	t.Helper()
	srv := httptest.NewServer(h)
	t.Cleanup(srv.Close)
	c, err := newCluster(&rest.Config{Host: srv.URL})
	if err != nil {
		t.Fatal(err)
	}
	c.Name = "prod"
	return c
}

// An error of the API server becomes an error that says what to do.
func TestErrors(t *testing.T) {
	status := func(code int, reason string) string {
		return fmt.Sprintf(`{"kind":"Status","apiVersion":"v1","status":"Failure","message":"MESSAGE","reason":%q,"code":%d}`, reason, code)
	}
	for _, tc := range []struct {
		path string
		code int
		body string
		want string
	}{
		{"nodestates", 404, "404 page not found", "list nodestates.culvert.dev in cluster prod: not found: Culvert is not installed there: kubectl apply"},
		{"nodestates", 403, status(403, "Forbidden"), "MESSAGE: an administrator gives the right: kubectl create clusterrolebinding NAME --clusterrole=culvert-view --user=USER"},
		{"addresspools", 403, status(403, "Forbidden"), "list addresspools.culvert.dev in cluster prod: MESSAGE"},
		{"nodestates", 401, status(401, "Unauthorized"), "cluster prod does not accept the credentials of the kubeconfig"},
		{"nodepolicies", 500, status(500, "InternalError"), "MESSAGE: does kubectl get nodepolicies.culvert.dev work?"},
		{"nodestates", 200, "<html>", "invalid character"},
		{"pods", 500, status(500, "InternalError"), "list pods in cluster prod: MESSAGE"},
		{"pods", 403, status(403, "Forbidden"), ""},
	} {
		c := serve(t, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			if strings.HasSuffix(r.URL.Path, tc.path) {
				w.WriteHeader(tc.code)
				fmt.Fprint(w, tc.body)
				return
			}
			fmt.Fprint(w, `{"items": []}`)
		})
		_, err := c.Read(t.Context(), "")
		if got := fmt.Sprint(err); (tc.want == "") != (err == nil) || !strings.Contains(got, tc.want) {
			t.Errorf("%s: %d: %s", tc.path, tc.code, got)
		}
	}
}

// A cluster of many nodes is read page by page, each once.
func TestPages(t *testing.T) {
	const nodes = 250
	var asked []string
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasSuffix(r.URL.Path, "nodestates") {
			fmt.Fprint(w, `{"items": []}`)
			return
		}
		q := r.URL.Query()
		asked = append(asked, q.Get("continue"))
		var from, limit int
		_, _ = fmt.Sscan(q.Get("continue"), &from)
		_, _ = fmt.Sscan(q.Get("limit"), &limit)
		var items []string
		for i := from; i < min(from+limit, nodes); i++ {
			items = append(items, fmt.Sprintf(`{"metadata": {"name": "n%03d"}}`, i))
		}
		next := ""
		if from+limit < nodes {
			next = fmt.Sprint(from + limit)
		}
		fmt.Fprintf(w, `{"metadata": {"continue": %q}, "items": [%s]}`, next, strings.Join(items, ","))
	})
	got, err := c.Read(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, s := range got.States {
		names = append(names, s.Name)
	}
	slices.Sort(names)
	if len(slices.Compact(names)) != nodes || len(asked) != 3 {
		t.Errorf("%d nodes in %d pages %q", len(names), len(asked), asked)
	}
}

// Read returns the reason why a pod of culvertd does not serve.
func TestDaemons(t *testing.T) {
	pod := func(name, rest string) string {
		return fmt.Sprintf(`{"metadata": {"namespace": "c", "name": %q}, "spec": {"nodeName": "n"}, "status": {%s}}`, name, rest)
	}
	pods := []string{
		pod("f-evicted", `"phase": "Failed", "reason": "Evicted"`),
		pod("e-not-ready", `"phase": "Running", "conditions": [{"type": "Ready", "status": "False", "reason": "ContainersNotReady"}]`),
		pod("d-crash", `"phase": "Running", "conditions": [{"type": "Ready", "status": "False", "reason": "ContainersNotReady"}], "containerStatuses": [{"state": {"waiting": {"reason": "CrashLoopBackOff"}}}]`),
		pod("c-pending", `"phase": "Pending"`),
		pod("b-ready", `"phase": "Running", "conditions": [{"type": "Initialized", "status": "False"}, {"type": "Ready", "status": "True"}]`),
	}
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("labelSelector") != "app.kubernetes.io/name=culvertd" {
			t.Errorf("asked for %s", r.URL)
		}
		fmt.Fprintf(w, `{"items": [%s]}`, strings.Join(pods, ","))
	})
	got, err := c.listDaemons(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := []api.DaemonPod{
		{Name: "b-ready", Ready: true},
		{Name: "c-pending", Reason: "Pending"},
		{Name: "d-crash", Reason: "CrashLoopBackOff"},
		{Name: "e-not-ready", Reason: "ContainersNotReady"},
		{Name: "f-evicted", Reason: "Evicted"},
	}
	for i := range want {
		want[i].Namespace, want[i].Node = "c", "n"
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// The next step for a right that is missing is a role that has it.
func TestGrants(t *testing.T) {
	c := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusForbidden)
		fmt.Fprint(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","message":"MESSAGE","reason":"Forbidden","code":403}`)
	})
	if _, err := c.ListEvents(t.Context(), "", 1); err == nil || !strings.Contains(err.Error(), "MESSAGE") || !strings.Contains(err.Error(), "--clusterrole=view ") {
		t.Errorf("events: %v", err)
	}
	if _, err := c.NodeLabels(t.Context()); err == nil || !strings.Contains(err.Error(), "--resource=nodes") {
		t.Errorf("nodes: %v", err)
	}
}
