package bench

import (
	"math"
	"slices"
	"strings"
)

// Paths returns all paths that carry the arm's workload at once. Most arms have one.
func (a Arm) Paths() []Path { return slices.Concat([]Path{a.Path}, a.Also) }

// EachBounds returns the bounds of all paths, in the order of Paths. Bounds that were not
// measured are 0.
func (a Arm) EachBounds() []Bounds {
	each := make([]Bounds, 1+len(a.Also))
	each[0] = a.Bounds
	copy(each[1:], a.AlsoBounds)
	return each
}

// Each returns the part of the run on each path of its arm, in the order of [Arm.Paths]. If the
// arm has one path, that is the run itself. A void run may lack the parts of its other paths.
func (r Run) Each() []Run {
	if len(r.Shares) == 0 {
		return []Run{r}
	}
	var all []Run
	for _, s := range r.Shares {
		all = append(all, Run{
			Arm: r.Arm, Started: r.Started, Discard: r.Discard, Void: r.Void,
			Seconds: s.Seconds, Bytes: s.Bytes, Packets: s.Packets, Sent: s.Sent, Lost: s.Lost,
			Gbps: s.Gbps, PPS: s.PPS, Retransmits: s.Retransmits, Series: s.Series, Totals: s.Totals, From: s.From, To: s.To, Via: s.Via,
		})
	}
	return all
}

// Sum makes one run of what several paths carried at the same time. Its window is the longest of theirs.
// Delays are of one path alone: percentiles have no sum.
func Sum(each []Run) Run {
	if len(each) == 1 {
		return each[0]
	}
	var total Run
	for i, r := range each {
		if i == 0 || r.Started.Before(total.Started) {
			total.Started = r.Started
		}
		total.Seconds = max(total.Seconds, r.Seconds)
		total.Bytes, total.Packets = total.Bytes+r.Bytes, total.Packets+r.Packets
		total.Sent, total.Lost = total.Sent+r.Sent, total.Lost+r.Lost
		total.Gbps, total.PPS = total.Gbps+r.Gbps, total.PPS+r.PPS
		total.Retransmits = sumKnown(i == 0, total.Retransmits, r.Retransmits)
		total.Series = addSeries(total.Series, r.Series)
		total.Totals = total.Totals.addTotals(r.Totals)
		total.Shares = append(total.Shares, Share{
			Seconds: r.Seconds, Bytes: r.Bytes, Packets: r.Packets, Sent: r.Sent, Lost: r.Lost,
			Gbps: r.Gbps, PPS: r.PPS, Retransmits: r.Retransmits, Series: r.Series, Totals: r.Totals, From: r.From, To: r.To, Via: r.Via,
		})
	}
	return total
}

func (t Totals) addTotals(o Totals) Totals {
	segment := max(t.Segment, o.Segment)
	if t.Segment > 0 && o.Segment > 0 {
		segment = min(t.Segment, o.Segment)
	}
	return Totals{Sent: t.Sent + o.Sent, Arrived: t.Arrived + o.Arrived, Retransmits: t.Retransmits + o.Retransmits, Segment: segment}
}

// addSeries adds series of the same parts of a window; one may have a last part that the other has not.
func addSeries(a, b []float64) []float64 {
	sum := make([]float64, max(len(a), len(b)))
	for i := range sum {
		if i < len(a) {
			sum[i] += a[i]
		}
		if i < len(b) {
			sum[i] += b[i]
		}
	}
	return sum
}

// Fairness returns the smallest share of a path in the run as a part of the largest, by the arm's
// main metric: 1 means equal shares. It is NaN for an arm with one path.
func (a Arm) Fairness(r Run) float64 {
	if len(r.Shares) < 2 {
		return math.NaN()
	}
	least, most := math.Inf(1), math.Inf(-1)
	for _, one := range r.Each() {
		v := a.Main().Of(a, one)
		least, most = min(least, v), max(most, v)
	}
	if !(most > 0) {
		return math.NaN()
	}
	return least / most
}

// Over reports whether the end's frames go through an interface of its machine.
func (e End) Over(name string) bool {
	return name == e.Interface || name == e.PF || slices.Contains(strings.Split(e.Uplink, "+"), name)
}

// seenEnd is an end with its evidence.
type seenEnd struct {
	end  End
	seen Evidence
}

// listEnds returns the ends of all paths with their evidence: first those where the paths begin,
// then those where they end, and then the relays between them.
func (a Arm) listEnds(r Run) []seenEnd {
	paths, each := a.Paths(), r.Each()
	n := min(len(paths), len(each))
	var from, to []seenEnd
	for i := range n {
		from, to = append(from, seenEnd{paths[i].From, each[i].From}), append(to, seenEnd{paths[i].To, each[i].To})
	}
	return slices.Concat(from, to, a.listRelays(r))
}

// listRelays returns the machines in the middle of the paths, with their evidence.
func (a Arm) listRelays(r Run) (all []seenEnd) {
	paths := a.Paths()
	for i, one := range r.Each() {
		if i < len(paths) && one.Via != nil {
			all = append(all, seenEnd{End{Machine: paths[i].Via.Machine, Name: paths[i].Via.Name}, *one.Via})
		}
	}
	return all
}

// onceBy keeps the first of the ends with the same key, since evidence is of a whole machine, or of
// an interface that several paths may share.
func onceBy(ends []seenEnd, key func(End) End) []seenEnd {
	var out []seenEnd
	for _, e := range ends {
		if !slices.ContainsFunc(out, func(o seenEnd) bool { return key(o.end) == key(e.end) }) {
			out = append(out, e)
		}
	}
	return out
}

func byMachine(e End) End { return End{Machine: e.Machine} }

func byName(e End) End { return End{Machine: e.Machine, Name: e.Name} }

func byInterface(e End) End { return End{Machine: e.Machine, Name: e.Name, Interface: e.Interface} }

// Busiest returns the part of the window, from 0 to 1, in which the busiest processor worked:
// from is of the machines on which the paths begin, to of those on which they end.
func (r Run) Busiest() (from, to float64) {
	for _, one := range r.Each() {
		from, to = max(from, one.From.CPU.Busiest), max(to, one.To.CPU.Busiest)
	}
	return from, to
}

// sumKnown adds a count to a sum. The sum is unknown if any of its counts is.
func sumKnown(first bool, sum, next *uint64) *uint64 {
	if next == nil || sum == nil && !first {
		return nil
	}
	total := *next
	if !first {
		total += *sum
	}
	return &total
}
