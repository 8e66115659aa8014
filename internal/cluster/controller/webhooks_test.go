package controller

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/culvert-net/culvert/api/v1alpha1"
	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/network/config"
	"github.com/culvert-net/culvert/internal/network/netconf"
	"github.com/culvert-net/culvert/internal/node/desired"
)

func definitionOf(namespace, name, resource string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(networkKind)
	u.SetNamespace(namespace)
	u.SetName(name)
	if resource != "" {
		u.SetAnnotations(map[string]string{"k8s.v1.cni.cncf.io/resourceName": resource})
	}
	return u
}

func request(raw string) admission.Request {
	return admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{Namespace: "default", Object: runtime.RawExtension{Raw: []byte(raw)}}}
}

func podAsking(annotation, spec string) string {
	a, _ := json.Marshal(annotation)
	return fmt.Sprintf(`{"metadata":{"name":"p","annotations":{"k8s.v1.cni.cncf.io/networks":%s}},"spec":%s}`, a, spec)
}

// A pod gets the resources of its networks, and keeps what it has.
func TestPodsGetTheirResources(t *testing.T) {
	pair := definitionOf("default", "pair", "intel.com/x")
	pair.Object["spec"] = map[string]any{"config": `{"cniVersion":"1.1.0","type":"culvert","bond":{}}`}
	c := newCluster(pair, definitionOf("default", "a", "intel.com/x"), definitionOf("other", "b", "intel.com/y"), definitionOf("default", "plain", ""), definitionOf("default", "odd", "no name"))
	for _, tc := range []struct {
		name, networks, spec string
		want                 string // the spec afterwards, without podInfoVolume; empty: as before
		warnings             int
	}{
		{"none of its own", "a", `{"containers":[{"name":"c","resources":{}},{"name":"d"}]}`,
			`{"containers":[{"name":"c","resources":{"limits":{"intel.com/x":"1"},"requests":{"intel.com/x":"1"}}},{"name":"d"}]}`, 0},
		{"no key at all", "a", `{"containers":[{"name":"c"}]}`,
			`{"containers":[{"name":"c","resources":{"limits":{"intel.com/x":"1"},"requests":{"intel.com/x":"1"}}}]}`, 0},
		{"several of one resource, and another", "a,a,other/b@net7", `{"containers":[{"name":"c","resources":{"limits":{"cpu":"1"}}}]}`,
			`{"containers":[{"name":"c","resources":{"limits":{"cpu":"1","intel.com/x":"2","intel.com/y":"1"},"requests":{"intel.com/x":"2","intel.com/y":"1"}}}]}`, 0},
		{"a bond, and a network of the same resource", "pair,a", `{"containers":[{"name":"c","resources":{}}]}`,
			`{"containers":[{"name":"c","resources":{"limits":{"intel.com/x":"3"},"requests":{"intel.com/x":"3"}}}]}`, 0},
		{"a bond with as many as it needs", "pair", `{"containers":[{"name":"c","resources":{"limits":{"intel.com/x":"2"},"requests":{"intel.com/x":"2"}}}]}`, "", 0},
		{"R0 as it stands", "a", `{"containers":[{"name":"c","resources":{"limits":{"intel.com/x":"1"},"requests":{"intel.com/x":"1"}}}]}`, "", 0},
		{"in another container", "a", `{"containers":[{"name":"c","resources":{}},{"name":"d","resources":{"limits":{"intel.com/x":"1"},"requests":{"intel.com/x":"1"}}}]}`, "", 0},
		{"in an init container", "a", `{"containers":[{"name":"c","resources":{}}],"initContainers":[{"name":"i","resources":{"limits":{"intel.com/x":"1"},"requests":{"intel.com/x":"1"}}}]}`, "", 0},
		{"in a sidecar", "a", `{"containers":[{"name":"c","resources":{}}],"initContainers":[{"name":"i","restartPolicy":"Always","resources":{"limits":{"intel.com/x":"1"},"requests":{"intel.com/x":"1"}}}]}`, "", 0},
		{"in a sidecar and a container", "a,a", `{"containers":[{"name":"c","resources":{"limits":{"intel.com/x":"1"},"requests":{"intel.com/x":"1"}}}],"initContainers":[{"name":"i","restartPolicy":"Always","resources":{"limits":{"intel.com/x":"1"},"requests":{"intel.com/x":"1"}}}]}`, "", 0},
		{"too few in an init container", "a,a", `{"containers":[{"name":"c","resources":{}}],"initContainers":[{"name":"i","resources":{"limits":{"intel.com/x":"1"},"requests":{"intel.com/x":"1"}}}]}`,
			`{"containers":[{"name":"c","resources":{"limits":{"intel.com/x":"2"},"requests":{"intel.com/x":"2"}}}],"initContainers":[{"name":"i","resources":{"limits":{"intel.com/x":"1"},"requests":{"intel.com/x":"1"}}}]}`, 0},
		{"too few, one of them in a sidecar", "a,a,a", `{"containers":[{"name":"c","resources":{"limits":{"intel.com/x":"1"},"requests":{"intel.com/x":"1"}}}],"initContainers":[{"name":"i","restartPolicy":"Always","resources":{"limits":{"intel.com/x":"1"},"requests":{"intel.com/x":"1"}}}]}`,
			`{"containers":[{"name":"c","resources":{"limits":{"intel.com/x":"2"},"requests":{"intel.com/x":"2"}}}],"initContainers":[{"name":"i","restartPolicy":"Always","resources":{"limits":{"intel.com/x":"1"},"requests":{"intel.com/x":"1"}}}]}`, 0},
		{"too few", "a,a,a", `{"containers":[{"name":"c","resources":{"limits":{"intel.com/x":"1"},"requests":{"intel.com/x":"1"}}},{"name":"d","resources":{"limits":{"intel.com/x":"1"},"requests":{"intel.com/x":"1"}}}]}`,
			`{"containers":[{"name":"c","resources":{"limits":{"intel.com/x":"2"},"requests":{"intel.com/x":"2"}}},{"name":"d","resources":{"limits":{"intel.com/x":"1"},"requests":{"intel.com/x":"1"}}}]}`, 0},
		{"more than enough", "a", `{"containers":[{"name":"c","resources":{"limits":{"intel.com/x":"3"},"requests":{"intel.com/x":"3"}}}]}`, "", 0},
		{"networks without a resource, with a wrong one, and none", "plain,odd,missing", `{"containers":[{"name":"c","resources":{}}]}`, "", 2},
		{"an annotation that cannot be read", "a@b@c", `{"containers":[{"name":"c","resources":{}}]}`, "", 1},
		{"a key that nobody knows", `[{"name":"plain","ipRequest":"1.2.3.4"}]`, `{"containers":[{"name":"c","resources":{}}]}`, "", 1},
		{"JSON", `[{"name":"b","namespace":"other"}]`, `{"containers":[{"name":"c","resources":{}}]}`,
			`{"containers":[{"name":"c","resources":{"limits":{"intel.com/y":"1"},"requests":{"intel.com/y":"1"}}}]}`, 0},
	} {
		raw := podAsking(tc.networks, tc.spec)
		got := (&pods{client: c, live: c, log: slog.New(slog.DiscardHandler)}).Handle(t.Context(), request(raw))
		if !got.Allowed || len(got.Warnings) != tc.warnings {
			t.Errorf("%s: %+v", tc.name, got)
		}
		if tc.want == "" {
			tc.want = tc.spec
		}
		if diff := cmp.Diff(decoded(t, podAsking(tc.networks, tc.want)), withoutPodInfo(decoded(t, patched(t, raw, got)))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tc.name, diff)
		}
	}
}

// silent is an API server that does not answer.
type silent struct{ client.Reader }

func (silent) Get(context.Context, client.ObjectKey, client.Object, ...client.GetOption) error {
	return errors.New("no answer")
}

// filling is a cache that is not filled in time.
type filling struct{ client.Reader }

func (filling) Get(ctx context.Context, _ client.ObjectKey, _ client.Object, _ ...client.GetOption) error {
	<-ctx.Done()
	return ctx.Err()
}

// punctual is an API server that answers while the caller waits.
type punctual struct{ client.Reader }

func (p punctual) Get(ctx context.Context, key client.ObjectKey, into client.Object, o ...client.GetOption) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return p.Reader.Get(ctx, key, into, o...)
}

// The first pod after the controller's start gets its resources, although the cache of networks is
// still being filled.
func TestPodsBeforeTheCacheIsFilled(t *testing.T) {
	c := newCluster(definitionOf("default", "a", "intel.com/x"))
	raw := podAsking("a", `{"containers":[{"name":"c","resources":{}}]}`)
	got := (&pods{client: filling{c}, live: punctual{c}, log: slog.New(slog.DiscardHandler)}).Handle(t.Context(), request(raw))
	if len(got.Patches) == 0 || len(got.Warnings) > 0 {
		t.Errorf("%+v", got)
	}
}

// Each call of a webhook has a connection of its own.
func TestWebhooksEndTheConnection(t *testing.T) {
	hook := oneCallEach{&admission.Webhook{Handler: admission.HandlerFunc(func(context.Context, admission.Request) admission.Response { return admission.Allowed("") })}}
	server := httptest.NewServer(hook)
	defer server.Close()
	review := `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"u"}}`
	for range 2 {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL, strings.NewReader(review))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/json")
		answer, err := server.Client().Do(r)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(answer.Body)
		if closed := answer.Body.Close(); err != nil || closed != nil || !answer.Close || !strings.Contains(string(body), `"allowed":true`) {
			t.Errorf("%v, %v, close %t: %s", err, closed, answer.Close, body)
		}
	}
}

// While the API server does not answer, a pod gets one device for each network of the cache, which
// is enough for all but bonds, and a warning.
func TestPodsWithoutTheAPIServer(t *testing.T) {
	c := newCluster(definitionOf("default", "a", "intel.com/x"))
	raw := podAsking("a", `{"containers":[{"name":"c","resources":{}}]}`)
	got := (&pods{client: c, live: silent{c}, log: slog.New(slog.DiscardHandler)}).Handle(t.Context(), request(raw))
	want := podAsking("a", `{"containers":[{"name":"c","resources":{"limits":{"intel.com/x":"1"},"requests":{"intel.com/x":"1"}}}]}`)
	if diff := cmp.Diff(decoded(t, want), withoutPodInfo(decoded(t, patched(t, raw, got)))); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if len(got.Warnings) != 1 || !strings.Contains(got.Warnings[0], "read how many VFs it needs: no answer; the pod requests 1 of resource intel.com/x for it") {
		t.Errorf("warnings %q", got.Warnings)
	}
}

func patched(t *testing.T, raw string, r admission.Response) string {
	t.Helper()
	text, err := json.Marshal(r.Patches)
	if err != nil {
		t.Fatal(err)
	}
	p, err := jsonpatch.DecodePatch(text)
	if err != nil {
		t.Fatal(err)
	}
	out, err := p.Apply([]byte(raw))
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return string(out)
}

func decoded(t *testing.T, text string) (v any) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatal(err)
	}
	return v
}

func igbState() *v1alpha1.NodeState {
	return &v1alpha1.NodeState{ObjectMeta: metav1.ObjectMeta{Name: "worker01"}, Status: v1alpha1.NodeStateStatus{
		PFs:   []v1alpha1.PFState{{Name: "enp1s0", Driver: "igb", Vendor: "8086", Device: "10c9", MTU: 1500, MaxMTU: 9216, SpeedMbps: 1000, TotalVFs: 7, Unable: []string{"link_state"}}},
		Pools: []v1alpha1.PoolState{{Name: "intel.com/x", PFs: []string{"enp1s0"}}},
	}}
}

func TestNetworksAreRefusedByField(t *testing.T) {
	c := newCluster(igbState())
	for config, want := range map[string]string{
		`{"type":"sriov","cniVersion":"0.3.1","name":"n","ipam":{"type":"host-local","subnet":"172.16.91.0/24"}}`: "",
		`{"type":"bridge","vlan":5000,"cniVersion":"0.3.1","name":"n"}`:                                           "",
		``:                                      "",
		`not JSON`:                              "",
		`{"type":"sriov","cniVersion":"0.3.1"}`: "", // the object's name is the network's
		`{"type":"culvert","cniVersion":"0.3.1","name":"n","max-tx-rate":5}`:                                    "spec.config: max-tx-rate: did you mean max_tx_rate?",
		`{"type":"culvert","cniVersion":"0.3.1","name":"n","vlan":5000}`:                                        "spec.config: vlan 5000: want a number between 0 and 4094",
		`{"type":"culvert","cniVersion":"0.3.1","name":"n","mtu":9000}`:                                         "spec.config: mtu 9000: invalid: PF enp1s0 has MTU 1500: raise its mtu in its NodePolicy or ask for at most 1500 (node worker01)",
		`{"type":"sriov","cniVersion":"0.3.1","name":"n","max_tx_rate":2000}`:                                   "spec.config: max_tx_rate 2000: not supported by the driver",
		`{"type":"sriov","cniVersion":"0.3.1","name":"n","min_tx_rate":10}`:                                     "spec.config: min_tx_rate 10: not supported by the driver",
		`{"type":"sriov","cniVersion":"0.3.1","name":"n","link_state":"enable"}`:                                "spec.config: link_state: not supported by the driver: PF enp1s0 (driver igb) has no such setting",
		`{"cniVersion":"0.3.1","name":"n","plugins":[{"type":"tuning"},{"type":"sriov","vlan":5000}]}`:          "spec.config: plugins[1]: vlan 5000: want a number",
		`{"cniVersion":"0.3.1","name":"n","plugins":[{"type":"sriov","vlan":5},{"type":"tuning","sysctl":{}}]}`: "",
		`{"type":"culvert","cniVersion":"0.3.1","name":"n","vlan":5,"vlan":6}`:                                  "spec.config: vlan 5: given twice",
		`{"type":"sriov","name":"n"}`: "", // of the newest version, as on the node
		`{"cniVersion":"0.3.1","name":"n","plugins":[{"type":"tuning"},{"type":"culvert","vlan":5,"vlan":6}]}`:                 "spec.config: plugins[1]: vlan 5: given twice",
		`{"cniVersion":"0.3.1","name":"n","plugins":[{"type":"sriov"},{"type":"a/b"}]}`:                                        "spec.config: network n: type \"a/b\": invalid: want the name of a CNI plugin",
		`{"cniVersion":"0.3.1","name":"n","plugins":[{"type":"bridge"},{"type":"a/b"}]}`:                                       "",
		`{"type":"culvert","cniVersion":"1.0.0","podNetworks":true}`:                                                           "spec.config: network net1: invalid: it is a meta plugin's configuration",
		`{"type":"sriov","cniVersion":"1.0.0","args":{"x":"` + strings.Repeat("x", netconf.MaxText) + `"}}`:                    "spec.config: the network configuration: invalid: it has",
		`{"type":"sriov","cniVersion":"9.9.9","name":"n"}`:                                                                     "spec.config: cniVersion \"9.9.9\": not served",
		`{"type":"sriov","cniVersion":"0.3.1","name":"n","ipam":{"type":"host-local","subnet":"172.16.91.0/24","rangeEnd":7}}`: "spec.config: ipam.rangeEnd 7: want a string",
	} {
		raw, _ := json.Marshal(map[string]any{
			"metadata": map[string]any{"name": "net1", "namespace": "default", "annotations": map[string]any{"k8s.v1.cni.cncf.io/resourceName": "intel.com/x"}},
			"spec":     map[string]any{"config": config},
		})
		got := (&networks{client: c}).Handle(t.Context(), request(string(raw)))
		message := ""
		if got.Result != nil {
			message = got.Result.Message
		}
		if got.Allowed != (want == "") || !strings.HasPrefix(message, want) || len(got.Warnings) > 0 {
			t.Errorf("%.200s: %t %q %q\nwant %q", config, got.Allowed, message, got.Warnings, want)
		}
	}
	for config, want := range map[string]string{
		`{"type":"sriov","name":"n","max-tx-rate":5}`:                                      "spec.config: max-tx-rate 5: unknown key, ignored: did you mean max_tx_rate?",
		`{"name":"n","plugins":[{"type":"tuning"},{"type":"sriov","spoofChk":"off"}]}`:     "spec.config: plugins[1]: spoofChk off: read as spoofchk: write it so",
		`{"type":"sriov","name":"n","pool":"intel.com/x","mtu":9000}`:                      "mtu 9000 is above that of PF enp1s0, so pods get 1500 (node worker01)",
		`{"type":"sriov","name":"n","ipam":{"subnet":"172.16.91.0/24"}}`:                   `spec.config: ipam.type: missing; without it the section gives no addresses: want host-local, culvert or static`,
		`{"type":"bridge","name":"n","ipam":{"type":"whereabouts","range":"10.0.0.7/32"}}`: "spec.config: whereabouts gives pods no address: ipam.range: \"10.0.0.7/32\" is too small to hand out from: want /30 or shorter",
	} {
		raw, _ := json.Marshal(map[string]any{"metadata": map[string]any{"name": "net1"}, "spec": map[string]any{"config": config}})
		if got := (&networks{client: c}).Handle(t.Context(), request(string(raw))); !got.Allowed || !slices.Equal(got.Warnings, []string{want}) {
			t.Errorf("%s: %+v; want the warning %q", config, got, want)
		}
	}
	raw := `{"metadata":{"name":"n"},"spec":{"config":"{\"type\":\"bridge\",\"x\":\"` + strings.Repeat("x", netconf.MaxText) + `\"}"}}`
	if got := (&networks{client: c}).Handle(t.Context(), request(raw)); !got.Allowed || len(got.Warnings) != 1 || !strings.Contains(got.Warnings[0], "want at most 65536") {
		t.Errorf("a network of another plugin that is too large: %+v", got)
	}
	raw = `{"metadata":{"name":"n","annotations":{"k8s.v1.cni.cncf.io/resourceName":"intel.com/z"}},"spec":{"config":"{\"type\":\"sriov\",\"cniVersion\":\"0.3.1\"}"}}`
	if got := (&networks{client: c}).Handle(t.Context(), request(raw)); !got.Allowed || len(got.Warnings) != 1 || !strings.Contains(got.Warnings[0], "no node has a VF of resource intel.com/z") {
		t.Errorf("%+v", got)
	}
}

// P12: a network whose guard no node can set is refused at its admission. The reason has the key, its
// value and what works.
func TestWrongGuardsAreRefusedByField(t *testing.T) {
	c := newCluster(igbState())
	const ranges = `"ipam":{"type":"host-local","subnet":"172.16.91.0/24"}`
	for keys, want := range map[string]string{
		`"guard":"ip",` + ranges:               "",
		`"guard":"arp",` + ranges:              "",
		`"guard":"mac",` + ranges:              `spec.config: guard: "mac": want arp or ip`,
		`"guard":true,` + ranges:               "spec.config: guard true: want a string",
		`"guard":"ip"`:                         "spec.config: guard ip: needs an ipam section, whose addresses it pins",
		`"guard":"arp","ipam":{"type":"dhcp"}`: "spec.config: guard arp: does not work with ipam of type dhcp, whose client sends from addresses that it does not have yet; use ranges",
		`"guard":"ip","bond":{"mode":"802.3ad","force":true},` + ranges: "spec.config: guard ip: drops the LACP frames of a bond in mode 802.3ad: add \"guardAllow\": [\"lacp\"], or use mode active-backup",
		`"gaurd":"ip",` + ranges: "spec.config: gaurd: did you mean guard?",
	} {
		config := `{"type":"culvert","cniVersion":"1.0.0","name":"n",` + keys + `}`
		raw, _ := json.Marshal(map[string]any{"metadata": map[string]any{"name": "net1", "namespace": "default"}, "spec": map[string]any{"config": config}})
		got := (&networks{client: c}).Handle(t.Context(), request(string(raw)))
		message := ""
		if got.Result != nil {
			message = got.Result.Message
		}
		if got.Allowed != (want == "") || !strings.HasPrefix(message, want) || len(got.Warnings) > 0 {
			t.Errorf("%s: %t %q %q\nwant %q", config, got.Allowed, message, got.Warnings, want)
		}
	}
}

// A guard at a resource whose VFs programs drive by themselves is refused if all its pools are such,
// and is a warning if some are.
func TestGuardOfPassedVFs(t *testing.T) {
	const network = `{"metadata":{"name":"n","annotations":{"k8s.v1.cni.cncf.io/resourceName":"intel.com/x"}},
		"spec":{"config":"{\"type\":\"sriov\",\"name\":\"n\",\"guard\":\"ip\",\"ipam\":{\"type\":\"host-local\",\"subnet\":\"10.0.0.0/24\"}}"}}`
	const no = "guard ip: the programs that get VFs of pool intel.com/x (vfio-pci) send past the kernel: take guard out and set spoofchk"
	passed, plain := policyWithAllow("passed", nil), policyWithAllow("plain", nil)
	passed.Spec.Pools[0].DeviceType = desired.VFIO
	got := (&networks{client: newCluster(passed)}).Handle(t.Context(), request(network))
	if got.Allowed || !strings.HasPrefix(got.Result.Message, "spec.config: "+no) {
		t.Errorf("%t %q", got.Allowed, got.Result.Message)
	}
	got = (&networks{client: newCluster(passed, plain)}).Handle(t.Context(), request(network))
	if !got.Allowed || len(got.Warnings) != 1 || !strings.HasPrefix(got.Warnings[0], no) {
		t.Errorf("with another pool: %+v", got)
	}
	if got = (&networks{client: newCluster(plain)}).Handle(t.Context(), request(network)); !got.Allowed || len(got.Warnings) > 0 {
		t.Errorf("network interfaces: %+v", got)
	}
}

// A network whose bond a node cannot make is accepted with a warning that names the node, since
// nodes come and go.
func TestBondThatNodesCannotMake(t *testing.T) {
	two := igbState()
	two.Name = "worker02"
	two.Status.PFs[0].ID, two.Status.PFs[0].PCI = "02:00:00:00:00:01", "0000:01:00.0"
	two.Status.PFs = append(two.Status.PFs, v1alpha1.PFState{Name: "enp1s0f1", ID: "02:00:00:00:00:02", PCI: "0000:01:00.1", Driver: "igb", MTU: 1500})
	two.Status.Pools[0].PFs = []string{"enp1s0", "enp1s0f1"}
	none := igbState()
	none.Name, none.Status.Pools = "worker03", nil
	c := newCluster(igbState(), two, none)
	for bond, want := range map[string][]string{
		`{}`:                      {`bond.links 2: node worker01 has VFs of resource intel.com/x on enp1s0, and a bond with antiAffinity pf can have 1 of them: the network's pods cannot start there: add PFs to the pool, or choose another antiAffinity`},
		`{"antiAffinity":"none"}`: nil,
		`{"antiAffinity":"nic"}`: {
			`bond.links 2: node worker01 has VFs of resource intel.com/x on enp1s0, and a bond with antiAffinity nic can have 1 of them`,
			`bond.links 2: node worker02 has VFs of resource intel.com/x on enp1s0, enp1s0f1, and a bond with antiAffinity nic can have 1 of them`,
		},
		`{"antiAffinity":"none","primary":"enp1s0f1"}`: {`bond.primary enp1s0f1: node worker01 has VFs of resource intel.com/x on enp1s0: the network's pods cannot start there`},
	} {
		raw, _ := json.Marshal(map[string]any{
			"metadata": map[string]any{"name": "n", "namespace": "default", "annotations": map[string]any{"k8s.v1.cni.cncf.io/resourceName": "intel.com/x"}},
			"spec":     map[string]any{"config": `{"type":"culvert","cniVersion":"1.1.0","bond":` + bond + `}`},
		})
		got := (&networks{client: c}).Handle(t.Context(), request(string(raw)))
		if !got.Allowed || !slices.EqualFunc(got.Warnings, want, strings.HasPrefix) {
			t.Errorf("%s: allowed %t, warnings %q\nwant %q", bond, got.Allowed, got.Warnings, want)
		}
	}
}

func TestPoliciesAreRefusedByField(t *testing.T) {
	c := newCluster(igbState(), newNode("worker01", map[string]string{"nic": "igb"}))
	for spec, want := range map[string]string{
		`{"pfs":[{"driver":"igb","vfs":"max"}],"pools":[{"name":"x"}]}`:                                      "true [] ",
		`{"pfs":[{"driver":"igb","vfs":8}]}`:                                                                 "true [node worker01: PF enp1s0: 8 VFs wanted (NodePolicy p, pfs[0]), it can have 7: write vfs: 7 or vfs: max: invalid] ",
		`{"pfs":[{"driver":"ice","vfs":8}]}`:                                                                 "true [pfs: no PF of the selected nodes matches (driver ice)] ",
		`{"pfs":[{"driver":"igb","vfs":2}],"pools":[{"name":"x","selectors":[{"pfNames":["enp1s0#3-4"]}]}]}`: "true [pools[0]: pool culvert.dev/x selects no VF of the selected nodes: correct its selectors] ",
		`{"nodeSelector":{"nic":"ice"}}`:                                                                     "true [nodeSelector: no node has these labels] ",
		`{"pools":[{"name":"a-b"},{"name":"a_b"}]}`:                                                          "false [] NodePolicy p: pools[1]: pool culvert.dev/a_b is culvert.dev/a-b as pools[0] to a container (PCIDEVICE_CULVERT_DEV_A_B): give it another name",
		`{"pools":[{"name":"a","frob":1}]}`:                                                                  `false [] spec: it has the field "frob", which this version of Culvert does not know: the CustomResourceDefinitions are newer than the controller: upgrade Culvert first`,
		`{"pools":[{"name":"a","selectors":[{"pfNames":["x#9-2"]}]}]}`:                                       `false [] NodePolicy p: pools[0].selectors[0].pfNames[0] "x#9-2": a range counts up: write 2-9`,
	} {
		got := (&nodePolicies{client: c}).Handle(t.Context(), request(`{"metadata":{"name":"p"},"spec":`+spec+`}`))
		message := ""
		if got.Result != nil {
			message = got.Result.Message
		}
		if s := fmt.Sprintf("%t %v %s", got.Allowed, got.Warnings, message); s != want {
			t.Errorf("%s:\n got %s\nwant %s", spec, s, want)
		}
	}
}

// A NodePolicy may set every key.
func TestPolicyWithEveryKey(t *testing.T) {
	mtu, yes := int32(9000), true
	p := &v1alpha1.NodePolicy{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Spec: v1alpha1.NodePolicySpec{
		Priority: 7, NodeSelector: map[string]string{"a": "b"},
		PFs: []v1alpha1.PFRule{{Name: "a*", MAC: "90:e2:ba:00:00:01", PCIAddress: "0000:01:00.0", Vendor: "8086", Device: "10c9", Driver: "igb",
			VFs: intstr.FromString("max"), MTU: &mtu, Autoprobe: &yes, NeedCarrier: &yes}, {Driver: "ice", VFs: intstr.FromInt32(7)}},
		Pools: []v1alpha1.Pool{{Name: "x", Prefix: "intel.com", DeviceType: "netdevice", Drift: "report", ExcludeTopology: &yes,
			AdditionalInfo: map[string]map[string]string{"*": {"token": "1"}}, Selectors: []v1alpha1.Selector{{
				Vendors: []string{"8086"}, Devices: []string{"10ca"}, Drivers: []string{"igbvf"}, PCIAddresses: []string{"0000:01:10.0"},
				ACPIIndexes: []string{"101"}, PFNames: []string{"a#0-1"}, RootDevices: []string{"0000:01:00.0"}, LinkTypes: []string{"ether"}, IsRDMA: &yes, NeedVhostNet: &yes}}}},
	}}
	if _, err := desired.FromPolicy(p.Name, p.Spec); err != nil {
		t.Error(err)
	}
}

// FuzzNetworks: config.Judge, which the webhook calls, answers any text, and refuses a network if and
// only if culvertd's parser refuses it.
func FuzzNetworks(f *testing.F) {
	f.Add(`{"type":"sriov","cniVersion":"0.3.1","vlan":5}`)
	f.Add(`{"cniVersion":"1.0.0","name":"n","plugins":[{"type":"sriov"},{"type":7},null]}`)
	f.Add(`{"type":"culvert"`)
	f.Add(` {} `)
	f.Fuzz(func(t *testing.T, text string) {
		j := config.Judge(api.NetworkDefinition{Name: "net1", Config: text})
		err := j.Err
		if err == nil && len(j.Own) > 0 {
			return
		}
		var keys map[string]json.RawMessage
		if json.Unmarshal([]byte(text), &keys) != nil || keys["plugins"] != nil || len(text) > netconf.MaxText {
			return
		}
		if keys["name"] == nil || string(keys["name"]) == `""` || keys["cniVersion"] == nil {
			return // the network gets them
		}
		p, _ := netconf.ParsePlugin([]byte(text))
		if _, direct := config.Parse([]byte(text)); p.IsOwn() && (direct == nil) != (err == nil) {
			t.Errorf("%q: %v, and culvertd says %v", text, err, direct)
		}
	})
}
