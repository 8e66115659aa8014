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

// Steps prints progress: a line for each step with the seconds since the start, and a sign of
// life during a long step. On a terminal this is a running clock, elsewhere a line from time to
// time. A nil Steps prints nothing.
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

// NewSteps returns Steps that print to w, which is a terminal if live is set. Close ends them.
func NewSteps(w io.Writer, live bool) *Steps {
	s := &Steps{w: w, live: live, start: time.Now(), stop: make(chan struct{})}
	tick := quietTick
	if live {
		tick = liveTick
	}
	s.ended.Go(func() error { return s.tickUntilStop(tick) })
	return s
}

// stepsTo returns Steps that print to w, and a function that ends them. If w is itself a Steps,
// stepsTo returns that one.
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

// clearClock removes the running clock from the terminal before other text is printed.
func (s *Steps) clearClock() {
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
	s.clearClock()
	fmt.Fprintf(s.w, "%6.1fs  %s\n", s.began.Sub(s.start).Seconds(), s.text)
}

// Write prints text unchanged, below the line of the present step.
func (s *Steps) Write(text []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.clearClock()
	s.said = time.Now()
	return s.w.Write(text)
}

func (s *Steps) tickUntilStop(every time.Duration) error {
	t := time.NewTicker(every)
	defer t.Stop()
	for {
		select {
		case <-s.stop:
			return nil
		case now := <-t.C:
			s.showProgress(now)
		}
	}
}

func (s *Steps) showProgress(now time.Time) {
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

// Close removes the running clock. It may be called again.
func (s *Steps) Close() {
	if s == nil {
		return
	}
	s.once.Do(func() {
		close(s.stop)
		_ = s.ended.Wait() // it returns no error
		s.clearClock()
	})
}
