package daemon

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"

	"github.com/culvert-net/culvert/api"
	"github.com/culvert-net/culvert/api/v1alpha1"
	"github.com/culvert-net/culvert/desired"
	"github.com/culvert-net/culvert/excerpt"
)

// wishes are all that say what is wanted of the node: host.yaml, and in a cluster
// the policies that select the node and the device plugin's ConfigMap. What
// cannot be read changes nothing: what it said before is followed on.
type wishes struct {
	node *Node

	mu       sync.Mutex // guards the rest
	heard    bool       // the policies are known
	host     desired.Spec
	policies []*v1alpha1.NodePolicy
	readable map[string]desired.Policy // each as it could be read last, by name
	unread   map[string]error          // those that cannot be read as they are now
	plugin   devicePluginConfig
	merged   desired.Merged
}

// devicePluginConfig is the SR-IOV network device plugin's ConfigMap.
type devicePluginConfig struct {
	there bool
	pools []desired.Pool // as they could be read last
	wrong error          // why they are not those of the ConfigMap as it is now
}

// Where the device plugin's configuration is in a cluster, for messages, and the
// key of the ConfigMap that has it.
const (
	devicePluginMap  = "ConfigMap kube-system/sriovdp-config"
	devicePluginFile = "config.json"
)

func (w *wishes) setHost(s desired.Spec) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.host = s
}

func (w *wishes) setPolicies(policies []*v1alpha1.NodePolicy) {
	w.mu.Lock()
	defer w.mu.Unlock()
	before := w.readable
	w.heard, w.policies, w.readable, w.unread = true, policies, map[string]desired.Policy{}, map[string]error{}
	for _, p := range policies {
		content, err := p.Spec.HostYAML()
		var spec desired.Spec
		if err == nil {
			spec, err = desired.ParsePolicy(p.Name, content)
		}
		if err == nil {
			w.readable[p.Name] = desired.Policy{Name: p.Name, Priority: p.Spec.Priority, Spec: spec}
			continue
		}
		w.unread[p.Name] = err
		if old, ok := before[p.Name]; ok {
			w.readable[p.Name] = old
		}
	}
}

// setDevicePlugin takes note of what the ConfigMap has; nil: there is none.
func (w *wishes) setDevicePlugin(data map[string]string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if data == nil {
		w.plugin = devicePluginConfig{}
		return
	}
	w.plugin.there = true
	content, ok := data[devicePluginFile]
	if !ok {
		w.plugin.wrong = fmt.Errorf("it has no key %s", devicePluginFile)
		return
	}
	pools, err := desired.ParseDevicePlugin("sriovdp-config/"+devicePluginFile, []byte(content))
	if w.plugin.wrong = err; err == nil {
		w.plugin.pools = pools
	}
}

// merge makes all that is wished what is wanted of the node, and reports whether
// that is something else than before.
func (w *wishes) merge() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	before := w.node.Spec()
	w.merged = w.with(w.host)
	if reflect.DeepEqual(before, w.merged.Spec) {
		return false
	}
	w.node.SetSpec(w.merged.Spec)
	return true
}

// ifHost is what would be wanted of the node if host.yaml said something else.
func (w *wishes) ifHost(s desired.Spec) desired.Spec {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.with(s).Spec
}

func (w *wishes) with(host desired.Spec) desired.Merged {
	in := desired.Sources{Host: host, Policies: slices.Collect(maps.Values(w.readable)), DevicePlugin: w.plugin.pools}
	return desired.Merge(in, w.node.Spec(), w.node.Inventory.PFs())
}

// problems are what is wrong with what the cluster wishes.
func (w *wishes) problems() []api.Problem {
	w.mu.Lock()
	defer w.mu.Unlock()
	const next = "correct it; until then what it said before is followed"
	var out []api.Problem
	for _, name := range slices.Sorted(maps.Keys(w.unread)) {
		out = append(out, api.Problem{Object: "NodePolicy " + name, Reason: excerpt.Error(w.unread[name]), Next: next})
	}
	for _, c := range w.merged.Conflicts {
		out = append(out, api.Problem{Object: "NodePolicies " + strings.Join(c.Policies, ", "), Reason: c.String(), Next: "what is there stays"})
	}
	if w.plugin.wrong != nil {
		out = append(out, api.Problem{Object: devicePluginMap, Reason: excerpt.Error(w.plugin.wrong), Next: next})
	}
	return out
}
