package evidence

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/prometheus/procfs"

	"github.com/culvert-net/culvert/bench"
	"github.com/culvert-net/culvert/bench/engine"
)

// task is a process or thread; started distinguishes it from a later one with its number.
type task struct{ id, started uint64 }

// taskTime is how long a task has run, in user space and the kernel.
type taskTime struct {
	name  string
	time  time.Duration
	other bool // it takes no part
	// own is set for this process and those that it started. program is the task's own name.
	own     bool
	program string
}

// vhost begins the names of vhost's threads, which end with the number of their QEMU.
const vhost = "vhost-"

// process is a task with its parent.
type process struct {
	task
	taskTime
	proc   procfs.Proc
	parent uint64
	kernel bool // a thread of the kernel
}

// readTask reads a task's stat (proc_pid_stat(5)). A process's times are those of all its threads.
// gone is set if the task has ended meanwhile.
func readTask(t procfs.Proc) (p process, gone bool, err error) {
	s, err := t.Stat()
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
		return process{}, true, nil
	}
	if err != nil {
		return process{}, false, fmt.Errorf("read task %d's stat: %w", t.PID, err)
	}
	const most = 1 << 39 // ticks: 174 years, and below an overflow of time.Duration
	if s.UTime > most || s.STime > most {
		return process{}, false, fmt.Errorf("read task %d's stat: it has run for %d and %d ticks", t.PID, s.UTime, s.STime)
	}
	const kernelThread = 0x00200000 // PF_KTHREAD (include/linux/sched.h)
	return process{
		task: task{uint64(t.PID), s.Starttime}, taskTime: taskTime{name: s.Comm, time: time.Duration(s.UTime+s.STime) * bench.Tick},
		proc: t, parent: uint64(s.PPID), kernel: s.Flags&kernelThread != 0,
	}, false, nil
}

// listTasks lists all tasks: those that take part, and the others. A name alone makes no task take
// part: a user's process may have any. These take part:
//   - this process, in which Culvert's own engine runs, and those that it started;
//   - the kernel's threads that carry traffic beside interrupts, or make it;
//   - QEMU of the guests named, with its vhost threads.
//
// Tasks that end meanwhile are left out.
func (r Reader) listTasks(proc procfs.FS, guests []string) (map[task]taskTime, error) {
	tasks, err := proc.AllProcs()
	if err != nil {
		return nil, err
	}
	all, err := readTasks(tasks)
	if err != nil {
		return nil, err
	}
	own := startedBy(all, uint64(os.Getpid()))
	found, served := map[task]taskTime{}, []string{} // the names of the guests' vhost threads
	for _, p := range all {
		switch isQEMU := strings.HasPrefix(p.name, "qemu"); {
		case own[p.id]:
			p.markOwn()
		case isQEMU:
			guest := guestOf(p.proc)
			p.other = guest == "" || !slices.Contains(guests, guest)
			if guest != "" {
				p.name += " of " + guest
			}
			if !p.other {
				served = append(served, fmt.Sprint(vhost, p.id))
				if err := addThreads(found, proc, p); err != nil {
					return nil, err
				}
				continue
			}
		default:
			p.other = !p.kernel || !carriesTraffic(p.name)
		}
		found[p.task] = p.taskTime
	}
	for id, t := range found { // before Linux 6.4 vhost's threads are the kernel's
		if strings.HasPrefix(t.name, vhost) && !slices.Contains(served, t.name) {
			t.other = true
			found[id] = t
		}
	}
	return found, nil
}

// startedBy returns the numbers of a process and of all that it started, directly or not.
func startedBy(all []process, id uint64) map[uint64]bool {
	started := map[uint64]bool{id: true}
	for grown := true; grown; {
		grown = false
		for _, p := range all {
			if started[p.parent] && !started[p.id] {
				started[p.id], grown = true, true
			}
		}
	}
	return started
}

// markOwn makes the process one of this end.
func (p *process) markOwn() { p.own, p.program, p.name = true, p.name, engine.TaskOf(p.name) }

// carriesTraffic reports whether a thread of the kernel with that name carries traffic or makes it.
func carriesTraffic(name string) bool {
	for _, prefix := range []string{vhost, "ksoftirqd/", "napi/"} {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return slices.ContainsFunc(engine.Engines(), func(e engine.Engine) bool { return e.Program == "" && e.Task != "" && strings.HasPrefix(name, e.Task) })
}

// addThreads adds QEMU's threads: since Linux 6.4 vhost's are among them, and keep their own names.
func addThreads(found map[task]taskTime, proc procfs.FS, whole process) error {
	tasks, err := proc.AllThreads(whole.proc.PID)
	if err != nil && !errors.Is(err, fs.ErrNotExist) { // it has ended
		return err
	}
	threads, err := readTasks(tasks)
	if err != nil {
		return err
	}
	for _, t := range threads {
		if t.task != whole.task && strings.HasPrefix(t.name, vhost) {
			found[t.task] = t.taskTime
			whole.time -= t.time
		}
	}
	found[whole.task] = whole.taskTime
	return nil
}

// readTasks reads the tasks that have not ended.
func readTasks(tasks procfs.Procs) (all []process, err error) {
	for _, t := range tasks {
		p, gone, err := readTask(t)
		if err != nil {
			return nil, err
		}
		if !gone {
			all = append(all, p)
		}
	}
	return all, nil
}

// guestOf reads from QEMU's command line which guest it runs: -name guest=db1,debug-threads=on,
// as libvirt writes it, or -name db1 (qemu(1)). Without a name it is empty.
func guestOf(qemu procfs.Proc) string {
	words, err := qemu.CmdLine()
	if err != nil { // it has ended, or is not readable
		return ""
	}
	i := slices.Index(words, "-name")
	if i < 0 || i+1 == len(words) {
		return ""
	}
	name, _, _ := strings.Cut(strings.TrimPrefix(words[i+1], "guest="), ",")
	return name
}

// ran has seconds by the names of tasks.
type ran struct {
	part   map[string]float64 // of those that take part
	own    map[string]float64 // of these, this process and those that it started, by their programs' names
	others map[string]float64 // of those that take no part
}

// tasksRan sums by name how long tasks ran between the two samples. A task that ended is left out.
func tasksRan(before, after map[task]taskTime) ran {
	all := ran{map[string]float64{}, map[string]float64{}, map[string]float64{}}
	for id, a := range after {
		d := (a.time - before[id].time).Seconds()
		switch {
		case d <= 0:
		case a.other:
			all.others[commonName(a.name)] += d
		default:
			all.part[a.name] += d
			if a.own {
				all.own[a.program] += d
			}
		}
	}
	return all
}

// commonName returns the part of the name that kernel workers of one kind share: "kworker" of
// "kworker/3:1-events".
func commonName(name string) string {
	kind, _, _ := strings.Cut(name, "/")
	return kind
}

// mostOthers is how many tasks that take no part have their own names; the rest is moreOthers.
const (
	mostOthers = 8
	moreOthers = "and more"
)

// keepLargest keeps the tasks that ran longest, and sums the rest.
func keepLargest(all map[string]float64) map[string]float64 {
	if len(all) <= mostOthers {
		return all
	}
	names := slices.SortedFunc(maps.Keys(all), func(a, b string) int { return cmp.Or(cmp.Compare(all[b], all[a]), strings.Compare(a, b)) })
	kept := map[string]float64{}
	for i, name := range names {
		if i >= mostOthers {
			name = moreOthers
		}
		kept[name] += all[names[i]]
	}
	return kept
}
