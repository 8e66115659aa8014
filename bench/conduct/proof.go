package conduct

import (
	"fmt"

	"github.com/culvert-net/culvert/bench"
)

// Proof says why a run does not prove that its traffic took the arm's paths, and is
// empty when it does: the counters of each path's interfaces must have risen by what
// is claimed, at both ends, and no other's by a part of it that counts. An interface that
// several paths share must have risen by what is claimed of all, and so must those of
// what is in the middle.
//
// Counters are compared in the run's direction. Frames are larger than payload, so
// that what rose is more than what is claimed; it may be less by what some
// drivers' counters lag (iavf asks the PF every 2 s). What else goes over the
// other interfaces, such as the connection of a person, is little.
func Proof(arm bench.Arm, run bench.Run) string {
	paths, each := arm.Paths(), run.Each()
	if len(each) != len(paths) {
		return fmt.Sprintf("it has %d shares, and the arm %d paths", len(each), len(paths))
	}
	var ends []end
	for i, p := range paths {
		claimed := claim(arm.Workload.Kind, each[i])
		if claimed == (claims{}) {
			return fmt.Sprintf("nothing arrived at %s", p.To.Name)
		}
		ends = append(ends,
			end{p.From, each[i].From, !arm.Workload.Reverse, claimed},
			end{p.To, each[i].To, arm.Workload.Reverse, claimed})
	}
	if why := relayed(arm, run.Seconds, each); why != "" {
		return why
	}
	for _, e := range ends {
		var all claims
		for _, o := range ends {
			if o.sends == e.sends && o.Machine == e.Machine && o.Name == e.Name && o.Interface == e.Interface {
				all.bytes, all.packets = all.bytes+o.claimed.bytes, all.packets+o.claimed.packets
			}
		}
		if why := e.proves(all, run.Seconds); why != "" {
			return why
		}
		if why := e.flapped(); why != "" && !arm.Workload.Pulled {
			return why
		}
	}
	return ""
}

// claims are what a run says went from one end to the other: bytes of payload, or
// packets where they are what it counts. Segments and datagrams are not compared,
// for an interface may count 64 KiB of them as one packet.
type claims struct{ bytes, packets uint64 }

func claim(kind bench.Kind, run bench.Run) claims {
	switch {
	case kind == bench.Stream || kind == bench.Datagram:
		return claims{bytes: run.Bytes}
	case run.Delays != nil:
		return claims{packets: run.Delays.Count}
	}
	return claims{packets: run.Packets}
}

// end is one of a path's, with what was seen there and what the path claims.
type end struct {
	bench.End
	seen    bench.Evidence
	sends   bool
	claimed claims
}

// The other paths may carry a tenth of what is claimed, and in a second what a
// person's connection does.
const (
	otherShare   = 0.1
	otherBytes   = 256 << 10
	otherPackets = 500
)

// lagSeconds is how late a driver's counters may be.
const lagSeconds = 2.5

// leastShare is the part of what is claimed by which counters have risen at least.
func leastShare(seconds float64) float64 { return max(0.5, 1-lagSeconds/max(seconds, 1)) }

func (c claims) over(share float64, bytes, packets uint64) bool {
	return float64(bytes) >= share*float64(c.bytes) && float64(packets) >= share*float64(c.packets)
}

func (e end) proves(c claims, seconds float64) string {
	known := false
	share := leastShare(seconds)
	for _, i := range e.seen.Interfaces {
		bytes, packets, verb := i.RxBytes, i.RxPackets, "received"
		if e.sends {
			bytes, packets, verb = i.TxBytes, i.TxPackets, "sent"
		}
		switch i.Role {
		case "path":
			known = true
			if !c.over(share, bytes, packets) {
				return fmt.Sprintf("%s of %s %s %s, and %s were claimed: the traffic took another way", i.Interface, e.Name, verb, amount(bytes, packets, c), amount(c.bytes, c.packets, c))
			}
		default:
			if float64(bytes) > otherShare*float64(c.bytes)+otherBytes*seconds && c.bytes > 0 ||
				float64(packets) > otherShare*float64(c.packets)+otherPackets*seconds && c.packets > 0 {
				return fmt.Sprintf("%s of %s, which is not on the path, %s %s, while %s were claimed: the traffic, or other traffic, went there",
					i.Interface, e.Name, verb, amount(bytes, packets, c), amount(c.bytes, c.packets, c))
			}
		}
	}
	if !known {
		return fmt.Sprintf("%s has no counters of %s: nothing shows which way the traffic took", e.Name, e.Interface)
	}
	return ""
}

// flapped says that the link was not there all the time. What arrived in the rest of
// the window is no figure of the path.
func (e end) flapped() string {
	for _, i := range e.seen.Interfaces {
		if i.Role == "path" && i.Downs > 0 {
			return fmt.Sprintf("the link of %s of %s went down in the run (count %d)", i.Interface, e.Name, i.Downs)
		}
	}
	return ""
}

// amount writes bytes or packets, whichever are claimed.
func amount(bytes, packets uint64, c claims) string {
	if c.packets > 0 {
		return fmt.Sprintf("%d packets", packets)
	}
	return fmt.Sprintf("%.1f MB", float64(bytes)/1e6)
}
