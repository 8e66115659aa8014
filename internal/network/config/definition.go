package config

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"strings"

	"github.com/containernetworking/cni/libcni"

	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/network/netconf"
	"github.com/culvert-net/culvert/internal/network/strictjson"
	"github.com/culvert-net/culvert/internal/vf"
)

// ParseDefinition reads spec.config of a network attachment definition: the configuration of
// one plugin, or a list. It is the zero List where the configuration is a file on the nodes. A
// network without a name gets the definition's, as Multus does it. A definition whose
// configuration was dropped is an error with its size. An error wraps vf.ErrInvalid and comes
// with the plugins that could be read.
func ParseDefinition(n api.NetworkDefinition) (netconf.List, error) {
	if err := netconf.CheckSize(n.Dropped); err != nil {
		return netconf.List{}, err
	}
	if strings.TrimSpace(n.Config) == "" {
		return netconf.List{}, nil
	}
	l, err := parseDefinition([]byte(n.Config), n.Name)
	if err == nil {
		err = requireOnePlugin([]byte(n.Config))
	}
	if err != nil {
		return l, fmt.Errorf("spec.config: %w", err)
	}
	return l, nil
}

func parseDefinition(raw []byte, name string) (netconf.List, error) {
	var top map[string]json.RawMessage
	if err := json.Unmarshal(raw, &top); err != nil {
		return netconf.List{}, fmt.Errorf("%w: not a JSON object: %w", vf.ErrInvalid, err)
	}
	if top == nil {
		return netconf.List{}, fmt.Errorf("%w: not a JSON object: null", vf.ErrInvalid)
	}
	if s := string(top["name"]); s == "" || s == `""` {
		top["name"] = netconf.String(name)
	}
	plugins, isList := top["plugins"]
	p, err := netconf.ParsePlugin(raw)
	if err != nil && !isList {
		return netconf.List{}, err
	}
	if raw, err = json.Marshal(top); err != nil {
		return netconf.List{}, fmt.Errorf("%w: %w", vf.ErrInvalid, err)
	}
	if isList {
		return parseList(raw, plugins)
	}
	return parseSingle(raw, p)
}

// decidingKey matches the keys that say which plugins a network has.
var decidingKey = regexp.MustCompile(`(?i)^(type|plugins|plugins\[[0-9]+\]\.type)$`)

// requireOnePlugin refuses a configuration that has the type of a plugin twice, or the list of
// plugins: a runtime executes one of them, and the author wants both.
func requireOnePlugin(raw []byte) error {
	for _, key := range strictjson.FindRepeated(raw) {
		if decidingKey.MatchString(key) {
			return fmt.Errorf("%w: %s is given twice: two plugins are two objects of plugins, with a comma between them", vf.ErrInvalid, key)
		}
	}
	return nil
}

// parseSingle reads the configuration of a single plugin as a list of one plugin.
func parseSingle(raw []byte, p netconf.Plugin) (netconf.List, error) {
	l := netconf.List{Plugins: []netconf.Plugin{p}}
	var head struct {
		Name         string `json:"name"`
		CNIVersion   string `json:"cniVersion"`
		DisableCheck flag   `json:"disableCheck"`
		DisableGC    flag   `json:"disableGC"`
	}
	if err := json.Unmarshal(raw, &head); err != nil {
		return l, fmt.Errorf("%w: %w", vf.ErrInvalid, err)
	}
	l.Name, l.Version, l.DisableCheck, l.DisableGC = head.Name, head.CNIVersion, bool(head.DisableCheck), bool(head.DisableGC)
	return l.Checked()
}

// flag is a boolean that libcni also takes as a text, in any case.
type flag bool

// UnmarshalJSON reads true, "true" and "True".
func (f *flag) UnmarshalJSON(raw []byte) error {
	if json.Unmarshal(bytes.ToLower(bytes.Trim(raw, `"`)), (*bool)(f)) != nil {
		return fmt.Errorf("disableCheck, disableGC: %.20s: want true or false", raw)
	}
	return nil
}

// parseList reads a list. Other plugins get their configurations as libcni writes them, which is
// what runtimes and Multus hand over. Culvert's own plugins keep their text, in which duplicate
// keys are still visible.
func parseList(raw []byte, plugins json.RawMessage) (netconf.List, error) {
	var (
		partial netconf.List
		texts   []json.RawMessage
	)
	_ = json.Unmarshal(plugins, &texts) // libcni reports the error
	for _, text := range texts[:min(len(texts), netconf.MaxPlugins)] {
		if p, err := netconf.ParsePlugin(text); err == nil {
			partial.Plugins = append(partial.Plugins, p)
		}
	}
	if len(texts) > netconf.MaxPlugins {
		return partial, fmt.Errorf("plugins: %w: there are %d; want at most %d", vf.ErrInvalid, len(texts), netconf.MaxPlugins)
	}
	read, err := libcni.NetworkConfFromBytes(raw)
	if err != nil {
		return partial, fmt.Errorf("%w: %w", vf.ErrInvalid, err)
	}
	l, err := listOf(read)
	for i := range l.Plugins {
		if len(texts) == len(l.Plugins) && l.Plugins[i].IsOwn() {
			l.Plugins[i].Raw = texts[i]
		}
	}
	return l, err
}

// ReadFile reads a file of the runtime's folder of network configurations.
func ReadFile(path string) (netconf.List, error) {
	if strings.HasSuffix(path, ".conflist") {
		read, err := libcni.NetworkConfFromFile(path)
		if err != nil {
			return netconf.List{}, err
		}
		return listOf(read)
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		return netconf.List{}, err
	}
	p, err := netconf.ParsePlugin(raw)
	if err != nil {
		return netconf.List{}, err
	}
	return parseSingle(raw, p)
}

// listOf converts what libcni read.
func listOf(read *libcni.NetworkConfigList) (netconf.List, error) {
	l := netconf.List{Name: read.Name, Version: read.CNIVersion, DisableCheck: read.DisableCheck, DisableGC: read.DisableGC}
	for _, plugin := range read.Plugins {
		p, err := netconf.ParsePlugin(plugin.Bytes)
		if err != nil {
			return l, err
		}
		l.Plugins = append(l.Plugins, p)
	}
	return l.Checked()
}
