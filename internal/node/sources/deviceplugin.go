package sources

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/culvert-net/culvert/api/v1alpha1"
	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/excerpt"
	"github.com/culvert-net/culvert/internal/node/desired"
	"github.com/culvert-net/culvert/internal/reasons"
)

// DefaultDevicePlugin is the ConfigMap of the SR-IOV network device plugin's own manifests.
const DefaultDevicePlugin = "kube-system/sriovdp-config"

// devicePluginKey is the key of the ConfigMap that has the configuration of all nodes. A key that
// is a node's name takes precedence: the SR-IOV network operator writes one for each node.
const devicePluginKey = "config.json"

// DevicePluginSource is the ConfigMap of an SR-IOV network device plugin.
type DevicePluginSource struct {
	ConfigMap string // namespace/name; empty: DefaultDevicePlugin
	Prefix    string // of resources that name none, as the plugin's flag -resource-prefix; empty: desired.DevicePluginPrefix
	Node      string // the node's name, under which the ConfigMap may have a key
}

// objectName returns the name of the ConfigMap in messages.
func (d DevicePluginSource) objectName() string {
	return "ConfigMap " + cmp.Or(d.ConfigMap, DefaultDevicePlugin)
}

// findConfig returns the configuration of this node and its key. A ConfigMap that has only keys
// of other nodes has no configuration for this one.
func (d DevicePluginSource) findConfig(data map[string]string) (key, content string, err error) {
	for _, key := range []string{d.Node, devicePluginKey} {
		if content, ok := data[key]; ok && key != "" {
			return key, content, nil
		}
	}
	if len(data) == 0 {
		return "", "", fmt.Errorf("it has no key %s", devicePluginKey)
	}
	return "", "", nil
}

// devicePlugin is the content of the SR-IOV network device plugin's ConfigMap.
type devicePlugin struct {
	exists bool
	read   desired.DevicePlugin // as it was last readable
	err    error                // why the ConfigMap cannot be read as it is now
}

// SetDevicePlugin replaces the content of the device plugin's ConfigMap; nil: there is
// none.
func (s *Set) SetDevicePlugin(data map[string]string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if data == nil {
		s.plugin = devicePlugin{}
		return
	}
	s.plugin.exists = true
	key, content, err := s.DevicePlugin.findConfig(data)
	var read desired.DevicePlugin
	if err == nil && key != "" {
		_, name, _ := strings.Cut(cmp.Or(s.DevicePlugin.ConfigMap, DefaultDevicePlugin), "/")
		read, err = desired.ParseDevicePlugin(name+"/"+key, []byte(content), s.DevicePlugin.Prefix)
	}
	if s.plugin.err = err; err == nil {
		s.plugin.read = read
	}
}

// devicePluginProblems returns the problems of the ConfigMap as a whole. Resources that are not
// served are problems of their pools.
func (s *Set) devicePluginProblems() (out []api.Problem) {
	if s.plugin.err != nil {
		out = append(out, api.Problem{Object: s.DevicePlugin.objectName(), Reason: excerpt.Error(s.plugin.err), Next: "correct it; until then its last readable content is followed"})
	} else if remarks := joinErrors(slices.Concat(s.plugin.read.Refused, s.plugin.read.Warnings)); remarks != "" {
		out = append(out, api.Problem{Object: s.DevicePlugin.objectName(), Reason: remarks, Next: "correct it; everything else in it is followed"})
	}
	for _, p := range s.merged.Spec.Pools {
		if p.Unserved != "" {
			out = append(out, api.Problem{Object: "pool " + p.FullName(), Reason: "it is not served: " + p.Unserved,
				Next: "correct it, or serve it by other means; every other pool is served"})
		}
	}
	return out
}

func joinErrors(all []desired.Error) string {
	texts := make([]string, len(all))
	for i, e := range all {
		texts[i] = e.Error()
	}
	return strings.Join(texts, "; ")
}

// devicePluginCondition says which resources of the ConfigMap the node serves.
func (s *Set) devicePluginCondition() metav1.Condition {
	c := metav1.Condition{Type: v1alpha1.ConditionDevicePluginConfig, Status: metav1.ConditionTrue, Reason: reasons.Read}
	served, message := 0, []string{""}
	for _, p := range s.plugin.read.Pools {
		if p.Unserved == "" {
			served++
			continue
		}
		c.Status, c.Reason = metav1.ConditionFalse, reasons.NotAllServed
		message = append(message, p.FullName()+" is not served: "+p.Unserved)
	}
	message[0] = fmt.Sprintf("resources: %d", served)
	if refused := joinErrors(s.plugin.read.Refused); refused != "" {
		c.Status, c.Reason = metav1.ConditionFalse, reasons.NotAllServed
		message = append(message, refused)
	}
	if warnings := joinErrors(s.plugin.read.Warnings); warnings != "" {
		message = append(message, warnings)
	}
	if err := s.plugin.err; err != nil {
		c.Status, c.Reason, message = metav1.ConditionFalse, reasons.Invalid, []string{s.DevicePlugin.objectName() + ": " + excerpt.Error(err)}
	}
	c.Message = BoundMessage(strings.Join(message, "; "))
	return c
}
