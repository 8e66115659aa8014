package claims

import (
	"path"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/culvert-net/culvert/internal/excerpt"
)

// netplanRules are the ethernets and hardware VLANs of netplan's files, merged
// as netplan does: in the order of the files' names, and a key that is set
// again replaces the earlier one.
type netplanRules struct {
	ethernets map[string]map[string]entry // id -> key -> its entry
	order     []string
	vlans     []netplanVLAN
}

// netplanVLAN is an entry of vlans whose renderer is sriov: a VLAN that the PF
// sets on a VF.
type netplanVLAN struct {
	link string
	id   entry
}

func readNetplan(l *loader) netplanRules {
	r := netplanRules{ethernets: map[string]map[string]entry{}}
	for _, f := range l.listLayered([]string{"run/netplan", "etc/netplan", "lib/netplan", "usr/lib/netplan"}, ".yaml") {
		r.parseFile("/"+f, l.readText(f))
	}
	return r
}

// parseFile reads one file. netplan refuses a file that is no YAML as a whole, and so does
// parseFile: it claims nothing.
func (r *netplanRules) parseFile(file string, text []byte) {
	var doc yaml.Node
	if err := yaml.Unmarshal(text, &doc); err != nil || len(doc.Content) == 0 {
		return
	}
	network := childOf(doc.Content[0], "network")
	eachPair(childOf(network, "ethernets"), func(id, v *yaml.Node) {
		if r.ethernets[id.Value] == nil {
			r.ethernets[id.Value] = map[string]entry{}
			r.order = append(r.order, id.Value)
		}
		e := r.ethernets[id.Value]
		e[""] = entry{file: file, line: id.Line, key: id.Value}
		eachPair(v, func(key, value *yaml.Node) {
			e[key.Value] = entry{file: file, line: key.Line, key: key.Value, value: value.Value}
		})
		eachPair(childOf(v, "match"), func(key, value *yaml.Node) {
			e["match."+key.Value] = entry{file: file, line: key.Line, key: key.Value, value: strings.Join(scalarValues(value), " ")}
		})
	})
	eachPair(childOf(network, "vlans"), func(_, v *yaml.Node) {
		if renderer, link := childOf(v, "renderer"), childOf(v, "link"); renderer != nil && renderer.Value == "sriov" && link != nil {
			id := entry{file: file, line: v.Line, key: "renderer", value: "sriov"}
			if n := childOf(v, "id"); n != nil {
				id = entry{file: file, line: n.Line, key: "id", value: n.Value}
			}
			r.vlans = append(r.vlans, netplanVLAN{link: link.Value, id: id})
		}
	})
}

// childOf returns the value of a key of a map, nil when there is none.
func childOf(n *yaml.Node, key string) (found *yaml.Node) {
	eachPair(n, func(k, v *yaml.Node) {
		if k.Value == key {
			found = v
		}
	})
	return found
}

// eachPair calls f with the keys and values of a map; n may be nil or no map.
func eachPair(n *yaml.Node, f func(key, value *yaml.Node)) {
	if n != nil && n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	if n == nil || n.Kind != yaml.MappingNode {
		return
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		f(n.Content[i], n.Content[i+1])
	}
}

// scalarValues returns the values of a scalar or of a list of them.
func scalarValues(n *yaml.Node) []string {
	if n.Kind != yaml.SequenceNode {
		return []string{n.Value}
	}
	var out []string
	for _, c := range n.Content {
		out = append(out, c.Value)
	}
	return out
}

// matchesDevice reports whether the ethernet id stands for a device. Without match, the
// id is its name.
func (r netplanRules) matchesDevice(id string, d Device) bool {
	e := r.ethernets[id]
	name, mac, driver := e["match.name"].value, e["match.macaddress"].value, e["match.driver"].value
	if name == "" && mac == "" && driver == "" {
		return d.isCalled(id)
	}
	if renamed := e["set-name"].value; d.isCalled(renamed) {
		name = ""
	}
	return (name == "" || anyGlob(strings.Fields(name), d.names()...)) &&
		(mac == "" || strings.EqualFold(mac, d.MAC.String())) &&
		(driver == "" || anyGlob(strings.Fields(driver), d.Driver))
}

func (r netplanRules) claimsOn(d Device) []Claim {
	var out []Claim
	for _, id := range r.order {
		if !r.matchesDevice(id, d) {
			continue
		}
		e := r.ethernets[id]
		set := func(key string, s Setting) {
			if at, ok := e[key]; ok && at.value != "" {
				c := d.newClaim(Netplan, at, s)
				c.HandOver = netplanUnset(id, key)
				out = append(out, c)
			}
		}
		if d.isPF() {
			set("virtual-function-count", Count)
			set("embedded-switch-mode", Switch)
			out = append(out, r.ofVFs(id, d)...)
		}
		set("mtu", MTU)
		c := d.newClaim(Netplan, e[""], Managed)
		c.Says = "ethernets." + excerpt.Line(id)
		c.HandOver = []string{"remove " + c.Says + " from " + path.Clean(c.File)}
		out = append(out, c)
	}
	return out
}

// ofVFs returns the claims that follow from the VFs that the files define on a PF. netplan makes as
// many VFs, unless a file has an explicit count, and sets a hardware VLAN on them.
func (r netplanRules) ofVFs(pf string, d Device) []Claim {
	var out []Claim
	first, count := entry{}, 0
	for _, id := range r.order {
		link, ok := r.ethernets[id]["link"]
		if !ok || link.value != pf {
			continue
		}
		if count++; count == 1 {
			first = link
		}
		for _, v := range r.vlans {
			if v.link == id {
				c := d.newClaim(Netplan, v.id, VFSettings)
				c.HandOver = []string{"remove the VLAN with link: " + excerpt.Line(id) + " from " + c.Where()}
				out = append(out, c)
			}
		}
	}
	if _, explicit := r.ethernets[pf]["virtual-function-count"]; count > 0 && !explicit {
		c := d.newClaim(Netplan, first, Count)
		c.Value = strconv.Itoa(count)
		c.HandOver = []string{"remove the ethernets with link: " + excerpt.Line(pf) + " from " + c.File}
		out = append(out, c)
	}
	return out
}

func netplanUnset(id, key string) []string {
	return []string{"netplan set " + shellWord("ethernets."+strings.ReplaceAll(id, ".", `\.`)+"."+key+"=null")}
}
