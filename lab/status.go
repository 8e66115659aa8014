package lab

import (
	"fmt"
	"strings"
	"time"

	"github.com/culvert-net/culvert/internal/screen"
)

// A NodeState says whether a node boots, is ready, or is off.
type NodeState string

// The states of a node.
const (
	Booting NodeState = "booting" // powered on, does not take commands yet
	Ready   NodeState = "ready"   // takes commands, and has both PFs
	Off     NodeState = "off"     // powered off, or its power was cut
)

// Status is the state of a lab at one moment.
type Status struct {
	Name         string    `json:"name"`
	Image        string    `json:"image"`              // the hash of the image's recipe
	Addition     Addition  `json:"addition,omitempty"` // what the image has besides
	Supervisor   int       `json:"supervisor"`         // its process, in whose network namespace the lab is
	RunDir       string    `json:"runDir"`             // where the nodes' consoles are
	Since        time.Time `json:"since"`
	Acceleration `json:"acceleration"`
	Nodes        []Node    `json:"nodes"`
	Programs     []Program `json:"programs,omitempty"`
}

// Node is one machine of a lab.
type Node struct {
	Name    string    `json:"name"`
	State   NodeState `json:"state"`
	Reason  string    `json:"reason,omitempty"` // why it is off
	PID     int       `json:"pid,omitempty"`    // of its QEMU
	Since   time.Time `json:"since,omitzero"`   // when it was powered on
	Address string    `json:"address"`          // on the management network
	PFs     []PF      `json:"pfs"`
}

// PF is one physical function of a node.
type PF struct {
	ID        string `json:"id"`        // "pf1", "pf2": what Link takes
	Interface string `json:"interface"` // its name in the node: Link takes it too
	PCI       string `json:"pci"`
	MAC       string `json:"mac"`
	Cable     bool   `json:"cable"` // plugged in
}

// newPF describes the n-th PF of a node that has a number of PCIe roots.
func newPF(node, n, roots int) PF {
	bus := pciBus(n, roots)
	name := fmt.Sprintf("enp%ds0", bus)
	if bus > secondRoot { // the second root has hotplug slots, which udev prefers for a name
		name = fmt.Sprintf("ens%d", n)
	}
	return PF{
		ID: pfID(n), Interface: name, PCI: fmt.Sprintf("0000:%02x:00.0", bus),
		MAC: macAddr(node, n), Cable: true,
	}
}

// Draw returns the status for people, which fits the width of look.
func (s Status) Draw(now time.Time, look screen.Look) string {
	accel := s.Accel
	if s.WhyNot != "" {
		accel += ", not kvm: " + s.WhyNot
	}
	var b strings.Builder
	fmt.Fprintf(&b, "lab    %s, up %s, supervisor %d\nimage  %s\n", s.Name, screen.Ago(now.Sub(s.Since)), s.Supervisor, s.Image)
	b.WriteString(hang("accel  ", accel, look) + "\n")
	t := &screen.Table{} // nothing is cut: people copy names and addresses
	for _, head := range []string{"NODE", "STATE", "PID", "UPTIME", "ADDRESS", "PF1", "PF2"} {
		t.Columns = append(t.Columns, screen.Column{Head: head})
	}
	for _, n := range s.Nodes {
		pid, up := "-", "-"
		if n.PID != 0 {
			pid, up = fmt.Sprint(n.PID), screen.Ago(now.Sub(n.Since))
		}
		row := []string{n.Name, string(n.State), pid, up, n.Address}
		for _, pf := range n.PFs {
			row = append(row, pf.Interface+map[bool]string{true: " plugged", false: " PULLED"}[pf.Cable])
		}
		t.Add(screen.Words(row...)...)
	}
	t.Write(&b, look)
	b.WriteString(drawPrograms(s.Programs, look))
	for _, n := range s.Nodes {
		if n.Reason != "" {
			fmt.Fprintf(&b, "\n%s is off: %s\n", n.Name, n.Reason)
		}
	}
	return look.Fit(b.String())
}

// hang returns a text behind a head, whose further lines are indented by as much.
func hang(head, text string, look screen.Look) string {
	width := 0
	if look.Width > 0 {
		width = max(look.Width-len(head), 20)
	}
	return head + strings.Join(screen.Wrap(text, width), "\n"+strings.Repeat(" ", len(head))) + "\n"
}
