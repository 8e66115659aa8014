package conduct

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/culvert-net/culvert/bench"
	"github.com/culvert-net/culvert/bench/preset"
)

// deviceNetwork is the network of a path between VFs that DPDK drives, and deviceEnds the names of
// their ends.
const (
	deviceNetwork = "DPDK"
	deviceEnds    = "VF-VF"
)

// IsOnDevices reports whether the order has the preset whose ends are VFs that DPDK drives.
func (o Order) IsOnDevices() bool {
	all, _ := o.findPresets() // Check has returned the error
	return slices.ContainsFunc(all, preset.Preset.IsOnDevices)
}

// checkDevices returns an error for what does not go with such a preset. All else of an order needs
// addresses, and the kernel at the ends.
func (o Order) checkDevices() error {
	if !o.IsOnDevices() {
		return nil
	}
	for _, one := range []struct {
		is  bool
		why string
	}{
		{len(o.Presets) > 1, "m15 goes alone, since the kernel does not have its ends: run the others before it or after it"},
		{o.Cluster != nil, "m15 in a cluster: name VFs of its nodes, such as --from ssh:root@n1,pci=0000:01:10.0, in place of --cluster"},
		{len(o.AB) > 0, "--ab tries the paths by questions, which m15's ends do not answer: make two results of m15"},
		{o.Service != "", "--service does not go with m15, whose frames have no address of a Service"},
		{o.Burst > 1, "--burst is for Culvert's own engine, and m15 sends by DPDK"},
	} {
		if one.is {
			return errors.New(one.why)
		}
	}
	return nil
}

// checkDevices returns an error where an end is no VF that DPDK drives and should be one, or is one
// and should not.
func (n named) checkDevices(want bool) error {
	for _, s := range slices.Concat(n.from, n.to, n.via) {
		switch {
		case want && s.PCI == "":
			place, _, _ := strings.Cut(s.String(), ",")
			return fmt.Errorf("m15: %s names no VF that DPDK drives: take %s,pci=ADDRESS with the PCI address of a free VF that is bound to vfio-pci (culvert vf list -o wide)", s, place)
		case !want && s.PCI != "":
			return fmt.Errorf("%s: ,pci= is for m15: name it, or a network namespace with an interface of the VF", s)
		}
	}
	return nil
}

// isDevice reports whether the site is a VF that DPDK drives, which the kernel sees no frames of.
func (s Site) isDevice() bool { return s.PCI != "" }

// devicePath returns the path from one such VF to another. Frames have the other's MAC address, so
// that no address of the network layer and no route is needed.
func devicePath(from, to Site) (all []bench.Path) {
	for _, f := range from.Ends {
		for _, t := range to.Ends {
			p := bench.Path{Ends: deviceEnds, Network: deviceNetwork, From: from.nameEnd(f), To: to.nameEnd(t)}
			p.Place = namePlace(p)
			all = append(all, p)
		}
	}
	return all
}

// throughDevice makes the paths go through a VF whose testpmd forwards. Each frame then leaves the
// machine of an end, if the VF in the middle is on another one.
func throughDevice(via *Station, paths []bench.Path) []bench.Path {
	for i := range paths {
		p := &paths[i]
		p.Via = bench.Relay{Machine: via.kernelName(), Name: via.Name, How: bench.ForwardsByDPDK}
		if p.Place != "other node" && via.Machine.Name != p.From.Machine {
			p.Place = "other node"
		}
	}
	return paths
}

// stop is a VF on the way of a path's frames that DPDK drives, with the counters that it rose.
type stop struct {
	name, machine string
	vf, port      bench.Counters
	counted       bool // port is known
	sends         bool
	receives      bool
}

// listStops returns the VFs on the way of a run, from the first to the last.
func listStops(p bench.Path, run bench.Run) (all []stop) {
	add := func(name, machine string, seen bench.Evidence, receives, sends bool) {
		s := stop{name: name, machine: machine, sends: sends, receives: receives}
		for _, c := range seen.Whole.Interfaces {
			switch c.Role {
			case "path":
				s.vf = c
			case "port":
				s.port, s.counted = c, true
			}
		}
		all = append(all, s)
	}
	add(p.From.Name, p.From.Machine, run.From, false, true)
	if run.Via != nil {
		add(p.Via.Name, p.Via.Machine, *run.Via, true, true)
	}
	add(p.To.Name, p.To.Machine, run.To, true, false)
	return all
}

func (s stop) sharesPort(o stop) bool {
	return s.machine == o.machine && s.port.Interface == o.port.Interface
}

// checkPorts returns the reason why the ports of the PFs do not prove a run between VFs that DPDK
// drives, or "" if they do, or their drivers count no frames of VFs. testpmd reads the counters of
// the VFs; those of the ports are the kernel's. Frames between VFs of one PF do not pass its port.
func checkPorts(arm bench.Arm, run bench.Run) string {
	if arm.Path.Network != deviceNetwork {
		return ""
	}
	all := listStops(arm.Path, run)
	for i, s := range all {
		if !s.counted {
			continue
		}
		if why := checkPort(s, all, i, run.From.Whole.Seconds); why != "" {
			return why
		}
	}
	return ""
}

// checkPort compares the port of one stop with all that the run sent and received by it.
func checkPort(s stop, all []stop, at int, seconds float64) string {
	var sent, received uint64 // that the run claims of the port
	inside := false
	for i, from := range all[:len(all)-1] {
		to := all[i+1]
		if from.sharesPort(to) {
			inside = inside || i == at || i+1 == at
			continue
		}
		if from.sharesPort(s) {
			sent += from.vf.TxPackets
		}
		if to.sharesPort(s) {
			received += from.vf.TxPackets // the port may count frames that the VF had no buffer for
		}
	}
	if inside {
		return ""
	}
	for _, d := range []struct {
		verb                  string
		is                    bool
		counted, least, claim uint64
	}{
		{"sent", s.sends, s.port.TxPackets, s.vf.TxPackets, sent},
		{"received", s.receives, s.port.RxPackets, s.vf.RxPackets, received},
	} {
		most := (1+otherShare)*float64(d.claim) + idlePackets*seconds
		switch {
		case d.is && float64(d.counted) < leastShare*float64(d.least):
			return fmt.Sprintf("the port of %s on %s %s %d packets, and testpmd counted %d on the VF %s: the frames took another way", s.port.Interface, s.machine, d.verb, d.counted, d.least, s.name)
		case d.is && float64(d.counted) > most:
			return fmt.Sprintf("the port of %s on %s %s %d packets, and the run and an idle network cause at most %.0f: other traffic was on the wire", s.port.Interface, s.machine, d.verb, d.counted, most)
		}
	}
	return ""
}
