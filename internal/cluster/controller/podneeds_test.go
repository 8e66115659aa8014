package controller

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/culvert-net/culvert/internal/network/netannotation"
)

// withoutPodInfo takes the volume of podInfoPath and its mounts out of a pod.
func withoutPodInfo(pod any) any {
	is := func(v any) bool { return v.(map[string]any)["name"] == podInfoVolume } //nolint:forcetypeassert // a pod's lists have objects
	take := func(o map[string]any, key string) {
		if list, _ := o[key].([]any); list != nil {
			if o[key] = slices.DeleteFunc(list, is); len(o[key].([]any)) == 0 { //nolint:forcetypeassert // set before
				delete(o, key)
			}
		}
	}
	spec := pod.(map[string]any)["spec"].(map[string]any) //nolint:forcetypeassert // a pod
	take(spec, "volumes")
	for _, c := range spec["containers"].([]any) { //nolint:forcetypeassert // a pod
		take(c.(map[string]any), "volumeMounts") //nolint:forcetypeassert // a pod
	}
	return pod
}

// annotated returns a network with annotations.
func annotated(namespace, name string, annotations map[string]string) *unstructured.Unstructured {
	u := definitionOf(namespace, name, "")
	u.SetAnnotations(annotations)
	return u
}

// onNodes returns a network with the annotation nodeSelector, and without a resource.
func onNodes(namespace, name, selector string) *unstructured.Unstructured {
	return annotated(namespace, name, map[string]string{netannotation.NodeSelector: selector})
}

// handleTwice calls the webhook for a pod, checks that a second call changes nothing, and returns
// the pod that comes out and the warnings of the first call.
func handleTwice(t *testing.T, hook *pods, raw string) (out string, warnings []string) {
	t.Helper()
	hook.log = slog.New(slog.DiscardHandler)
	first := hook.Handle(t.Context(), request(raw))
	if !first.Allowed {
		t.Fatalf("refused: %+v", first)
	}
	out = patched(t, raw, first)
	if again := hook.Handle(t.Context(), request(out)); !again.Allowed || len(again.Patches) > 0 {
		t.Errorf("a second call: %t %v", again.Allowed, again.Patches)
	}
	return out, first.Warnings
}

// A pod comes to nodes with the label that its networks name. It keeps a value of its own, which
// may be the administrator's, and a network that isolation closes adds nothing.
func TestPodsSelectNodes(t *testing.T) {
	c := newCluster(onNodes("default", "a", "net-type=sriov"), onNodes("default", "b", " net-type = sriov "), onNodes("default", "other", "net-type=ovs"),
		onNodes("default", "key", "example.org/rail"), onNodes("default", "empty", "rail="), onNodes("default", "two", "a=b,c=d"), onNodes("default", "chain", "a=b=c"),
		onNodes("default", "none", ""), onNodes("default", "long", "a="+strings.Repeat("x", 64)), onNodes("default", "huge", strings.Repeat("x", 200_000)),
		onNodes("closed", "a", "tenant=b"), definitionOf("default", "plain", ""))
	for _, tc := range []struct {
		name, networks, spec string
		want                 string // the nodeSelector afterwards
		warning              string
	}{
		{"alone", "a", `{}`, `{"net-type":"sriov"}`, ""},
		{"beside another", "a", `{"nodeSelector":{"disk":"ssd"}}`, `{"disk":"ssd","net-type":"sriov"}`, ""},
		{"there already", "a", `{"nodeSelector":{"net-type":"sriov"}}`, `{"net-type":"sriov"}`, ""},
		{"another value of the pod", "a", `{"nodeSelector":{"net-type":"ovs"}}`, `{"net-type":"ovs"}`, "network default/a is on nodes with the label net-type=sriov, and the pod's nodeSelector says net-type=ovs, which stays"},
		{"two of one mind", "a,b,a", `{}`, `{"net-type":"sriov"}`, ""},
		{"two that contradict each other", "a,other", `{}`, `{"net-type":"sriov"}`, "network default/other is on nodes with the label net-type=ovs, and network default/a on nodes with net-type=sriov, which the pod gets"},
		{"two labels", "a,key", `{}`, `{"example.org/rail":"","net-type":"sriov"}`, ""},
		{"a key alone", "key", `{}`, `{"example.org/rail":""}`, ""},
		{"an empty value", "empty", `{}`, `{"rail":""}`, ""},
		{"two in one annotation", "two", `{}`, `null`, `network default/two: annotation k8s.v1.cni.cncf.io/nodeSelector: invalid: "a=b,c=d" is no label of a node: want one key=value`},
		{"two signs", "chain", `{}`, `null`, `"a=b=c" is no label of a node`},
		{"no key", "none", `{}`, `null`, `"" is no label of a node`},
		{"too long", "long", `{}`, `null`, "is no label of a node"},
		{"far too long", "huge", `{}`, `null`, "is no label of a node"},
		{"closed by isolation", "closed/a", `{}`, `null`, "pods of namespace default may use networks of their own namespace only"},
		{"no annotation", "plain", `{}`, `null`, ""},
		{"as the default network", "", `{}`, `{"net-type":"sriov"}`, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			raw := podAsking(tc.networks, `{"containers":[{"name":"c"}]}`)
			if tc.networks == "" {
				raw = `{"metadata":{"annotations":{"v1.multus-cni.io/default-network":"default/a"}},"spec":{"containers":[{"name":"c"}]}}`
			}
			raw = strings.Replace(raw, `"spec":{`, `"spec":{`+strings.TrimPrefix(strings.TrimSuffix(tc.spec, "}")+",", "{"), 1)
			raw = strings.Replace(raw, "{,", "{", 1)
			out, warnings := handleTwice(t, &pods{client: c, live: c, isolation: netannotation.Isolation{On: true}}, raw)
			var pod struct {
				Spec struct {
					NodeSelector map[string]string `json:"nodeSelector"`
					Volumes      []any             `json:"volumes"`
				} `json:"spec"`
			}
			if err := json.Unmarshal([]byte(out), &pod); err != nil {
				t.Fatal(err)
			}
			if got, _ := json.Marshal(pod.Spec.NodeSelector); string(got) != tc.want || len(pod.Spec.Volumes) > 0 {
				t.Errorf("nodeSelector %s, want %s; volumes %v", got, tc.want, pod.Spec.Volumes)
			}
			text := strings.Join(warnings, "; ")
			if (text == "") != (tc.warning == "") || !strings.Contains(text, tc.warning) || len(text) > 500 {
				t.Errorf("warnings %.600q, want %q", text, tc.warning)
			}
		})
	}
}

// A network whose annotation nodeSelector is no label is accepted with a warning.
func TestNetworksWarnOfTheirNodeSelector(t *testing.T) {
	for selector, want := range map[string]string{
		"net-type=sriov": "", "rail": "", "": `annotation k8s.v1.cni.cncf.io/nodeSelector: invalid: "" is no label of a node`, "a=b,c=d": `"a=b,c=d" is no label of a node: want one key=value; pods may come to nodes without this network`,
	} {
		raw, err := json.Marshal(annotated("default", "n", map[string]string{netannotation.NodeSelector: selector}))
		if err != nil {
			t.Fatal(err)
		}
		got := (&networks{client: newCluster()}).Handle(t.Context(), request(string(raw)))
		if text := strings.Join(got.Warnings, "; "); !got.Allowed || (text == "") != (want == "") || !strings.Contains(text, want) {
			t.Errorf("%q: %t %q, want %q", selector, got.Allowed, text, want)
		}
	}
}

const (
	metadataFiles = `{"path":"labels","fieldRef":{"fieldPath":"metadata.labels"}},{"path":"annotations","fieldRef":{"fieldPath":"metadata.annotations"}}`
	infoMount     = `{"name":"podnetinfo","readOnly":true,"mountPath":"/etc/podnetinfo"}`
)

func infoVolume(files ...string) string {
	return `{"name":"podnetinfo","downwardAPI":{"items":[` + strings.Join(append([]string{metadataFiles}, files...), ",") + `]}}`
}

func pageFile(size, kind, container string) string {
	names := map[string]string{"1G": "1Gi", "2M": "2Mi"}
	return fmt.Sprintf(`{"path":"hugepages_%s_%s_%s","resourceFieldRef":{"containerName":%[3]q,"resource":"%[2]ss.hugepages-%[4]s","divisor":"1Mi"}}`, size, kind, container, names[size])
}

// A pod with a resource of a network sees its labels, annotations and huge pages in the files that
// network-resources-injector makes. What it has under these names stays.
func TestPodsSeeTheirMetadata(t *testing.T) {
	c := newCluster(definitionOf("default", "a", "intel.com/x"), definitionOf("default", "plain", ""))
	const has = `"resources":{"limits":{"intel.com/x":"1"},"requests":{"intel.com/x":"1"}}`
	const pages = `"resources":{"limits":{"hugepages-1Gi":"2Gi","intel.com/x":"1"},"requests":{"hugepages-1Gi":"2Gi","intel.com/x":"1"}}`
	const variable = `{"name":"CONTAINER_NAME","value":"c"}`
	for _, tc := range []struct {
		name, spec string
		want       string // the spec afterwards; empty: as before
		warning    string
	}{
		{"each container", `{"containers":[{"name":"c",` + has + `},{"name":"d"}]}`,
			`{"containers":[{"name":"c",` + has + `,"volumeMounts":[` + infoMount + `]},{"name":"d","volumeMounts":[` + infoMount + `]}],"volumes":[` + infoVolume() + `]}`, ""},
		{"beside other volumes", `{"containers":[{"name":"c",` + has + `,"volumeMounts":[{"name":"v","mountPath":"/v"}]}],"volumes":[{"name":"v","emptyDir":{}}]}`,
			`{"containers":[{"name":"c",` + has + `,"volumeMounts":[{"name":"v","mountPath":"/v"},` + infoMount + `]}],"volumes":[{"name":"v","emptyDir":{}},` + infoVolume() + `]}`, ""},
		{"huge pages", `{"containers":[{"name":"c",` + pages + `},{"name":"d","env":[{"name":"A","value":"b"}],"resources":{"limits":{"hugepages-2Mi":"4Mi"}}}]}`,
			`{"containers":[{"name":"c",` + pages + `,"env":[` + variable + `],"volumeMounts":[` + infoMount + `]},{"name":"d","env":[{"name":"A","value":"b"},{"name":"CONTAINER_NAME","value":"d"}],"resources":{"limits":{"hugepages-2Mi":"4Mi"}},"volumeMounts":[` + infoMount + `]}],` +
				`"volumes":[` + infoVolume(pageFile("1G", "request", "c"), pageFile("1G", "limit", "c"), pageFile("2M", "limit", "d")) + `]}`, ""},
		{"no pages of that size", `{"containers":[{"name":"c","resources":{"limits":{"hugepages-2Mi":"0","intel.com/x":"1"},"requests":{"intel.com/x":"1"}}}]}`,
			`{"containers":[{"name":"c","resources":{"limits":{"hugepages-2Mi":"0","intel.com/x":"1"},"requests":{"intel.com/x":"1"}},"volumeMounts":[` + infoMount + `]}],"volumes":[` + infoVolume() + `]}`, ""},
		{"the variable is there", `{"containers":[{"name":"c",` + pages + `,"env":[{"name":"CONTAINER_NAME","value":"mine"}]}]}`,
			`{"containers":[{"name":"c",` + pages + `,"env":[{"name":"CONTAINER_NAME","value":"mine"}],"volumeMounts":[` + infoMount + `]}],"volumes":[` + infoVolume(pageFile("1G", "request", "c"), pageFile("1G", "limit", "c")) + `]}`, ""},
		{"a container that another webhook added", `{"containers":[{"name":"c",` + has + `,"volumeMounts":[` + infoMount + `]},{"name":"d"}],"volumes":[` + infoVolume() + `]}`,
			`{"containers":[{"name":"c",` + has + `,"volumeMounts":[` + infoMount + `]},{"name":"d","volumeMounts":[` + infoMount + `]}],"volumes":[` + infoVolume() + `]}`, ""},
		{"the pod's own volume", `{"containers":[{"name":"c",` + has + `,"volumeMounts":[{"name":"podnetinfo","mountPath":"/etc/podnetinfo/"}]}],"volumes":[{"name":"podnetinfo","downwardAPI":{"items":[]}}]}`, "", ""},
		{"another volume of that name", `{"containers":[{"name":"c",` + has + `}],"volumes":[{"name":"podnetinfo","emptyDir":{}}]}`, "", "the pod has no /etc/podnetinfo of its networks: its volume podnetinfo is another one"},
		{"another volume in that place", `{"containers":[{"name":"c",` + has + `,"volumeMounts":[{"name":"v","mountPath":"/etc/podnetinfo"}]}],"volumes":[{"name":"v","emptyDir":{}}]}`, "", ""},
		{"a mount below, in a folder that is read-only", `{"containers":[{"name":"c",` + has + `,"volumeMounts":[{"name":"v","mountPath":"/etc/podnetinfo/extra/"}]}],"volumes":[{"name":"v","emptyDir":{}}]}`, "", ""},
		{"a device in that place", `{"containers":[{"name":"c",` + has + `,"volumeDevices":[{"name":"v","devicePath":"/etc/podnetinfo"}]}],"volumes":[{"name":"v","persistentVolumeClaim":{"claimName":"v"}}]}`, "", ""},
		{"a mount of a similar name", `{"containers":[{"name":"c",` + has + `,"volumeMounts":[{"name":"v","mountPath":"/etc/podnetinfo2"},{"name":"v","mountPath":"/etc/pod"}]}],"volumes":[{"name":"v","emptyDir":{}}]}`,
			`{"containers":[{"name":"c",` + has + `,"volumeMounts":[{"name":"v","mountPath":"/etc/podnetinfo2"},{"name":"v","mountPath":"/etc/pod"},` + infoMount + `]}],"volumes":[{"name":"v","emptyDir":{}},` + infoVolume() + `]}`, ""},
		{"a folder above, which may be read-only", `{"containers":[{"name":"c",` + has + `,"volumeMounts":[{"name":"v","mountPath":"/etc"}]}],"volumes":[{"name":"v","configMap":{"name":"etc"}}]}`, "", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			out, warnings := handleTwice(t, &pods{client: c, live: c}, podAsking("a", tc.spec))
			if tc.want == "" {
				tc.want = tc.spec
			}
			if diff := cmp.Diff(decoded(t, podAsking("a", tc.want)), decoded(t, out)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			if strings.Join(warnings, "; ") != tc.warning {
				t.Errorf("warnings %q", warnings)
			}
		})
	}
	t.Run("a network without a resource", func(t *testing.T) {
		raw := podAsking("plain", `{"containers":[{"name":"c","resources":{"limits":{"hugepages-1Gi":"1Gi"}}}]}`)
		if out, warnings := handleTwice(t, &pods{client: c, live: c}, raw); out != raw || len(warnings) > 0 {
			t.Errorf("%s %q", out, warnings)
		}
	})
}

// A pod requests the resources under all keys that the administrator names, and no others.
func TestPodsOfOtherResourceKeys(t *testing.T) {
	const other = "example.org/resource"
	pair := annotated("default", "pair", map[string]string{netannotation.ResourceName: "intel.com/x", other: "example.org/rdma"})
	pair.Object["spec"] = map[string]any{"config": `{"cniVersion":"1.1.0","type":"culvert","bond":{}}`}
	c := newCluster(pair,
		annotated("default", "both", map[string]string{netannotation.ResourceName: "intel.com/x", other: "example.org/rdma"}),
		annotated("default", "same", map[string]string{netannotation.ResourceName: "intel.com/x", other: " intel.com/x"}),
		annotated("default", "other", map[string]string{other: "example.org/rdma"}))
	for _, tc := range []struct {
		networks string
		keys     []string
		want     map[string]string
	}{
		{"both", nil, map[string]string{"intel.com/x": "1"}},
		{"other", nil, nil},
		{"both,other", []string{netannotation.ResourceName, other}, map[string]string{"intel.com/x": "1", "example.org/rdma": "2"}},
		{"same", []string{netannotation.ResourceName, other}, map[string]string{"intel.com/x": "1"}},
		{"pair", []string{netannotation.ResourceName, other}, map[string]string{"intel.com/x": "2", "example.org/rdma": "1"}},
		{"both", []string{other}, map[string]string{"example.org/rdma": "1"}},
	} {
		out, _ := handleTwice(t, &pods{client: c, live: c, resourceKeys: tc.keys}, podAsking(tc.networks, `{"containers":[{"name":"c"}]}`))
		var pod struct {
			Spec struct {
				Containers []struct {
					Resources struct{ Limits, Requests map[string]string }
				}
			}
		}
		if err := json.Unmarshal([]byte(out), &pod); err != nil {
			t.Fatal(err)
		}
		if r := pod.Spec.Containers[0].Resources; !maps.Equal(r.Limits, tc.want) || !maps.Equal(r.Requests, tc.want) {
			t.Errorf("%s with %q: %+v", tc.networks, tc.keys, r)
		}
	}
}

func TestResourceKeys(t *testing.T) {
	for _, tc := range []struct {
		keys, want []string
		err        string
	}{
		{[]string{netannotation.ResourceName}, []string{netannotation.ResourceName}, ""},
		{[]string{" a.b/c ", "plain", "a.b/c"}, []string{"a.b/c", "plain"}, ""},
		{nil, nil, "there are 0 keys of annotations; want between 1 and 16"},
		{[]string{""}, nil, `"": invalid: it is no key of an annotation`},
		{[]string{"a/b/c"}, nil, "it is no key of an annotation"},
		{strings.Split("a,b,c,d,e,f,g,h,i,j,k,l,m,n,o,p,q", ","), nil, "there are 17 keys"},
	} {
		got, err := ParseResourceKeys(tc.keys)
		if !slices.Equal(got, tc.want) || (err == nil) != (tc.err == "") || err != nil && !strings.Contains(err.Error(), tc.err) {
			t.Errorf("%q: %q, %v", tc.keys, got, err)
		}
	}
}

// A pod of the network of case kubernetes/12 gets the node selector net-type=sriov, its resource and
// /etc/podnetinfo.
func TestPodsOfCase12(t *testing.T) {
	text, err := os.ReadFile("testdata/12-injector.yaml")
	if err != nil {
		t.Fatal(err)
	}
	network := &unstructured.Unstructured{}
	if err := yaml.Unmarshal(text, &network.Object); err != nil {
		t.Fatal(err)
	}
	network.SetNamespace("default")
	c := newCluster(network)
	out, _ := handleTwice(t, &pods{client: c, live: c}, podAsking("v", `{"containers":[{"name":"c"}]}`))
	const need = `"resources":{"limits":{"intel.com/fast":"1"},"requests":{"intel.com/fast":"1"}}`
	want := podAsking("v", `{"nodeSelector":{"net-type":"sriov"},"containers":[{"name":"c",`+need+`,"volumeMounts":[`+infoMount+`]}],"volumes":[`+infoVolume()+`]}`)
	if diff := cmp.Diff(decoded(t, want), decoded(t, out)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// A pod gets what the networks of every pod need, unless it is of a system namespace or of the host's
// network.
func TestPodsOfEveryPodsNetworks(t *testing.T) {
	c := newCluster(annotated("kube-system", "fast", map[string]string{netannotation.ResourceName: "intel.com/x", netannotation.NodeSelector: "rail=1"}))
	for name, tc := range map[string]struct {
		except, spec string
		patched      bool
	}{
		"any pod":                   {"kube-system", `{"containers":[{"name":"c"}]}`, true},
		"a pod of a system":         {"default", `{"containers":[{"name":"c"}]}`, false},
		"a pod of the host network": {"kube-system", `{"hostNetwork":true,"containers":[{"name":"c"}]}`, false},
	} {
		everyPod, err := netannotation.ParseEveryPod([]string{"fast"}, []string{tc.except})
		if err != nil {
			t.Fatal(err)
		}
		raw := `{"metadata":{"name":"p"},"spec":` + tc.spec + `}`
		out, warnings := handleTwice(t, &pods{client: c, live: c, everyPod: everyPod, isolation: netannotation.Isolation{On: true}}, raw)
		if got := strings.Contains(out, `"intel.com/x":"1"`) && strings.Contains(out, `"nodeSelector":{"rail":"1"}`); got != tc.patched || !tc.patched && out != raw || len(warnings) > 0 {
			t.Errorf("%s: %s %q", name, out, warnings)
		}
	}
}
