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

// progress prints what goes on, one line a step with the seconds since the
// start. On a terminal a line shows the step that runs and its time.
// The nil progress is silent.
type progress struct {
	mu    sync.Mutex // guards w, step and live
	w     io.Writer
	start time.Time
	step  string
	live  bool
	stop  chan struct{}
	once  sync.Once
	ended errgroup.Group
}

func newProgress(w io.Writer) *progress {
	if w == nil {
		return nil
	}
	p := &progress{w: w, start: time.Now(), stop: make(chan struct{})}
	if f, ok := w.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		p.live = true
		p.ended.Go(p.tick)
	}
	return p
}

// Step ends the step before and begins one.
func (p *progress) Step(format string, args ...any) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.step = fmt.Sprintf(format, args...)
	if p.live {
		fmt.Fprint(p.w, "\r\x1b[K")
	}
	fmt.Fprintf(p.w, "%5.1fs  %s\n", time.Since(p.start).Seconds(), p.step)
}

func (p *progress) tick() error {
	t := time.NewTicker(200 * time.Millisecond)
	defer t.Stop()
	for {
		select {
		case <-p.stop:
			return nil
		case <-t.C:
			p.mu.Lock()
			if p.step != "" {
				fmt.Fprintf(p.w, "\r\x1b[K%5.1fs  ...", time.Since(p.start).Seconds())
			}
			p.mu.Unlock()
		}
	}
}

// Close takes the live line away. It may be called again.
func (p *progress) Close() {
	if p == nil {
		return
	}
	p.once.Do(func() { close(p.stop) })
	_ = p.ended.Wait()
	if p.live {
		fmt.Fprint(p.w, "\r\x1b[K")
		p.live = false
	}
}
