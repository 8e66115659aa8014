package failure

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/node/intake/pod"
	"github.com/culvert-net/culvert/internal/node/journal"
)

// sandboxID is the pod whose networks Culvert sets up itself: the default network,
// a network of another plugin, and a network with a VF.
const sandboxID = "p"

// plugins stands for the CNI plugins of other projects, which the shim runs. The
// networks that they make outlive culvertd.
type plugins struct {
	mu  sync.Mutex      // guards has
	has map[string]bool // type, container, interface
}

func (p *plugins) run(r api.PluginRequest) api.PluginResponse {
	p.mu.Lock()
	defer p.mu.Unlock()
	key := strings.Join([]string{r.Type, r.Call.ContainerID, r.Call.IfName}, " ")
	switch r.Call.Command {
	case "ADD":
		if p.has[key] {
			return api.PluginResponse{Exit: 1, Stdout: []byte(`{"code":999,"msg":"it is there already"}`)}
		}
		p.has[key] = true
		return api.PluginResponse{Stdout: fmt.Appendf(nil, `{"cniVersion":"1.0.0","interfaces":[{"name":%q,"sandbox":%q}],"ips":[{"address":"10.244.1.2/24"}]}`, r.Call.IfName, r.Call.Netns)}
	case "DEL":
		delete(p.has, key)
	}
	return api.PluginResponse{}
}

func (p *plugins) left() (out []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for key := range p.has {
		out = append(out, key)
	}
	slices.Sort(out)
	return out
}

// ask is the shim, as one life of culvertd sees it. culvertd may be killed before
// and after a plugin runs.
func (w *world) ask(_ context.Context, _ string, params, result any) error {
	raw, err := json.Marshal(params)
	must(w, err)
	var r api.PluginRequest
	must(w, json.Unmarshal(raw, &r))
	if err := w.gate.pass("before plugin %s %s", r.Type, r.Call.Command); err != nil {
		return err
	}
	raw, err = json.Marshal(w.plugins.run(r))
	must(w, err)
	must(w, json.Unmarshal(raw, result))
	return w.gate.pass("after plugin %s %s", r.Type, r.Call.Command)
}

// cluster is one in which pod d/p asks for two networks.
type cluster struct{}

func (cluster) Pod(_ context.Context, namespace, name, _ string) (api.Pod, error) {
	return api.Pod{Namespace: namespace, Name: name, UID: "u", Annotations: map[string]string{"k8s.v1.cni.cncf.io/networks": "vf,lan"}}, nil
}

func (cluster) Network(_ context.Context, namespace, name string) (api.NetworkDefinition, error) {
	n := api.NetworkDefinition{Namespace: namespace, Name: name, Config: `{"cniVersion":"1.0.0","type":"macvlan"}`}
	if name == "vf" {
		n.Config = `{"cniVersion":"1.0.0","name":"over-net","type":"sriov","pool":"net","mtu":1400,"ipam":{"type":"host-local","scope":"node","ranges":[[{"subnet":"10.1.0.0/24"}]]}}`
	}
	return n, nil
}

func (cluster) Annotate(api.Pod, map[string]string) {}

func (cluster) PodEvent(api.Pod, string, string, string) {}

func (cluster) SetClaimDevices(api.ResourceClaim, []api.ClaimDevice) {}

func (w *world) newMeta() *pod.Handler {
	dir := filepath.Dir(w.path)
	conf := filepath.Join(dir, "net.d")
	must(w, os.MkdirAll(conf, 0o755))
	must(w, os.WriteFile(filepath.Join(conf, "10-lan.conf"), []byte(`{"cniVersion":"1.0.0","name":"cbr0","type":"flannel"}`), 0o644))
	return pod.New(pod.Config{
		Networks: w.cni, Ledger: w.node.Ledger, Resets: w.node.Resets, Kernel: mortalKernel{w.fault, w.gate, w.reads, w.mayRemake, w.k.CutAddBond}, Hardware: w.node.Inventory,
		Cluster: cluster{}, Devices: func(context.Context, string, string, string) ([]string, error) { return nil, nil },
		ConfDir: conf, DeviceInfo: filepath.Join(dir, "devinfo"),
	})
}

// pod is a call for the sandbox.
func (w *world) pod(command string) error {
	w.t.Helper()
	req := api.CNIRequest{
		Command: command, ContainerID: sandboxID, IfName: "eth0", Netns: netnsOf(sandboxID), Args: "IgnoreUnknown=1;K8S_POD_NAMESPACE=d;K8S_POD_NAME=p;K8S_POD_UID=u",
		Config: []byte(`{"cniVersion":"1.0.0","name":"culvert","type":"culvert","podNetworks":true,"cni.dev/valid-attachments":[]}`),
	}
	params, err := json.Marshal(req)
	must(w, err)
	answer, err := w.metaPlugin().Serve(context.Background(), params, w.ask)
	w.node.VFs.Wait()
	if w.gate.pass("the answer to %s of a pod", command) != nil {
		return errAnswerLost
	}
	must(w, err)
	if resp := answer.(api.CNIResponse); resp.Exit != 0 {
		return fmt.Errorf("%s", resp.Stdout)
	}
	return nil
}

func (w *world) metaPlugin() *pod.Handler {
	if w.meta == nil {
		w.meta = w.newMeta()
	}
	return w.meta
}

// sandboxed checks I8: if other plugins have made networks, the ledger has the
// sandbox by which culvertd deletes them. It also checks I6: a sandbox that is
// added has all of its networks.
func (w *world) sandboxed() {
	w.t.Helper()
	var all []journal.Sandbox
	must(w, w.ledger.View(func(tx *journal.Tx) error {
		for _, id := range tx.SandboxIDs() {
			one, err := tx.Sandbox(id)
			if err != nil {
				return err
			}
			all = append(all, one)
		}
		return nil
	}))
	for _, p := range journal.VerifySandboxes(all) {
		w.t.Errorf("ledger: %s", p)
	}
	left := w.plugins.left()
	want := []string{"flannel p eth0", "macvlan p net2"}
	switch {
	case len(all) == 0 && len(left) > 0:
		w.t.Errorf("I8: plugins have %v, and the ledger has no sandbox", left)
	case len(all) == 1 && all[0].Phase == journal.SandboxAdded && !slices.Equal(left, want):
		w.t.Errorf("I6: the sandbox is there, and its plugins have %v, not %v", left, want)
	}
}

// gone detaches the pod's networks, and checks that nothing is left of them.
func (w *world) gone() {
	w.t.Helper()
	if err := w.pod("DEL"); err != nil {
		w.t.Errorf("DEL of the pod: %v", err)
	}
	if left := w.plugins.left(); len(left) > 0 {
		w.t.Errorf("I8: after DEL plugins have %v", left)
	}
	must(w, w.ledger.View(func(tx *journal.Tx) error {
		all := tx.SandboxIDs()
		if len(all) > 0 {
			w.t.Errorf("I8: after DEL the ledger has %d sandboxes", len(all))
		}
		return nil
	}))
	if files, _ := filepath.Glob(filepath.Join(filepath.Dir(w.path), "devinfo", "cni", "*")); len(files) > 0 {
		w.t.Errorf("after DEL there are %v", files)
	}
}
