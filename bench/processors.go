package bench

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
)

// Processors says what kept processors busy in the runs of an arm, on all its machines together:
// medians of the counted runs, in processors (seconds a second). NaN means unknown.
type Processors struct {
	Gross      float64 // all that worked
	Background float64 // that worked before the rounds as well, while nothing was measured
	Net        float64 // the difference, a machine at a time; see [CPUUse.Net]
	Parts      float64 // of Gross: tasks that take part
	Interrupts float64 // hardware's and soft ones, some of which stand among the tasks' as well
	Others     float64 // tasks that take no part
	// Unexplained is the time that belongs to no observed task and no interrupt: that of tasks
	// that ended in the window.
	Unexplained float64
	// Names are the tasks of Others that used most.
	Names []string
}

// Processors returns where an arm's processor time went; found is false where no run has evidence.
func (r Result) Processors(arm int) (p Processors, found bool) {
	var columns [7][]float64
	names := map[string]float64{}
	for _, run := range r.Counted(arm) {
		one, ok := r.Arms[arm].processorColumns(run, names)
		if !ok {
			continue
		}
		found = true
		for i, v := range one {
			if !math.IsNaN(v) {
				columns[i] = append(columns[i], v)
			}
		}
	}
	for i, to := range []*float64{&p.Gross, &p.Background, &p.Net, &p.Parts, &p.Interrupts, &p.Others, &p.Unexplained} {
		*to = Median(columns[i])
	}
	p.Names = slices.SortedFunc(maps.Keys(names), func(a, b string) int {
		return cmp.Or(cmp.Compare(names[b], names[a]), strings.Compare(a, b))
	})
	return p, found
}

// processorColumns returns a run's columns of [Processors], and adds the time of other tasks to
// names.
func (a Arm) processorColumns(r Run, names map[string]float64) (columns [7]float64, ok bool) {
	for _, e := range onceBy(a.listEnds(r), byMachine) {
		c := e.seen.CPU
		if !(c.Seconds > 0) {
			return columns, false
		}
		background := math.NaN()
		if c.Background != nil {
			background = *c.Background
		}
		net := math.NaN()
		if c.Background != nil {
			net = c.Net()
		}
		parts, others := sumSeconds(c.Tasks), sumSeconds(c.Others)
		for name, seconds := range c.Others {
			names[name] += seconds
		}
		for i, seconds := range []float64{
			c.Total(), background * c.Seconds, net, parts, c.IRQ + c.SoftIRQ, others, max(0, c.User+c.System-parts-others),
		} {
			columns[i] += seconds / c.Seconds
		}
	}
	return columns, true
}

func sumSeconds(tasks map[string]float64) (sum float64) {
	for _, seconds := range tasks {
		sum += seconds
	}
	return sum
}

// muchElse is the part of an arm's processor time that is worth a remark if tasks that took no part
// used it, or tasks that were not observed.
const muchElse = 0.1

// processorRemarks names the other tasks that used the machines while an arm was measured.
func (r Result) processorRemarks() (out []string) {
	for i, arm := range r.Arms {
		p, found := r.Processors(i)
		if !found || !(p.Gross > 0) || !hasCost(arm.Workload.Kind) {
			continue
		}
		var parts []string
		if p.Others > muchElse*p.Gross {
			parts = append(parts, fmt.Sprintf("%s of tasks that take no part (%s)", percentOf(p.Others, p.Gross), strings.Join(p.Names[:min(3, len(p.Names))], ", ")))
		}
		if p.Unexplained > muchElse*p.Gross {
			parts = append(parts, percentOf(p.Unexplained, p.Gross)+" of tasks that came and went in the runs")
		}
		if len(parts) > 0 {
			out = append(out, fmt.Sprintf("%s: of the processors' time in its runs was %s: its CPU figure has what of that was not there before.", arm.Name, strings.Join(parts, " and ")))
		}
	}
	return append(out, r.busyBefore()...)
}

// hasCost reports whether a kind of workload has a CPU figure: pings and questions have none.
func hasCost(k Kind) bool {
	return slices.ContainsFunc(Metrics(k), func(m Metric) bool { return m.Name == "cpu" })
}

// windowRemarks name the ends that got less of a window than was asked for.
func (r Result) windowRemarks() (out []string) {
	for i, arm := range r.Arms {
		for _, run := range r.Counted(i) {
			for _, e := range arm.listEnds(run) {
				got := e.seen.Buffer / 2
				if got == 0 || got >= arm.Workload.Window {
					continue
				}
				said := fmt.Sprintf("%s on %s has a window of %d bytes, and %d were asked for: raise net.core.wmem_max or rmem_max there.", e.end.Name, e.end.Machine, got, arm.Workload.Window)
				if !slices.Contains(out, said) {
					out = append(out, said)
				}
			}
		}
	}
	return out
}

// throttleRemarks name the arms whose processes a CPU quota stopped.
func (r Result) throttleRemarks() (out []string) {
	for i, arm := range r.Arms {
		n, of := 0, 0
		for _, run := range r.Counted(i) {
			of++
			if slices.ContainsFunc(arm.listEnds(run), func(e seenEnd) bool { return e.seen.Throttled.Times > 0 }) {
				n++
			}
		}
		if n > 0 {
			out = append(out, fmt.Sprintf("%s: a CPU quota stopped its processes in %d of %d runs: its figure is of the quota (cpu.max, limits.cpu of a pod), and not of the path.", arm.Name, n, of))
		}
	}
	return out
}

func percentOf(part, of float64) string { return fmt.Sprintf("%.0f %%", 100*part/of) }

// busyBefore names the machines that were too busy while nothing was measured, and the runs that
// have no CPU figure for it.
func (r Result) busyBefore() (out []string) {
	before, of := map[string][]float64{}, map[string]int{}
	for i := range r.Runs {
		run := &r.Runs[i]
		if run.Void != "" || run.Discard || run.Arm >= len(r.Arms) {
			continue
		}
		for _, e := range onceBy(r.Arms[run.Arm].listEnds(*run), byMachine) {
			if of[e.end.Machine]++; e.seen.CPU.WasBusy() {
				before[e.end.Machine] = append(before[e.end.Machine], *e.seen.CPU.Background)
			}
		}
	}
	for _, m := range r.Machines {
		if busy := before[m.Name]; len(busy) > 0 {
			out = append(out, fmt.Sprintf("%s was busy before %d of %d runs, while nothing was measured: %s of %d processors. A tenth or more is too much for a CPU figure: these runs have none. End what else runs there.",
				m.Name, len(busy), of[m.Name], Number(Median(busy)), m.CPUs))
		}
	}
	return out
}

// IRQ is one interrupt and the processors that may serve it.
type IRQ struct {
	Number int    `json:"number"`
	CPUs   string `json:"cpus"` // as in smp_affinity_list: "0-3,7"
	// Comes lists the processors that do serve it, mostly one, where the kernel reports them
	// (effective_affinity_list).
	Comes string `json:"comes,omitempty"`
}
