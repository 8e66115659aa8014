package main

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// jobVariable is set in the environment of a job's processes. A meter finds the processes by it.
const jobVariable = "CULVERT_JOB"

// A meter adds up the processor time of each job. It reads /proc, because the job's own rusage does
// not include labs: their supervisors and virtual machines are no longer children of the job.
type meter struct {
	seen  map[int]proc             // the processes of the last look, by number
	ended map[string]time.Duration // of processes that no other process of the job waited for, by job
}

// A proc is a process of a job.
type proc struct {
	job    string
	parent int
	start  string
	spent  time.Duration // by itself and the children that it waited for
}

func newMeter() *meter { return &meter{seen: map[int]proc{}, ended: map[string]time.Duration{}} }

// lookAtProcesses records the processor time of the jobs so far. The meter misses the time that a
// process spends between the last look and its end.
func (m *meter) lookAtProcesses() {
	files, _ := filepath.Glob("/proc/[0-9]*/stat") // the pattern is good
	now := map[int]proc{}
	for _, file := range files {
		stat, err := os.ReadFile(file)
		if err != nil {
			continue // the process has ended
		}
		p, err := parseProc(string(stat))
		if err != nil {
			continue
		}
		number, _ := strconv.Atoi(filepath.Base(filepath.Dir(file))) // it has digits only
		if old, known := m.seen[number]; known && old.start == p.start {
			p.job = old.job
		} else if p.job = jobOf(filepath.Dir(file)); p.job == "" {
			continue
		}
		now[number] = p
	}
	m.takeProcesses(now)
}

// takeProcesses replaces the processes of the last look. It keeps the time of processes that have
// ended, unless a running ancestor has waited for them and includes their time.
func (m *meter) takeProcesses(now map[int]proc) {
	for number, old := range m.seen {
		if !isSameProcess(now, number, old) && !m.isCounted(old, now) {
			m.ended[old.job] += old.spent
		}
	}
	m.seen = now
}

// isCounted reports whether an ancestor of a process, within its job, still runs.
func (m *meter) isCounted(old proc, now map[int]proc) bool {
	for {
		parent, known := m.seen[old.parent]
		if !known || parent.job != old.job {
			return false
		}
		if isSameProcess(now, old.parent, parent) {
			return true
		}
		old = parent
	}
}

func isSameProcess(now map[int]proc, number int, old proc) bool {
	p, runs := now[number]
	return runs && p.start == old.start
}

// describeTimes returns a line with the processor time of all jobs, the longest first.
func (m *meter) describeTimes() string {
	total := maps.Clone(m.ended)
	for _, p := range m.seen {
		total[p.job] += p.spent
	}
	names := slices.SortedFunc(maps.Keys(total), func(a, b string) int {
		return cmp.Or(cmp.Compare(total[b], total[a]), strings.Compare(a, b))
	})
	var all []string
	for _, name := range names {
		all = append(all, fmt.Sprintf("%s %.0f s", name, total[name].Seconds()))
	}
	return "processor time by job: " + strings.Join(all, ", ")
}

// parseProc parses proc_pid_stat(5).
func parseProc(stat string) (proc, error) {
	const ticks = 100 // a second: USER_HZ is the same on all machines that Culvert is built for
	f := strings.Fields(stat[strings.LastIndexByte(stat, ')')+1:])
	if len(f) < 20 {
		return proc{}, fmt.Errorf("parse process status %q: too short", stat)
	}
	parent, err := strconv.Atoi(f[1])
	p := proc{parent: parent, start: f[19]}
	for _, field := range f[11:15] { // utime, stime, cutime, cstime
		var n int64
		if err == nil {
			n, err = strconv.ParseInt(field, 10, 64)
		}
		p.spent += time.Duration(n) * time.Second / ticks
	}
	if err != nil {
		return proc{}, fmt.Errorf("parse process status %q: %w", stat, err)
	}
	return p, nil
}

// jobOf returns the job that a process belongs to, "" for none and for processes of other users.
func jobOf(dir string) string {
	environment, err := os.ReadFile(filepath.Join(dir, "environ"))
	if err != nil {
		return ""
	}
	for variable := range bytes.SplitSeq(environment, []byte{0}) {
		if name, found := bytes.CutPrefix(variable, []byte(jobVariable+"=")); found {
			return string(name)
		}
	}
	return ""
}
