package torture

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/kernel"
	"github.com/culvert-net/culvert/internal/rpc"
	"github.com/culvert-net/culvert/internal/vf"
)

// torture kills culvertd while it works.
type torture struct {
	*churn
	t      *testing.T
	rng    *rand.Rand
	kernel *kernel.Kernel
	before clean
	killed int
	phases map[string]int // kills by the phases in the ledger at that moment
	steps  map[string]int // kills by the last change to the kernel
	took   time.Duration  // the longest time from start to settled
}

// newSeed returns a random source with the seed of -seed, or with a new one. It logs
// the seed in either case.
func newSeed(t *testing.T) *rand.Rand {
	s := *seed
	if s == 0 {
		s = uint64(time.Now().UnixNano())
	}
	t.Logf("to see this run again, as far as time allows: -seed %d", s)
	return rand.New(rand.NewPCG(s, s))
}

// I1 I2 I3 I4 I6 I8: culvertd is killed -9 at random moments while pods use all VFs,
// while it starts, and while it makes VFs. When culvertd has settled again, no VF is
// lost, held twice or dirty.
func TestKillAtAnyMoment(t *testing.T) {
	k := inNode(t)
	rng := newSeed(t)
	d := newDaemon(t, hostYAML)
	x := &torture{
		churn: newChurn(t, d, rng), t: t, rng: rng, kernel: k, before: allClean(pfs(t, k)),
		phases: map[string]int{}, steps: map[string]int{},
	}
	ctx, stop := context.WithCancel(t.Context())
	var g errgroup.Group
	x.gate.Lock()
	g.Go(func() error { return x.run(ctx) })
	begin := time.Now()
	for said := 0; x.killed < *kills && !t.Failed(); {
		x.round()
		if x.killed >= said+20 {
			said = x.killed
			t.Logf("%d kills, %s: %s", x.killed, time.Since(begin).Round(time.Second), x.tally())
		}
	}
	stop()
	x.gate.Unlock()
	if err := g.Wait(); err != nil {
		t.Error(err)
	}
	if err := x.end(t.Context()); err != nil {
		t.Error(err)
	}
	x.prove()
	t.Logf("%d kills in %s; longest from start to settled %s", x.killed, time.Since(begin).Round(time.Second), x.took.Round(time.Millisecond))
	t.Logf("the plugin: %s", x.tally())
	t.Logf("at the kill the ledger had: %s", table(x.phases))
	t.Logf("the kernel was last told to: %s", table(x.steps))
}

func table(m map[string]int) string {
	keys := slices.SortedFunc(maps.Keys(m), func(a, b string) int { return m[b] - m[a] })
	for i, k := range keys {
		keys[i] = fmt.Sprintf("%s %d", k, m[k])
	}
	return strings.Join(keys, ", ")
}

// round lets culvertd work, kills it, starts it again, and checks the node. The gate
// is closed before and after.
func (x *torture) round() {
	dice := x.rng.IntN(100)
	if dice < 4 {
		x.killWhileMaking()
		return
	}
	x.gate.Unlock()
	x.work(x.rng.IntN(12))
	x.shoot()
	if dice < 30 { // kill culvertd again while it starts
		x.d.start(x.t)
		x.wait(500 * time.Millisecond)
		x.shoot()
	}
	if dice < 55 { // pods come and go while it recovers
		x.d.start(x.t)
		x.d.ready(x.t)
		x.comesUp()
		x.work(x.rng.IntN(4))
		x.gate.Lock()
	} else {
		x.gate.Lock()
		x.restart()
	}
	x.prove()
}

func (x *torture) wait(most time.Duration) {
	time.Sleep(time.Duration(x.rng.Int64N(int64(most))))
}

// work waits until the slots have completed some actions, and then for a random
// moment. So the work between two kills does not depend on the speed of the machine.
func (x *torture) work(things int) {
	done := x.finished.Load() + int64(things)
	give := time.After(15 * time.Second)
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for x.finished.Load() < done {
		select {
		case <-give:
			return
		case <-tick.C:
		}
	}
	x.wait(400 * time.Millisecond)
}

// shoot kills culvertd, and records its last step and the phases in the ledger.
func (x *torture) shoot() {
	x.goesDown()
	x.kills.Add(1)
	x.d.kill()
	x.killed++
	x.steps[x.d.lastStep()]++
	if _, err := os.Stat(x.d.ledger); err != nil {
		x.phases["not begun"]++
		return
	}
	found := map[string]bool{}
	for _, rec := range x.d.leases(x.t).records {
		if rec.Phase != vf.PhaseFree && rec.Phase != vf.PhaseAttached {
			found[string(rec.Phase)] = true
		}
	}
	phase := strings.Join(slices.Sorted(maps.Keys(found)), "+")
	if phase == "" {
		phase = "nothing under way"
	}
	x.phases[phase]++
}

func (x *torture) restart() {
	begin := time.Now()
	x.d.start(x.t)
	x.d.ready(x.t)
	x.comesUp()
	eventually(x.t, settleBound, func() error { return x.d.settled(x.t.Context()) })
	x.took = max(x.took, time.Since(begin))
}

// killWhileMaking changes the number of VFs to and fro while no VF has an owner, and
// kills culvertd during each change.
func (x *torture) killWhileMaking() {
	if err := x.end(x.t.Context()); err != nil {
		x.t.Error(err)
	}
	for _, from := range []string{"vfs: 7", "vfs: 6"} {
		to := map[string]string{"vfs: 7": "vfs: 6", "vfs: 6": "vfs: 7"}[from]
		content, err := os.ReadFile(x.d.host)
		if err != nil {
			x.t.Fatal(err)
		}
		var g errgroup.Group
		g.Go(func() error {
			req := api.HostRequest{File: x.d.host, Content: strings.Replace(string(content), from, to, 1)}
			_ = rpc.Call(x.t.Context(), x.d.socket, api.MethodHostApply, req, new(json.RawMessage)) // the kill cuts the call off
			return nil
		})
		x.wait(4 * time.Second)
		x.shoot()
		_ = g.Wait()
		if err := os.WriteFile(x.d.host, []byte(strings.Replace(hostYAML, "vfs: 7", to, 1)), 0o644); err != nil {
			x.t.Fatal(err)
		}
		x.restart()
	}
	made := allClean(pfs(x.t, x.kernel))
	if d := unlike(x.before, made); d != "" {
		x.t.Errorf("I2: VFs were made anew: -before +now\n%s", d)
	}
	x.before = made
	x.prove()
}

// prove fails the test if the node violates an invariant. The gate must be closed.
func (x *torture) prove() {
	x.t.Helper()
	ctx := x.t.Context()
	eventually(x.t, settleBound, func() error { return x.d.settled(ctx) })
	p := proof{kernel: x.kernel, before: x.before, ledger: x.d.leases(x.t), slots: x.slots}
	if err := p.violations(ctx); err != nil {
		x.t.Errorf("after kill %d: %v", x.killed, err)
	}
}
