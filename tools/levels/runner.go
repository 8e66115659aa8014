package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

// A runner starts the jobs of a schedule and shows them until all are over.
type runner struct {
	plan    *schedule
	show    *show
	meter   *meter
	start   func(j job, said io.Writer) (*exec.Cmd, error)
	ended   chan end
	started []*started // in the order in which they started
}

// started is a job that was started.
type started struct {
	job
	cmd    *exec.Cmd // nil if it could not be started
	said   bytes.Buffer
	from   time.Time
	took   time.Duration
	isOver bool
	ok     bool
}

// end is the message that a job has ended, with its error.
type end struct {
	job *started
	err error
}

// runJobs runs all jobs of the schedule. It returns the signal that interrupted it, or 0.
func (r *runner) runJobs(signals <-chan os.Signal) syscall.Signal {
	var ended syscall.Signal
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	look := time.NewTicker(2 * time.Second)
	defer look.Stop()
	for {
		if ended == 0 {
			r.startJobs()
		}
		r.show.updateScreen(r.started)
		if r.countRunning() == 0 && (ended != 0 || r.plan.isOver()) {
			return ended
		}
		select {
		case <-tick.C:
		case <-look.C:
			r.meter.lookAtProcesses()
		case e := <-r.ended:
			r.noteEnd(e)
		case sig := <-signals:
			if s, ok := sig.(syscall.Signal); ok && ended == 0 {
				ended = s
				r.stopJobs()
			}
		}
	}
}

func (r *runner) startJobs() {
	for _, j := range r.plan.startReady() {
		s := &started{job: j, from: r.show.now()}
		r.started = append(r.started, s)
		cmd, err := r.start(j, &s.said)
		if err != nil {
			fmt.Fprintln(&s.said, err)
			go func() { r.ended <- end{s, err} }()
			continue
		}
		s.cmd = cmd
		go func() { r.ended <- end{s, cmd.Wait()} }()
	}
}

func (r *runner) noteEnd(e end) {
	e.job.isOver, e.job.ok, e.job.took = true, e.err == nil, r.show.now().Sub(e.job.from)
	r.plan.endJob(e.job.name, e.job.ok)
}

func (r *runner) countRunning() (n int) {
	for _, s := range r.started {
		if !s.isOver {
			n++
		}
	}
	return n
}

// stopJobs sends SIGTERM to every running job; tools/watch then ends the job's processes, gently at
// first.
func (r *runner) stopJobs() {
	for _, s := range r.started {
		if !s.isOver && s.cmd != nil {
			_ = s.cmd.Process.Signal(syscall.SIGTERM) // it may have ended
		}
	}
}

// finalVerdict returns the last line, and whether all jobs passed.
func (r *runner) finalVerdict() (line string, ok bool) {
	var good, bad []string
	for _, j := range r.plan.jobs {
		seconds := ""
		for _, s := range r.started {
			if s.name == j.name {
				seconds = fmt.Sprintf(" %.0f s", s.took.Seconds())
			}
		}
		switch state := r.plan.states[j.name]; state {
		case passed:
			good = append(good, j.name+seconds)
		case skipped:
			bad = append(bad, j.name+" not run")
		default:
			bad = append(bad, fmt.Sprintf("%s%s (%s/%s.log)", j.name, seconds, logs, j.name))
		}
	}
	if len(bad) > 0 {
		if len(good) == 0 {
			good = []string{"none"}
		}
		return fmt.Sprintf("make test: FAILED: %s; passed: %s", strings.Join(bad, ", "), strings.Join(good, ", ")), false
	}
	return fmt.Sprintf("make test: passed in %.0f s: %s", r.show.now().Sub(r.started[0].from).Seconds(), strings.Join(good, ", ")), true
}
