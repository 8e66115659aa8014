package evidence

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/culvert-net/culvert/bench"
	"github.com/culvert-net/culvert/internal/excerpt"
)

// Reader reads a machine's files. The zero one reads those of the machine it runs on.
type Reader struct {
	// Root is the folder that has proc and sys; "" is /.
	Root string
}

func (r Reader) pathOf(name string) string { return filepath.Join("/", r.Root, name) }

func (r Reader) readText(name string) (string, error) {
	text, err := os.ReadFile(r.pathOf(name))
	return string(text), err
}

// Watched is an interface whose counters are evidence.
type Watched struct {
	Interface string `json:"interface"`
	Role      string `json:"role"` // as bench.Counters has it: "path" or "other"
}

// Sample is all counters at one moment.
type Sample struct {
	at       time.Duration // [Now]'s
	all      bench.CPUTime
	each     map[int]bench.CPUTime
	tasks    map[task]taskTime
	stopped  map[string]throttle
	links    []bench.Counters
	softnet  []bench.Softnet
	queuesOf string
	queues   []uint64
}

// At returns the time at which the sample was begun, by [Now].
func (s Sample) At() time.Duration { return s.at }

// Sample reads the counters of the machine's processors, of the interfaces watched, and of
// the receive queues of the first one that is on the path. The guests named take part, and no other
// virtual machine does. Reading takes some milliseconds, most of it for the tasks; the interfaces
// and processors come first.
func (r Reader) Sample(watched []Watched, guests ...string) (Sample, error) {
	var s Sample
	var err error
	if s.at, err = Now(); err != nil {
		return s, err
	}
	if s.links, err = r.ReadCounters(watched); err != nil {
		return s, err
	}
	stat, err := r.readText("proc/stat")
	if err != nil {
		return s, err
	}
	if s.all, s.each, err = bench.ParseCPUTimes([]byte(stat)); err != nil {
		return s, err
	}
	proc, err := r.openProc()
	if err != nil {
		return s, err
	}
	if s.softnet, err = readSoftnet(proc); err != nil {
		return s, err
	}
	if i := slices.IndexFunc(watched, func(w Watched) bool { return w.Role == "path" }); i >= 0 {
		s.queuesOf = watched[i].Interface
		s.queues = receiveQueues(s.queuesOf)
	}
	if s.stopped, err = r.readThrottles(); err != nil {
		return s, err
	}
	s.tasks, err = r.listTasks(proc, guests)
	return s, err
}

// ReadCounters reads the counters of the interfaces watched as they are, in their order.
func (r Reader) ReadCounters(watched []Watched) ([]bench.Counters, error) {
	proc, err := r.openProc()
	if err != nil {
		return nil, err
	}
	all, err := readNetDev(proc)
	if err != nil {
		return nil, err
	}
	var links []bench.Counters
	for _, w := range watched {
		c, ok := all[w.Interface]
		if !ok {
			return nil, fmt.Errorf("interface %s is not in this network namespace: it has %s", w.Interface, excerpt.Join(slices.Sorted(maps.Keys(all))))
		}
		c.Role = w.Role
		links = append(links, c)
	}
	return links, countDowns(links)
}

// Counters reads one interface's counters as they are.
func (r Reader) Counters(name string) (bench.Counters, error) {
	links, err := r.ReadCounters([]Watched{{Interface: name}})
	if err != nil {
		return bench.Counters{}, err
	}
	return links[0], nil
}

// Until returns the evidence between two samples of the same watched interfaces. A counter that
// fell, an interface that went away and a processor that came or went are errors: no figure could
// be trusted.
func (s Sample) Until(after Sample) (bench.Evidence, error) {
	var e bench.Evidence
	var err error
	if e.CPU, err = s.cpuUntil(after); err != nil {
		return bench.Evidence{}, err
	}
	for i, before := range s.links {
		c, err := SubtractCounters(before, after.links[i])
		if err != nil {
			return bench.Evidence{}, err
		}
		e.Interfaces = append(e.Interfaces, c)
	}
	if e.Softnet, err = softnetRisen(s.softnet, after.softnet); err != nil {
		return bench.Evidence{}, err
	}
	e.Throttled = throttledSince(s.stopped, after.stopped)
	if len(s.queues) != len(after.queues) {
		return bench.Evidence{}, fmt.Errorf("interface %s had %d receive queues before the window and %d after it", s.queuesOf, len(s.queues), len(after.queues))
	}
	for i, before := range s.queues {
		if after.queues[i] < before {
			return bench.Evidence{}, fmt.Errorf("packets of receive queue %d of interface %s fell from %d to %d in the window", i, s.queuesOf, before, after.queues[i])
		}
		e.Queues = append(e.Queues, after.queues[i]-before)
	}
	return e, nil
}

// cpuUntil returns the processor time from this sample to a later one, exact to a tick (10 ms)
// for each processor.
func (s Sample) cpuUntil(after Sample) (bench.CPUUse, error) {
	window := after.at - s.at
	if window <= 0 {
		return bench.CPUUse{}, errors.New("the window has no length")
	}
	did, err := ranBetween("all processors", s.all, after.all)
	if err != nil {
		return bench.CPUUse{}, err
	}
	if len(s.each) != len(after.each) {
		return bench.CPUUse{}, fmt.Errorf("%d processors were online before the window and %d after it", len(s.each), len(after.each))
	}
	use := bench.CPUUse{
		Seconds: window.Seconds(),
		User:    did.User.Seconds(), System: did.System.Seconds(), IRQ: did.IRQ.Seconds(),
		SoftIRQ: did.SoftIRQ.Seconds(), Steal: did.Steal.Seconds(), Idle: did.Idle.Seconds(),
	}
	tasks := tasksRan(s.tasks, after.tasks)
	use.Tasks = tasks.part
	if len(tasks.own) > 0 {
		use.Engine = tasks.own
	}
	if len(tasks.others) > 0 {
		use.Others = keepLargest(tasks.others)
	}
	for _, n := range slices.Sorted(maps.Keys(s.each)) {
		now, ok := after.each[n]
		if !ok {
			return bench.CPUUse{}, fmt.Errorf("processor %d went offline in the window", n)
		}
		did, err := ranBetween(fmt.Sprintf("processor %d", n), s.each[n], now)
		if err != nil {
			return bench.CPUUse{}, err
		}
		busy := 0.0
		if total := did.Busy() + did.Steal + did.Idle; total > 0 {
			busy = did.Busy().Seconds() / total.Seconds()
		}
		use.Busy = append(use.Busy, busy)
		use.Busiest = max(use.Busiest, busy)
	}
	return use, nil
}

// ranBetween returns the processor time between two readings. Time of waiting for I/O, which is in
// Idle, may fall a little (proc_stat(5)) and then counts as none.
func ranBetween(who string, before, after bench.CPUTime) (bench.CPUTime, error) {
	d := after.Since(before)
	d.Idle = max(d.Idle, 0)
	if min(d.User, d.System, d.IRQ, d.SoftIRQ, d.Steal) < 0 {
		return d, fmt.Errorf("/proc/stat of %s fell in the window: from %+v to %+v", who, before, after)
	}
	return d, nil
}
