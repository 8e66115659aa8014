package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// A show prints the logs of jobs that run at the same time, each in one piece. It prints the log of
// the job in front as the job writes it, and starts with the next log when that job has ended.
type show struct {
	out   io.Writer
	dir   string
	every time.Duration // the longest time without output
	now   func() time.Time

	front     *started
	offset    int64 // in the front's log: the text before it is printed already
	done      map[string]bool
	announced map[string]bool // jobs that failed while another was in front, and whose failure was printed
	last      time.Time       // when something was printed
}

// updateScreen prints the new output of the jobs that were started.
func (s *show) updateScreen(jobs []*started) {
	for {
		if s.front == nil && !s.chooseFront(jobs) {
			return
		}
		over := s.front.isOver // before the log is read: it does not grow any more then
		s.followLog()
		if !over {
			break
		}
		s.closeSection()
	}
	s.announceFailed(jobs)
	if s.now().Sub(s.last) >= s.every {
		s.printLine("%s\n", s.progressLine(jobs))
	}
}

// chooseFront makes the next job the one in front: the first one that has ended, or else the one
// that was started first. It reports whether there is one.
func (s *show) chooseFront(jobs []*started) bool {
	for _, over := range []bool{true, false} {
		for _, j := range jobs {
			if !s.done[j.name] && j.isOver == over {
				s.front, s.offset = j, 0
				s.printLine("==> %s\n", j.name)
				return true
			}
		}
	}
	return false
}

// followLog prints the part of the front job's log that was written since the last call.
func (s *show) followLog() {
	f, err := os.Open(filepath.Join(s.dir, s.front.name+".log"))
	if err != nil {
		return // it is not there yet
	}
	defer f.Close()
	if _, err := f.Seek(s.offset, io.SeekStart); err != nil {
		return
	}
	n, _ := io.Copy(s.out, f) // the next call reads what this one could not
	s.offset += n
	if n > 0 {
		s.last = s.now()
	}
}

// closeSection ends the section of the job in front.
func (s *show) closeSection() {
	if s.done == nil {
		s.done = map[string]bool{}
	}
	s.printLine("%s==> %s: %s, %.0f s\n", s.front.said.String(), s.front.name, verdictOf(s.front), s.front.took.Seconds())
	s.done[s.front.name] = true
	s.front = nil
}

func verdictOf(j *started) string {
	if j.ok {
		return passed.String()
	}
	return failed.String()
}

// announceFailed prints a line for each job that has failed while another job was in front.
func (s *show) announceFailed(jobs []*started) {
	for _, j := range jobs {
		if j.isOver && !j.ok && j != s.front && !s.done[j.name] && !s.announced[j.name] {
			if s.announced == nil {
				s.announced = map[string]bool{}
			}
			s.announced[j.name] = true
			s.printLine("==> %s failed after %.0f s: its output follows, and is in %s/%s.log\n", j.name, j.took.Seconds(), s.dir, j.name)
		}
	}
}

// progressLine returns the line that names the running jobs and their times.
func (s *show) progressLine(jobs []*started) string {
	var beside []string
	for _, j := range jobs {
		if !j.isOver && j != s.front {
			beside = append(beside, fmt.Sprintf("%s for %.0f s", j.name, s.now().Sub(j.from).Seconds()))
		}
	}
	line := fmt.Sprintf("%s: running for %.0f s", s.front.name, s.now().Sub(s.front.from).Seconds())
	if len(beside) > 0 {
		line += "; beside it " + strings.Join(beside, ", ")
	}
	return line
}

func (s *show) printLine(format string, args ...any) {
	fmt.Fprintf(s.out, format, args...)
	s.last = s.now()
}
