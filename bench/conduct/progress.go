package conduct

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/culvert-net/culvert/bench"
	"github.com/culvert-net/culvert/internal/excerpt"
)

// Progress shows a person the state of the runs: on a terminal in one line that changes, else
// in a line now and then. A nil one says nothing. Its methods may be called
// concurrently.
type Progress struct {
	mu    sync.Mutex // guards what is below, and w
	w     io.Writer
	live  bool
	width int
	now   func() time.Time
	what  string
	end   time.Time // of the run; zero when it is not known
	began time.Time
	said  time.Time

	stop chan struct{}
	done chan struct{}
}

const (
	liveTick  = 200 * time.Millisecond
	quietTime = 10 * time.Second
)

// NewProgress writes to w; live says that it is a terminal of that many columns.
func NewProgress(w io.Writer, live bool, width int) *Progress {
	p := &Progress{w: w, live: live, width: width, now: time.Now, stop: make(chan struct{}), done: make(chan struct{})}
	go func() { // ends with Close
		defer close(p.done)
		t := time.NewTicker(liveTick)
		defer t.Stop()
		for {
			select {
			case <-p.stop:
				return
			case <-t.C:
				p.showTick()
			}
		}
	}()
	return p
}

// Close takes the live line away.
func (p *Progress) Close() {
	close(p.stop)
	<-p.done
	p.mu.Lock()
	defer p.mu.Unlock()
	p.clearLine()
}

// Say writes a line that stays. It may repeat the text of an agent.
func (p *Progress) Say(format string, args ...any) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.clearLine()
	fmt.Fprintln(p.w, excerpt.Lines(fmt.Sprintf(format, args...)))
}

// Step says what goes on before there are runs.
func (p *Progress) Step(format string, args ...any) { p.setStep(fmt.Sprintf(format, args...), 0) }

// beginRun shows a run that begins. figures has the arm's figures so far.
func (p *Progress) beginRun(arm bench.Arm, figures []float64, round int, left time.Duration) {
	if p == nil {
		return
	}
	what := arm.Name + ": warming up"
	if round > 0 {
		what = fmt.Sprintf("%s: run %d", arm.Name, len(figures)+1)
	}
	if len(figures) > 0 {
		what += fmt.Sprintf(", %s %s so far", bench.Number(bench.Median(figures)), arm.Main().Unit)
	}
	p.setStep(what, left)
}

// endRun shows the outcome of a run.
func (p *Progress) endRun(arm bench.Arm, run bench.Run) {
	if run.Void != "" {
		p.Say("%s: a run is void: %s", arm.Name, run.Void)
	}
}

func (p *Progress) setStep(what string, left time.Duration) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.what, p.began, p.end = excerpt.Clean(what), p.now(), time.Time{}
	if left > 0 {
		p.end = p.began.Add(left)
	}
}

func (p *Progress) showTick() {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.now()
	if p.what == "" || !p.live && now.Sub(p.said) < quietTime {
		return
	}
	line := fmt.Sprintf("%s (%.0f s)", p.what, now.Sub(p.began).Seconds())
	if !p.end.IsZero() {
		line += ", about " + shortTime(max(0, p.end.Sub(now))) + " left"
	}
	p.said = now
	if p.live {
		fmt.Fprintf(p.w, "\r\x1b[K%s", cutColumns(line, p.width-1))
		return
	}
	fmt.Fprintln(p.w, line)
}

// clearLine takes the live line away before something else is written.
func (p *Progress) clearLine() {
	if p.live {
		fmt.Fprint(p.w, "\r\x1b[K")
	}
}

// cutColumns returns the beginning of s, which is mostly ASCII, in at most the given columns.
func cutColumns(s string, columns int) string {
	r := []rune(s)
	return string(r[:min(len(r), max(columns, 0))])
}

// shortTime writes a time as a person says it: 40 s, 3 min 20 s, 2 h 5 min.
func shortTime(d time.Duration) string {
	d = d.Round(time.Second)
	h, m, s := int(d.Hours()), int(d.Minutes())%60, int(d.Seconds())%60
	var parts []string
	for _, part := range []struct {
		n    int
		unit string
	}{{h, "h"}, {m, "min"}, {s, "s"}} {
		if part.n > 0 && len(parts) < 2 {
			parts = append(parts, fmt.Sprintf("%d %s", part.n, part.unit))
		}
	}
	if len(parts) == 0 {
		return "0 s"
	}
	return strings.Join(parts, " ")
}
