package preset

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/culvert-net/culvert/bench"
	"github.com/culvert-net/culvert/bench/engine"
	"github.com/culvert-net/culvert/internal/suggest"
)

// Preset is a row of the reports' figures.
type Preset struct {
	Name    string         `json:"name"`   // "m4"
	Report  string         `json:"report"` // "R0"
	About   string         `json:"about"`  // set-up and parameters, as the report has them
	Printed []bench.Figure `json:"printed"`
	Needs   string         `json:"needs"`   // of the place, for the report's own measurement
	Instead string         `json:"instead"` // what is measured if this place, or every place, lacks Needs; empty if every place has it

	recipe recipe
}

// recipe says what a preset measures.
type recipe struct {
	workload bench.Workload
	takes    func(bench.Path) bool // which paths
	beside   func(bench.Path) bool // which others, to compare with; nil: none
	lacks    string                // when there is none: what to give
	arms     func(bench.Workload, bool) []variant
	atOnce   *atOnce // several of the paths at once, where that can be
	notes    func(bench.Path) string
	unmixed  bool // not between a pod and a node, where other paths of the same network are there
	swept    bool // the rate limit of the VF that sends
	via      bool // the report had a machine in the middle
	vxlan    bool // the overlay has to be VXLAN
}

// variant is an arm over each path.
type variant struct {
	name     string
	workload bench.Workload
}

// Here has the abilities of the place that measures.
type Here struct {
	Paths []bench.Path
	// Lacks returns the reason why an engine cannot run at every end, or "" if it can.
	Lacks func(engine string) string
	// Cable is set if a cable can be pulled, and ByHand if a person is asked to do it.
	Cable, ByHand bool
	// Service is set where the order names a Service. Without a preset its connections are measured too.
	Service bool
	// Rates are the lowest and highest max_tx_rate that the VF at which a path begins can be
	// lent, in Mb/s, or why it can be lent none.
	Rates func(bench.Path) (lowest, highest int, err error)
	// Overlay returns the driver of the interface by which an overlay's packets leave their machine,
	// before they are wrapped, or "" if it is not known; nil: it is known of none.
	Overlay func(bench.Path) string
}

// lacksEngine returns the reason why an engine cannot run here, or "" if it can.
func (h Here) lacksEngine(name string) string {
	if e, _ := engine.FindEngine(name); e.ToMAC && slices.ContainsFunc(h.Paths, func(p bench.Path) bool { return p.Via.How == bench.Routes }) {
		return "it sends to the receiver's own MAC, which is not the router's"
	}
	return h.Lacks(name)
}

// Plan has the arms to run.
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

// Find returns a preset by its name, in upper or lower case.
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

// IsOnDevices reports whether an engine that bypasses the kernel carries the preset, so that its ends
// are PCI devices.
func (p Preset) IsOnDevices() bool {
	e, _ := engine.FindEngine(p.recipe.workload.Engine)
	return e.Bypasses
}

// Plan returns the arms to measure here. quick makes their runs short and few, for a look and for
// CI.
func (p Preset) Plan(h Here, quick bool) (Plan, error) {
	if p.recipe.workload.Pulled && !h.Cable {
		return Plan{}, fmt.Errorf("%s pulls the cable while traffic runs, and nothing pulls it here: give the commands that do it (--pull and --plug), "+
			"or run it on a terminal, where it asks you to, or take ends in a lab (culvert lab up)", p.Name)
	}
	plan := Plan{Repeats: 6}
	if quick {
		plan.Repeats = 3
	}
	paths := slices.DeleteFunc(slices.Clone(h.Paths), func(path bench.Path) bool { return !p.recipe.takes(path) })
	if len(paths) == 0 {
		return Plan{}, fmt.Errorf("%s has nothing to measure here: it takes %s, and between these ends there is %s", p.Name, p.recipe.lacks, List(h.Paths))
	}
	if p.IsOnDevices() {
		if why := h.Lacks(p.recipe.workload.Engine); why != "" {
			return Plan{}, fmt.Errorf("%s is not measured, and the kernel's figures do not stand for DPDK's: %s", p.Name, why)
		}
	}
	if p.recipe.unmixed {
		paths = withoutMixed(paths)
	}
	if paths = p.carriablePaths(&plan, h, paths); len(paths) == 0 {
		return Plan{}, fmt.Errorf("%s has nothing to measure here: %s", p.Name, plan.Notes[len(plan.Notes)-1])
	}
	if paths = p.wrappedPaths(&plan, h, paths); len(paths) == 0 {
		return Plan{}, fmt.Errorf("%s has nothing to measure here: %s", p.Name, plan.Notes[len(plan.Notes)-1])
	}
	if p.recipe.beside != nil { // after the report's own, beside which its figures stand
		paths = append(paths, slices.DeleteFunc(slices.Clone(h.Paths), func(path bench.Path) bool { return !p.recipe.beside(path) })...)
	}
	if p.recipe.atOnce == nil || !p.recipe.atOnce.addArms(&plan, paths, quick) {
		if err := p.planAlone(&plan, h, paths, quick); err != nil {
			return Plan{}, err
		}
	}
	plan.parts = []part{{preset: p.Name, printed: p.Printed, arms: upTo(len(plan.Arms))}}
	return plan, nil
}

// wrappedPaths leaves out the paths of an overlay that is known not to be VXLAN, if the report's was, and
// adds a note.
func (p Preset) wrappedPaths(plan *Plan, h Here, paths []bench.Path) []bench.Path {
	if !p.recipe.vxlan || h.Overlay == nil {
		return paths
	}
	return slices.DeleteFunc(paths, func(path bench.Path) bool {
		driver := h.Overlay(path)
		if driver == "" || driver == "vxlan" {
			return false
		}
		plan.addNote(fmt.Sprintf("%s measures VXLAN, and the packets of %s on %s leave by an interface with the driver %s: this overlay is no VXLAN", p.Name, path.From.Name, path.From.Machine, driver))
		return true
	})
}

// withoutMixed leaves out paths between a node's own network and a pod if another path of the same
// network joins two pods, or two nodes.
func withoutMixed(paths []bench.Path) []bench.Path {
	isMixed := func(p bench.Path) bool {
		from, to, _ := strings.Cut(p.Ends, "-")
		return (from == "node") != (to == "node")
	}
	return slices.DeleteFunc(slices.Clone(paths), func(p bench.Path) bool {
		return isMixed(p) && slices.ContainsFunc(paths, func(q bench.Path) bool { return q.Network == p.Network && q.Place == p.Place && !isMixed(q) })
	})
}

// carriablePaths leaves out paths of IPv6 if the frames are too small for its headers, and adds a
// note. Culvert's own engine refuses such frames, so that each run would be void, and pktgen sends
// larger ones.
func (p Preset) carriablePaths(plan *Plan, h Here, paths []bench.Path) []bench.Path {
	w, _ := chooseEngine(p.recipe.workload, h)
	least := engine.LeastFrame(true)
	if w.Engine == engine.Pktgen {
		least = engine.LeastPktgenFrame(true)
	}
	if w.Kind != bench.Packets || w.Size >= least {
		return paths
	}
	fit := slices.DeleteFunc(slices.Clone(paths), func(path bench.Path) bool { return path.From.Address.Is6() })
	if len(fit) < len(paths) {
		plan.addNote(fmt.Sprintf("%d paths of IPv6 are left out: frames of %d bytes have no room for its headers and the mark that distinguishes them: %s sends %d at least", len(paths)-len(fit), w.Size, w.Engine, least))
	}
	return fit
}

// planAlone adds the arms over each path to a plan.
func (p Preset) planAlone(plan *Plan, h Here, paths []bench.Path, quick bool) error {
	w := p.recipe.workload
	if w.Pulled && h.ByHand {
		w = pullByHand(w, plan)
	}
	if quick {
		w = shortenRun(w)
	}
	w, note := chooseEngine(w, h)
	plan.addNote(note)
	if !p.recipe.via || paths[0].Via == (bench.Relay{}) {
		plan.addNote(p.Instead)
	}
	for _, path := range paths {
		variants := p.listVariants(w, quick)
		if p.recipe.swept {
			lowest, highest, err := h.Rates(path)
			if err != nil {
				return fmt.Errorf("%s sweeps the rate limit of the VF that sends, which the culvertd of its machine has to lend it: %w; "+
					"without it, put max_tx_rate into the network, start the owners again, and run m4 for each rate", p.Name, err)
			}
			variants = rateVariants(w, lowest, highest, quick)
		}
		for _, v := range variants {
			plan.Arms = append(plan.Arms, bench.Arm{Name: v.name, Path: path, Workload: v.workload})
		}
		if p.recipe.notes != nil {
			plan.addNote(p.recipe.notes(path))
		}
	}
	return nil
}

func (p Preset) listVariants(w bench.Workload, quick bool) []variant {
	if p.recipe.arms == nil {
		return []variant{{"", w}}
	}
	return p.recipe.arms(w, quick)
}

func (p *Plan) addNote(s string) {
	if s != "" && !slices.Contains(p.Notes, s) {
		p.Notes = append(p.Notes, s)
	}
}

// upTo returns 0 to n-1.
func upTo(n int) (all []int) {
	for i := range n {
		all = append(all, i)
	}
	return all
}

// Together plans several presets for one result. Arms that two presets have in common are
// measured once. A preset with nothing to measure here becomes a note, unless there is nothing to
// measure for any.
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
			all.addNote(err.Error())
			continue
		}
		all.Repeats = max(all.Repeats, plan.Repeats)
		for _, n := range plan.Notes {
			all.addNote(p.Name + ": " + n)
		}
		share := part{preset: p.Name, printed: p.Printed}
		for _, a := range plan.Arms {
			i := slices.IndexFunc(all.Arms, func(b bench.Arm) bool {
				if len(a.Also) > 0 && len(b.Also) > 0 { // one experiment, under the name of each preset
					b.Name = a.Name
				}
				return reflect.DeepEqual(a, b)
			})
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

// Shorten limits the counted time of each run to the given seconds, or to the least that its
// workload needs, and notes that.
func (p *Plan) Shorten(seconds float64) {
	longest := 0.0
	for i := range p.Arms {
		w := &p.Arms[i].Workload
		if most := atLeast(*w, seconds); w.Seconds > most {
			longest, w.Seconds = max(longest, w.Seconds), most
		}
	}
	if longest > 0 {
		p.addNote(fmt.Sprintf("runs of %s s, packets %g and a pulled cable %g at least, where the presets have up to %s s",
			bench.Number(seconds), leastPackets, leastPulled, bench.Number(longest)))
	}
}

// Roughen removes the warm-up of all runs and sends five pings a second, and notes that. Pings
// run for at least two seconds, since an agent that is woken late misses up to three.
func (p *Plan) Roughen() {
	for i := range p.Arms {
		w := &p.Arms[i].Workload
		if w.Load == 0 { // else TCP has to reach its rate first
			w.Warmup = 0
		}
		if w.Kind == bench.Echo {
			w.Seconds, w.Rate = 2, 5
		}
	}
	p.addNote("rough: no run warms up but those with a load, pings are five in a second, and what the generators make is not measured")
}

// Burst makes Culvert's own engine send packets in bursts of the given number of frames, and
// notes that.
func (p *Plan) Burst(frames int) error {
	return p.changePackets(fmt.Sprintf("--burst %d", frames), func(w *bench.Workload) { w.Burst = frames },
		fmt.Sprintf("packets leave in bursts of %d, which the kernel cuts into frames before the driver has them: the sender pays less for each than when they go alone", frames))
}

// changePackets changes the workloads that send packets, for a flag.
func (p *Plan) changePackets(flag string, change func(*bench.Workload), note string) error {
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
	p.addNote(note)
	return nil
}

// Presets returns the names of the presets that the plan contains.
func (p Plan) Presets() string {
	var all []string
	for _, s := range p.parts {
		all = append(all, s.preset)
	}
	return strings.Join(all, " ")
}

// Printed returns the reports' figures, each with the arm that stands for it. Call it when the
// plan's arms have their names.
func (p Plan) Printed(arms []bench.Arm) (all []bench.Figure) {
	for _, s := range p.parts {
		var own []bench.Arm
		for _, i := range s.arms {
			own = append(own, arms[i])
		}
		all = append(all, placeFigures(s.printed, own)...)
	}
	return all
}

// placeFigures puts each figure beside every arm that stands for it: the arms with the words that
// the preset gave, and of these the ones most like the reports' arms. The order of the arms does
// not matter. A figure that no arm stands for stands alone.
func placeFigures(printed []bench.Figure, arms []bench.Arm) (out []bench.Figure) {
	for _, f := range printed {
		var alike []bench.Arm
		if f.Text == "" {
			alike = mostAlike(f.Arm, arms)
		}
		placed := f
		placed.Arm, placed.Base = "", ""
		if len(alike) == 0 {
			out = append(out, placed)
		}
		for _, a := range alike {
			placed.Arm = a.Name
			if f.Base != "" {
				placed.Base = findBase(f.Base, a, arms)
			}
			if placed.Value = f.Value; f.Unit == bench.EachUnit {
				placed.Value /= float64(len(a.Paths()))
			}
			out = append(out, placed)
		}
	}
	return out
}

// findBase returns the arm to which an arm has a printed ratio: the first of those with the words that
// carries the same workload between ends of the same kind, or "" if none does.
func findBase(words string, of bench.Arm, arms []bench.Arm) string {
	for _, a := range mostAlike(words, arms) {
		if a.Workload == of.Workload && a.Path.Ends == of.Path.Ends && len(a.Also) == len(of.Also) {
			return a.Name
		}
	}
	return ""
}

// mostAlike returns the arms with the words in their name, ends or network. If some of these are
// between two machines, it returns only those; and if some of those are between pods or guests,
// only those.
func mostAlike(words string, arms []bench.Arm) []bench.Arm {
	keep := func(in []bench.Arm, is func(bench.Arm) bool) []bench.Arm {
		return slices.DeleteFunc(slices.Clone(in), func(a bench.Arm) bool { return !is(a) })
	}
	alike := keep(arms, func(a bench.Arm) bool {
		names := a.Path.Ends + " " + a.Path.Network + " " + a.Name
		return !slices.ContainsFunc(strings.Split(words, ","), func(w string) bool { return !strings.Contains(names, w) })
	})
	for _, better := range []func(bench.Arm) bool{
		func(a bench.Arm) bool { return a.Path.Place == "other node" },
		func(a bench.Arm) bool { return isInner(a.Path) },
	} {
		if some := keep(alike, better); len(some) > 0 {
			alike = some
		}
	}
	return alike
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

// shortenRun shortens a run to two seconds, or to as many as it needs.
func shortenRun(w bench.Workload) bench.Workload {
	if w.Kind == bench.Echo {
		return w
	}
	w.Seconds, w.Warmup = min(w.Seconds, atLeast(w, 2)), 0.3
	return w
}

// atLeast returns seconds, or more if so few would show nothing: a pulled cable has to be plugged
// in again, and in a flood of packets an agent is woken up to a second late.
func atLeast(w bench.Workload, seconds float64) float64 {
	switch {
	case w.ByHand:
		return max(seconds, leastByHand)
	case w.Pulled:
		return max(seconds, leastPulled)
	case w.Kind == bench.Packets:
		return max(seconds, leastPackets)
	}
	return seconds
}

// The fewest seconds of a run with a pulled cable, of one that a person pulls, and of packets.
const leastPulled, leastByHand, leastPackets = 10.0, 60.0, 6.0

// pullByHand makes a workload one whose cable a person pulls. It gives the person time, and asks only
// once if --repeats does not ask for more.
func pullByHand(w bench.Workload, plan *Plan) bench.Workload {
	const seconds = 180
	w.ByHand, w.Seconds, plan.Repeats = true, seconds, 1
	plan.addNote("you pull the cable, and plug it in again, when the program asks you to: once for each run that counts (--repeats), in 60 s at least")
	return w
}
