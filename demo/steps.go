package demo

import (
	"bytes"
	"fmt"
	"io"
	"regexp"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
)

// steps prints what goes on: a line a step with the seconds since the start,
// and a sign of life while one takes long. On a terminal that is a running
// clock, elsewhere a line every now and then.
type steps struct {
	mu    sync.Mutex // guards w, began, said and text
	w     io.Writer
	live  bool
	start time.Time
	began time.Time
	said  time.Time // when something was printed
	text  string

	stop  chan struct{}
	ended errgroup.Group
}

const (
	liveTick  = 200 * time.Millisecond
	quietTick = 10 * time.Second
)

func newSteps(w io.Writer, live bool) *steps {
	s := &steps{w: w, live: live, start: time.Now(), stop: make(chan struct{})}
	tick := quietTick
	if live {
		tick = liveTick
	}
	s.ended.Go(func() error { return s.tick(tick) })
	return s
}

// clear takes the running clock away before something else is printed.
func (s *steps) clear() {
	if s.live {
		fmt.Fprint(s.w, "\r\x1b[K")
	}
}

// step begins a step, which ends the one before.
func (s *steps) step(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.text, s.began = fmt.Sprintf(format, args...), time.Now()
	s.said = s.began
	s.clear()
	fmt.Fprintf(s.w, "%6.1fs  %s\n", s.began.Sub(s.start).Seconds(), s.text)
}

// show prints text as it is, under the step that goes on.
func (s *steps) show(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.clear()
	s.said = time.Now()
	fmt.Fprint(s.w, text)
}

func (s *steps) tick(every time.Duration) error {
	t := time.NewTicker(every)
	defer t.Stop()
	for {
		select {
		case <-s.stop:
			return nil
		case now := <-t.C:
			s.alive(now)
		}
	}
}

func (s *steps) alive(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch took := now.Sub(s.began); {
	case s.text == "":
	case s.live:
		fmt.Fprintf(s.w, "\r\x1b[K%6.1fs  ... %.0f s", now.Sub(s.start).Seconds(), took.Seconds())
	case now.Sub(s.said) > quietTick*9/10:
		s.said = now
		fmt.Fprintf(s.w, "%6.1fs  ... still: %s\n", now.Sub(s.start).Seconds(), s.text)
	}
}

func (s *steps) close() {
	close(s.stop)
	_ = s.ended.Wait() // it has no error
	s.mu.Lock()
	defer s.mu.Unlock()
	s.clear()
}

// stamped is how package lab begins a line.
var stamped = regexp.MustCompile(`^\s*[\d.]+s  `)

// Write takes lines of another progress, such as the lab's, as steps, by our
// clock. Each call holds whole lines.
func (s *steps) Write(p []byte) (int, error) {
	for line := range bytes.Lines(p) {
		if line = bytes.TrimRight(line, "\n"); stamped.Match(line) {
			s.step("%s", stamped.ReplaceAll(line, nil))
		}
	}
	return len(p), nil
}
