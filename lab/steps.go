package lab

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/term"
)

// Steps prints what goes on: a line a step with the seconds since the start,
// and a sign of life while one takes long. On a terminal that is a running
// clock, elsewhere a line every now and then. The nil Steps is silent.
type Steps struct {
	mu    sync.Mutex // guards w, began, said and text
	w     io.Writer
	live  bool
	start time.Time
	began time.Time
	said  time.Time // when something was printed
	text  string

	stop  chan struct{}
	once  sync.Once
	ended errgroup.Group
}

const (
	liveTick  = 200 * time.Millisecond
	quietTick = 10 * time.Second
)

// NewSteps prints to w, which is a terminal if live is set. Close ends it.
func NewSteps(w io.Writer, live bool) *Steps {
	s := &Steps{w: w, live: live, start: time.Now(), stop: make(chan struct{})}
	tick := quietTick
	if live {
		tick = liveTick
	}
	s.ended.Go(func() error { return s.tick(tick) })
	return s
}

// stepsTo returns the Steps that print to w, and what ends them. Where w is a caller's
// Steps they go on there, by that clock.
func stepsTo(w io.Writer) (s *Steps, end func()) {
	switch w := w.(type) {
	case nil:
		return nil, func() {}
	case *Steps:
		return w, func() {}
	}
	f, isFile := w.(*os.File)
	s = NewSteps(w, isFile && term.IsTerminal(int(f.Fd())))
	return s, s.Close
}

// clear takes the running clock away before something else is printed.
func (s *Steps) clear() {
	if s.live {
		fmt.Fprint(s.w, "\r\x1b[K")
	}
}

// Step begins a step, which ends the one before.
func (s *Steps) Step(format string, args ...any) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.text, s.began = fmt.Sprintf(format, args...), time.Now()
	s.said = s.began
	s.clear()
	fmt.Fprintf(s.w, "%6.1fs  %s\n", s.began.Sub(s.start).Seconds(), s.text)
}

// Write prints text as it is, under the step that goes on.
func (s *Steps) Write(text []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.clear()
	s.said = time.Now()
	return s.w.Write(text)
}

func (s *Steps) tick(every time.Duration) error {
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

func (s *Steps) alive(now time.Time) {
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

// Close takes the running clock away. It may be called again.
func (s *Steps) Close() {
	if s == nil {
		return
	}
	s.once.Do(func() {
		close(s.stop)
		_ = s.ended.Wait() // it has no error
		s.clear()
	})
}
