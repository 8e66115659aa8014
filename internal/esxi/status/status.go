// Package status draws an ESXi host for people: its ports with their VFs, which virtual machine has
// which VF, and its virtual switches, in tables like those of culvert status and culvert vf list on a
// Linux node.
//
// The command culvert esxi status calls it with a state.Host.
package status

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	"github.com/culvert-net/culvert/internal/esxi/file"
	"github.com/culvert-net/culvert/internal/esxi/state"
	"github.com/culvert-net/culvert/internal/excerpt"
	"github.com/culvert-net/culvert/internal/screen"
)

// Draw returns the text of a host.
func Draw(h state.Host, look screen.Look) string {
	var b strings.Builder
	ready := look.Paint("ready", screen.Green)
	switch {
	case !h.Connected:
		ready = look.Paint("NOT CONNECTED", screen.Red)
	case h.Maintenance:
		ready = look.Paint("MAINTENANCE MODE", screen.Yellow)
	}
	fmt.Fprintf(&b, "%s  %s  %s\n", look.Paint(cleanText(h.Name), screen.Bold), ready, cleanText(h.Product))
	if !h.Connected {
		b.WriteString("\nThe vCenter has no connection to this host, so nothing else is known.\n")
		return b.String()
	}
	drawPorts(h).WriteBelow(&b, look)
	drawVFs(h).WriteBelow(&b, look)
	drawVMs(h).WriteBelow(&b, look)
	drawSwitches(h).WriteBelow(&b, look)
	return b.String()
}

func cleanText(s string) string { return excerpt.Clean(cmp.Or(s, "-")) }

func drawPorts(h state.Host) *screen.Table {
	t := screen.NewTable("PF", "PCI", "DRIVER", "LINK", "VFS", "")
	for _, p := range h.Ports {
		t.Add(screen.Words(cleanText(p.NIC), cleanText(p.PCI), cleanText(p.Driver), formatLink(p.Mbps), drawBar(h, p), describePort(h, p))...)
	}
	return t
}

func formatLink(mbps int) string {
	switch {
	case mbps == 0:
		return "no carrier"
	case mbps%1000 == 0:
		return strconv.Itoa(mbps/1000) + " Gb/s"
	}
	return strconv.Itoa(mbps) + " Mb/s"
}

// countUsed returns how many VFs of a port virtual machines have.
func countUsed(h state.Host, p state.Port) (used int) {
	for _, f := range p.VFs {
		if vm, _ := h.Holder(f.PCI); vm != nil {
			used++
		}
	}
	return used
}

func drawBar(h state.Host, p state.Port) string {
	used := countUsed(h, p)
	if len(p.VFs) > 16 {
		return "[]"
	}
	return "[" + strings.Repeat("#", used) + strings.Repeat(".", len(p.VFs)-used) + "]"
}

func describePort(h state.Host, p state.Port) string {
	used := countUsed(h, p)
	var parts []string
	switch {
	case p.Passthrough || p.PassActive:
		parts = append(parts, "pass-through is on, so it has no VFs")
	case !p.Capable:
		parts = append(parts, "cannot have VFs")
	case p.PresentVFs() == 0:
		parts = append(parts, fmt.Sprintf("none, it can have %d", p.Max))
	default:
		parts = append(parts, fmt.Sprintf("%d used, %d free, at most %d", used, len(p.VFs)-used, p.Max))
		if missing := p.PresentVFs() - len(p.VFs); missing > 0 {
			parts = append(parts, fmt.Sprintf("%d that the host does not list", missing))
		}
	}
	if p.IsPending() {
		parts = append(parts, fmt.Sprintf("%d after a reboot", p.WantedVFs()))
	}
	return strings.Join(parts, ", ")
}

// drawVFs lists the VFs, and the network adapters that get one as their virtual machine starts.
func drawVFs(h state.Host) *screen.Table {
	t := &screen.Table{Columns: []screen.Column{{Head: "VF"}, {Head: "PCI"}, {Head: "PHASE"}, {Head: "OWNER", Least: 16}, {Head: "AS"}, {Head: "NETWORK", Least: 12}, {Head: "MAC"}}}
	for _, p := range h.Ports {
		for i, f := range p.VFs {
			name := fmt.Sprintf("%s#%d", cleanText(p.NIC), i)
			if vm, use := h.Holder(f.PCI); vm != nil {
				t.Add(screen.Words(name, cleanText(f.PCI), "attached", "vm "+cleanText(vm.Name), use.As, cleanText(use.PortGroup), cleanText(use.MAC))...)
				continue
			}
			t.Add(screen.Words(name, cleanText(f.PCI), "free", "", "", "", "")...)
		}
	}
	for _, vm := range h.VMs {
		for _, use := range vm.VFs {
			if use.As == file.NIC && use.Address == "" {
				t.Add(screen.Words(cleanText(cmp.Or(use.Port, "any port")), "", "at start", "vm "+cleanText(vm.Name), use.As, cleanText(use.PortGroup), cleanText(use.MAC))...)
			}
		}
	}
	return t
}

func drawVMs(h state.Host) *screen.Table {
	t := screen.NewTable("VM", "POWER", ">MEMORY", "RESERVED", ">VFS")
	for _, vm := range h.VMs {
		reserved := strconv.Itoa(vm.ReservedMB) + " MB"
		switch {
		case vm.Unreadable != "":
			reserved = cleanText(vm.Unreadable)
		case vm.Locked:
			reserved = "all"
		}
		power := vm.Power
		if vm.Template {
			power = "template"
		}
		t.Add(screen.Words(cleanText(vm.Name), power, strconv.Itoa(vm.MemoryMB)+" MB", reserved, strconv.Itoa(len(vm.VFs)))...)
	}
	return t
}

func drawSwitches(h state.Host) *screen.Table {
	t := &screen.Table{Columns: []screen.Column{{Head: "SWITCH", Least: 12}, {Head: "UPLINKS"}, {Head: "MTU", Right: true}, {Head: "PORT GROUPS", Least: 20}}}
	for _, s := range h.Switches {
		var groups []string
		for _, name := range s.PortGroups {
			if g := h.FindGroup(name); g != nil && g.VLAN > 0 {
				name = fmt.Sprintf("%s (VLAN %d)", name, g.VLAN)
			}
			groups = append(groups, name)
		}
		t.Add(screen.Words(cleanText(s.Name), cleanText(strings.Join(s.Uplinks, " ")), strconv.Itoa(s.MTU), cleanText(strings.Join(groups, ", ")))...)
	}
	return t
}
