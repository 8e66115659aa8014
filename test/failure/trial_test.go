package failure

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/culvert-net/culvert/internal/kernel/fake"
	"github.com/culvert-net/culvert/internal/kernel/faulty"
	"github.com/culvert-net/culvert/internal/kernel/step"
	"github.com/culvert-net/culvert/internal/node/desired"
	"github.com/culvert-net/culvert/internal/node/trial"
)

// paper is a file of a world, which outlives culvertd.
type paper struct {
	content []byte // nil: it is not there
	w       *world
	name    string
}

func (p *paper) Content() ([]byte, error) { return p.content, nil }

func (p *paper) Put(content []byte) error {
	if err := p.w.gate.pass("before the write of %s", p.name); err != nil {
		return err
	}
	p.content = content
	return p.w.gate.pass("after the write of %s", p.name)
}

// hostPaper is the host.yaml of a world.
type hostPaper struct{ paper }

func (p *hostPaper) Read() {
	spec, err := desired.Parse("host.yaml", p.content)
	if err != nil {
		p.w.t.Fatalf("%v", err)
	}
	p.Follow(spec)
}

func (p *hostPaper) Follow(spec desired.Spec) { p.w.node.SetSpec(spec) }

// tried is a world with trials of host.yaml.
type tried struct {
	*world
	host   hostPaper
	record paper
	keeper *trial.Keeper
}

func newTried(t *testing.T, host string) *tried {
	w := &tried{world: newWorld(t, fake.IGB, fastDir(t))}
	w.host.paper = paper{w: w.world, name: "host.yaml"}
	w.record = paper{w: w.world, name: "the trial"}
	if host != "" {
		w.host.content = []byte(host)
	}
	w.follow()
	return w
}

// follow starts a culvertd, as package daemon does.
func (w *tried) follow() {
	w.t.Helper()
	w.keeper = trial.New(trial.Config{
		Store: &w.record, Boot: fmt.Sprint("boot ", w.boot), File: &w.host, Host: w.node.Reconciler, Preview: func(s desired.Spec) desired.Spec { return s },
		Ledger: mortalLedger{w.ledger, w.gate, &w.disk}, Now: func() time.Time { return time.Now().Add(w.skew) }, Log: slog.New(slog.DiscardHandler),
	})
	w.keeper.Resume()
	w.start()
	w.pass()
}

// try puts a host.yaml on trial for a minute, as culvert host apply --confirm does.
func (w *tried) try(content string) error {
	spec, err := desired.Parse("host.yaml", []byte(content))
	if err != nil {
		w.t.Fatalf("%v", err)
	}
	plans, err := w.node.Reconciler.PlanFor(context.Background(), spec)
	if err != nil {
		return err
	}
	return w.keeper.Begin(context.Background(), content, time.Minute, plans)
}

// late lets the time of a trial pass, with the loop of culvertd that waits for it.
func (w *tried) late() {
	w.t.Helper()
	w.skew += 2 * time.Minute
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- w.keeper.Run(ctx) }()
	for w.keeper.Status() != nil && ctx.Err() == nil {
		time.Sleep(time.Millisecond)
	}
	cancel()
	<-done
	w.node.VFs.Wait()
}

const (
	twoVFs  = "pfs: [{name: '*', vfs: 2}]\npools: [{name: net}]\n"
	onTrial = "pfs: [{name: '*', vfs: 3, mtu: 9000, addresses: [10.7.0.1/24], autoprobe: false}]\npools: [{name: other, mtu: 9000}]\n"
)

// earliers are what may be before a trial: VFs, PFs that no host.yaml names, and no host.yaml.
func earliers() map[string]string {
	return map[string]string{"VFs": twoVFs, "no entry for the PFs": "pools: [{name: net}]\n", "no file": ""}
}

// asBefore fails the test unless the kernel, host.yaml and the trial are as before the trial.
func (w *tried) asBefore(kernel, host string) {
	w.t.Helper()
	w.pass()
	if got := w.k.String(); got != kernel {
		w.t.Errorf("the kernel is\n%s\nand was\n%s", got, kernel)
	}
	if string(w.host.content) != host || (w.host.content == nil) != (host == "") {
		w.t.Errorf("host.yaml is %q, want %q", w.host.content, host)
	}
	if w.record.content != nil || w.keeper.Status() != nil {
		w.t.Errorf("the trial is still there: %s", w.record.content)
	}
}

// settledPFs brings the PFs up, which going back does not undo.
func (w *tried) settledPFs() {
	spec, _ := desired.Parse("host.yaml", []byte("pfs: [{name: '*', vfs: 0}]\n"))
	w.node.SetSpec(spec)
	w.pass()
	w.host.Read()
	w.pass()
}

// A host.yaml that is not confirmed in time is taken back, with all that it changed on PFs that the
// one before it leaves alone. A confirmed one stays.
func TestTrial(t *testing.T) {
	for name, host := range earliers() {
		t.Run(name, func(t *testing.T) {
			w := newTried(t, host)
			w.settledPFs()
			before := w.k.String()
			must(w.world, w.try(onTrial))
			if during := w.k.String(); !strings.Contains(during, "9000") {
				t.Fatalf("it was not applied:\n%s", during)
			}
			if err := w.keeper.CheckFree(); err == nil {
				t.Error("another host.yaml could be applied during a trial")
			}
			w.late()
			w.asBefore(before, host)

			must(w.world, w.try(onTrial))
			during := w.k.String()
			if _, err := w.keeper.Confirm(); err != nil {
				t.Fatal(err)
			}
			w.late()
			w.asBefore(during, onTrial)
			if _, err := w.keeper.Confirm(); err == nil || !strings.Contains(err.Error(), "no host.yaml is on trial") {
				t.Errorf("a second confirmation: %v", err)
			}
		})
	}
}

// culvertd is killed at every moment of a trial, and of going back from it. The next one ends with the
// host as it was before. During the trial itself it keeps the time.
func TestTrialKilledAtEveryMoment(t *testing.T) {
	for name, host := range earliers() {
		t.Run(name, func(t *testing.T) {
			n := 1
			for ; ; n++ {
				w := newTried(t, host)
				w.settledPFs()
				before := w.k.String()
				died := w.dies(n, func(*world) {
					_ = w.try(onTrial)
					if w.gate.killed() == "" {
						_, _ = w.keeper.Revert(context.Background())
					}
				})
				was := w.gate.killed()
				w.restart()
				w.follow()
				w.late()
				w.asBefore(before, host)
				w.close()
				if t.Failed() {
					t.Fatalf("killed %s", was)
				}
				if !died {
					break
				}
			}
			t.Logf("%d moments", n-1)
		})
	}
}

// Each step of going back fails once in every way, and culvertd tries again.
func TestTrialStepsFail(t *testing.T) {
	for n := 1; ; n++ {
		w := newTried(t, twoVFs)
		before := w.k.String()
		must(w.world, w.try(onTrial))
		var at atomic.Int64
		w.fault.Fail(func(faulty.Moment, step.Step) error {
			if at.Add(1) == int64(n) {
				return errors.New("it failed")
			}
			return nil
		})
		_, err := w.keeper.Revert(context.Background())
		must(w.world, err)
		w.fault.Fail(nil)
		w.late()
		w.asBefore(before, twoVFs)
		w.close()
		if t.Failed() {
			t.Fatalf("step %d failed", n)
		}
		if at.Load() < int64(n) {
			t.Logf("%d steps", n-1)
			return
		}
	}
}

// A reboot ends a trial: the VFs are made by the host.yaml before it.
func TestTrialEndsWithReboot(t *testing.T) {
	w := newTried(t, twoVFs)
	before := w.k.String()
	must(w.world, w.try(onTrial))
	w.reboot()
	w.follow()
	if got := w.k.String(); got != before {
		t.Errorf("after the boot:\n%s\nwant\n%s", got, before)
	}
	w.late()
	w.asBefore(before, twoVFs)
}

// Going back takes no VF from a pod that got it during the trial. It ends when the pod has ended.
func TestTrialTakesNoVF(t *testing.T) {
	w := newTried(t, twoVFs)
	before := w.k.String()
	must(w.world, w.try(strings.Replace(onTrial, "other", "net", 1)))
	must(w.world, w.add(podB))
	if done, err := w.keeper.Revert(context.Background()); done || err != nil {
		t.Fatalf("it went back: %t, %v", done, err)
	}
	if w.heldBy("b").IsZero() || w.keeper.Status() == nil || !w.keeper.Status().GoingBack {
		t.Errorf("%+v", w.keeper.Status())
	}
	must(w.world, w.del(podB))
	w.late()
	w.asBefore(before, twoVFs)
}

// A host.yaml that another program wrote during the trial stays.
func TestTrialKeepsWhatOthersWrote(t *testing.T) {
	const byHand = "pfs: [{name: '*', vfs: 1}]\n"
	w := newTried(t, twoVFs)
	must(w.world, w.try(onTrial))
	w.host.content = []byte(byHand)
	w.late()
	if string(w.host.content) != byHand || w.record.content != nil {
		t.Errorf("host.yaml %q, trial %q", w.host.content, w.record.content)
	}
}

// A clock that is set back gives a trial no more time than it was given.
func TestTrialWithClockSetBack(t *testing.T) {
	w := newTried(t, twoVFs)
	before := w.k.String()
	must(w.world, w.try(onTrial))
	w.skew -= 48 * time.Hour
	w.restart()
	w.follow()
	w.late()
	w.asBefore(before, twoVFs)
}

// A damaged trial is a problem, and host.yaml stays as it is.
func TestTrialDamaged(t *testing.T) {
	w := newTried(t, twoVFs)
	w.record.content = []byte("{")
	w.restart()
	w.follow()
	if p := w.keeper.Problems(); len(p) != 1 || !strings.Contains(p[0].Reason, "is damaged") || string(w.host.content) != twoVFs {
		t.Errorf("%+v, host.yaml %q", p, w.host.content)
	}
	must(w.world, w.try(onTrial))
	if p := w.keeper.Problems(); len(p) != 0 {
		t.Errorf("%+v", p)
	}
}
