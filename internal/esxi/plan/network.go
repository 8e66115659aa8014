package plan

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/culvert-net/culvert/internal/esxi/file"
	"github.com/culvert-net/culvert/internal/esxi/state"
)

// planSwitches compares the switches of the file, and removes those that Culvert made and the file has
// no more. It leaves all others alone.
func (p *planner) planSwitches() {
	for _, want := range p.spec.Switches {
		p.checkUplinks(want)
		now := p.host.FindSwitch(want.Name)
		if now == nil {
			p.addStep(setSwitches, AddSwitch{want}, nil, Line{"+", fmt.Sprintf("vSwitch %s: %s, MTU %d%s", want.Name, describeUplinks(want.Uplinks), want.MTU, describeSecurity(want.Security))})
			continue
		}
		lines := compareSwitch(want, *now)
		switch {
		case len(lines) == 0:
		case !p.made.Switches[want.Name]:
			p.refuse("vSwitch %s is there already and is different, and Culvert did not make it (%s): change it by hand, or take another name", want.Name, Step{Lines: lines})
		default:
			var hurts []string
			if running := p.describeRunning(now.PortGroups); running != "" {
				hurts = append(hurts, "vSwitch "+want.Name+" changes"+running)
			}
			p.addStep(setSwitches, UpdateSwitch{want}, hurts, lines...)
		}
	}
	for _, now := range p.host.Switches {
		if p.isLeaving(now.Name) {
			p.removeSwitch(now)
		}
	}
}

// isLeaving reports whether Culvert made a switch that the file has no more.
func (p *planner) isLeaving(name string) bool {
	return p.made.Switches[name] && !slices.ContainsFunc(p.spec.Switches, func(s file.Switch) bool { return s.Name == name })
}

func (p *planner) removeSwitch(s state.Switch) {
	for _, name := range s.PortGroups {
		if _, isMade := p.made.Groups[name]; !isMade {
			p.refuse("vSwitch %s cannot go: its port group %s is not from Culvert: remove that by hand, or keep the switch in the file", s.Name, name)
		}
	}
	p.addStep(removeSwitches, RemoveSwitch{s.Name}, nil, Line{"-", "vSwitch " + s.Name})
}

// checkUplinks refuses uplinks that are not there, or that another switch has and keeps.
func (p *planner) checkUplinks(want file.Switch) {
	for _, nic := range want.Uplinks {
		if p.host.FindPort(nic) == nil {
			p.refuse("host %s has no port %s, the uplink of vSwitch %s%s", p.host.Name, nic, want.Name, p.suggestPort(nic))
			continue
		}
		for _, d := range p.host.Distributed {
			if slices.Contains(d.Uplinks, nic) {
				p.refuse("port %s is an uplink of distributed switch %s: remove it there first, or take another port for vSwitch %s", nic, d.Name, want.Name)
			}
		}
		s := p.switchWith(nic)
		if s != nil && s.Name != want.Name && !p.made.Switches[s.Name] {
			p.refuse("port %s is an uplink of vSwitch %s, which Culvert did not make: remove it there first, or take another port for vSwitch %s", nic, s.Name, want.Name)
		} else if s != nil && s.Name != want.Name && slices.ContainsFunc(p.spec.Switches, func(o file.Switch) bool { return o.Name == s.Name }) {
			p.refuse("port %s is an uplink of vSwitch %s: apply the file without it on any switch first", nic, s.Name)
		}
	}
}

func compareSwitch(want file.Switch, now state.Switch) (lines []Line) {
	if want.MTU != now.MTU {
		lines = append(lines, Line{"~", fmt.Sprintf("vSwitch %s: MTU %d -> %d", want.Name, now.MTU, want.MTU)})
	}
	if !slices.Equal(slices.Sorted(slices.Values(want.Uplinks)), slices.Sorted(slices.Values(now.Uplinks))) { // the host has its own order
		lines = append(lines, Line{"~", fmt.Sprintf("vSwitch %s: %s -> %s", want.Name, describeUplinks(now.Uplinks), describeUplinks(want.Uplinks))})
	}
	return append(lines, compareSecurity("vSwitch "+want.Name, want.Security, now.Security)...)
}

func describeUplinks(nics []string) string {
	return "uplinks " + cmp.Or(strings.Join(nics, " "), "none")
}

// securitySetting is one setting of a policy, by the key of the file.
type securitySetting struct {
	key       string
	want, now *bool
}

func listSecurity(want file.Security, now state.Security) []securitySetting {
	return []securitySetting{{"promiscuous", want.Promiscuous, now.Promiscuous}, {"macChanges", want.MACChanges, now.MACChanges}, {"forgedTransmits", want.ForgedTransmits, now.ForgedTransmits}}
}

func compareSecurity(object string, want file.Security, now state.Security) (lines []Line) {
	for _, s := range listSecurity(want, now) {
		if s.want != nil && (s.now == nil || *s.want != *s.now) {
			lines = append(lines, Line{"~", fmt.Sprintf("%s: %s %s -> %t", object, s.key, describeSetting(s.now), *s.want)})
		}
	}
	return lines
}

func describeSetting(b *bool) string {
	if b == nil {
		return "inherited"
	}
	return fmt.Sprint(*b)
}

func describeSecurity(want file.Security) (text string) {
	for _, s := range listSecurity(want, state.Security{}) {
		if s.want != nil {
			text += fmt.Sprintf(", %s %t", s.key, *s.want)
		}
	}
	return text
}

// planGroups does for port groups what planSwitches does for switches.
func (p *planner) planGroups() {
	wanted := map[string]bool{}
	for _, on := range p.spec.Switches {
		for _, want := range on.PortGroups {
			wanted[want.Name] = true
			p.planGroup(on.Name, want)
		}
	}
	for _, now := range p.host.PortGroups {
		if _, isMade := p.made.Groups[now.Name]; isMade && !wanted[now.Name] {
			p.removeGroup(now)
		}
	}
}

func (p *planner) planGroup(on string, want file.PortGroup) {
	now := p.host.FindGroup(want.Name)
	if now == nil {
		text := fmt.Sprintf("port group %s on vSwitch %s: VLAN %d%s", want.Name, on, want.VLAN, describeSecurity(want.Security))
		p.addStep(setGroups, AddGroup{on, want}, nil, Line{"+", text})
		return
	}
	lines := compareSecurity("port group "+want.Name, want.Security, now.Security)
	if want.VLAN != now.VLAN {
		lines = append(lines, Line{"~", fmt.Sprintf("port group %s: VLAN %d -> %d", want.Name, now.VLAN, want.VLAN)})
	}
	_, isMade := p.made.Groups[want.Name]
	switch {
	case now.Switch != on:
		p.refuse("port group %s is on vSwitch %s, and the file has it on %s: take another name, or remove it there first", want.Name, now.Switch, on)
	case len(lines) == 0:
	case !isMade:
		p.refuse("port group %s is there already and is different, and Culvert did not make it (%s): change it by hand, or take another name", want.Name, Step{Lines: lines})
	default:
		var hurts []string
		if running := p.describeRunning([]string{want.Name}); running != "" {
			hurts = append(hurts, "port group "+want.Name+" changes"+running)
		}
		p.addStep(setGroups, UpdateGroup{on, want}, hurts, lines...)
	}
}

func (p *planner) removeGroup(g state.PortGroup) {
	for _, vmk := range g.Kernel {
		p.refuse("port group %s cannot go: the host's own adapter %s is on it: move that first, or keep the port group in the file", g.Name, vmk)
	}
	for _, vm := range p.host.VMs {
		left := 0
		for _, n := range vm.Networks {
			if n == g.Name {
				left++
			}
		}
		for _, use := range vm.VFs {
			if use.PortGroup == g.Name && slices.Contains(p.removing[vm.ID], use.Key) {
				left--
			}
		}
		if left > 0 {
			p.refuse("port group %s cannot go: virtual machine %s has a network adapter on it that stays: move that first, or keep the port group in the file", g.Name, vm.Name)
		}
	}
	p.addStep(removeGroups, RemoveGroup{g.Name}, nil, Line{"-", "port group " + g.Name})
}
