package main

import (
	"fmt"
	"slices"
)

// room is what the machine has for jobs that run side by side.
type room struct{ slots, nodes int }

// A state is the state of a job.
type state int

const (
	waiting state = iota
	running
	passed
	failed
	skipped // a job that it needs did not pass
)

func (s state) String() string {
	return [...]string{"waiting", "running", "ok", "failed", "not run"}[s]
}

// isOver says whether the job will not run any more.
func (s state) isOver() bool { return s >= passed }

// A schedule decides which jobs run when.
type schedule struct {
	jobs   []job
	room   room
	states map[string]state
}

// newSchedule checks that each job can run: it must fit into the room, and the jobs that it needs
// must be above it in the list.
func newSchedule(jobs []job, r room) (*schedule, error) {
	jobs = slices.Clone(jobs)
	for i := range jobs {
		if jobs[i].slots == allSlots {
			jobs[i].slots = r.slots
		}
	}
	for i, j := range jobs {
		if j.slots > r.slots && j.slots != alone || j.nodes > r.nodes {
			return nil, fmt.Errorf("job %s takes %d slots and %d nodes, and this machine has room for %d and %d", j.name, j.slots, j.nodes, r.slots, r.nodes)
		}
		for _, need := range j.needs {
			if !slices.ContainsFunc(jobs[:i], func(o job) bool { return o.name == need }) {
				return nil, fmt.Errorf("job %s needs %s, which is not above it", j.name, need)
			}
		}
	}
	return &schedule{jobs, r, map[string]state{}}, nil
}

// startReady returns the jobs that must start now, and counts them as running. If a job does not
// fit, the jobs below it may still start.
func (s *schedule) startReady() []job {
	var started []job
	for _, j := range s.jobs {
		if s.states[j.name] != waiting {
			continue
		}
		ready := true
		for _, need := range j.needs {
			switch s.states[need] {
			case passed:
			case failed, skipped:
				s.states[j.name] = skipped
				ready = false
			case waiting, running:
				ready = false
			}
		}
		if ready && s.states[j.name] == waiting && s.fits(j) {
			s.states[j.name] = running
			started = append(started, j)
		}
	}
	return started
}

// fits reports whether a job may run beside those that run now.
func (s *schedule) fits(j job) bool {
	free := s.room
	for _, o := range s.jobs {
		if s.states[o.name] != running {
			continue
		}
		if o.slots == alone || j.slots == alone || o.spare && j.spare {
			return false
		}
		free.slots -= o.slots
		free.nodes -= o.nodes
	}
	return j.slots == alone || j.slots <= free.slots && j.nodes <= free.nodes
}

// endJob notes that a job has ended.
func (s *schedule) endJob(name string, ok bool) {
	s.states[name] = failed
	if ok {
		s.states[name] = passed
	}
}

// isOver says whether no job will run any more.
func (s *schedule) isOver() bool {
	return !slices.ContainsFunc(s.jobs, func(j job) bool { return !s.states[j.name].isOver() })
}
