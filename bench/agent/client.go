package agent

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"sync"

	"github.com/culvert-net/culvert/bench"
	"github.com/culvert-net/culvert/bench/evidence"
	"github.com/culvert-net/culvert/internal/excerpt"
)

// ErrGone is in the errors of all calls after the pipe to an agent has closed.
var ErrGone = errors.New("the agent is gone")

// maxLine bounds a line of the protocol: a description of a host with 1000
// interfaces is 2 MB.
const maxLine = 16 << 20

// Client is the conductor's side of one agent. Its methods may be called at once from several
// goroutines. A call whose context ends stops waiting, and a part that it began goes on until it is
// stopped or the client is closed.
type Client struct {
	pipe    io.ReadWriteCloser
	version string
	ended   chan struct{} // closed when nothing more will be read

	write sync.Mutex // guards writing to pipe

	mu      sync.Mutex // guards what follows
	last    uint64
	waiting map[uint64]chan answer
	why     error // set once ended
}

// NewClient greets the agent at the other end of the pipe. It closes the pipe if the other end is
// no agent, or one of another protocol, or if ctx ends before the agent has spoken.
func NewClient(ctx context.Context, pipe io.ReadWriteCloser) (*Client, error) {
	c := &Client{pipe: pipe, ended: make(chan struct{}), waiting: map[uint64]chan answer{}}
	greeted := make(chan error, 1)
	go c.readAnswers(greeted) // ends when the pipe closes
	select {
	case err := <-greeted:
		if err != nil {
			pipe.Close()
			return nil, err
		}
		return c, nil
	case <-ctx.Done():
		pipe.Close()
		return nil, fmt.Errorf("wait for the agent to speak: %w", context.Cause(ctx))
	}
}

// Version returns the version of the program at the other end.
func (c *Client) Version() string { return c.version }

// Close closes the pipe, upon which the agent ends its children and leaves.
func (c *Client) Close() error { return c.pipe.Close() }

// readAnswers takes the agent's lines until there are no more.
func (c *Client) readAnswers(greeted chan<- error) {
	lines := bufio.NewScanner(c.pipe)
	lines.Buffer(nil, maxLine)
	err := c.readGreeting(lines)
	greeted <- err
	for err == nil && lines.Scan() {
		var a answer
		if err = json.Unmarshal(lines.Bytes(), &a); err != nil {
			err = fmt.Errorf("it said %s: %w", excerpt.QuoteOutput(lines.Text()), err)
			break
		}
		c.mu.Lock()
		to := c.waiting[a.ID]
		delete(c.waiting, a.ID)
		c.mu.Unlock()
		if to != nil {
			to <- a // it has room for one
		}
	}
	if err == nil {
		err = lines.Err()
	}
	c.mu.Lock()
	c.why = ErrGone
	if err != nil {
		c.why = fmt.Errorf("%w: %w", ErrGone, err)
	}
	c.mu.Unlock()
	close(c.ended)
	c.pipe.Close() // a write would wait for a reader that is gone
}

func (c *Client) readGreeting(lines *bufio.Scanner) error {
	if !lines.Scan() {
		return errors.Join(fmt.Errorf("wait for the agent to speak: %w before it did", ErrGone), lines.Err())
	}
	var h hello
	if err := json.Unmarshal(lines.Bytes(), &h); err != nil || h.Protocol == 0 {
		return fmt.Errorf("wait for the agent to speak: what answers is no agent, it said %s", excerpt.QuoteOutput(lines.Text()))
	}
	if h.Protocol != Protocol {
		return fmt.Errorf("the agent is of culvert %s and speaks protocol %d, and this program %d: use one version of culvert at all ends", h.Version, h.Protocol, Protocol)
	}
	c.version = h.Version
	return nil
}

// askAgent sends a request and waits for its answer's value.
func (c *Client) askAgent(ctx context.Context, r request, value any) error {
	answered := make(chan answer, 1)
	c.mu.Lock()
	c.last++
	r.ID = c.last
	c.waiting[r.ID] = answered
	c.mu.Unlock()
	line, err := json.Marshal(r)
	if err != nil {
		return err
	}
	if err := c.writeLine(line); err != nil {
		return fmt.Errorf("ask the agent to %s: %w: %w", r.Do, ErrGone, err)
	}
	var a answer
	select {
	case a = <-answered:
	case <-c.ended:
		select {
		case a = <-answered: // the last answer of the agent
		default:
			c.mu.Lock()
			defer c.mu.Unlock()
			return fmt.Errorf("ask the agent to %s: %w", r.Do, c.why)
		}
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if a.Error != "" {
		return answeredError{a}
	}
	if value == nil {
		return nil
	}
	if err := json.Unmarshal(a.Value, value); err != nil {
		return fmt.Errorf("read the agent's answer to %s: %w", r.Do, err)
	}
	return nil
}

func (c *Client) writeLine(line []byte) error {
	c.write.Lock()
	defer c.write.Unlock()
	_, err := c.pipe.Write(append(line, '\n'))
	return err
}

// Describe asks for the machine's fingerprint, the ends in the agent's network namespace,
// and the engines. With the PCI address of a VF that DPDK is to drive, the VF is the one end.
func (c *Client) Describe(ctx context.Context, pci string) (Description, error) {
	var d Description
	err := c.askAgent(ctx, request{Do: describe, PCI: pci}, &d)
	return d, err
}

// Routes asks how this end would send to each of some addresses. It leaves out addresses without
// a route.
func (c *Client) Routes(ctx context.Context, to []netip.Addr) (map[netip.Addr]Route, error) {
	var m map[netip.Addr]Route
	err := c.askAgent(ctx, request{Do: routes, Addresses: to}, &m)
	return m, err
}

// VFs asks for the VFs of the machine's PFs.
func (c *Client) VFs(ctx context.Context) ([]evidence.VF, error) {
	var all []evidence.VF
	err := c.askAgent(ctx, request{Do: vfs}, &all)
	return all, err
}

// Counters asks for the counters of interfaces as they are, in their order.
func (c *Client) Counters(ctx context.Context, of []evidence.Watched) ([]bench.Counters, error) {
	var all []bench.Counters
	err := c.askAgent(ctx, request{Do: counters, Counted: of}, &all)
	return all, err
}

// OfVF asks for the rate limit and the VLAN of the VF with that PCI address.
func (c *Client) OfVF(ctx context.Context, pci string) (lent evidence.Lent, err error) {
	err = c.askAgent(ctx, request{Do: rate, PCI: pci}, &lent)
	return lent, err
}

// Rates asks the machine's culvertd which rates it can lend the VF with that PCI address, in Mb/s. If an
// owner is named, the VF has to be the owner's.
func (c *Client) Rates(ctx context.Context, pci string, owner Owner) (lowest, highest int, err error) {
	var r rateRange
	err = c.askAgent(ctx, request{Do: rates, PCI: pci, Owner: owner}, &r)
	return r.Lowest, r.Highest, err
}

// Lend asks the machine's culvertd to lend the VF with that PCI address a rate, in Mb/s, for at
// most the given seconds, and returns the rate that the hardware applies. If an owner is named, the VF
// has to be the owner's. The VF gets its own rate back by GiveBack, or when the agent ends.
func (c *Client) Lend(ctx context.Context, pci string, owner Owner, mbps uint32, seconds int) (is uint32, err error) {
	err = c.askAgent(ctx, request{Do: lend, PCI: pci, Owner: owner, Mbps: mbps, Seconds: seconds}, &is)
	return is, err
}

// GiveBack ends what Lend began, and returns when the VF was read back with its own rate.
func (c *Client) GiveBack(ctx context.Context) error {
	return c.askAgent(ctx, request{Do: giveBack}, nil)
}

// Steer sets routes and forwarding in the agent's network namespace. They stay when the agent ends.
func (c *Client) Steer(ctx context.Context, s Steering) error {
	return c.askAgent(ctx, request{Do: steering, Steering: &s}, nil)
}

// Receive readies this end to receive the task's traffic. The end is ready when Receive returns. If
// no traffic comes for half a minute, Finish returns an error.
func (c *Client) Receive(ctx context.Context, t Task) (*Part, error) {
	return c.beginPart(ctx, request{Do: receive, Task: &t})
}

// Send makes this end send to an end that is ready. The engines at both ends must have the same
// major and minor version.
func (c *Client) Send(ctx context.Context, t Task, to Ready) (*Part, error) {
	return c.beginPart(ctx, request{Do: send, Task: &t, To: &to})
}

// Forward makes this machine forward the task's frames to an end that is ready, by the VF that the
// task names. Its engine has to bypass the kernel.
func (c *Client) Forward(ctx context.Context, t Task, to Ready) (*Part, error) {
	return c.beginPart(ctx, request{Do: forward, Task: &t, To: &to})
}

// Watch makes this end take no part in the traffic, and sample the window of a part on the same
// machine, or by the window's In on another machine. The task needs only Watch.
func (c *Client) Watch(ctx context.Context, t Task, w Window) (*Part, error) {
	return c.beginPart(ctx, request{Do: watch, Task: &t, Watch: &w})
}

func (c *Client) beginPart(ctx context.Context, r request) (*Part, error) {
	var s started
	if err := c.askAgent(ctx, r, &s); err != nil {
		return nil, err
	}
	return &Part{client: c, id: s.Part, ready: s.Ready}, nil
}

// Part is one end's part in a run that goes on.
type Part struct {
	client *Client
	id     uint64
	ready  Ready
}

// Ready returns the facts that a sender needs about this receiver.
func (p *Part) Ready() Ready { return p.ready }

// Held waits until a sender whose task has Hold would begin.
func (p *Part) Held(ctx context.Context) error {
	return p.client.askAgent(ctx, request{Do: held, Part: p.id}, nil)
}

// Release makes a sender begin that waits for it. It returns an error if the sender does not
// wait.
func (p *Part) Release(ctx context.Context) error {
	return p.client.askAgent(ctx, request{Do: release, Part: p.id}, nil)
}

// Window waits until the traffic has begun and returns the time that will be counted.
func (p *Part) Window(ctx context.Context) (Window, error) {
	var w Window
	err := p.client.askAgent(ctx, request{Do: window, Part: p.id}, &w)
	return w, err
}

// Finish waits until the part has ended and returns this end's figures of the run. The evidence is
// in From for an end that sent or watched, and in To for an end that received. Finish can be called
// once, and after an error nothing of the part is left.
func (p *Part) Finish(ctx context.Context) (bench.Run, error) {
	var r bench.Run
	err := p.client.askAgent(ctx, request{Do: finish, Part: p.id}, &r)
	return r, err
}

// Stop ends the part early. To stop a part that has ended is no error.
func (p *Part) Stop(ctx context.Context) error {
	return p.client.askAgent(ctx, request{Do: stop, Part: p.id}, nil)
}
