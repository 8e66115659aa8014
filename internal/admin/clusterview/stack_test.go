package clusterview

import (
	"fmt"
	"maps"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/culvert-net/culvert/api/v1alpha1"
)

// stackAnswers has the answers of an API server, by the end of the path. It does not know other
// paths.
var stackAnswers = map[string]string{
	"/daemonsets": `{"items": [{"metadata": {"namespace": "op", "name": "dp"}, "spec": {"template": {"spec": {"initContainers": [{"image": "i", "volumeMounts": [{"name": "bin", "mountPath": "/host/opt/cni/bin"}, {"name": "pools", "mountPath": "/etc/dp"}]}], "containers": [{"image": "c", "command": ["dp"], "args": ["-resource-prefix=x"]}],
		"volumes": [{"name": "pools", "configMap": {"name": "pools"}}, {"name": "none", "hostPath": {}}, {"name": "bin", "hostPath": {"path": "/var/lib/cni/bin"}}]}}}}]}`,
	"/deployments":                    `{"items": [{"metadata": {"namespace": "op", "name": "o", "ownerReferences": [{"kind": "ClusterServiceVersion", "name": "o.v4"}]}, "spec": {"replicas": 0, "template": {}}}]}`,
	"/configmaps/pools":               `{"kind": "ConfigMap", "metadata": {"name": "pools"}}`,
	"/sriovnetworks":                  `{"items": [{"metadata": {"name": "n"}}]}`,
	"/network-attachment-definitions": `{"items": [{"metadata": {"namespace": "d", "name": "n", "ownerReferences": [{"kind": "SriovNetwork"}]}, "spec": {"config": "{}"}}]}`,
	"/mutatingwebhookconfigurations":  `{"items": [{"metadata": {"name": "w"}}]}`,
	"/pods": `{"items": [{"metadata": {"namespace": "d", "name": "a", "annotations": {"k8s.v1.cni.cncf.io/networks": "n", "x": "y"}}, "status": {"phase": "Pending"}},
		{"metadata": {"namespace": "d", "name": "b"}}, {"metadata": {"name": "c", "annotations": {"k8s.v1.cni.cncf.io/networks": "n"}}, "status": {"phase": "Succeeded"}}]}`,
}

// Stack returns the objects of the cluster, and none of kinds that the API server does not know.
func TestStack(t *testing.T) {
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		for suffix, answer := range stackAnswers {
			if strings.HasSuffix(r.URL.Path, suffix) {
				fmt.Fprint(w, answer)
				return
			}
		}
		w.WriteHeader(http.StatusNotFound)
		fmt.Fprint(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404}`)
	})
	got, err := c.Stack(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	objects := map[string]string{}
	for _, o := range got.Objects {
		objects[o.Kind] = string(o.JSON)
	}
	if len(got.Workloads) == 2 && got.Workloads[0].Kind == "Deployment" {
		got.Workloads[0], got.Workloads[1] = got.Workloads[1], got.Workloads[0]
	}
	got.Objects = nil
	want := Stack{
		Workloads:   []Workload{{"DaemonSet", "op", "dp", []string{"c", "i"}, 1, "", []string{"dp", "-resource-prefix=x"}, []string{"pools"}, map[string]string{"/host/opt/cni/bin": "/var/lib/cni/bin"}}, {"Deployment", "op", "o", nil, 0, "o.v4", nil, nil, nil}},
		Networks:    []StackNetwork{{Namespace: "d", Name: "n", Config: "{}", Owners: []string{"SriovNetwork"}}},
		HasNetworks: true,
		Webhooks:    []string{"mutatingwebhookconfigurations/w"},
		Pods:        []StackPod{{Namespace: "d", Name: "a", Annotations: map[string]string{"k8s.v1.cni.cncf.io/networks": "n"}, Reason: "Pending"}},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("-want +got\n%s", d)
	}
	if len(objects) != 2 || objects["ConfigMap"] == "" || objects["SriovNetwork"] != `{"metadata": {"name": "n"}}` {
		t.Errorf("objects %v", objects)
	}
}

// A right that is missing is an error that names it.
func TestStackForbidden(t *testing.T) {
	for path := range stackAnswers {
		c := serve(t, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			if strings.HasSuffix(r.URL.Path, path) {
				w.WriteHeader(http.StatusForbidden)
				fmt.Fprint(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","message":"MESSAGE","reason":"Forbidden","code":403}`)
				return
			}
			fmt.Fprint(w, map[bool]string{true: stackAnswers["/daemonsets"], false: `{"items": []}`}[strings.HasSuffix(r.URL.Path, "/daemonsets")])
		})
		if _, err := c.Stack(t.Context()); err == nil || !strings.Contains(err.Error(), "MESSAGE") || !strings.Contains(err.Error(), "cluster prod") {
			t.Errorf("%s: %v", path, err)
		}
	}
}

// A policy that a node does not follow yet is named with its reason, and so is one whose present
// form the controller has not looked at.
func TestUnapplied(t *testing.T) {
	policy := func(name string, status metav1.ConditionStatus) v1alpha1.NodePolicy {
		return v1alpha1.NodePolicy{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: v1alpha1.NodePolicyStatus{Conditions: []metav1.Condition{
			{Type: v1alpha1.ConditionValid, Status: "True"}, {Type: v1alpha1.ConditionApplied, Status: status, Message: "n1: no link"},
		}}}
	}
	changed := policy("d", "True") // after the controller looked at it
	changed.Generation = 2
	got := maps.Collect(Objects{Policies: []v1alpha1.NodePolicy{
		policy("a", "True"), policy("b", "False"), policy("c", "Unknown"), changed, {ObjectMeta: metav1.ObjectMeta{Name: "e"}},
	}}.Unapplied())
	const unseen = "the controller has not looked at it yet"
	if d := cmp.Diff(map[string]string{"b": "n1: no link", "c": "n1: no link", "d": unseen, "e": unseen}, got); d != "" {
		t.Error(d)
	}
}

// A workload reads the ConfigMaps that it mounts. The injector, by its name or its image, reads further
// ones in its namespace and in kube-system.
func TestConfigMapsOfWorkloads(t *testing.T) {
	further := []string{"nri/nri-control-switches", "kube-system/nri-control-switches", "nri/nri-user-defined-injections", "kube-system/nri-user-defined-injections"}
	for name, tc := range map[string]struct {
		w    Workload
		want []string
	}{
		"mounted":  {Workload{Namespace: "nri", Name: "dp", ConfigMaps: []string{"pools"}}, []string{"nri/pools"}},
		"by name":  {Workload{Namespace: "nri", Name: "network-resources-injector-2"}, further},
		"by image": {Workload{Namespace: "nri", Name: "webhook", Images: []string{"x", "example.org/network-resources-injector:v1"}}, further},
		"neither":  {Workload{Namespace: "nri", Name: "webhook"}, nil},
	} {
		if d := cmp.Diff(tc.want, tc.w.configMaps()); d != "" {
			t.Errorf("%s (-want +got):\n%s", name, d)
		}
	}
}
