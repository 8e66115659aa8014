package conduct

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/culvert-net/culvert/bench"
)

// told returns the text that a progress writes over that many seconds, with a tick each second.
func told(live bool, seconds int, what func(*Progress)) string {
	var out bytes.Buffer
	c := &clock{time.Unix(1000, 0)}
	p := &Progress{w: &out, live: live, width: 70, now: c.readTime}
	what(p)
	for range seconds {
		c.Time = c.Add(time.Second)
		p.showTick()
	}
	return out.String()
}

func TestProgress(t *testing.T) {
	arm := bench.Arm{Name: "VF", Workload: bench.Workload{Kind: bench.Stream}}
	run := func(p *Progress) { p.beginRun(arm, []float64{9, 9.42, 10}, 4, 200*time.Second) }
	if got, want := told(true, 2, run), "\r\x1b[KVF: run 4, 9.42 Gb/s so far (1 s), about 3 min 19 s left\r\x1b[KVF: run 4, 9.42 Gb/s so far (2 s), about 3 min 18 s left"; got != want {
		t.Errorf("live: %q", got)
	}
	if got := told(false, 25, run); strings.Count(got, "\n") != 3 || strings.Contains(got, "\x1b") {
		t.Errorf("25 s without a terminal: %q", got)
	}
	if got := told(true, 1, func(p *Progress) { p.beginRun(arm, nil, 0, 0) }); !strings.HasSuffix(got, "VF: warming up (1 s)") {
		t.Errorf("%q", got)
	}
	if got := told(true, 1, func(p *Progress) { p.Step("%s", strings.Repeat("x", 100)) }); len(got) != len("\r\x1b[K")+69 {
		t.Errorf("a long line: %q", got)
	}
	if got := told(true, 1, func(*Progress) {}); got != "" {
		t.Errorf("nothing runs: %q", got)
	}
	void := func(p *Progress) {
		run(p)
		p.endRun(arm, bench.Run{})
		p.endRun(arm, bench.Run{Void: "the traffic took another way"})
	}
	if got := told(true, 0, void); got != "\r\x1b[KVF: a run is void: the traffic took another way\n" {
		t.Errorf("%q", got)
	}
	hostile := func(p *Progress) {
		p.endRun(arm, bench.Run{Void: "\x1b]0;hostile\a"})
		p.Step("look for \x1b[2Jhostile")
	}
	if got := told(false, 25, hostile); strings.ContainsAny(got, "\x1b\a") || strings.Count(got, "hostile") < 2 {
		t.Errorf("the text of a hostile agent: %q", got)
	}
	var none *Progress
	void(none)
	none.Step("nobody sees it")
}

func TestProgressLives(t *testing.T) {
	r, w := newLines()
	p := NewProgress(w, true, 70)
	p.Step("meeting")
	if got := <-r; !strings.Contains(got, "meeting") {
		t.Errorf("%q", got)
	}
	go func() { // until the test ends
		for range r {
		}
	}()
	p.Close()
}

// lines is a writer that hands over each write.
type lines chan string

func newLines() (<-chan string, lines) { c := make(lines); return c, c }

func (l lines) Write(b []byte) (int, error) { l <- string(b); return len(b), nil }

func TestShort(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0 s", 400 * time.Millisecond: "0 s", 59 * time.Second: "59 s", time.Minute: "1 min", 200 * time.Second: "3 min 20 s",
		2*time.Hour + 5*time.Minute + time.Second: "2 h 5 min", time.Hour + time.Second: "1 h 1 s",
	} {
		if got := shortTime(d); got != want {
			t.Errorf("%s: %q, want %q", d, got, want)
		}
	}
}
