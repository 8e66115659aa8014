package netconf

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/culvert-net/culvert/internal/vf"
)

// Plugin is the configuration of one plugin.
type Plugin struct {
	Type string
	// PodNetworks makes one of Culvert's types the meta plugin.
	PodNetworks  bool
	Capabilities map[string]bool
	// Raw is the configuration as its author wrote it, a JSON object. The ledger
	// keeps only this.
	Raw json.RawMessage
}

// ParsePlugin reads the configuration of one plugin. Its keys count as they are
// written: TYPE is not type. The error wraps vf.ErrInvalid.
func ParsePlugin(raw []byte) (Plugin, error) {
	var keys map[string]json.RawMessage
	if err := json.Unmarshal(raw, &keys); err != nil {
		return Plugin{}, fmt.Errorf("%w: %w", vf.ErrInvalid, err)
	}
	p := Plugin{Raw: slices.Clone(raw)}
	for key, to := range map[string]any{"type": &p.Type, "podNetworks": &p.PodNetworks, "capabilities": &p.Capabilities} {
		if keys[key] == nil {
			continue
		}
		if err := json.Unmarshal(keys[key], to); err != nil {
			return Plugin{}, fmt.Errorf("%s: %w: %w", key, vf.ErrInvalid, err)
		}
	}
	return p, nil
}

// MarshalJSON returns Raw.
func (p Plugin) MarshalJSON() ([]byte, error) { return p.Raw.MarshalJSON() }

// UnmarshalJSON calls ParsePlugin.
func (p *Plugin) UnmarshalJSON(raw []byte) (err error) {
	*p, err = ParsePlugin(raw)
	return err
}

// IPAMTypes returns the programs that the plugin may execute for addresses: ipam.type. The keys count
// in any case, as encoding/json reads them, so there may be several.
func (p Plugin) IPAMTypes() (out []string) {
	for _, section := range p.IPAMSections() {
		for _, raw := range valuesOf(section, "type") {
			var name string
			if json.Unmarshal(raw, &name) == nil && name != "" {
				out = append(out, name)
			}
		}
	}
	return out
}

// IPAMSections returns the sections ipam of the plugin: one for each case in which the key is
// written.
func (p Plugin) IPAMSections() []json.RawMessage { return valuesOf(p.Raw, "ipam") }

// valuesOf returns the values of a key of an object, by the key's spellings; none of another text.
func valuesOf(object json.RawMessage, key string) (out []json.RawMessage) {
	var keys map[string]json.RawMessage
	_ = json.Unmarshal(object, &keys) // of any other text, keys stays empty
	for _, k := range slices.Sorted(maps.Keys(keys)) {
		if strings.EqualFold(k, key) {
			out = append(out, keys[k])
		}
	}
	return out
}

// IsOwn reports whether Culvert runs the plugin in process.
func (p Plugin) IsOwn() bool { return IsOwnType(p.Type) }

// IsMeta reports whether the plugin is a meta plugin, Culvert's or Multus, which is
// never part of a pod's network.
func (p Plugin) IsMeta() bool { return p.IsOwn() && p.PodNetworks || IsMultus(p.Type) }

// Takes reports whether the plugin receives a value of runtimeConfig that a pod asks for: it does
// if the network's author declares that capability. Culvert's own types receive the kubelet's
// device without it, and refuse bandwidth and infinibandGUID.
func (p Plugin) Takes(capability string) bool {
	return p.Capabilities[capability] || p.IsOwn() && slices.Contains([]string{"deviceID", "bandwidth", "infinibandGUID"}, capability)
}

// DescribeIgnored says that a pod asks a network for a value of runtimeConfig which none of
// its plugins takes, and which capability it lacks.
func DescribeIgnored(network, capability string) string {
	return fmt.Sprintf("network %s: %s is asked for, and none of its plugins has that capability: add \"capabilities\": {%q: true} to the one that does it",
		network, capability, capability)
}

// With returns the plugin with keys set in its text. It is not for the keys that
// ParsePlugin reads.
func (p Plugin) With(keys map[string]json.RawMessage) (Plugin, error) {
	var err error
	p.Raw, err = SetKeys(p.Raw, keys)
	return p, err
}

// WithArgs returns the plugin with values added to its args.cni.
func (p Plugin) WithArgs(args map[string]json.RawMessage) (Plugin, error) {
	var have struct {
		Args map[string]json.RawMessage `json:"args"`
	}
	var cni map[string]json.RawMessage
	err := json.Unmarshal(p.Raw, &have)
	if raw := have.Args["cni"]; err == nil && raw != nil {
		err = json.Unmarshal(raw, &cni)
	}
	if err != nil {
		return p, fmt.Errorf("args: %w: %w", vf.ErrInvalid, err)
	}
	if have.Args == nil {
		have.Args = map[string]json.RawMessage{}
	}
	if cni == nil {
		cni = map[string]json.RawMessage{}
	}
	maps.Copy(cni, args)
	if have.Args["cni"], err = json.Marshal(cni); err != nil {
		return p, fmt.Errorf("cni-args: %w: %w", vf.ErrInvalid, err)
	}
	merged, err := json.Marshal(have.Args)
	if err != nil {
		return p, fmt.Errorf("cni-args: %w: %w", vf.ErrInvalid, err)
	}
	return p.With(map[string]json.RawMessage{"args": merged})
}

// SetKeys returns a JSON object with keys set, in the order of their names. A nil value
// removes its key.
func SetKeys(object []byte, keys map[string]json.RawMessage) (json.RawMessage, error) {
	return editKeys(object, "", keys)
}

// ReplaceKeys is SetKeys for an object whose own value of a key must not count. It removes each key
// that differs from that key at most in its case: programs that use encoding/json read it as that
// key.
func ReplaceKeys(object []byte, key string, keys map[string]json.RawMessage) (json.RawMessage, error) {
	return editKeys(object, key, keys)
}

func editKeys(object []byte, remove string, keys map[string]json.RawMessage) (json.RawMessage, error) {
	var all map[string]json.RawMessage
	if err := json.Unmarshal(object, &all); err != nil {
		return nil, fmt.Errorf("%w: %w", vf.ErrInvalid, err)
	}
	if all == nil {
		all = map[string]json.RawMessage{}
	}
	maps.DeleteFunc(all, func(key string, _ json.RawMessage) bool { return remove != "" && strings.EqualFold(key, remove) })
	maps.Copy(all, keys)
	maps.DeleteFunc(all, func(_ string, v json.RawMessage) bool { return v == nil })
	return json.Marshal(all)
}

// String returns a text as JSON.
func String(s string) json.RawMessage {
	raw, _ := json.Marshal(s) // a string always can
	return raw
}
