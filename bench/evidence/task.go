package evidence

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

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
}

// parseTask reads /proc/PID/stat (proc_pid_stat(5)): comm, utime, stime and starttime. A
// process's times are those of all its threads.
func parseTask(text string) (task, taskTime, error) {
	open, end := strings.IndexByte(text, '('), strings.LastIndexByte(text, ')') // comm may have both
	if open < 0 || end < open {
		return task{}, taskTime{}, fmt.Errorf("read a task's stat: no name in %q", text)
	}
	id, err := strconv.ParseUint(strings.TrimSpace(text[:open]), 10, 32)
	if err != nil {
		return task{}, taskTime{}, fmt.Errorf("read a task's stat: its number: %w", err)
	}
	fields := strings.Fields(text[end+1:]) // from field 3 on
	if len(fields) < 20 {
		return task{}, taskTime{}, fmt.Errorf("read task %d's stat: %d fields after the name, and not 20", id, len(fields))
	}
	var v [3]uint64
	for i, field := range []int{14, 15, 22} {
		if v[i], err = strconv.ParseUint(fields[field-3], 10, 56); err != nil {
			return task{}, taskTime{}, fmt.Errorf("read task %d's stat: field %d: %w", id, field, err)
		}
	}
	const most = 1 << 39 // ticks: 174 years, and below an overflow of time.Duration
	if v[0] > most || v[1] > most {
		return task{}, taskTime{}, fmt.Errorf("read task %d's stat: it has run for %d and %d ticks", id, v[0], v[1])
	}
	return task{id, v[2]}, taskTime{name: text[open+1 : end], time: time.Duration(v[0]+v[1]) * bench.Tick}, nil
}

// takesPart reports whether a task may take part in carrying traffic: the kernel's threads that do
// so beside interrupts, virtual machines, and the engines.
func takesPart(name string) bool {
	for _, prefix := range []string{"vhost-", "ksoftirqd/", "napi/", "qemu"} {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return slices.ContainsFunc(engine.Engines(), func(e engine.Engine) bool { return e.Task != "" && strings.HasPrefix(name, e.Task) })
}

// listTasks lists all tasks: those that take part, among them this process (Culvert's own engine runs
// in it), and the others. Those that end meanwhile are left out.
func (r Reader) listTasks() (map[task]taskTime, error) {
	all, err := filepath.Glob(r.pathOf("proc/[0-9]*/stat"))
	if err != nil {
		return nil, err
	}
	found := map[task]taskTime{}
	for _, file := range all {
		if err := r.addTask(found, file); err != nil {
			return nil, err
		}
	}
	return found, nil
}

func (r Reader) addTask(found map[task]taskTime, file string) error {
	id, t, err := readTask(file)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ESRCH):
		return nil
	case err != nil:
		return err
	case id.id == uint64(os.Getpid()):
		t.name = engine.Own
	case !takesPart(t.name):
		t.other = true
	case strings.HasPrefix(t.name, "qemu"):
		if guest := guestOf(filepath.Join(filepath.Dir(file), "cmdline")); guest != "" {
			t.name += " of " + guest
		}
		return addThreads(found, id, t, filepath.Join(filepath.Dir(file), "task"))
	}
	found[id] = t
	return nil
}

// addThreads adds QEMU's threads: since Linux 6.4 vhost's are among them, and keep their own names.
func addThreads(found map[task]taskTime, process task, whole taskTime, folder string) error {
	all, err := filepath.Glob(filepath.Join(folder, "[0-9]*", "stat"))
	if err != nil {
		return err
	}
	for _, file := range all {
		id, t, err := readTask(file)
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
			continue
		}
		if err != nil {
			return err
		}
		if id != process && strings.HasPrefix(t.name, "vhost-") {
			found[id] = t
			whole.time -= t.time
		}
	}
	found[process] = whole
	return nil
}

// guestOf reads from QEMU's command line which guest it runs: -name guest=db1,debug-threads=on,
// as libvirt writes it, or -name db1 (qemu(1)). Without a name it is empty.
func guestOf(file string) string {
	text, err := os.ReadFile(file)
	if err != nil { // it has ended, or is not readable
		return ""
	}
	words := strings.Split(string(text), "\x00")
	i := slices.Index(words, "-name")
	if i < 0 || i+1 == len(words) {
		return ""
	}
	name, _, _ := strings.Cut(strings.TrimPrefix(words[i+1], "guest="), ",")
	return name
}

func readTask(file string) (task, taskTime, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return task{}, taskTime{}, err
	}
	return parseTask(string(text))
}

// tasksRan sums by name how long tasks ran between the two samples: part has those that take
// part, others the rest. A task that ended is in neither.
func tasksRan(before, after map[task]taskTime) (part, others map[string]float64) {
	part, others = map[string]float64{}, map[string]float64{}
	for id, a := range after {
		d := (a.time - before[id].time).Seconds()
		switch {
		case d <= 0:
		case a.other:
			others[commonName(a.name)] += d
		default:
			part[a.name] += d
		}
	}
	return part, others
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
