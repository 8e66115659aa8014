package clusterview

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/network/netannotation"
	intake "github.com/culvert-net/culvert/internal/node/intake/pod"
)

// podJSON is a pod of namespace d.
func podJSON(name, metadata, spec, phase string) string {
	return fmt.Sprintf(`{"metadata": {"namespace": "d", "name": %q, %s}, "spec": {%s}, "status": {"phase": %q}}`, name, metadata, spec, phase)
}

// daemonJSON is a pod of culvertd.
func daemonJSON(args ...string) string {
	raw, _ := json.Marshal(args) // texts only
	return podJSON("culvertd-x", `"labels": {"app.kubernetes.io/name": "culvertd"}`, fmt.Sprintf(`"hostNetwork": true, "containers": [{"args": %s}]`, raw), "Running")
}

// podNetworks reads a cluster of some pods and networks, with one object in a page.
func podNetworks(t *testing.T, pods, networks []string) PodNetworks {
	t.Helper()
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		items := map[string][]string{"/api/v1/pods": pods, "/apis/k8s.cni.cncf.io/v1/network-attachment-definitions": networks}[r.URL.Path]
		at, next := 0, ""
		_, _ = fmt.Sscan(r.URL.Query().Get("continue"), &at)
		if at+1 < len(items) {
			next = fmt.Sprint(at + 1)
		}
		fmt.Fprintf(w, `{"metadata": {"continue": %q}, "items": [%s]}`, next, strings.Join(items[at:min(at+1, len(items))], ","))
	})
	got, err := c.PodNetworks(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// PodNetworks returns the pods that ask for networks at their next start, with only the annotations
// that ask.
func TestPodNetworks(t *testing.T) {
	const asks = `"annotations": {"k8s.v1.cni.cncf.io/networks": "other/v", "more": "text"}`
	got := podNetworks(t, []string{
		podJSON("asks", asks, "", "Running"),
		podJSON("default", `"annotations": {"v1.multus-cni.io/default-network": "v"}`, "", "Pending"),
		podJSON("asks-nothing", `"annotations": {"more": "text"}`, "", "Running"),
		podJSON("done", asks, "", "Succeeded"),
		podJSON("failed", asks, "", "Failed"),
		podJSON("on-host", asks, `"hostNetwork": true`, "Running"),
		podJSON("forged", `"labels": {"app": "multus"}`, "", "Running"),
		podJSON("forged-daemon", `"labels": {"app.kubernetes.io/name": "culvertd"}`, `"containers": [{"args": ["--global-namespaces=other"]}]`, "Running"),
	}, []string{`{"metadata": {"namespace": "other", "name": "v", "annotations": {"culvert.dev/namespaces": "a", "more": "text"}}, "spec": {"config": "{}"}}`})
	want := PodNetworks{
		Pods: []api.Pod{
			{Namespace: "d", Name: "asks", Annotations: map[string]string{netannotation.Networks: "other/v"}},
			{Namespace: "d", Name: "default", Annotations: map[string]string{netannotation.DefaultNetwork: "v"}},
		},
		Networks: []api.NetworkDefinition{{Namespace: "other", Name: "v", Annotations: map[string]string{netannotation.Namespaces: "a"}}},
		Global:   netannotation.DefaultGlobal(), Mode: string(intake.Auto),
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// The arguments of culvertd's pods show what culvertd refuses. If they differ, PodNetworks has all
// that any of them refuses.
func TestPodNetworksSettings(t *testing.T) {
	for name, tc := range map[string]struct {
		pods []string
		want PodNetworks
	}{
		"isolated":      {[]string{daemonJSON("--kubernetes", "--namespace-isolation", "--global-namespaces=a,b")}, PodNetworks{Isolated: true, Global: []string{"a", "b"}, Mode: "auto"}},
		"turned off":    {[]string{daemonJSON("--namespace-isolation=false", "--pod-networks", string(intake.Never))}, PodNetworks{Global: netannotation.DefaultGlobal(), Mode: "never"}},
		"words":         {[]string{daemonJSON("--node-name", "n", "--global-namespaces", "a", "--namespace-isolation")}, PodNetworks{Isolated: true, Global: []string{"a"}, Mode: "auto"}},
		"earlier":       {[]string{daemonJSON("--kubernetes")}, PodNetworks{Global: netannotation.DefaultGlobal(), Mode: "auto"}},
		"none global":   {[]string{daemonJSON("--global-namespaces=")}, PodNetworks{Global: []string{}, Mode: "auto"}},
		"in an update":  {[]string{daemonJSON("--global-namespaces=a,b"), daemonJSON("--namespace-isolation", "--global-namespaces=b,c")}, PodNetworks{Isolated: true, Global: []string{"b"}, Mode: "auto"}},
		"beside Multus": {[]string{podJSON("m", `"labels": {"app": "multus"}`, `"hostNetwork": true`, "Running"), daemonJSON("--pod-networks=" + string(intake.Always))}, PodNetworks{Global: netannotation.DefaultGlobal(), Mode: "always", Multus: "d/m"}},
	} {
		if diff := cmp.Diff(tc.want, podNetworks(t, tc.pods, nil)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// The manifest gives culvertd the flags that PodNetworks reads.
func TestPodNetworksFlags(t *testing.T) {
	text, err := os.ReadFile("../../../dist/kubernetes/culvert.yaml")
	if err != nil {
		t.Fatal(err)
	}
	flags := regexp.MustCompile(`(?m)^ *- --([a-z-]+)`).FindAllStringSubmatch(string(text), -1)
	for _, want := range []string{"namespace-isolation", "global-namespaces", "pod-networks"} {
		if !slices.ContainsFunc(flags, func(f []string) bool { return f[1] == want }) {
			t.Errorf("the manifest does not give culvertd --%s", want)
		}
	}
}

// A cluster without NetworkAttachmentDefinitions has no networks; a user without rights
// learns which are missing.
func TestPodNetworksErrors(t *testing.T) {
	for _, tc := range []struct {
		path string
		code int
		want string
	}{
		{"network-attachment-definitions", 404, ""},
		{"network-attachment-definitions", 403, "list network-attachment-definitions of all namespaces in cluster prod: MESSAGE"},
		{"pods", 403, "list pods of all namespaces in cluster prod: MESSAGE"},
		{"pods", 404, "list pods of all namespaces in cluster prod: MESSAGE"},
	} {
		c := serve(t, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			if !strings.HasSuffix(r.URL.Path, tc.path) {
				fmt.Fprint(w, `{"items": []}`)
				return
			}
			w.WriteHeader(tc.code)
			reason := map[int]string{403: "Forbidden", 404: "NotFound"}[tc.code]
			fmt.Fprintf(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","message":"MESSAGE","reason":%q,"code":%d}`, reason, tc.code)
		})
		_, err := c.PodNetworks(t.Context())
		if got := fmt.Sprint(err); (tc.want == "") != (err == nil) || err != nil && got != tc.want {
			t.Errorf("%s: %d: %s", tc.path, tc.code, got)
		}
	}
}
