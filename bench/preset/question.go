package preset

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/culvert-net/culvert/bench"
	"github.com/culvert-net/culvert/bench/engine"
)

// Question is a measurement without a preset, by Culvert's own engine over any path. The zero value
// asks for the throughput of one TCP stream.
type Question struct {
	Send string // "tcp" or "udp": the throughput; empty: tcp, unless Ask is set
	Ask  string // "tcp", "udp" or "connect": the round trips
	// Rate is in Mb/s for Send, and in questions a second for Ask, of all streams together. 0: as
	// much as the path carries, or each question at once after the answer to the one before.
	Rate      float64
	RateUnit  RateUnit // as Rate was written
	Streams   int
	Sizes     []int  // of writes, datagrams or questions in bytes, an arm for each; none: the engine's
	Direction string // "there", "back" or "both"; empty: there
	DSCP      int
	Loads     []int // percent of the path's TCP throughput, an arm for each beside the idle path
}

// RateUnit is the unit that a Rate was written with.
type RateUnit string

// The units of rates. A number without a unit is one of Mb/s or of questions, as the question asks.
const (
	NoUnit    RateUnit = ""
	Bits      RateUnit = "bits"
	Questions RateUnit = "questions"
)

// The words of Question's fields.
var (
	Sent       = []string{"tcp", "udp"}
	Asked      = []string{"tcp", "udp", "connect"}
	Directions = []string{"there", "back", "both"}
)

// isZero reports whether the question is the one that is asked by default.
func (q Question) isZero() bool {
	return q.Send == "" && q.Ask == "" && q.Rate == 0 && q.Streams == 0 && len(q.Sizes) == 0 && q.Direction == "" && q.DSCP == 0 && len(q.Loads) == 0
}

// Check returns an error for a question that no path can answer, or that is given beside presets.
func (q Question) Check(presets []string) error {
	for _, f := range []struct {
		flag, value string
		words       []string
	}{{"--send", q.Send, Sent}, {"--ask", q.Ask, Asked}, {"--direction", q.Direction, Directions}} {
		if f.value != "" && !slices.Contains(f.words, f.value) {
			return fmt.Errorf("%s %q: take %s", f.flag, f.value, strings.Join(f.words, ", "))
		}
	}
	switch {
	case len(presets) > 0 && !q.isZero():
		return fmt.Errorf("--send, --ask, --rate, --streams, --size, --direction, --dscp and --load ask a question of their own: leave out %s, whose workload is the report's", strings.Join(presets, " "))
	case q.Send != "" && q.Ask != "":
		return errors.New("--send and --ask: the first measures throughput, the second round trips: take one, or two runs")
	case q.Ask == "" && len(q.Loads) > 0:
		return errors.New("--load is for --ask: it measures round trips while TCP runs beside them")
	case q.Ask != "" && q.Direction == "both":
		return errors.New("--direction both is for --send: round trips of two ends have no total: ask in one direction, and then in the other (--direction back)")
	case q.Rate < 0 || q.Streams < 0:
		return errors.New("--rate and --streams: take numbers above 0")
	case q.Ask != "" && q.RateUnit == Bits:
		return fmt.Errorf("--rate is in bits a second, and --ask %s counts questions: take questions a second, such as --rate 1000/s, or --send", q.Ask)
	case q.Ask == "" && q.RateUnit == Questions:
		return errors.New("--rate is in questions a second, and --send counts bits: take such as --rate 200M or --rate 10Gb/s, or --ask")
	}
	for _, load := range q.Loads {
		if load < 1 || load > 100 {
			return fmt.Errorf("--load %d: take percents of the path's throughput, 1 to 100, such as 10,50,90", load)
		}
	}
	for _, v := range q.listVariants(false) {
		if _, err := engine.Check(v.workload); err != nil {
			return err
		}
	}
	return nil
}

// Plan returns the plan of the question: the arms side by side over the software paths and the VF
// paths, between pods or guests if there are any.
func (q Question) Plan(h Here, quick bool) (Plan, error) {
	plan := Plan{Repeats: 6}
	if quick {
		plan.Repeats = 3
	}
	within := slices.ContainsFunc(h.Paths, isInner)
	for _, p := range h.Paths {
		switch {
		case within != isInner(p):
		case p.Service.IsValid() && cmp.Or(q.Direction, "there") != "there":
			plan.addNote("a Service has no way back: its path is left out")
		default:
			q.addArms(&plan, p, quick)
		}
	}
	if h.Service && q.isZero() {
		plan.Arms = append(plan.Arms, connectArms(plan.Arms)...)
	}
	if len(plan.Arms) == 0 {
		return Plan{}, fmt.Errorf("there is no path between these ends: no address of one is answered from the other, both ways; " +
			"look at their interfaces, addresses and routes (ip addr, ip route)")
	}
	notePaths(&plan, h.Paths)
	return plan, nil
}

// notePaths notes what a plan without a preset cannot compare.
func notePaths(plan *Plan, paths []bench.Path) {
	has := func(network string) bool {
		return slices.ContainsFunc(paths, func(p bench.Path) bool { return p.Network == network })
	}
	if !has("VF") && !has("bond") { // whose members may be VFs
		plan.addNote("there is no VF at both ends: only software paths are measured")
	} else if len(slices.DeleteFunc(slices.Clone(paths), isVF)) == 0 {
		plan.addNote("there is no path beside the VF's: nothing to compare it with")
	}
}

func (q Question) addArms(plan *Plan, p bench.Path, quick bool) {
	for _, v := range q.listVariants(quick) {
		a := bench.Arm{Name: v.name, Path: p, Workload: v.workload}
		if q.Direction == "both" {
			a.Also, a.Workload.Senders = []bench.Path{reversePath(p)}, 2
		}
		plan.Arms = append(plan.Arms, a)
	}
}

// reversePath returns the path from the other end.
func reversePath(p bench.Path) bench.Path {
	from, to, _ := strings.Cut(p.Ends, "-")
	p.Ends, p.From, p.To = to+"-"+from, p.To, p.From
	p.Via.In, p.Via.Out = p.Via.Out, p.Via.In
	return p
}

// listVariants returns the arms of each path: of each size, on the idle path and beside each load.
func (q Question) listVariants(quick bool) (all []variant) {
	w := q.makeWorkload()
	if quick {
		w = shortenRun(w)
	}
	sizes := q.Sizes
	if len(sizes) == 0 {
		sizes = []int{0}
	}
	for _, size := range sizes {
		w.Size = size
		var words []string
		if len(sizes) > 1 {
			words = append(words, nameSize(size))
		}
		if q.Direction == "back" || q.Direction == "both" {
			words = append(words, map[string]string{"back": "back", "both": "both ways"}[q.Direction])
		}
		name := strings.Join(words, " ")
		if len(q.Loads) == 0 {
			all = append(all, variant{name, w})
			continue
		}
		all = append(all, variant{strings.TrimSpace(name + " idle"), w})
		for _, percent := range q.Loads {
			loaded := changeWorkload(w, func(w *bench.Workload) { w.Load = float64(percent) / 100 })
			all = append(all, variant{strings.TrimSpace(fmt.Sprintf("%s load %d %%", name, percent)), loaded})
		}
	}
	return all
}

// makeWorkload returns the workload of the question, without a size.
func (q Question) makeWorkload() bench.Workload {
	w := bench.Workload{
		Kind: bench.Stream, Engine: engine.Own, Seconds: 10, Warmup: 1,
		Streams: max(1, q.Streams), DSCP: q.DSCP, Reverse: q.Direction == "back",
	}
	switch {
	case q.Ask == "connect":
		w.Kind, w.Rate = bench.Connect, q.Rate
	case q.Ask != "":
		w.Kind, w.Rate, w.UDP = bench.Request, q.Rate, q.Ask == "udp"
	case q.Send == "udp":
		w.Kind, w.Rate = bench.Datagram, q.Rate*1e6
	default:
		w.Rate = q.Rate * 1e6
	}
	return w
}

// nameSize names a size as sweeps do.
func nameSize(size int) string {
	if size >= 1<<10 && size%(1<<10) == 0 {
		return fmt.Sprintf("%d KiB", size>>10)
	}
	return fmt.Sprintf("%d B", size)
}
