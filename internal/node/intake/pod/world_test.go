package pod_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/kernel/fake"
	"github.com/culvert-net/culvert/internal/network/config"
	"github.com/culvert-net/culvert/internal/network/netannotation"
	"github.com/culvert-net/culvert/internal/node"
	"github.com/culvert-net/culvert/internal/node/desired"
	"github.com/culvert-net/culvert/internal/node/intake/cni"
	"github.com/culvert-net/culvert/internal/node/intake/pod"
	"github.com/culvert-net/culvert/internal/node/journal"
	"github.com/culvert-net/culvert/internal/vf"
)

// host stands for the host of the shim, and runs fake plugins of other projects. A plugin remembers
// what it has added, by its type, container and interface, until its DEL.
type host struct {
	mu    sync.Mutex // guards the rest
	has   map[string]bool
	calls []string
	seen  map[string]api.CNIRequest // the last call, by command and type
	fail  func(command, kind string) error
}

func newHost() *host { return &host{has: map[string]bool{}, seen: map[string]api.CNIRequest{}} }

// ask is the shim's answer to culvertd's questions.
func (h *host) ask(_ context.Context, method string, params, result any) error {
	raw, err := json.Marshal(params)
	if err != nil {
		return err
	}
	var r api.PluginRequest
	if err := json.Unmarshal(raw, &r); err != nil || method != api.MethodPlugin {
		return fmt.Errorf("%s: %w", method, errors.Join(err, vf.ErrInvalid))
	}
	out, err := h.run(r)
	if err != nil {
		return err
	}
	if raw, err = json.Marshal(out); err != nil {
		return err
	}
	return json.Unmarshal(raw, result)
}

func (h *host) run(r api.PluginRequest) (api.PluginResponse, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	key := strings.Join([]string{r.Type, r.Call.ContainerID, r.Call.IfName}, " ")
	h.calls = append(h.calls, r.Call.Command+" "+key)
	h.seen[r.Call.Command+" "+r.Type] = r.Call
	if h.fail != nil {
		if err := h.fail(r.Call.Command, r.Type); err != nil {
			return api.PluginResponse{Exit: 1, Stdout: fmt.Appendf(nil, `{"cniVersion":"1.0.0","code":999,"msg":%q}`, err)}, nil
		}
	}
	var config struct {
		CNIVersion string          `json:"cniVersion"`
		PrevResult json.RawMessage `json:"prevResult"`
	}
	if err := json.Unmarshal(r.Call.Config, &config); err != nil {
		return api.PluginResponse{}, err
	}
	switch r.Call.Command {
	case "ADD":
		if h.has[key] {
			return api.PluginResponse{Exit: 1, Stdout: []byte(`{"code":999,"msg":"it is there already"}`)}, nil
		}
		h.has[key] = true
		if slices.Contains([]string{"tuning", "portmap", "rdma", "bandwidth"}, r.Type) {
			return api.PluginResponse{Stdout: config.PrevResult}, nil
		}
		if r.Type == "wordy" {
			return api.PluginResponse{Stdout: fmt.Appendf(nil, `{"cniVersion":"1.0.0","x":%q}`, strings.Repeat("x", 65536))}, nil
		}
		if r.Type == "calico" { // its answer has no route
			return api.PluginResponse{Stdout: fmt.Appendf(nil, `{"cniVersion":%q,"interfaces":[{"name":"cali0"}],"ips":[{"version":"4","address":"10.244.1.2/32"}]}`, config.CNIVersion)}, nil
		}
		return api.PluginResponse{Stdout: fmt.Appendf(nil, `{"cniVersion":%q,"interfaces":[{"name":"cni0"},{"name":%q,"mac":"02:00:00:00:00:01","sandbox":%q}],
			"ips":[{"version":"4","address":"10.244.1.2/24","gateway":"10.244.1.1","interface":1}],"routes":[{"dst":"0.0.0.0/0","gw":"10.244.1.1"}],"dns":{"nameservers":["10.96.0.10"]}}`,
			config.CNIVersion, r.Call.IfName, r.Call.Netns)}, nil
	case "DEL":
		delete(h.has, key)
	}
	return api.PluginResponse{}, nil
}

func (h *host) left() (out []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for key := range h.has {
		out = append(out, key)
	}
	slices.Sort(out)
	return out
}

func (h *host) called() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.calls)
}

// config is the configuration that a plugin was last called with.
func (h *host) config(t *testing.T, command, kind string) map[string]any {
	t.Helper()
	h.mu.Lock()
	defer h.mu.Unlock()
	out := map[string]any{}
	if err := json.Unmarshal(h.seen[command+" "+kind].Config, &out); err != nil {
		t.Fatalf("%s %s: %v", command, kind, err)
	}
	return out
}

// cluster is the API server's side.
type cluster struct {
	mu       sync.Mutex // guards the rest
	pods     map[string]api.Pod
	networks map[string]api.NetworkDefinition
	status   map[string]string // by pod
	// confirmed has the pods' annotations netannotation.Confirmed.
	confirmed map[string]string
	events    []string
	claims    map[string][]api.ClaimDevice // status.devices, by claim
	reads     int                          // of networks
	versions  int                          // of networks
	writes    int                          // annotations and events
	// away: culvertd started without an API server, so it knows no object. silent: the API server does
	// not answer any more, and culvertd knows the objects that it has seen.
	away, silent bool
}

// unknown returns the error of kube.Client for an object that it does not know.
func (c *cluster) unknown(what string) error {
	if c.away || c.silent {
		return vf.ObjectError{Object: what, Err: fmt.Errorf("%w: it has not arrived here, and the API server did not tell: connection refused", vf.ErrNotReady)}
	}
	return vf.ObjectError{Object: what, Err: fmt.Errorf("%w in the cluster", vf.ErrNotFound)}
}

func (c *cluster) Pod(_ context.Context, namespace, name, uid string) (api.Pod, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	p, ok := c.pods[namespace+"/"+name]
	if !ok || uid != "" && uid != p.UID || c.away {
		return api.Pod{}, c.unknown("pod " + namespace + "/" + name)
	}
	return p, nil
}

func (c *cluster) Network(_ context.Context, namespace, name string) (api.NetworkDefinition, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.reads++
	n, ok := c.networks[namespace+"/"+name]
	if !ok || c.away {
		return api.NetworkDefinition{}, c.unknown("NetworkAttachmentDefinition " + namespace + "/" + name)
	}
	return n, nil
}

func (c *cluster) Annotate(p api.Pod, values map[string]string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.status[p.String()] = netannotation.Status + " " + values[netannotation.Status]
	c.confirmed[p.String()] = values[netannotation.Confirmed]
	c.writes++
}

func (c *cluster) PodEvent(p api.Pod, kind, reason, text string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.events = append(c.events, fmt.Sprintf("%s %s %s %s", p, kind, reason, text))
	c.writes++
}

func (c *cluster) SetClaimDevices(claim api.ResourceClaim, devices []api.ClaimDevice) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.claims == nil {
		c.claims = map[string][]api.ClaimDevice{}
	}
	c.claims[claim.String()+" "+claim.UID] = devices
}

// world is a node with a runtime, a kubelet and a cluster.
type world struct {
	*testing.T
	k       *fake.Kernel
	ledger  *journal.Ledger
	node    *node.Node
	host    *host
	cluster *cluster
	given   map[string][]vf.PCIAddr // by namespace/pod/resource
	others  map[string][]string     // as given: devices of other device plugins
	pods    *pod.Handler
	single  *cni.Handler
	dir     string
	confDir string
	whole   string
}

const flannel = `{"name":"cbr0","cniVersion":"0.3.1","plugins":[{"type":"flannel","delegate":{"isDefaultGateway":true}},{"type":"portmap","capabilities":{"portMappings":true}}]}`

const hostFile = "pfs:\n- name: \"*\"\n  vfs: 4\npools:\n- name: fast\n  prefix: intel.com\n  selectors: {pfNames: [\"*\"]}\n"

func newWorld(t *testing.T) *world { return newWorldOf(t, hostFile) }

// newWorldOf is newWorld on a node with another host.yaml.
func newWorldOf(t *testing.T, host string) *world { t.Helper(); return newWorldOn(t, host, 1) }

// newWorldOn is newWorldOf on a node with a number of PFs.
func newWorldOn(t *testing.T, host string, pfs int) *world {
	t.Helper()
	w := &world{T: t, k: fake.New(fake.IGB, pfs), host: newHost(), given: map[string][]vf.PCIAddr{}, others: map[string][]string{}, dir: t.TempDir(),
		cluster: &cluster{pods: map[string]api.Pod{}, networks: map[string]api.NetworkDefinition{}, status: map[string]string{}, confirmed: map[string]string{}}}
	w.confDir = filepath.Join(w.dir, "net.d")
	w.file("10-flannel.conflist", flannel)
	w.k.AddNetns("/run/netns/c1")
	l, err := journal.Open(filepath.Join(w.dir, "l.db"), journal.Options{NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	spec, err := desired.Parse("host.yaml", []byte(host))
	if err != nil {
		t.Fatal(err)
	}
	node := node.New(node.Config{Kernel: w.k, Ledger: l, BootID: "b"})
	node.SetSpec(spec)
	if err := errors.Join(node.Start(t.Context()), node.Reconciler.Pass(t.Context())); err != nil {
		t.Fatal(err)
	}
	w.ledger, w.node, w.whole = l, node, w.k.String()
	t.Cleanup(node.VFs.Wait)
	single, definitions := cni.New(cni.Parts{Engine: node.Engine, Resets: node.Resets, VFs: node.VFs}), &config.Definitions{}
	single.Cluster, single.Definitions, w.single = w.cluster, definitions, single
	w.pods = pod.New(pod.Config{
		Networks: single, Ledger: l, Resets: node.Resets, Kernel: w.k, Hardware: node.Inventory, Cluster: w.cluster, Definitions: definitions, Devices: w.devices,
		NodeName: "n", ConfDir: w.confDir, DeviceInfo: filepath.Join(w.dir, "devinfo"),
	})
	return w
}

func (w *world) devices(_ context.Context, namespace, name, resource string) ([]string, error) {
	key := namespace + "/" + name + "/" + resource
	ids := slices.Clone(w.others[key])
	for _, a := range w.given[key] {
		ids = append(ids, a.String())
	}
	return ids, nil
}

func (w *world) file(name, content string) {
	w.Helper()
	if err := os.MkdirAll(w.confDir, 0o755); err != nil {
		w.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(w.confDir, name), []byte(content), 0o644); err != nil {
		w.Fatal(err)
	}
}

// pod makes pod d/a with annotations.
func (w *world) pod(annotations map[string]string) {
	w.cluster.pods["d/a"] = api.Pod{Namespace: "d", Name: "a", UID: "u1", Annotations: annotations}
}

func (w *world) asks(networks string) {
	w.pod(map[string]string{"k8s.v1.cni.cncf.io/networks": networks})
}

func (w *world) network(name, config string, annotations ...string) {
	n := api.NetworkDefinition{Namespace: "d", Name: name, Config: config, Annotations: map[string]string{}}
	if ns, bare, ok := strings.Cut(name, "/"); ok {
		n.Namespace, n.Name = ns, bare
	}
	if len(annotations) > 0 {
		n.Annotations["k8s.v1.cni.cncf.io/resourceName"] = annotations[0]
	}
	w.cluster.versions++
	n.UID, n.Version = "uid of "+n.Name, fmt.Sprint(w.cluster.versions)
	w.cluster.networks[n.Namespace+"/"+n.Name] = n
}

const sriov = `{"type":"sriov","cniVersion":"0.3.1","name":"sriov-network","ipam":{"type":"host-local","scope":"node","subnet":"172.16.91.0/24","routes":[{"dst":"0.0.0.0/0"}],"gateway":"172.16.91.1"}}`

const formatConflist = `{"cniVersion":"1.0.0","name":"culvert","type":"culvert","podNetworks":true%s}`

// call makes one call of the runtime, for container c1 of pod d/a.
func (w *world) call(command, more string) api.CNIResponse {
	w.Helper()
	return w.callAs(context.Background(), api.CNIRequest{
		Command: command, ContainerID: "c1", IfName: "eth0", Netns: "/run/netns/c1", Path: "/opt/cni/bin",
		Args: "IgnoreUnknown=1;K8S_POD_NAMESPACE=d;K8S_POD_NAME=a;K8S_POD_INFRA_CONTAINER_ID=c1;K8S_POD_UID=u1", Config: fmt.Appendf(nil, formatConflist, more),
	})
}

func (w *world) callAs(ctx context.Context, r api.CNIRequest) api.CNIResponse {
	w.Helper()
	params, err := json.Marshal(r)
	if err != nil {
		w.Fatal(err)
	}
	v, err := w.pods.Serve(ctx, params, w.host.ask)
	if err != nil {
		w.Fatal(err)
	}
	return v.(api.CNIResponse)
}

// add carries out an ADD that has to succeed, and returns the result.
func (w *world) add() map[string]any {
	w.Helper()
	resp := w.call("ADD", "")
	out := map[string]any{}
	if err := json.Unmarshal(resp.Stdout, &out); err != nil || resp.Exit != 0 {
		w.Fatalf("ADD: exit %d, %s", resp.Exit, resp.Stdout)
	}
	return out
}

// refused carries out an ADD that has to fail and leave nothing, and returns the message.
func (w *world) refused() string {
	w.Helper()
	resp := w.call("ADD", "")
	var e api.CNIError
	if err := json.Unmarshal(resp.Stdout, &e); err != nil || resp.Exit == 0 {
		w.Fatalf("ADD: exit %d, %s", resp.Exit, resp.Stdout)
	}
	w.clean()
	return e.Msg
}

func (w *world) del() {
	w.Helper()
	if resp := w.call("DEL", ""); resp.Exit != 0 {
		w.Fatalf("DEL: %s", resp.Stdout)
	}
}

// clean checks that no plugin, sandbox, address or file is left, and that the machine is as before.
func (w *world) clean() {
	w.Helper()
	w.node.VFs.Wait()
	if left := w.host.left(); len(left) > 0 {
		w.Errorf("plugins still have %v", left)
	}
	if got := w.k.String(); got != w.whole {
		w.Errorf("the machine is\n%s, it was\n%s", got, w.whole)
	}
	if c := w.content(); len(c.Sandboxes) > 0 || len(c.Addresses) > 0 {
		w.Errorf("the ledger has %d sandboxes and %d addresses", len(c.Sandboxes), len(c.Addresses))
	}
	if files, _ := filepath.Glob(filepath.Join(w.dir, "devinfo", "cni", "*")); len(files) > 0 {
		w.Errorf("device-info files are left: %v", files)
	}
}

func (w *world) content() (c journal.Content) {
	w.Helper()
	err := w.ledger.View(func(tx *journal.Tx) error { c = tx.Content(); return nil })
	if err != nil {
		w.Fatal(err)
	}
	if p := c.Problems(); len(p) > 0 {
		w.Errorf("ledger: %v", p)
	}
	return c
}

// cutShort leaves the sandbox in the ledger as a culvertd does that dies in the middle of
// its ADD.
func (w *world) cutShort() {
	w.Helper()
	err := w.ledger.Update(func(tx *journal.Tx) error {
		sb, err := tx.Sandbox("c1")
		sb.Phase = journal.SandboxAdding
		return errors.Join(err, tx.PutSandbox(sb))
	})
	if err != nil {
		w.Fatal(err)
	}
}

// status is the network-status of pod d/a.
func (w *world) status() (out []map[string]any) {
	w.Helper()
	text, _ := strings.CutPrefix(w.cluster.status["d/a"], "k8s.v1.cni.cncf.io/network-status ")
	if err := json.Unmarshal([]byte(text), &out); err != nil {
		w.Fatalf("network-status %q: %v", text, err)
	}
	return out
}

// vfs returns the PCI addresses of the node's VFs.
func (w *world) vfs() (out []vf.PCIAddr) {
	w.Helper()
	for _, r := range w.content().Records {
		out = append(out, r.PCI)
	}
	return out
}
