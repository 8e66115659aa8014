package lab

import (
	"fmt"
	"io"
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

// Write prints the status for people, in at most 100 columns.
func (s Status) Write(w io.Writer, now time.Time) error {
	accel := s.Accel
	if s.WhyNot != "" {
		accel += ", not kvm: " + s.WhyNot
	}
	fmt.Fprintf(w, "lab    %s, up %s, supervisor %d\nimage  %s\naccel  %s\n\n", s.Name, screen.Ago(now.Sub(s.Since)), s.Supervisor, s.Image, strings.Join(screen.Wrap(accel, 93), "\n       "))
	t := screen.NewTable("NODE", "STATE", "PID", "UPTIME", "ADDRESS", "PF1", "PF2")
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
	var b strings.Builder
	t.Write(&b, screen.Look{})
	if _, err := io.WriteString(w, b.String()); err != nil {
		return err
	}
	if err := writePrograms(w, s.Programs); err != nil {
		return err
	}
	for _, n := range s.Nodes {
		if n.Reason != "" {
			fmt.Fprintf(w, "\n%s is off: %s\n", n.Name, strings.Join(screen.Wrap(n.Reason, 80), "\n  "))
		}
	}
	return nil
}
