package publish

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/culvert-net/culvert/internal/change"
	"github.com/culvert-net/culvert/internal/node/desired"
	"github.com/culvert-net/culvert/internal/node/offer"
	"github.com/culvert-net/culvert/internal/vf"
)

// fakeCluster answers each call with its error, and sends what was called.
type fakeCluster struct {
	changed change.Wake
	calls   chan string
	err     chan error // one for each Put or Delete
	// dropsTaints is whether the next Put shows that the cluster keeps no taints.
	dropsTaints, takesNone bool
}

func newFake() *fakeCluster {
	return &fakeCluster{changed: change.NewWake(), calls: make(chan string), err: make(chan error, 10)}
}

func (f *fakeCluster) Follow(ctx context.Context) {
	f.calls <- "follow"
	<-ctx.Done()
}

func (f *fakeCluster) Changed() <-chan struct{} { return f.changed }

func (f *fakeCluster) Put(_ context.Context, pools []offer.Pool) error {
	text := "put"
	for _, p := range pools {
		text += " " + p.Name
		for _, d := range p.Slices[0] {
			text += " " + d.Name
			for _, taint := range d.Taints {
				text += "!" + taint.Value
			}
		}
	}
	f.takesNone = f.dropsTaints && strings.Contains(text, "!") || f.takesNone
	f.calls <- text
	return f.next()
}

func (f *fakeCluster) TakesTaints() bool { return !f.takesNone }

func (f *fakeCluster) Delete(context.Context) error {
	f.calls <- "delete"
	return f.next()
}

func (f *fakeCluster) next() error {
	select {
	case err := <-f.err:
		return err
	default:
		return nil
	}
}

// expect waits for the next calls, in any order.
func (f *fakeCluster) expect(t *testing.T, want ...string) {
	t.Helper()
	missing := map[string]bool{}
	for _, w := range want {
		missing[w] = true
	}
	for range want {
		got := <-f.calls
		if !missing[got] {
			t.Fatalf("call %q, want %q", got, want)
		}
		delete(missing, got)
	}
}

// expectNone sees that no call comes in the time that a call has.
func (f *fakeCluster) expectNone(t *testing.T) {
	t.Helper()
	select {
	case call := <-f.calls:
		t.Fatalf("call %q", call)
	case <-time.After(2 * latest):
	}
}

// run runs a Publisher until the test ends.
func run(t *testing.T, f *fakeCluster) *Publisher {
	t.Helper()
	p := New("n1", f, slog.New(slog.DiscardHandler))
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); p.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		for {
			select {
			case <-f.calls:
			case <-done:
				return
			}
		}
	})
	return p
}

// viewOf returns a view of a PF with VFs, which are free or, with the sign *, held by a claim.
func viewOf(vfs ...string) offer.View {
	pf := &vf.PF{Name: "enp1s0", ID: vf.PFID{MAC: vf.MAC{2, 0, 0, 0, 0, 1}}, Up: true, Carrier: true}
	v := offer.View{Spec: desired.Spec{Pools: []desired.Pool{{Name: "a", Prefix: "x", DeviceType: desired.NetDevice, Offer: desired.OfferClaims}}}}
	for i, how := range vfs {
		v.VFs = append(v.VFs, offer.VF{PF: pf, State: vf.State{ID: vf.ID{PF: pf.ID, Index: i}}, IsFree: how == "free", IsClaimed: how == "claimed", ClaimPool: "x/a"})
	}
	return v
}

const pool = "put n1/02-00-00-00-00-01"

// A node without VFs for claims deletes left slices once, and follows none. With the first such VF it
// follows them, and goes on when they have gone.
func TestFollowsWhatIsOffered(t *testing.T) {
	f := newFake()
	p := run(t, f)
	p.Show(viewOf())
	f.expect(t, "delete")
	p.Show(viewOf())
	f.expectNone(t)
	p.Show(viewOf("free", "used"))
	f.expect(t, "follow", pool+" vf-0")
	p.Show(viewOf("claimed", "free"))
	f.expect(t, pool+" vf-0 vf-1")
	p.Show(viewOf())
	f.expect(t, "put")
}

// The slices are compared again when they change in the cluster: the kubelet deletes them after 30 s
// without culvertd, and anybody else may edit them.
func TestLooksAgainAtChangedSlices(t *testing.T) {
	f := newFake()
	p := run(t, f)
	p.Show(viewOf("free"))
	f.expect(t, "follow", pool+" vf-0")
	f.changed.Notify()
	f.expect(t, pool+" vf-0")
}

// A Spec that may lack the pools of the cluster's policies takes no slice away.
func TestPartialSpecKeepsTheSlices(t *testing.T) {
	f := newFake()
	p := run(t, f)
	partial := viewOf()
	partial.Spec.Partial = true
	p.Show(partial)
	f.changed.Notify()
	p.Show(partial)
	f.expectNone(t)
	p.Show(viewOf("free"))
	f.expect(t, "follow", pool+" vf-0")
}

// A write that fails is a problem of the node, and is tried again until it succeeds.
func TestFailuresAreTriedAgain(t *testing.T) {
	f := newFake()
	p := run(t, f)
	f.err <- errors.New("the API server is away")
	f.err <- errors.New("the API server is away")
	p.Show(viewOf("free"))
	f.expect(t, "follow", pool+" vf-0")
	f.expect(t, pool+" vf-0")
	if got := p.Problems(); len(got) != 1 || !strings.Contains(got[0].Reason, "the API server is away") {
		t.Errorf("problems %+v", got)
	}
	f.expect(t, pool+" vf-0")
	f.changed.Notify()
	f.expect(t, pool+" vf-0") // it begins after the try before it has ended
	if got := p.Problems(); len(got) != 0 {
		t.Errorf("problems %+v", got)
	}
}

// A write waits until the node is quiet, and at most until the first change is old enough.
func TestUntilWrite(t *testing.T) {
	first := time.Unix(1000, 0)
	for _, tt := range []struct{ since, want time.Duration }{
		{0, quiet}, {100 * time.Millisecond, quiet}, {latest - quiet, quiet}, {latest - time.Millisecond, time.Millisecond}, {latest, 0}, {time.Hour, 0},
	} {
		if got := untilWrite(first, first.Add(tt.since)); got != tt.want {
			t.Errorf("%s after the first change: %s, want %s", tt.since, got, tt.want)
		}
	}
}

func TestRetries(t *testing.T) {
	for failures, want := range map[int]time.Duration{1: firstWait, 2: 2 * time.Second, 5: 16 * time.Second, 6: lastWait, 1000: lastWait} {
		if got := retryAfter(failures); got != want {
			t.Errorf("after %d failures: %s, want %s", failures, got, want)
		}
	}
}

// A VF without a link is in its slice with a taint. If the cluster keeps no taints, it leaves the slice, and
// a claimed one stays.
func TestClusterWithoutTaints(t *testing.T) {
	f := newFake()
	f.dropsTaints = true
	p := run(t, f)
	v := viewOf("free", "claimed")
	for i := range v.VFs {
		v.VFs[i].PF = &vf.PF{Name: "enp1s0", ID: v.VFs[i].PF.ID, Up: true}
	}
	p.Show(v)
	f.expect(t, "follow", pool+" vf-0!down vf-1!down")
	f.expect(t, pool+" vf-1")
	f.expectNone(t)
}
