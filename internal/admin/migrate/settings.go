package migrate

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/culvert-net/culvert/internal/network/ipam"
	"github.com/culvert-net/culvert/internal/node/desired"
)

// settings are those of Multus and the device plugin that Culvert has too, as culvertd's flags.
type settings struct {
	// hasMultus is whether Multus is there; isolated and global are its settings.
	hasMultus, isolated bool
	global              []string
	// configMap is namespace/name of the device plugin's configuration, and prefix that of
	// resources that name none; empty: not known.
	configMap, prefix string
	// ipamTypes are the IPAM plugins that networks name and that culvertd does not execute by
	// default.
	ipamTypes []string
	// everyPod are Multus' networks of every pod, namespace/name, and systemNamespaces those whose
	// pods get none.
	everyPod, systemNamespaces []string
	// cniBin and cniConf are the host's folders of plugins and configurations; empty: not known.
	cniBin, cniConf string
	// resourceKeys are the annotations by which the injector finds resources; empty: not known.
	resourceKeys []string
}

// The namespace and the name of the ConfigMap of the device plugin that Culvert's manifest has.
const (
	defaultConfigNamespace = "kube-system"
	defaultConfigName      = "sriovdp-config"
)

// Parts with settings.
const (
	partMultus       = "Multus"
	partDevicePlugin = "SR-IOV device plugin"
	partInjector     = "network resources injector"
)

// Isolation reports whether Multus or culvertd isolates namespaces, by its arguments or by a file
// in a ConfigMap, and the namespaces that it names as global. A culvertd without the flag is of an
// earlier version, which did not isolate then.
func Isolation(data map[string]string, args []string) (global []string, on bool) {
	for _, text := range data {
		var config struct {
			Isolation bool   `yaml:"namespaceIsolation"`
			Global    string `yaml:"globalNamespaces"`
		}
		if strings.Contains(text, "namespaceIsolation") && yaml.Unmarshal([]byte(text), &config) == nil && config.Isolation {
			global, on = append(global, splitNames(config.Global)...), true
		}
	}
	value, found := flagOf(args, "namespace-isolation")
	if on = on || found && value != "false"; !on {
		return nil, false
	}
	named, _ := flagOf(args, "global-namespaces")
	return append(global, splitNames(named)...), true
}

// MultusGlobal are the namespaces that are global for Multus where its configuration names none.
func MultusGlobal() []string { return []string{"default"} }

// splitNames returns the names of a list with commas.
func splitNames(list string) (out []string) {
	for name := range strings.SplitSeq(list, ",") {
		if name = strings.TrimSpace(name); name != "" {
			out = append(out, name)
		}
	}
	return out
}

// flagOf returns the last value of a flag among a container's command and arguments: --name=value,
// -name value, also within a script.
func flagOf(args []string, name string) (value string, found bool) {
	words := strings.Fields(strings.Join(args, " "))
	for i, w := range words {
		key, given, assigned := strings.Cut(strings.TrimLeft(w, "-"), "=")
		if key != name || !strings.HasPrefix(w, "-") {
			continue
		}
		if !assigned && i+1 < len(words) && !strings.HasPrefix(words[i+1], "-") {
			given = words[i+1]
		}
		value, found = strings.Trim(given, `"'`), true
	}
	return value, found
}

// settings returns the settings of the other stacks, and notes about what Culvert cannot take over.
func (c Cluster) settings(parts []Part) (s settings, notes []Note) {
	for _, p := range parts {
		w := p.workload
		switch p.Name {
		case partMultus:
			data := map[string]string{}
			for _, o := range c.configMapsOf(w) {
				for key, text := range o.Data {
					data[o.Name+"/"+key] = text
				}
			}
			notes = append(notes, s.addMultus(c, w, data)...)
		case partInjector:
			notes = append(notes, s.addInjector(w)...)
		case partDevicePlugin:
			if prefix, ok := flagOf(w.Args, "resource-prefix"); ok && s.prefix == "" {
				s.prefix = prefix
			}
			for _, o := range c.configMapsOf(w) {
				name := o.Namespace + "/" + o.Name
				if s.configMap = cmp.Or(s.configMap, name); s.configMap != name {
					notes = append(notes, Note{Object: o.String(), Text: "culvertd reads one ConfigMap of the device plugin, " + s.configMap + ": apply what culvert migrate convert makes of this one"})
				}
			}
		}
	}
	if s.isolated && len(s.global) == 0 {
		s.global = MultusGlobal()
	}
	slices.Sort(s.global)
	s.global = slices.Compact(s.global)
	s.ipamTypes = c.ipamTypes()
	return s, notes
}

// ipamTypes returns the IPAM plugins that networks name, without those that every culvertd executes
// and those that none does. The verdict on a network names the latter. Tenants write the names, and
// a person executes the plan's commands, so only names of plugins are returned.
func (c Cluster) ipamTypes() (out []string) {
	for _, n := range c.Networks {
		for _, name := range n.IPAM {
			if !ipam.IsDefault(name) && ipam.AnyType().Check(name) == nil {
				out = append(out, name)
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// configMapsOf returns the ConfigMaps of a workload. Those of a device plugin have a resourceList.
func (c Cluster) configMapsOf(w Workload) (out []Object) {
	for _, o := range c.Objects {
		if o.Kind == KindConfigMap && o.Namespace == w.Namespace && slices.Contains(w.ConfigMaps, o.Name) {
			out = append(out, o)
		}
	}
	if k, _ := kindOf(w); k.name == partDevicePlugin {
		out = slices.DeleteFunc(out, func(o Object) bool { return !hasResourceList(o) })
	}
	return out
}

// manifest is the file that the plan's commands install.
const manifest = "dist/kubernetes/culvert.yaml"

// settingSteps returns the steps that write into Culvert's manifest the settings that culvertd does
// not have yet. An installed culvertd has the settings of its arguments.
func (s settings) settingSteps(have installed) (out []Step) {
	daemon := have.daemon.Args
	own := settings{configMap: defaultConfigNamespace + "/" + defaultConfigName, prefix: desired.DevicePluginPrefix}
	if v, ok := flagOf(daemon, "device-plugin-config"); ok {
		own.configMap = v
	}
	if v, ok := flagOf(daemon, "device-plugin-prefix"); ok {
		own.prefix = v
	}
	if s.configMap != "" && s.configMap != own.configMap {
		namespace, name, _ := strings.Cut(s.configMap, "/")
		out = append(out, Step{
			fmt.Sprintf(`sed -i -e 's|--device-plugin-config=.*|--device-plugin-config=%s|' -e '/name: culvertd-device-plugin, namespace:/s|namespace: [^}]*|namespace: %s|' -e 's|resourceNames: \[%s\]|resourceNames: [%s]|' %s`,
				s.configMap, namespace, defaultConfigName, name, manifest),
			"the pools of the device plugin are in that ConfigMap; with Helm, --set node.devicePlugin.configMap=" + s.configMap,
		})
	}
	if s.prefix != "" && s.prefix != own.prefix {
		out = append(out, Step{
			fmt.Sprintf(`sed -i 's|--device-plugin-prefix=.*|--device-plugin-prefix=%s|' %s`, s.prefix, manifest),
			"the resources of the device plugin have that prefix; with Helm, --set node.devicePlugin.prefix=" + s.prefix,
		})
	}
	if v, ok := flagOf(daemon, "ipam-types"); ok {
		own.ipamTypes = splitNames(v)
	}
	isMissing := func(name string) bool { return !slices.Contains(own.ipamTypes, name) }
	if slices.ContainsFunc(s.ipamTypes, isMissing) {
		all := slices.Sorted(slices.Values(slices.Concat(own.ipamTypes, s.ipamTypes)))
		types := strings.Join(slices.Compact(all), ",")
		out = append(out, Step{
			fmt.Sprintf(`sed -i 's|--ipam-types=.*|--ipam-types=%s|' %s`, types, manifest),
			fmt.Sprintf("networks name these IPAM plugins, and nodes execute no others as root; leave out those that you do not know; with Helm, --set 'node.ipamTypes={%s}'", types),
		})
	}
	out = append(out, s.isolationSteps(daemon)...)
	out = append(out, s.everyPodSteps(daemon)...)
	out = append(out, s.resourceKeySteps(have.controller.Args)...)
	return append(out, s.folderSteps(have.daemon)...)
}
