package agent

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/culvert-net/culvert/bench/engine"
	"github.com/culvert-net/culvert/bench/evidence"
	"github.com/culvert-net/culvert/internal/excerpt"
)

// Options are the options of an agent.
type Options struct {
	Version string // of this program
	Reader  evidence.Reader
	Log     *slog.Logger // for people
	// Culvertd is the socket of this machine's culvertd, which may not be there.
	Culvertd string
}

// Run serves the conductor at the other end of in and out until in ends or ctx does. When
// it returns, all its children have ended, and the setting that it made is undone. After ctx has ended a read of in may still
// wait: close it, or leave the program.
func Run(ctx context.Context, in io.Reader, out io.Writer, o Options) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	a := &agent{Options: o, life: ctx, out: json.NewEncoder(out), parts: map[uint64]*part{}}
	if err := a.writeLine(hello{Protocol: Protocol, Version: o.Version}); err != nil {
		return fmt.Errorf("greet the conductor: %w", err)
	}
	requests := make(chan request)
	read := make(chan error, 1)
	go func() { read <- a.readRequests(ctx, in, requests) }() // a read cannot be cancelled
	var serving errgroup.Group
	for err := error(nil); ; {
		select {
		case r := <-requests:
			serving.Go(func() error {
				a.serveRequest(ctx, r)
				return nil
			})
			continue
		case err = <-read:
		case <-ctx.Done():
		}
		cancel()
		a.stopSetting()
		undone := a.undoSetting(context.WithoutCancel(ctx))
		awaitAnswers(&serving)
		return errors.Join(err, a.endParts(), undone)
	}
}

// leaveTime bounds the wait for answers when the agent leaves. Linux lets a write to a virtio channel wait
// until another program connects to the channel.
const leaveTime = 5 * time.Second

// awaitAnswers waits for leaveTime at most until the requests are answered that are being served.
func awaitAnswers(serving *errgroup.Group) {
	answered := make(chan struct{})
	go func() { // ends with the program if an answer can never be written
		_ = serving.Wait() // it has no error
		close(answered)
	}()
	select {
	case <-answered:
	case <-time.After(leaveTime):
	}
}

// agent serves one conductor.
type agent struct {
	Options
	life context.Context //nolint:containedctx // ends with the agent: a loan outlives the request for it

	write sync.Mutex // guards out
	out   *json.Encoder

	mu    sync.Mutex // guards what follows
	last  uint64
	parts map[uint64]*part
	loan  *loan
	// testpmd is the version of DPDK by the VFs on which testpmd has started once.
	testpmd map[string]string
	stop    context.CancelFunc // of the last command that sets up a side
	// undone is set when the conductor asked to undo the sides, which it does once, at the end.
	undone bool

	setting sync.Mutex // guards undo, while a command runs that sets up a side
	undo    string     // the command that is to be run before the agent leaves
}

// writeLine writes a line.
func (a *agent) writeLine(line any) error {
	a.write.Lock()
	defer a.write.Unlock()
	return a.out.Encode(line)
}

// readRequests takes the conductor's lines until there are no more.
func (a *agent) readRequests(ctx context.Context, in io.Reader, requests chan<- request) error {
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, maxLine)
	for lines.Scan() {
		r, err := parseRequest(lines.Bytes())
		if err != nil {
			return err
		}
		select {
		case requests <- r:
		case <-ctx.Done():
			return nil
		}
	}
	return lines.Err()
}

func parseRequest(line []byte) (request, error) {
	var r request
	if err := json.Unmarshal(line, &r); err != nil || r.ID == 0 {
		return r, fmt.Errorf("the conductor said %s, which is no request", excerpt.QuoteOutput(string(line)))
	}
	return r, nil
}

// serveRequest answers a request. When the answer cannot be written the conductor is gone, and
// reading ends as well.
func (a *agent) serveRequest(ctx context.Context, r request) {
	to := answer{ID: r.ID}
	value, err := a.doRequest(ctx, r)
	if err == nil {
		to.Value, err = json.Marshal(value)
	}
	if err != nil {
		to.Error, to.Nothing, to.Value = err.Error(), errors.Is(err, engine.ErrNothing), nil
	}
	if err := a.writeLine(to); err != nil {
		a.Log.Warn("answer the conductor", "error", err)
	}
}

func (a *agent) doRequest(ctx context.Context, r request) (any, error) {
	switch r.Do {
	case describe:
		return a.describeHere(ctx, r.PCI)
	case routes:
		return routesTo(r.Addresses), nil
	case vfs:
		return a.Reader.VFs()
	case counters:
		return a.Reader.ReadCounters(r.Counted)
	case rate:
		return a.Reader.OfVF(r.PCI)
	case rates:
		return a.listRates(ctx, r)
	case lend:
		return a.lendRate(ctx, r)
	case giveBack:
		return nil, a.giveBack(ctx)
	case setUp:
		if r.Setting == nil {
			return nil, fmt.Errorf("%s lacks the setting", r.Do)
		}
		return a.setUp(ctx, *r.Setting)
	case steering:
		if r.Steering == nil {
			return nil, fmt.Errorf("%s lacks what to steer", r.Do)
		}
		return nil, steer(*r.Steering)
	case undo:
		a.stopSetting()
		return nil, a.undoSetting(ctx)
	case receive, send, forward, watch:
		if r.Task == nil || ((r.Do == send || r.Do == forward) && r.To == nil) || (r.Do == watch && r.Watch == nil) {
			return nil, fmt.Errorf("%s lacks what to do", r.Do)
		}
		return a.beginPart(ctx, r)
	}
	p, err := a.findPart(r)
	if err != nil || p == nil {
		return nil, err
	}
	switch r.Do {
	case held:
		return nil, p.waitHeld(ctx)
	case release:
		return nil, p.releaseSender()
	case window:
		return p.waitForWindow(ctx)
	case finish:
		defer a.dropPart(r.Part)
		return p.waitForEnd(ctx)
	case stop:
		defer a.dropPart(r.Part)
		return nil, p.close()
	}
	return nil, fmt.Errorf("%q is not asked for in protocol %d", r.Do, Protocol)
}

// findPart finds the part that a request is about. A part to stop need not be there.
func (a *agent) findPart(r request) (*part, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	p := a.parts[r.Part]
	if p == nil && r.Do != stop {
		return nil, fmt.Errorf("%s: there is no part %d, or it is finished", r.Do, r.Part)
	}
	return p, nil
}

// beginPart starts a part and its sampling. The part outlives the request.
func (a *agent) beginPart(ctx context.Context, r request) (started, error) {
	p, err := a.newPart(ctx, r)
	if err != nil {
		return started{}, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.last++
	a.parts[a.last] = p
	return started{Part: a.last, Ready: p.half.describeReady()}, nil
}

func (a *agent) dropPart(id uint64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.parts, id)
}

// endParts closes the parts that are left.
func (a *agent) endParts() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.loan != nil {
		<-a.loan.ended // with a.life
	}
	var errs []error
	for _, p := range a.parts {
		errs = append(errs, p.close())
	}
	return errors.Join(errs...)
}
