package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/kernel/fake"
	"github.com/culvert-net/culvert/internal/node"
	"github.com/culvert-net/culvert/internal/node/attach"
	"github.com/culvert-net/culvert/internal/node/desired"
	"github.com/culvert-net/culvert/internal/node/journal"
	"github.com/culvert-net/culvert/internal/rpc"
	"github.com/culvert-net/culvert/internal/vf"
)

// A loan ends when the client says so or disconnects, when the time is up, and when culvertd stops,
// which does not wait for the loan. Each time the VF has its own rate again.
func TestLoanEnds(t *testing.T) {
	k := fake.New(fake.IGB, 1)
	k.AddNetns("/run/netns/a")
	l, err := journal.Open(filepath.Join(t.TempDir(), "ledger.db"), journal.Options{NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	n := node.New(node.Config{Kernel: k, Ledger: l, BootID: "boot 1"})
	n.SetSpec(desired.Spec{
		PFs:   []desired.PFRule{{Name: "enp*", Want: desired.PFSpec{VFs: desired.AllVFs, Autoprobe: true, NeedCarrier: true}}},
		Pools: []desired.Pool{{Name: "a", Prefix: "x", DeviceType: desired.NetDevice}},
	})
	if err := errors.Join(n.Start(t.Context()), n.Reconciler.Pass(t.Context())); err != nil {
		t.Fatal(err)
	}
	rec, err := n.Engine.Attach(t.Context(), attach.Request{Owner: vf.Owner{Kind: vf.OwnerPod, UID: "c", Interface: "net1"}, Netns: "/run/netns/a", Spec: vf.Spec{Interface: "net1"}})
	if err != nil {
		t.Fatal(err)
	}
	n.VFs.Wait()
	socket := filepath.Join(t.TempDir(), "s")
	listener, err := rpc.Listen(socket)
	if err != nil {
		t.Fatal(err)
	}
	srv := rpc.NewServer(authorizePeer, slog.New(slog.DiscardHandler))
	srv.Grace = time.Hour // the server may wait that long for requests, but not for a loan
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var g errgroup.Group
	srv.HandleDialog(api.MethodLendRate, (&Server{node: n}).lendRate(ctx))
	g.Go(func() error { return srv.Serve(ctx, listener) })
	before := k.String()
	awaitOwnRate := func() {
		for until := time.Now().Add(time.Minute); k.String() != before && time.Now().Before(until); {
			time.Sleep(time.Millisecond)
		}
	}
	const isUp = "the time is up"
	for name, use := range map[string]func(ctx context.Context, leave func()) error{
		"the client is done": func(context.Context, func()) error { return nil },
		"the client leaves":  func(ctx context.Context, leave func()) error { leave(); awaitOwnRate(); return ctx.Err() }, // an answer would end the loan, too
		isUp:                 func(ctx context.Context, _ func()) error { <-ctx.Done(); return ctx.Err() },
	} {
		seconds := 3600
		if name == isUp {
			seconds = 1
		}
		asking, leave := context.WithCancel(t.Context())
		was := uint32(0)
		err := rpc.Converse(asking, socket, api.MethodLendRate, api.LendRateRequest{VF: rec.PCI, MaxTxRate: 50, Seconds: seconds}, nil,
			func(ctx context.Context, _ string, raw json.RawMessage) (any, error) {
				var is api.LentRate
				_ = json.Unmarshal(raw, &is)
				was = is.MaxTxRate
				if k.String() == before && ctx.Err() == nil { // on a busy machine the second may have passed
					t.Errorf("%s: nothing was lent\n%s", name, k)
				}
				return nil, use(ctx, leave)
			})
		leave()
		if was != 50 || (err == nil) != (name == "the client is done") {
			t.Errorf("%s: %d Mb/s, %v", name, was, err)
		}
		awaitOwnRate()
		if after := k.String(); after != before {
			t.Errorf("%s:\n%s", name, after)
		}
	}
	err = rpc.Converse(t.Context(), socket, api.MethodLendRate, api.LendRateRequest{VF: rec.PCI, MaxTxRate: 9999, Seconds: 1}, nil, nil)
	if err == nil || !strings.Contains(err.Error(), "takes 1 to 1000 Mb/s") {
		t.Errorf("more than the link: %v", err)
	}
	err = rpc.Converse(t.Context(), socket, api.MethodLendRate, api.LendRateRequest{VF: rec.PCI, MaxTxRate: 50, Seconds: 3600}, nil,
		func(ctx context.Context, _ string, _ json.RawMessage) (any, error) {
			stop()
			<-ctx.Done()
			return nil, nil
		})
	if err == nil || !strings.Contains(err.Error(), "culvertd is stopping") {
		t.Errorf("culvertd stops: %v", err)
	}
	if err := g.Wait(); err != nil {
		t.Error(err)
	}
	if after := k.String(); after != before {
		t.Errorf("culvertd stops:\n%s", after)
	}
}
