package migrate

import (
	"cmp"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/culvert-net/culvert/internal/excerpt"
	"github.com/culvert-net/culvert/internal/network/netannotation"
)

// multusConfig is the part of Multus' configuration, as JSON in a ConfigMap, that Culvert reads:
// that of the daemon (thick plugin), or that of the plugin (thin).
type multusConfig struct {
	// ConfigDir is a folder in the container, BinDir one of the host.
	ConfigDir        string           `yaml:"cniConfigDir"`
	BinDir           string           `yaml:"binDir"`
	ClusterNetwork   string           `yaml:"clusterNetwork"`
	Delegates        []map[string]any `yaml:"delegates"`
	DefaultNetworks  []string         `yaml:"defaultNetworks"`
	SystemNamespaces []string         `yaml:"systemNamespaces"`
	Namespace        string           `yaml:"multusNamespace"`
}

// multusKeys are the keys whose loss readMultus reports when it cannot read their file.
var multusKeys = []string{"clusterNetwork", "delegates", "defaultNetworks"}

// readMultus reads Multus' configuration from the files of its ConfigMaps. The first file with a
// value counts.
func readMultus(w Workload, data map[string]string) (out multusConfig, notes []Note) {
	for _, name := range slices.Sorted(maps.Keys(data)) {
		var c multusConfig
		if err := yaml.Unmarshal([]byte(data[name]), &c); err != nil {
			hasKey := func(key string) bool { return strings.Contains(data[name], key) }
			if slices.ContainsFunc(multusKeys, hasKey) {
				notes = append(notes, Note{Object: w.String(), Field: name, Lost: true, Text: "it cannot be read: " + excerpt.Error(err)})
			}
			continue
		}
		out.ConfigDir, out.BinDir = cmp.Or(out.ConfigDir, c.ConfigDir), cmp.Or(out.BinDir, c.BinDir)
		out.ClusterNetwork, out.Namespace = cmp.Or(out.ClusterNetwork, c.ClusterNetwork), cmp.Or(out.Namespace, c.Namespace)
		if len(out.Delegates) == 0 {
			out.Delegates = c.Delegates
		}
		if len(out.DefaultNetworks) == 0 {
			out.DefaultNetworks, out.SystemNamespaces = c.DefaultNetworks, c.SystemNamespaces
		}
	}
	return out, notes
}

// EveryPod returns the networks that an object gives to every pod: a workload of culvertd by its
// arguments, or Multus' ConfigMap. The zero value names none.
func EveryPod(data map[string]string, args []string) netannotation.EveryPod {
	names, except := []string(nil), netannotation.DefaultSystemNamespaces()
	if text, ok := flagOf(args, "default-networks"); ok {
		names = splitNames(text)
	}
	if text, ok := flagOf(args, "system-namespaces"); ok {
		except = splitNames(text)
	}
	if config, _ := readMultus(Workload{}, data); len(config.DefaultNetworks) > 0 && (len(config.Delegates) == 0 || config.ClusterNetwork != "") {
		for _, name := range config.DefaultNetworks {
			if !strings.Contains(name, "/") { // no file on the nodes
				names = append(names, cmp.Or(config.Namespace, multusNamespace)+"/"+name)
			}
		}
		if except = config.SystemNamespaces; len(except) == 0 {
			except = []string{multusNamespace}
		}
	}
	if len(names) == 0 {
		return netannotation.EveryPod{}
	}
	out, _ := netannotation.ParseEveryPod(names, except) // culvertd does not start with names that it cannot read
	return out
}

// multusNamespace has the networks of defaultNetworks, and its pods get none of them, where Multus'
// configuration says nothing else (Multus' types.LoadNetConf).
const multusNamespace = "kube-system"

// addMultus adds the settings of a Multus that Culvert has too. The notes say what becomes of its
// networks for every pod.
func (s *settings) addMultus(c Cluster, w Workload, data map[string]string) []Note {
	s.hasMultus = true
	if global, on := Isolation(data, w.Args); on {
		s.isolated, s.global = true, append(s.global, global...)
	}
	config, notes := readMultus(w, data)
	s.addFolders(w, config)
	note := func(field, text string, lost bool) {
		notes = append(notes, Note{Object: w.String(), Field: field, Text: text, Lost: lost})
	}
	if n := config.ClusterNetwork; n != "" && !strings.Contains(n, "/") {
		note("clusterNetwork "+excerpt.Quote(n), "no equivalent: the default network of pods is the first configuration in node.cniConf on each node: keep Multus, or write that network into a file there", true)
	}
	if len(config.Delegates) > 1 && config.ClusterNetwork == "" {
		note("delegates", "no equivalent for those after the first, which every pod gets: make a NetworkAttachmentDefinition of each, and name them in node.defaultNetworks", true)
	}
	if len(config.Delegates) > 0 && config.ClusterNetwork == "" {
		return notes // Multus ignores defaultNetworks then
	}
	for _, name := range config.DefaultNetworks {
		full, problem := c.findDefaultNetwork(config, name)
		if problem != "" {
			note("defaultNetworks "+excerpt.Quote(name), problem, true)
			continue
		}
		note("defaultNetworks "+excerpt.Quote(name), "becomes node.defaultNetworks "+full, false)
		s.everyPod = append(s.everyPod, full)
	}
	if s.systemNamespaces = config.SystemNamespaces; len(s.systemNamespaces) == 0 {
		s.systemNamespaces = []string{multusNamespace}
	}
	return notes
}

// findDefaultNetwork returns namespace/name of a network that Multus gives every pod, or why Culvert
// cannot. Multus takes the name of a NetworkAttachmentDefinition, of a configuration in a file on
// the node, and a path.
func (c Cluster) findDefaultNetwork(config multusConfig, name string) (full, problem string) {
	namespace := cmp.Or(config.Namespace, multusNamespace)
	full = namespace + "/" + name
	e, err := netannotation.ParseEveryPod([]string{full}, nil)
	if err != nil || len(e.Networks) != 1 || e.Networks[0].Namespace != namespace || e.Networks[0].Name != name {
		return "", "no equivalent: Multus reads it from a file on the nodes: make a NetworkAttachmentDefinition of it, and name that in node.defaultNetworks"
	}
	if !slices.ContainsFunc(c.Networks, func(n Network) bool { return n.Namespace == namespace && n.Name == name }) {
		return "", "no NetworkAttachmentDefinition " + full + ", without which no pod would start: create one with an empty spec.config, which stands for the file of that name on the nodes, and name it in node.defaultNetworks"
	}
	return full, ""
}

// The folders of plugins and configurations that Culvert's manifest mounts from the host.
const (
	defaultCNIBin  = "/opt/cni/bin"
	defaultCNIConf = "/etc/cni/net.d"
)

// addFolders finds the host's folders of plugins and configurations in the arguments, the
// configuration and the mounts of a Multus. Unless an argument says otherwise, Multus finds these
// folders of the host below /host.
func (s *settings) addFolders(w Workload, config multusConfig) {
	bin, _ := flagOf(w.Args, "cni-bin-dir")
	conf, _ := flagOf(w.Args, "cni-conf-dir")
	s.cniBin = cmp.Or(s.cniBin, w.findFolder("/cni/bin", bin, "/host"+defaultCNIBin))
	s.cniConf = cmp.Or(s.cniConf, w.findFolder("/cni/net.d", conf, config.ConfigDir, "/host"+defaultCNIConf))
	if s.cniBin == "" && isFolder.MatchString(config.BinDir) {
		s.cniBin = path.Clean(config.BinDir)
	}
}

// isFolder matches paths that a shell, sed and YAML take as they are.
var isFolder = regexp.MustCompile(`^/[A-Za-z0-9/._-]+$`)

// findFolder returns the host's folder of the first of some paths in the containers that is mounted,
// or of the one mount that ends as given; empty if there is none.
func (w Workload) findFolder(end string, paths ...string) string {
	for _, p := range paths {
		if host := w.hostPath(p); isFolder.MatchString(host) {
			return host
		}
	}
	var found []string
	for _, host := range w.Mounts {
		if host = path.Clean(host); strings.HasSuffix(host, end) && isFolder.MatchString(host) {
			found = append(found, host)
		}
	}
	slices.Sort(found)
	if found = slices.Compact(found); len(found) == 1 {
		return found[0]
	}
	return ""
}

// hostPath returns the path on the host of a path in the containers; empty if no mount has it.
func (w Workload) hostPath(p string) string {
	if p == "" {
		return ""
	}
	p = path.Clean(p)
	for at := p; ; at = path.Dir(at) {
		for mount, host := range w.Mounts {
			if path.Clean(mount) == at {
				return path.Join(host, strings.TrimPrefix(p, at))
			}
		}
		if at == "/" || at == "." {
			return ""
		}
	}
}
