package plan

import (
	"fmt"
	"slices"
	"strings"

	"github.com/culvert-net/culvert/internal/esxi/file"
	"github.com/culvert-net/culvert/internal/esxi/made"
	"github.com/culvert-net/culvert/internal/esxi/state"
	"github.com/culvert-net/culvert/internal/screen"
	"github.com/culvert-net/culvert/internal/suggest"
)

// Plan is the way from the host as it is to the host of the file.
type Plan struct {
	Host     string   `json:"host"`
	Steps    []Step   `json:"steps"`
	Refusals []string `json:"refusals"` // why nothing is done, each with the next step
	Notes    []string `json:"notes"`
}

// Step is one change, which one call does.
type Step struct {
	Lines  []Line   `json:"changes"`
	Hurts  []string `json:"hurts"` // who notices, and how
	Action any      `json:"-"`
}

// Line is a line of the diff.
type Line struct {
	Op   string `json:"op"` // +, - or ~
	Text string `json:"text"`
}

// String returns the lines as one text.
func (s Step) String() string {
	var all []string
	for _, l := range s.Lines {
		all = append(all, l.Op+" "+l.Text)
	}
	return strings.Join(all, "; ")
}

// Reboots reports whether the plan has a reboot.
func (p Plan) Reboots() bool {
	return slices.ContainsFunc(p.Steps, func(s Step) bool { _, ok := s.Action.(Reboot); return ok })
}

// planner collects a plan. Steps are in the order of stages.
type planner struct {
	spec   file.Spec
	made   made.Made
	host   *state.Host
	stages [stageCount][]Step
	plan   Plan
	// ports has the VFs that each port of the file, or that Culvert has configured, will have.
	ports    map[string]int
	demand   map[string][]string // the virtual machines with a VF of a port, one entry for each VF
	asked    map[string]bool     // ports of which a virtual machine gets a VF
	chosen   map[string]bool     // PCI addresses of VFs that virtual machines get
	reboot   bool
	removing map[string][]int32 // keys of VFs that go, by the ID of the virtual machine
}

// The stages: first all that goes, since it may be in the way of what comes.
const (
	takeVFs = iota
	removeGroups
	removeSwitches
	setPorts
	restart
	setSwitches
	setGroups
	giveVFs
	stageCount
)

// Make compares. The host must be connected. Removing everything is the plan for a file without
// ports, switches and virtual machines.
func Make(spec file.Spec, m made.Made, h state.Host) Plan {
	p := &planner{
		spec: spec, made: m, host: &h, plan: Plan{Host: h.Name, Steps: []Step{}, Refusals: []string{}, Notes: []string{}},
		ports: map[string]int{}, demand: map[string][]string{}, asked: map[string]bool{}, chosen: map[string]bool{}, removing: map[string][]int32{},
	}
	if !h.Connected {
		p.refuse("the vCenter has no connection to host %s: connect it", h.Name)
		return p.plan
	}
	p.planPorts()
	p.checkFunctions()
	p.planVMs()
	p.noteAbsent()
	p.planSwitches()
	p.planGroups()
	p.checkDemand()
	p.planRestart()
	for _, stage := range p.stages {
		p.plan.Steps = append(p.plan.Steps, stage...)
	}
	return p.plan
}

func (p *planner) refuse(format string, args ...any) {
	if text := fmt.Sprintf(format, args...); !slices.Contains(p.plan.Refusals, text) {
		p.plan.Refusals = append(p.plan.Refusals, text)
	}
}

func (p *planner) addNote(format string, args ...any) {
	p.plan.Notes = append(p.plan.Notes, fmt.Sprintf(format, args...))
}

func (p *planner) addStep(stage int, action any, hurts []string, lines ...Line) {
	if hurts == nil {
		hurts = []string{}
	}
	p.stages[stage] = append(p.stages[stage], Step{lines, hurts, action})
}

// planPorts compares the ports of the file, and gives back those that the file has no more.
func (p *planner) planPorts() {
	for _, want := range p.spec.Ports {
		port := p.host.FindPort(want.NIC)
		if port == nil {
			p.refuse("host %s has no port %s%s", p.host.Name, want.NIC, p.suggestPort(want.NIC))
			continue
		}
		p.ports[want.NIC] = want.VFs
		p.planPort(*port, want)
	}
	for _, port := range p.host.Ports {
		entry, isMade := p.made.Ports[port.NIC]
		_, isWanted := p.ports[port.NIC]
		if !isMade || isWanted {
			continue
		}
		switch made.SettingOf(port) {
		case entry.Before, entry.Set, entry.Was:
			p.ports[port.NIC] = entry.Before.VFs
			p.setPort(port, entry.Before)
		default:
			p.addNote("port %s has %s now, and Culvert gave it %d: it was changed outside Culvert, so it stays", port.NIC, countVFs(port.WantedVFs()), entry.Set.VFs)
		}
	}
}

// checkFunctions refuses two ports of the file that are one PCI function and have other numbers of VFs.
func (p *planner) checkFunctions() {
	for i, a := range p.spec.Ports {
		for _, b := range p.spec.Ports[:i] {
			one, two := p.host.FindPort(a.NIC), p.host.FindPort(b.NIC)
			if one != nil && two != nil && one.PCI == two.PCI && a.VFs != b.VFs {
				p.refuse("ports %s and %s are one PCI function (%s), which has its VFs for both: write the same vfs for both, or leave one out", b.NIC, a.NIC, one.PCI)
			}
		}
	}
}

func (p *planner) planPort(port state.Port, want file.Port) {
	passes := port.Passthrough || port.PassActive
	switch {
	case want.VFs == 0 && !want.PassthroughOff && passes:
		return // it has no VFs
	case passes && !want.PassthroughOff:
		p.refuse("pass-through of port %s is on, so its maximum of VFs reads 0: write passthrough: off to switch pass-through off first, which takes a reboot of its own", port.NIC)
		return
	case passes:
		p.setPort(port, made.Setting{})
		if want.VFs > 0 {
			p.addNote("port %s gets its %s after that reboot, when its maximum is known; a second reboot follows", port.NIC, countVFs(want.VFs))
		}
		return
	case want.VFs > 0 && !port.Capable:
		p.refuse("port %s (%s) cannot have VFs: %s", port.NIC, port.Model, p.suggestCapable())
		return
	case want.VFs > port.Max:
		p.refuse("port %s can have %s at most, and the file says %d", port.NIC, countVFs(port.Max), want.VFs)
		return
	}
	p.setPort(port, made.Setting{VFs: want.VFs})
}

// setPort plans the configuration of a port, where it is another one.
func (p *planner) setPort(port state.Port, to made.Setting) {
	now := made.SettingOf(port)
	if port.IsPending() {
		p.reboot = true
	}
	if now == to {
		return
	}
	var lines []Line
	if now.Passthrough != to.Passthrough {
		lines = append(lines, Line{"~", fmt.Sprintf("port %s: pass-through %s -> %s", port.NIC, onOff(now.Passthrough), onOff(to.Passthrough))})
	}
	if now.VFs != to.VFs {
		lines = append(lines, Line{"~", fmt.Sprintf("port %s: VFs %d -> %d", port.NIC, now.VFs, to.VFs)})
	}
	var hurts []string
	for _, vm := range p.host.VMs {
		if vm.On && vm.Unreadable != "" {
			p.refuse("virtual machine %s is %s and %s, so it may have VFs of port %s: look at its files and their datastore, or shut it down", vm.Name, vm.Power, vm.Unreadable, port.NIC)
		}
		for _, use := range vm.VFs {
			if vm.On && use.Port == port.NIC {
				p.refuse("VFs of port %s are in use: virtual machine %s is %s: shut it down", port.NIC, vm.Name, vm.Power)
			}
		}
	}
	if s := p.switchWith(port.NIC); s != nil && !p.isLeaving(s.Name) {
		hurts = append(hurts, fmt.Sprintf("vSwitch %s loses its uplink %s for moments%s", s.Name, port.NIC, p.describeRunning(s.PortGroups)))
	}
	if !p.host.AppliesLive {
		p.reboot = true
	}
	p.addStep(setPorts, SetPorts{[]PortSetting{{port.NIC, port.PCI, to.VFs, to.Passthrough}}}, hurts, lines...)
}

// planRestart plans the reboot that the ports need, in maintenance mode.
func (p *planner) planRestart() {
	switch {
	case p.reboot:
		running := p.host.Running()
		if len(running) > 0 {
			p.refuse("a reboot needs maintenance mode, and %s on: shut down, or move to another host: %s", areOn(len(running)), strings.Join(running, ", "))
		}
		if !p.host.Maintenance {
			p.addStep(restart, EnterMaintenance{}, nil, Line{"~", "host " + p.host.Name + ": enter maintenance mode"})
		}
		p.addStep(restart, Reboot{}, []string{fmt.Sprintf("host %s is away for minutes, with its %s", p.host.Name, screen.Plural(len(p.host.VMs), "virtual machine"))}, Line{"~", "host " + p.host.Name + ": reboot"})
		if !p.host.Maintenance || p.made.Maintenance {
			p.addStep(restart, ExitMaintenance{}, nil, Line{"~", "host " + p.host.Name + ": leave maintenance mode"})
		}
	case p.made.Maintenance:
		p.addStep(restart, ExitMaintenance{}, nil, Line{"~", "host " + p.host.Name + ": leave maintenance mode"})
	}
}

func areOn(n int) string {
	if n == 1 {
		return "1 virtual machine is"
	}
	return fmt.Sprintf("%d virtual machines are", n)
}

func countVFs(n int) string { return screen.Plural(n, "VF") }

func onOff(is bool) string {
	if is {
		return "on"
	}
	return "off"
}

// switchWith returns the switch that has a port as an uplink, or nil.
func (p *planner) switchWith(nic string) *state.Switch {
	for i, s := range p.host.Switches {
		if slices.Contains(s.Uplinks, nic) {
			return &p.host.Switches[i]
		}
	}
	return nil
}

// describeRunning names the virtual machines that are on and have a network adapter on a port group.
func (p *planner) describeRunning(groups []string) string {
	var all []string
	for _, vm := range p.host.VMs {
		if vm.On && slices.ContainsFunc(vm.Networks, func(n string) bool { return slices.Contains(groups, n) }) {
			all = append(all, vm.Name)
		}
	}
	if len(all) == 0 {
		return ""
	}
	return ", and with it " + strings.Join(all, ", ")
}

func (p *planner) suggestPort(nic string) string {
	var known []string
	for _, port := range p.host.Ports {
		known = append(known, port.NIC)
	}
	return suggestName(nic, known)
}

func (p *planner) suggestCapable() string {
	var capable []string
	for _, port := range p.host.Ports {
		if port.Capable {
			capable = append(capable, port.NIC)
		}
	}
	if len(capable) == 0 {
		return "no port of this host can; is SR-IOV on in its firmware?"
	}
	return "those that can are " + strings.Join(capable, ", ")
}

// suggestName returns the tail of a message about an unknown name.
func suggestName(name string, known []string) string {
	if s := suggest.DidYouMean(name, known); s != "" {
		return s
	}
	if len(known) == 0 {
		return ": there is none"
	}
	return ": there are " + strings.Join(known, ", ")
}
