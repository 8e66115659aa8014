package claims

import (
	"bytes"
	"strings"

	"go.yaml.in/yaml/v3"
)

// maxNodes bounds the maps of a YAML file that are looked at.
const maxNodes = 100_000

// The managers whose files are YAML or JSON.
const (
	osNetConfig = "os-net-config"
	incus       = "Incus"
	lxd         = "LXD"
)

// osNetConfigFiles are TripleO's wanted network and what os-net-config made of it.
var osNetConfigFiles = []string{
	"etc/os-net-config/sriov_config.yaml", "etc/os-net-config/config.yaml", "etc/os-net-config/config.json",
	"var/lib/os-net-config/sriov_config.yaml", "var/lib/os-net-config/config.yaml",
}

// instanceDirs are the folders with a folder for each instance, whose backup.yaml has its devices.
var instanceDirs = []struct{ dir, manager string }{
	{"var/lib/incus/containers", incus}, {"var/lib/incus/virtual-machines", incus},
	{"var/lib/lxd/containers", lxd}, {"var/lib/lxd/virtual-machines", lxd},
	{"var/snap/lxd/common/lxd/containers", lxd}, {"var/snap/lxd/common/lxd/virtual-machines", lxd},
}

// scanInstances reads the instances of Incus and LXD.
func (s *scanner) scanInstances() {
	for _, p := range instanceDirs {
		for _, dir := range s.l.listFiles(p.dir, "") {
			f := dir + "/backup.yaml"
			s.scanInstance(&source{file: "/" + f, manager: p.manager}, s.l.readText(f))
		}
	}
}

func (s *scanner) scanInstance(src *source, text []byte) { s.scanMaps(src, text, instanceEffects) }

func (s *scanner) scanOSNetConfig(src *source, text []byte) {
	s.scanMaps(src, text, osNetConfigEffects)
}

func (s *scanner) scanNMState(src *source, text []byte) { s.scanMaps(src, text, nmStateEffects) }

func (s *scanner) scanShim(src *source, text []byte) { s.scanMaps(src, text, shimEffects) }

// scanMaps adds the effects of all maps of a file. It follows no alias, so that a small file stays
// small.
func (s *scanner) scanMaps(src *source, text []byte, effects func(*yaml.Node) []effect) {
	src.ofEntry = true
	left := maxNodes
	var walk func(n *yaml.Node)
	walk = func(n *yaml.Node) {
		if left--; left < 0 || s.full {
			return
		}
		if n.Kind == yaml.MappingNode {
			if found := effects(n); len(found) > 0 {
				s.addEffects(src, textLine{n.Line, describeMap(n)}, found...)
			}
		}
		for _, c := range n.Content {
			walk(c)
		}
	}
	d := yaml.NewDecoder(bytes.NewReader(text))
	for range 16 { // documents
		var doc yaml.Node
		if d.Decode(&doc) != nil {
			return
		}
		walk(&doc)
	}
}

// describeMap returns the scalars of a map on one line.
func describeMap(n *yaml.Node) string {
	var parts []string
	eachPair(n, func(k, v *yaml.Node) {
		if v.Kind == yaml.ScalarNode && len(parts) < 8 {
			parts = append(parts, k.Value+": "+v.Value)
		}
	})
	return strings.Join(parts, ", ")
}

// textOf returns the scalar of a key of a map; empty if there is none.
func textOf(n *yaml.Node, key string) string {
	if v := childOf(n, key); v != nil && v.Kind == yaml.ScalarNode {
		return v.Value
	}
	return ""
}

// vfKeys are os-net-config's settings of a VF.
var vfKeys = []string{"vlan_id", "qos", "trust", "spoofcheck", "state", "macaddr", "min_tx_rate", "max_tx_rate", "promisc"}

// osNetConfigEffects reads an entry of sriov_config.yaml (device_type) or of config.yaml (type).
func osNetConfigEffects(n *yaml.Node) []effect {
	switch textOf(n, "device_type") + textOf(n, "type") {
	case "pf", "sriov_pf":
		name := textOf(n, "name")
		out := []effect{{setting: Count, objects: []string{name}, value: textOf(n, "numvfs")}}
		if mode := textOf(n, "link_mode"); mode != "" {
			out = append(out, effect{setting: Switch, objects: []string{name}, value: mode})
		}
		return out
	case "vf", "sriov_vf":
		device := childOf(n, "device")
		e := effect{setting: VFSettings, objects: []string{textOf(device, "name")}, vfs: parseIndexes([]string{textOf(device, "vfid")})}
		if device != nil && device.Kind == yaml.ScalarNode {
			e.objects, e.vfs = []string{device.Value}, parseIndexes([]string{textOf(n, "vfid")})
		}
		var out []effect
		for _, key := range vfKeys {
			if childOf(n, key) != nil {
				out = append(out, e)
				break
			}
		}
		if driver := textOf(n, "driver"); driver != "" {
			bind := e
			bind.setting, bind.value = Binding, driver
			out = append(out, bind)
		}
		return out
	}
	return nil
}

// instanceEffects reads a NIC of an instance, a profile or a network of type sriov. Incus and LXD
// make all VFs of the parent when they need one, and set up the VF that they take.
func instanceEffects(n *yaml.Node) []effect {
	parent := textOf(n, "parent")
	if parent == "" {
		parent = textOf(childOf(n, "config"), "parent")
	}
	if parent == "" || textOf(n, "nictype") != "sriov" && textOf(n, "type") != "sriov" {
		return nil
	}
	return effectsOfParent([]string{parent})
}

// effectsOfParent returns the effects of a NIC of type sriov whose PF is parent.
func effectsOfParent(parent []string) []effect {
	return []effect{{setting: Count, objects: parent}, {setting: VFSettings, objects: parent}}
}

// nmStateEffects reads an interface of nmstate, with its number of VFs and the VFs that it sets up.
func nmStateEffects(n *yaml.Node) (out []effect) {
	name, sriov := textOf(n, "name"), childOf(childOf(n, "ethernet"), "sr-iov")
	if name == "" || sriov == nil {
		return nil
	}
	if total := textOf(sriov, "total-vfs"); total != "" {
		out = append(out, effect{setting: Count, objects: []string{name}, value: total})
	}
	vfs := childOf(sriov, "vfs")
	if vfs == nil || len(vfs.Content) == 0 {
		return out
	}
	e := effect{setting: VFSettings, objects: []string{name}}
	for _, v := range vfs.Content {
		e.vfs = append(e.vfs, parseIndexes([]string{textOf(v, "id")})...)
	}
	return append(out, e)
}

// shimEffects reads the PFs of sriov-netplan-shim, the program that Ubuntu's charms install.
func shimEffects(n *yaml.Node) (out []effect) {
	eachPair(childOf(n, "interfaces"), func(k, v *yaml.Node) {
		if count := textOf(v, "num_vfs"); count != "" {
			out = append(out, effect{setting: Count, objects: []string{k.Value}, value: count})
		}
	})
	return out
}
