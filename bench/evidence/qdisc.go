package evidence

import (
	"fmt"
	"slices"
	"strings"

	"github.com/vishvananda/netlink"

	"github.com/culvert-net/culvert/bench"
)

// shape is what the queueing disciplines of an interface do to the frames that it sends.
type shape struct {
	text             string
	mbps, mbpsOfFlow float64 // limits in 1e6 bits a second; 0: none
}

// readShapes reads the queueing disciplines of all interfaces of this network namespace (tc(8)), by
// the number of the interface. Where the kernel does not list them there are none.
func readShapes() map[int]shape {
	all, err := netlink.QdiscList(nil)
	if err != nil {
		return nil
	}
	of := map[int][]netlink.Qdisc{}
	for _, q := range all {
		of[q.Attrs().LinkIndex] = append(of[q.Attrs().LinkIndex], q)
	}
	shapes := map[int]shape{}
	for index, list := range of {
		var classes []netlink.Class
		if slices.ContainsFunc(list, func(q netlink.Qdisc) bool { return q.Type() == "htb" }) {
			classes, _ = netlink.ClassList(&netlink.Dummy{LinkAttrs: netlink.LinkAttrs{Index: index}}, 0) // without them there is no limit
		}
		shapes[index] = describeShape(list, classes)
	}
	return shapes
}

// describeShape describes the queueing disciplines of one interface, that at the root first.
func describeShape(list []netlink.Qdisc, classes []netlink.Class) (s shape) {
	var names []string
	chain := uint32(netlink.HANDLE_ROOT) // the parent of the next one that takes all frames
	for _, q := range sortByParent(list) {
		text, limit := describeQdisc(q, classes)
		if !slices.Contains(names, text) {
			names = append(names, text)
		}
		if fq, is := q.(*netlink.Fq); is && isRate(fq.FlowMaxRate) {
			s.mbpsOfFlow = lowerLimit(s.mbpsOfFlow, megabits(uint64(fq.FlowMaxRate)))
		}
		parent, handle := q.Attrs().Parent, q.Attrs().Handle
		if parent != chain && (chain == netlink.HANDLE_ROOT || parent>>16 != chain>>16) {
			continue
		}
		s.mbps = lowerLimit(s.mbps, limit)
		if q.Type() == "tbf" || q.Type() == "netem" { // which have one child
			chain = handle
		} else {
			chain = 0
		}
	}
	s.text = strings.Join(names, "; ")
	return s
}

// sortByParent puts the discipline at the root first, and each before those below it.
func sortByParent(list []netlink.Qdisc) (sorted []netlink.Qdisc) {
	rest := slices.Clone(list)
	isRoot := func(q netlink.Qdisc) bool { return q.Attrs().Parent == netlink.HANDLE_ROOT }
	for next := isRoot; len(rest) > 0; {
		i := slices.IndexFunc(rest, next)
		if i < 0 {
			i = 0
		}
		sorted = append(sorted, rest[i])
		rest = slices.Delete(rest, i, i+1)
		next = func(q netlink.Qdisc) bool {
			return slices.ContainsFunc(sorted, func(o netlink.Qdisc) bool { return o.Attrs().Handle>>16 == q.Attrs().Parent>>16 })
		}
	}
	return sorted
}

// describeQdisc returns a queueing discipline with its settings that limit traffic, and its rate
// limit in Mb/s.
func describeQdisc(q netlink.Qdisc, classes []netlink.Class) (text string, mbps float64) {
	switch q := q.(type) {
	case *netlink.Tbf:
		mbps = megabits(q.Rate)
		return fmt.Sprintf("tbf rate %s Mb/s, limit %d bytes", bench.Number(mbps), q.Limit), mbps
	case *netlink.Fq:
		if isRate(q.FlowMaxRate) {
			return fmt.Sprintf("fq maxrate %s Mb/s of each flow", bench.Number(megabits(uint64(q.FlowMaxRate)))), 0
		}
	case *netlink.Netem:
		return describeNetem(q)
	case *netlink.Htb:
		for _, c := range classes {
			if h, is := c.(*netlink.HtbClass); is && h.Parent == netlink.HANDLE_ROOT {
				mbps += megabits(h.Ceil)
			}
		}
		text = fmt.Sprintf("htb ceil %s Mb/s", bench.Number(mbps))
		if q.Defcls == 0 { // frames of no class pass without a limit
			mbps = 0
		}
		return text, mbps
	}
	return q.Type(), 0
}

// describeNetem adds the limit that a queue of so many packets, each delayed, has: that of full
// frames of Ethernet.
func describeNetem(q *netlink.Netem) (text string, mbps float64) {
	const frame = 1514
	parts := []string{"netem"}
	if q.Rate64 > 0 {
		mbps = megabits(q.Rate64)
		parts = append(parts, fmt.Sprintf("rate %s Mb/s", bench.Number(mbps)))
	}
	if micros := float64(q.Latency) / netlink.TickInUsec(); q.Latency > 0 {
		parts = append(parts, fmt.Sprintf("delay %s us, limit %d packets", bench.Number(micros), q.Limit))
		mbps = lowerLimit(mbps, float64(q.Limit)*frame*8/micros)
	}
	if q.Loss > 0 {
		parts = append(parts, fmt.Sprintf("loss %s %%", bench.Number(100*float64(q.Loss)/(1<<32-1))))
	}
	return strings.Join(parts, " "), mbps
}

// isRate reports whether fq has a rate: all bits set is none.
func isRate(bytes uint32) bool { return bytes > 0 && bytes < 1<<32-1 }

func megabits(bytes uint64) float64 { return float64(bytes) * 8 / 1e6 }

// lowerLimit returns the lower of two limits, of which 0 is none.
func lowerLimit(a, b float64) float64 {
	if a == 0 || b > 0 && b < a {
		return b
	}
	return a
}
