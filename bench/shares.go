package bench

import (
	"math"
	"slices"
	"strings"
)

// Paths are all that carry the arm's workload at once: one, for most arms.
func (a Arm) Paths() []Path { return slices.Concat([]Path{a.Path}, a.Also) }

// EachBounds are those of all paths, in the order of Paths. Of what nobody looked for all is 0.
func (a Arm) EachBounds() []Bounds {
	each := make([]Bounds, 1+len(a.Also))
	each[0] = a.Bounds
	copy(each[1:], a.AlsoBounds)
	return each
}

// Each is the run as each path of its arm made it, in the order of [Arm.Paths]. That of an arm
// with one path is the run itself. A void run may lack those of its other paths.
func (r Run) Each() []Run {
	if len(r.Shares) == 0 {
		return []Run{r}
	}
	var all []Run
	for _, s := range r.Shares {
		all = append(all, Run{
			Arm: r.Arm, Started: r.Started, Discard: r.Discard, Void: r.Void,
			Seconds: s.Seconds, Bytes: s.Bytes, Packets: s.Packets, Sent: s.Sent, Lost: s.Lost,
			Gbps: s.Gbps, PPS: s.PPS, Retransmits: s.Retransmits, Series: s.Series, From: s.From, To: s.To, Via: s.Via,
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
		if r.Retransmits != nil {
			again := *r.Retransmits
			if total.Retransmits != nil {
				again += *total.Retransmits
			}
			total.Retransmits = &again
		}
		total.Series = plus(total.Series, r.Series)
		total.Shares = append(total.Shares, Share{
			Seconds: r.Seconds, Bytes: r.Bytes, Packets: r.Packets, Sent: r.Sent, Lost: r.Lost,
			Gbps: r.Gbps, PPS: r.PPS, Retransmits: r.Retransmits, Series: r.Series, From: r.From, To: r.To, Via: r.Via,
		})
	}
	return total
}

// plus adds series of the same parts of a window; one may have a last part that the other has not.
func plus(a, b []float64) []float64 {
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

// Fairness is the least of the run's shares as a part of the largest, by what the arm is about:
// 1 is all alike. It is NaN for an arm with one path.
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

// seenEnd is an end with what was seen of it.
type seenEnd struct {
	end  End
	seen Evidence
}

// ends are those of all paths with their evidence, first all that the paths begin at, then all
// where they end, and then what is between them.
func (a Arm) ends(r Run) []seenEnd {
	paths, each := a.Paths(), r.Each()
	n := min(len(paths), len(each))
	var from, to []seenEnd
	for i := range n {
		from, to = append(from, seenEnd{paths[i].From, each[i].From}), append(to, seenEnd{paths[i].To, each[i].To})
	}
	return slices.Concat(from, to, a.relays(r))
}

// relays are what is in the middle of the paths, with its evidence.
func (a Arm) relays(r Run) (all []seenEnd) {
	paths := a.Paths()
	for i, one := range r.Each() {
		if i < len(paths) && one.Via != nil {
			all = append(all, seenEnd{End{Machine: paths[i].Via.Machine, Name: paths[i].Via.Name}, *one.Via})
		}
	}
	return all
}

// once keeps the first of those ends that are alike by a key: evidence is of a whole machine, or of
// an interface that several paths may share.
func once(ends []seenEnd, key func(End) End) []seenEnd {
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

// Busiest is how much of the window the busiest processor worked, of all machines that the paths begin
// on and of all that they end on, 0 to 1.
func (r Run) Busiest() (from, to float64) {
	for _, one := range r.Each() {
		from, to = max(from, one.From.CPU.Busiest), max(to, one.To.CPU.Busiest)
	}
	return from, to
}
