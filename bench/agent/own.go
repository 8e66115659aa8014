package agent

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"time"

	"github.com/culvert-net/culvert/bench"
	"github.com/culvert-net/culvert/bench/engine"
	"github.com/culvert-net/culvert/bench/evidence"
)

// ownServer is the receiving half of package engine. The figures are the other end's to
// return.
type ownServer struct {
	Task
	version string
	server  *engine.Server
	closed  func() error // closes the server, once
}

func ownReceive(ctx context.Context, t Task, version string) (half, error) {
	var s *engine.Server
	var err error
	for _, port := range t.listenPorts() {
		if s, err = engine.Listen(ctx, engine.Local{Address: t.To, Interface: t.Interface}, port); err == nil {
			break
		}
	}
	if err != nil {
		return nil, err
	}
	return &ownServer{t, version, s, sync.OnceValue(s.Close)}, nil
}

func (o *ownServer) describeReady() Ready {
	return Ready{Engine: engine.Own, Version: o.version, Ports: []uint16{o.server.Addr().Port()}, Token: o.server.Remote().Token}
}

func (o *ownServer) close() error { return o.closed() }

func (o *ownServer) carryTraffic(ctx context.Context, m marks) (bench.Run, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	alone := time.AfterFunc(patience, func() {
		cancel(fmt.Errorf("nothing came to %s in %s: is a firewall between the ends, or no route?", o.server.Addr(), patience))
	})
	defer alone.Stop()
	own := ownMarks{Workload: o.Workload, marks: m}
	err := o.server.Serve(ctx, o.Workload, own.engineMarks(func() { alone.Stop() }))
	if cause := context.Cause(ctx); err != nil && cause != nil {
		err = cause
	}
	return bench.Run{}, errors.Join(own.err, err)
}

// ownClient is the sending half of package engine.
type ownClient struct {
	Task
	to engine.Remote
}

func ownSend(_ context.Context, t Task, to Ready) (half, error) {
	if len(to.Ports) != 1 {
		return nil, fmt.Errorf("the receiver listens on %d ports and not on one", len(to.Ports))
	}
	return &ownClient{t, engine.Remote{Address: netip.AddrPortFrom(t.sendAddress(), to.Ports[0]), Token: to.Token}}, nil
}

func (o *ownClient) describeReady() Ready { return Ready{} }

func (o *ownClient) close() error { return nil }

func (o *ownClient) carryTraffic(ctx context.Context, m marks) (bench.Run, error) {
	own := ownMarks{Workload: o.Workload, marks: m}
	local := engine.Local{Address: o.bindAddress()}
	if local.Address.IsValid() {
		local.Interface = o.Interface
	}
	run, err := engine.Measure(ctx, o.Workload, local, o.to, own.engineMarks(func() {}))
	if err := errors.Join(own.err, err); err != nil {
		return bench.Run{}, err
	}
	return run, nil
}

// ownMarks are this package's marks as package engine calls them.
type ownMarks struct {
	bench.Workload
	marks
	err error
}

func (o *ownMarks) engineMarks(started func()) engine.Marks {
	sample := func(mark func()) func() {
		return func() {
			_ = runPromptly(func() error { mark(); return nil }) // the function returns no error
		}
	}
	return engine.Marks{
		Start: func() {
			started()
			var now time.Duration
			if now, o.err = evidence.Now(); o.err == nil {
				opens := now + secondsLong(o.Warmup)
				o.planned(Window{Opens: opens, Closes: opens + secondsLong(o.Seconds)})
			}
		},
		Begin: sample(o.begin), End: sample(o.end), Hold: o.hold,
	}
}
