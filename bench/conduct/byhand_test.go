package conduct

import (
	"context"
	"errors"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/culvert-net/culvert/bench"
	"github.com/culvert-net/culvert/bench/engine"
)

// person pulls and plugs the cable between two worlds when the program asks, some time later.
type person struct {
	*world
	answers chan string // what the program asked
	after   time.Duration
	lazy    bool // does nothing
	// down and up are the arguments of ip by which the cable is pulled and plugged in.
	down, up string
}

func (p *person) ask(ctx context.Context, e bench.End, in bool) error {
	return Order{AskPerson: func(format string, args ...any) {
		answer, argv := "down", p.down
		if strings.HasPrefix(format, "PLUG") {
			answer, argv = "up", p.up
		}
		p.answers <- answer
		if p.lazy {
			return
		}
		time.AfterFunc(p.after, func() {
			_ = exec.CommandContext(context.WithoutCancel(ctx), "ip", append([]string{"-n", e.Name}, strings.Fields(argv)...)...).Run()
		})
	}}.askForCable(ctx, e, in)
}

func newPerson(t *testing.T) *person {
	p := &person{world: newWorld(t), answers: make(chan string, 32), after: 3 * time.Second / 2, down: "link set a0 down", up: "link set a0 up"}
	w := &p.exchange.Arms[0].Workload
	w.Engine, w.Seconds, w.Pulled, w.ByHand = engine.Own, 12, true, true
	p.exchange.Cable = Cable{Move: p.ask, ByHand: true}
	p.limitRate(t, 0, "a0", "40mbit") // it leaves the processors to tests beside it
	return p
}

// TestPulledByHand: the program asks a person to pull the cable, sees the link go down or the traffic
// stop, asks for it to be plugged in, and sees the traffic come again. The run says how long it stopped.
func TestPulledByHand(t *testing.T) {
	t.Run("the link goes down", func(t *testing.T) {
		t.Parallel()
		newPerson(t).checkPulled(t)
	})
	t.Run("no link goes down", func(t *testing.T) {
		t.Parallel()
		p := newPerson(t)
		p.down, p.up = "neigh replace 10.98.0.2 dev a0 lladdr 02:00:00:00:00:99 nud permanent", "neigh del 10.98.0.2 dev a0"
		p.exchange.Arms[0].Workload.Seconds = 18
		p.checkPulled(t)
	})
}

func (p *person) checkPulled(t *testing.T) {
	t.Helper()
	run := p.goodRun(t, 0)
	for len(p.answers) > 2 { // of void runs
		<-p.answers
	}
	if asked := <-p.answers + " " + <-p.answers; asked != "down up" {
		t.Errorf("the program asked for %s", asked)
	}
	before, stopped, after := Pulled(run)
	if before <= 0 || stopped < 0.4 || stopped > 10 || after <= 0 {
		t.Errorf("pulled for a second or more: %g Gb/s, nothing for %g s, %g Gb/s", before, stopped, after)
	}
	r := bench.Result{Arms: p.exchange.Arms[:1], Runs: []bench.Run{run}}
	if notes := pulledArms(r); len(notes) != 1 || !strings.Contains(notes[0], "0 while it was") {
		t.Errorf("%q", notes)
	}
}

// TestNotPulledByHand: a person who does nothing makes a void run. A person who does not plug the cable
// in again ends the measurement. Neither waits for longer than its part of the run.
func TestNotPulledByHand(t *testing.T) {
	t.Parallel()
	p := newPerson(t)
	p.exchange.Arms[0].Workload.Seconds, p.lazy = 8, true
	run, err := p.runOnce(t, 0)
	for range 7 { // a run that is void before does not get there
		if err != nil || len(p.answers) > 0 {
			break
		}
		run, err = p.runOnce(t, 0)
	}
	if err != nil || !strings.Contains(run.Void, "the cable was not pulled, or this traffic does not need it") {
		t.Errorf("%q, %v", run.Void, err)
	}
	p.lazy, p.after = false, time.Hour
	p.exchange.Arms[0].Workload.Seconds = 12
	p.exchange.Cable.Move = func(ctx context.Context, e bench.End, in bool) error {
		if in {
			return nil
		}
		return exec.CommandContext(ctx, "ip", "-n", e.Name, "link", "set", e.Interface, "down").Run()
	}
	for range 8 {
		if run, err = p.runOnce(t, 0); err != nil {
			break
		}
		p.runIn(t, 0, "link", "set", "a0", "up")
	}
	if !errors.Is(err, errPulled) || !strings.Contains(err.Error(), "nothing arrived within") {
		t.Errorf("%q, %v", run.Void, err)
	}
}

// TestNoWarmUpByHand: a person pulls no cable in the round that warms up.
func TestNoWarmUpByHand(t *testing.T) {
	made := [2]int{}
	r := Rounds{
		Arms: []bench.Arm{{Workload: bench.Workload{Pulled: true, ByHand: true}}, {}}, Limits: Limits{Repeats: 1, MaxTime: time.Hour}, Now: time.Now,
		Once: func(_ context.Context, arm int) (bench.Run, error) { made[arm]++; return bench.Run{Gbps: 1}, nil },
	}
	if _, unfinished := r.Run(t.Context()); unfinished != "" || made != [2]int{1, 2} {
		t.Errorf("%v, %s", made, unfinished)
	}
}

// TestFindCable: commands come before the lab, and that before a person.
func TestFindCable(t *testing.T) {
	lab := Order{From: []string{"lab:x/a"}, To: []string{"lab:x/b"}}
	far := Order{From: []string{"ssh:a"}, To: []string{"ssh:b"}}
	ask := func(string, ...any) {}
	for name, c := range map[string]struct {
		order         Order
		found, byHand bool
	}{
		"a lab": {lab, true, false}, "far": {far, false, false},
		"far, with a person":   {Order{From: far.From, To: far.To, AskPerson: ask}, true, true},
		"a lab, with a person": {Order{From: lab.From, To: lab.To, AskPerson: ask}, true, false},
		"far, by commands":     {Order{From: far.From, To: far.To, AskPerson: ask, Pull: "true", Plug: "true"}, true, false},
	} {
		if got := c.order.findCable(); (got.Move != nil) != c.found || got.ByHand != c.byHand {
			t.Errorf("%s: %v, by hand %v", name, got.Move != nil, got.ByHand)
		}
	}
	for _, o := range []Order{{Pull: "true", Presets: []string{"m9"}, Burst: 1}, {Pull: "true", Plug: "true", Presets: []string{"m4"}, Burst: 1}} {
		if err := o.Check(); err == nil || !strings.Contains(err.Error(), "--pull and --plug") {
			t.Error(err)
		}
	}
}
