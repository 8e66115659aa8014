package clusterview

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/culvert-net/culvert/internal/vf"
)

// serveAPod serves a pod that asks for three networks: one that exists, one that does not, and one
// that the caller may not read. The caller may not list Nodes.
func serveAPod(t *testing.T) *Cluster {
	t.Helper()
	const pod = `{"metadata": {"namespace": "d", "name": "a-0", "uid": "u1", "annotations": {"k8s.v1.cni.cncf.io/networks": "fast,gone,other/secret"}}}`
	const nads = "/apis/k8s.cni.cncf.io/v1/namespaces/"
	return serve(t, func(w http.ResponseWriter, r *http.Request) {
		fail := func(code int, reason string) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(code)
			fmt.Fprintf(w, `{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": %q, "code": %d}`, reason, code)
		}
		switch r.URL.Path {
		case "/api/v1/namespaces/d/pods/a-0":
			fmt.Fprint(w, pod)
		case "/api/v1/namespaces/d/pods":
			fmt.Fprintf(w, `{"items": [%s]}`, pod)
		case "/api/v1/namespaces/d/events":
			if r.URL.Query().Get("fieldSelector") != "involvedObject.uid=u1" {
				fail(http.StatusBadRequest, "BadRequest")
				return
			}
			fmt.Fprint(w, `{"items": [{"reason": "FailedScheduling", "eventTime": "2026-11-30T11:50:00.000000Z", "lastTimestamp": null}]}`)
		case nads + "d/network-attachment-definitions/fast":
			fmt.Fprint(w, `{"metadata": {"annotations": {"k8s.v1.cni.cncf.io/resourceName": "culvert.dev/fast"}}}`)
		case nads + "other/network-attachment-definitions/secret", "/api/v1/nodes":
			fail(http.StatusForbidden, "Forbidden")
		case "/api/v1/pods":
			fmt.Fprintf(w, `{"items": [%s]}`, daemonJSON("--namespace-isolation", "--global-namespaces=shared"))
		default:
			fail(http.StatusNotFound, "NotFound")
		}
	})
}

// ReadPod reads all that the caller may read, and marks the rest. A name that is wrong is corrected.
func TestReadPod(t *testing.T) {
	c := serveAPod(t)
	f, err := c.ReadPod(t.Context(), "d", "a-0")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]map[string]string{"d/fast": {"k8s.v1.cni.cncf.io/resourceName": "culvert.dev/fast"}}, f.Networks); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if f.Pod.String() != "d/a-0" || len(f.Events) != 1 || !f.Unread["other/secret"] || f.Unread["d/gone"] || !f.Isolation.On || f.Isolation.Global[0] != "shared" || f.Nodes != nil {
		t.Errorf("%+v", f)
	}
	if _, err := c.ReadPod(t.Context(), "d", "a-1"); !errors.Is(err, vf.ErrNotFound) || !strings.Contains(err.Error(), "did you mean a-0?") {
		t.Errorf("a pod that is not there: %v", err)
	}
}
