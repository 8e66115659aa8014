package pod

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/containernetworking/cni/libcni"

	"github.com/culvert-net/culvert/api"
	"github.com/culvert-net/culvert/intake/cni"
	"github.com/culvert-net/culvert/vf"
)

// definition is a network's configuration: a list of plugins.
type definition struct {
	Name         string
	Version      string
	DisableCheck bool
	DisableGC    bool
	Plugins      []json.RawMessage
}

// plugin is what is looked at of a plugin's configuration.
type plugin struct {
	Type         string          `json:"type"`
	PodNetworks  bool            `json:"podNetworks"`
	Capabilities map[string]bool `json:"capabilities"`
}

// own reports whether it is one of Culvert's types, which run in process.
func (p plugin) own() bool {
	return p.Type == "culvert" || p.Type == "sriov" || p.Type == "culvert-cni"
}

// meta reports whether it is a meta plugin, this one or Multus, which is never part
// of a pod's network.
func (p plugin) meta() bool {
	return p.own() && p.PodNetworks || slices.Contains([]string{"multus", "multus-shim", "multus-cni"}, p.Type)
}

func pluginOf(raw json.RawMessage) (p plugin, err error) {
	if err = json.Unmarshal(raw, &p); err != nil {
		return p, fmt.Errorf("%w: %w", vf.ErrInvalid, err)
	}
	return p, nil
}

var errMeta = errors.New("it is a meta plugin's configuration")

// parse reads the configuration of a network attachment definition: that of one
// plugin, or a list. Where it has no name it gets the definition's, as Multus does;
// where one of Culvert's types has no version it gets the newest.
func parse(raw []byte, name string) (definition, error) {
	var top map[string]json.RawMessage
	if err := json.Unmarshal(raw, &top); err != nil {
		return definition{}, fmt.Errorf("spec.config: %w: not a JSON object: %w", vf.ErrInvalid, err)
	}
	if top == nil {
		return definition{}, fmt.Errorf("spec.config: %w: not a JSON object: null", vf.ErrInvalid)
	}
	if string(top["name"]) == "" || string(top["name"]) == `""` {
		top["name"] = text(name)
	}
	_, isList := top["plugins"]
	if one, err := pluginOf(raw); err == nil && !isList && one.own() && top["cniVersion"] == nil {
		top["cniVersion"] = text(api.CNINewest)
	}
	raw, err := json.Marshal(top)
	if err != nil {
		return definition{}, fmt.Errorf("spec.config: %w: %w", vf.ErrInvalid, err)
	}
	if !isList {
		return single(raw)
	}
	list, err := libcni.NetworkConfFromBytes(raw)
	if err != nil {
		return definition{}, fmt.Errorf("spec.config: %w: %w", vf.ErrInvalid, err)
	}
	return definitionOf(list)
}

// longestOwn is what intake/cni takes of a configuration, in bytes.
const longestOwn = 64 << 10

// Own returns the configurations that Culvert serves itself of a network attachment
// definition: none where all its plugins are others', or where its configuration is
// a file on the nodes.
func Own(n api.NetworkDefinition) ([]cni.Config, error) {
	if strings.TrimSpace(n.Config) == "" {
		return nil, nil
	}
	if len(n.Config) > longestOwn {
		return nil, fmt.Errorf("spec.config: %w: %d bytes are too many: at most %d", vf.ErrInvalid, len(n.Config), longestOwn)
	}
	d, err := parse([]byte(n.Config), n.Name)
	if err != nil {
		return nil, err
	}
	var out []cni.Config
	for _, raw := range d.Plugins {
		if p, err := pluginOf(raw); err != nil || !p.own() {
			continue
		}
		whole, err := with(raw, map[string]json.RawMessage{"name": text(d.Name), "cniVersion": text(d.Version)})
		if err != nil {
			return nil, err
		}
		c, err := cni.ParseConfig(whole)
		if err != nil {
			return nil, err
		}
		out = append(out, c)
	}
	return out, nil
}

// single is the configuration of one plugin, which stands for a list of it.
func single(raw []byte) (definition, error) {
	var top struct {
		Name         string `json:"name"`
		CNIVersion   string `json:"cniVersion"`
		DisableCheck bool   `json:"disableCheck"`
		DisableGC    bool   `json:"disableGC"`
	}
	if err := json.Unmarshal(raw, &top); err != nil {
		return definition{}, fmt.Errorf("%w: %w", vf.ErrInvalid, err)
	}
	return definition{top.Name, top.CNIVersion, top.DisableCheck, top.DisableGC, []json.RawMessage{raw}}.checked()
}

func definitionOf(list *libcni.NetworkConfigList) (definition, error) {
	d := definition{Name: list.Name, Version: list.CNIVersion, DisableCheck: list.DisableCheck, DisableGC: list.DisableGC}
	for _, p := range list.Plugins {
		d.Plugins = append(d.Plugins, p.Bytes)
	}
	return d.checked()
}

// checked is a definition that can be carried out, or why it cannot.
func (d definition) checked() (definition, error) {
	if d.Version == "" {
		d.Version = "0.1.0" // the specification's default
	}
	if d.Name == "" {
		return d, fmt.Errorf("name: %w: it has none", vf.ErrInvalid)
	}
	for _, raw := range d.Plugins {
		p, err := pluginOf(raw)
		switch {
		case err != nil:
			return d, err
		case p.meta():
			return d, fmt.Errorf("network %s: %w: %w", d.Name, vf.ErrInvalid, errMeta)
		case !api.IsPluginType(p.Type):
			return d, fmt.Errorf("network %s: type %.100q: %w: want the name of a CNI plugin", d.Name, p.Type, vf.ErrInvalid)
		}
	}
	if len(d.Plugins) == 0 {
		return d, fmt.Errorf("network %s: plugins: %w: there is none", d.Name, vf.ErrInvalid)
	}
	return d, nil
}

func text(s string) json.RawMessage {
	raw, _ := json.Marshal(s) // a string always can
	return raw
}

// files are the configurations in a folder, in the order in which runtimes look at
// them; load reads one.
func files(dir string) ([]string, error) {
	all, err := libcni.ConfFiles(dir, []string{".conf", ".conflist", ".json"})
	if err != nil {
		return nil, fmt.Errorf("network configurations in %s: %w", dir, err)
	}
	slices.Sort(all)
	return all, nil
}

func load(file string) (d definition, err error) {
	if strings.HasSuffix(file, ".conflist") {
		var list *libcni.NetworkConfigList
		if list, err = libcni.NetworkConfFromFile(file); err == nil {
			d, err = definitionOf(list)
		}
	} else {
		var raw []byte
		if raw, err = os.ReadFile(file); err == nil {
			d, err = single(raw)
		}
	}
	if err != nil {
		return d, fmt.Errorf("%s: %w", filepath.Base(file), err)
	}
	return d, nil
}

// defaultIn is the cluster's default network: the first configuration in the
// folder that is none of a meta plugin's. Files that cannot be read do not hide the
// others (I7); they are told when there is no other.
func defaultIn(dir string) (definition, error) {
	return firstIn(dir, func(definition) bool { return true }, "the default network of the cluster: install one (Flannel, Calico ...)")
}

// namedIn is the configuration of that name in the folder.
func namedIn(dir, name string) (definition, error) {
	return firstIn(dir, func(d definition) bool { return d.Name == name }, "a network of the name "+name)
}

func firstIn(dir string, is func(definition) bool, want string) (definition, error) {
	all, err := files(dir)
	if err != nil {
		return definition{}, err
	}
	var broken []string
	for _, file := range all {
		d, err := load(file)
		switch {
		case errors.Is(err, errMeta):
		case err != nil:
			broken = append(broken, err.Error())
		case is(d):
			return d, nil
		}
	}
	more := ""
	if len(broken) > 0 {
		more = "; not to be read: " + strings.Join(broken, "; ")
	}
	return definition{}, fmt.Errorf("%s has no configuration of %s: %w%s", dir, want, vf.ErrNotFound, more)
}
