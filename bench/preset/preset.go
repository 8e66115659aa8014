package preset

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/culvert-net/culvert/bench"
	"github.com/culvert-net/culvert/bench/engine"
	"github.com/culvert-net/culvert/suggest"
)

// Preset is a row of the reports' figures.
type Preset struct {
	Name    string         `json:"name"`   // "m4"
	Report  string         `json:"report"` // "R0"
	About   string         `json:"about"`  // set-up and parameters, as the report has them
	Printed []bench.Figure `json:"printed"`
	Needs   string         `json:"needs"`             // of the place, for the report's own measurement
	Instead string         `json:"instead"`           // what is measured where the place has not got it, or none has; empty when all have
	Refused string         `json:"refused,omitempty"` // why it is not measured, and what to do

	recipe recipe
}

// recipe is what is measured.
type recipe struct {
	workload bench.Workload
	takes    func(bench.Path) bool // which paths
	beside   func(bench.Path) bool // which others, to compare with; nil: none
	lacks    string                // when there is none: what to give
	arms     func(bench.Workload, bool) []variant
	atOnce   *atOnce // several of the paths at once, where that can be
	notes    func(bench.Path) string
	swept    bool // the rate limit of the VF that sends
	via      bool // the report had a machine in the middle
}

// variant is an arm over each path.
type variant struct {
	name     string
	workload bench.Workload
}

// Here is what the place has.
type Here struct {
	Paths []bench.Path
	// Lacks says why an engine cannot run at all ends, and is empty for one that can.
	Lacks func(engine string) string
	Cable bool // it can be pulled from here
	// Rates are the lowest and highest max_tx_rate that the VF at which a path begins can be
	// lent, in Mb/s, or why it can be lent none.
	Rates func(bench.Path) (lowest, highest int, err error)
}

// lacks says why an engine cannot run here, and is empty for one that can.
func (h Here) lacks(name string) string {
	if e, _ := engine.FindEngine(name); e.ToMAC && slices.ContainsFunc(h.Paths, func(p bench.Path) bool { return p.Via.How == bench.Routes }) {
		return "it sends to the receiver's own MAC, which is not the router's"
	}
	return h.Lacks(name)
}

// Plan is what to run.
type Plan struct {
	Arms    []bench.Arm // named by what sets them apart on one path
	Repeats int
	Notes   []string

	parts []part
}

// part is a preset's share of a plan.
type part struct {
	preset  string
	printed []bench.Figure
	arms    []int // which of the plan's
}

// Find returns a preset by its name, whatever its case.
func Find(name string) (Preset, error) {
	all := All()
	i := slices.IndexFunc(all, func(p Preset) bool { return strings.EqualFold(p.Name, name) })
	if i < 0 {
		var names []string
		for _, p := range all {
			names = append(names, p.Name)
		}
		return Preset{}, fmt.Errorf("there is no preset %q%s: culvert bench presets lists them", name, suggest.DidYouMean(name, names))
	}
	return all[i], nil
}

// Plan says what is measured here; quick makes it short, for a look and for CI.
func (p Preset) Plan(h Here, quick bool) (Plan, error) {
	if p.Refused != "" {
		return Plan{}, fmt.Errorf("%s cannot be measured: %s", p.Name, p.Refused)
	}
	if p.recipe.workload.Pulled && !h.Cable {
		return Plan{}, fmt.Errorf("%s pulls the cable while traffic runs, which only a lab's can be from here: "+
			"take --from and --to in a lab (culvert lab up); of your own NIC run m4 and pull it by hand", p.Name)
	}
	plan := Plan{Repeats: 6}
	if quick {
		plan.Repeats = 3
	}
	paths := slices.DeleteFunc(slices.Clone(h.Paths), func(path bench.Path) bool { return !p.recipe.takes(path) })
	if len(paths) == 0 {
		return Plan{}, fmt.Errorf("%s has nothing to measure here: it takes %s, and between these ends there is %s", p.Name, p.recipe.lacks, List(h.Paths))
	}
	if p.recipe.beside != nil { // after the report's own, beside which its figures stand
		paths = append(paths, slices.DeleteFunc(slices.Clone(h.Paths), func(path bench.Path) bool { return !p.recipe.beside(path) })...)
	}
	if p.recipe.atOnce == nil || !p.recipe.atOnce.arms(&plan, paths, quick) {
		if err := p.alone(&plan, h, paths, quick); err != nil {
			return Plan{}, err
		}
	}
	plan.parts = []part{{preset: p.Name, printed: p.Printed, arms: upTo(len(plan.Arms))}}
	return plan, nil
}

// alone adds the arms over each path to a plan.
func (p Preset) alone(plan *Plan, h Here, paths []bench.Path, quick bool) error {
	w := p.recipe.workload
	if quick {
		w = shorten(w)
	}
	w, note := chooseEngine(w, h)
	plan.note(note)
	if !p.recipe.via || paths[0].Via == (bench.Relay{}) {
		plan.note(p.Instead)
	}
	for _, path := range paths {
		variants := p.variants(w, quick)
		if p.recipe.swept {
			lowest, highest, err := h.Rates(path)
			if err != nil {
				return fmt.Errorf("%s sweeps the rate limit of the VF that sends, which the culvertd of its machine has to lend it: %w; "+
					"without it, put max_tx_rate into the network, start the owners again, and run m4 for each rate", p.Name, err)
			}
			variants = limits(w, lowest, highest, quick)
		}
		for _, v := range variants {
			plan.Arms = append(plan.Arms, bench.Arm{Name: v.name, Path: path, Workload: v.workload})
		}
		if p.recipe.notes != nil {
			plan.note(p.recipe.notes(path))
		}
	}
	return nil
}

func (p Preset) variants(w bench.Workload, quick bool) []variant {
	if p.recipe.arms == nil {
		return []variant{{"", w}}
	}
	return p.recipe.arms(w, quick)
}

func (p *Plan) note(s string) {
	if s != "" && !slices.Contains(p.Notes, s) {
		p.Notes = append(p.Notes, s)
	}
}

// upTo are 0 to n-1.
func upTo(n int) (all []int) {
	for i := range n {
		all = append(all, i)
	}
	return all
}

// Together plans several presets for one result. What two of them measure alike is
// measured once. One that has nothing to measure here is noted, unless all are so.
func Together(presets []Preset, h Here, quick bool) (Plan, error) {
	if len(presets) == 1 {
		return presets[0].Plan(h, quick)
	}
	var all Plan
	var names [][]string // of the presets, for each arm
	var lacking []error
	for _, p := range presets {
		plan, err := p.Plan(h, quick)
		if err != nil {
			lacking = append(lacking, err)
			all.note(err.Error())
			continue
		}
		all.Repeats = max(all.Repeats, plan.Repeats)
		for _, n := range plan.Notes {
			all.note(p.Name + ": " + n)
		}
		share := part{preset: p.Name, printed: p.Printed}
		for _, a := range plan.Arms {
			i := slices.IndexFunc(all.Arms, func(b bench.Arm) bool { return reflect.DeepEqual(a, b) })
			if i < 0 {
				i = len(all.Arms)
				all.Arms, names = append(all.Arms, a), append(names, nil)
			}
			share.arms, names[i] = append(share.arms, i), append(names[i], p.Name)
		}
		all.parts = append(all.parts, share)
	}
	if len(all.Arms) == 0 {
		return Plan{}, errors.Join(lacking...)
	}
	for i := range all.Arms {
		all.Arms[i].Name = strings.TrimSpace(strings.Join(names[i], " ") + " " + all.Arms[i].Name)
	}
	return all, nil
}

// Shorten has no run count longer than that many seconds, or as it takes, and says so.
func (p *Plan) Shorten(seconds float64) {
	longest := 0.0
	for i := range p.Arms {
		w := &p.Arms[i].Workload
		if most := atLeast(*w, seconds); w.Seconds > most {
			longest, w.Seconds = max(longest, w.Seconds), most
		}
	}
	if longest > 0 {
		p.note(fmt.Sprintf("runs of %s s, packets %g and a pulled cable %g at least, where the presets have up to %s s",
			bench.Number(seconds), leastPackets, leastPulled, bench.Number(longest)))
	}
}

// Roughen has no run warm up, and pings sent five in a second, and says so. Two seconds of them
// are the fewest: an agent that is woken as late as counts misses up to three.
func (p *Plan) Roughen() {
	for i := range p.Arms {
		w := &p.Arms[i].Workload
		if w.Warmup = 0; w.Kind == bench.Echo {
			w.Seconds, w.Rate = 2, 5
		}
	}
	p.note("rough: no run warms up, pings are five in a second, and what the generators make is not measured")
}

// Burst has packets sent by Culvert's own engine, so many at once, and says so.
func (p *Plan) Burst(frames int) error {
	return p.packets(fmt.Sprintf("--burst %d", frames), func(w *bench.Workload) { w.Burst = frames },
		fmt.Sprintf("packets leave in bursts of %d, which the kernel cuts into frames before the driver has them: the sender pays less for each than when they go alone", frames))
}

// AFXDP has packets sent by Culvert's own engine through AF_XDP sockets, and says so.
func (p *Plan) AFXDP() error {
	return p.packets("--af-xdp", func(w *bench.Workload) { w.AFXDP = true },
		"packets leave by AF_XDP sockets in copy mode, which all drivers have")
}

// packets changes the workloads that send packets, for a flag.
func (p *Plan) packets(flag string, change func(*bench.Workload), note string) error {
	found := false
	for i := range p.Arms {
		if w := &p.Arms[i].Workload; w.Kind == bench.Packets {
			found, w.Engine = true, engine.Own
			change(w)
		}
	}
	if !found {
		return fmt.Errorf("%s: it is for presets that send packets, such as m10, and nothing here does", flag)
	}
	p.note(note)
	return nil
}

// Presets are the names of those that have a share of the plan.
func (p Plan) Presets() string {
	var all []string
	for _, s := range p.parts {
		all = append(all, s.preset)
	}
	return strings.Join(all, " ")
}

// Printed are the reports' figures, each beside the arm that stands for it, once the
// plan's arms have their names.
func (p Plan) Printed(arms []bench.Arm) (all []bench.Figure) {
	for _, s := range p.parts {
		var own []bench.Arm
		for _, i := range s.arms {
			own = append(own, arms[i])
		}
		all = append(all, beside(s.printed, own)...)
	}
	return all
}

// beside finds for each figure the first arm that has in its name or ends the word that
// the preset gave, and else the first.
func beside(printed []bench.Figure, arms []bench.Arm) []bench.Figure {
	out := slices.Clone(printed)
	for i := range out {
		word := out[i].Arm
		at := slices.IndexFunc(arms, func(a bench.Arm) bool { return strings.Contains(a.Path.Ends+" "+a.Name, word) })
		if at < 0 || out[i].Text != "" {
			out[i].Arm = ""
			continue
		}
		out[i].Arm = arms[at].Name
	}
	return out
}

// List names the paths there are, for a message.
func List(paths []bench.Path) string {
	var all []string
	for _, p := range paths {
		s := p.Ends + " " + p.Network + " " + p.Place
		if p.Via != (bench.Relay{}) {
			s += fmt.Sprintf(" through %s, which %s", p.Via.Name, p.Via.How)
		}
		if !slices.Contains(all, s) {
			all = append(all, s)
		}
	}
	if len(all) == 0 {
		return "no path at all"
	}
	return strings.Join(all, "; ")
}

// shorten makes a run one of two seconds, or as many as it takes.
func shorten(w bench.Workload) bench.Workload {
	if w.Kind == bench.Echo {
		return w
	}
	w.Seconds, w.Warmup = min(w.Seconds, atLeast(w, 2)), 0.3
	return w
}

// atLeast is seconds, or more where so few would show nothing: a cable is pulled and
// plugged in again, and in a flood of packets an agent is woken up to a second late.
func atLeast(w bench.Workload, seconds float64) float64 {
	switch {
	case w.Pulled:
		return max(seconds, leastPulled)
	case w.Kind == bench.Packets:
		return max(seconds, leastPackets)
	}
	return seconds
}

// The fewest seconds of a run with a pulled cable, and of packets.
const leastPulled, leastPackets = 10.0, 6.0

// chooseEngine takes Culvert's own where the report's cannot run, and says so.
func chooseEngine(w bench.Workload, h Here) (_ bench.Workload, note string) {
	why := h.lacks(w.Engine)
	if why == "" {
		return w, ""
	}
	note = fmt.Sprintf("%s, which the report used, cannot run at both ends (%s): Culvert's own engine sends the same instead", w.Engine, why)
	if w.Kind == bench.Echo {
		w.Kind, w.UDP, w.Size = bench.Request, true, 64
		note += ", as datagrams of 64 bytes between two programs: a program has to be woken for each, which ICMP needs not"
	}
	w.Engine = engine.Own
	return w, note
}

// Default is what is measured without a preset: TCP over the software path and the
// VF path, side by side, between pods or guests where there are any.
func Default(h Here, quick bool) (Plan, error) {
	w := bench.Workload{Kind: bench.Stream, Engine: engine.Own, Seconds: 10, Warmup: 1, Streams: 1}
	plan := Plan{Repeats: 6}
	if quick {
		plan.Repeats, w = 3, shorten(w)
	}
	within := slices.ContainsFunc(h.Paths, inner)
	for _, p := range h.Paths {
		if within == inner(p) {
			plan.Arms = append(plan.Arms, bench.Arm{Path: p, Workload: w})
		}
	}
	if len(plan.Arms) == 0 {
		return Plan{}, fmt.Errorf("there is no path between these ends: no address of one is answered from the other, both ways; " +
			"look at their interfaces, addresses and routes (ip addr, ip route)")
	}
	has := func(network string) bool {
		return slices.ContainsFunc(h.Paths, func(p bench.Path) bool { return p.Network == network })
	}
	if !has("VF") && !has("bond") { // whose members may be VFs
		plan.note("there is no VF at both ends: only software paths are measured")
	} else if len(slices.DeleteFunc(slices.Clone(h.Paths), vf)) == 0 {
		plan.note("there is no path beside the VF's: nothing to compare it with")
	}
	return plan, nil
}
