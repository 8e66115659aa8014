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
	"github.com/culvert-net/culvert/excerpt"
)

// ErrGone is in the errors of all calls after the pipe to an agent has closed.
var ErrGone = errors.New("the agent is gone")

// maxLine bounds a line of the protocol: a description of a host with 1000
// interfaces is 2 MB.
const maxLine = 16 << 20

// Client is the conductor's side of one agent. Its methods may be called at once from
// several goroutines; a call whose context ends stops waiting, and what was begun goes on
// until it is stopped or the client closed.
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

// NewClient greets the agent at the other end of the pipe. It closes the pipe when that is
// no agent, or one of another protocol, and when ctx ends before it has spoken.
func NewClient(ctx context.Context, pipe io.ReadWriteCloser) (*Client, error) {
	c := &Client{pipe: pipe, ended: make(chan struct{}), waiting: map[uint64]chan answer{}}
	greeted := make(chan error, 1)
	go c.read(greeted) // ends when the pipe closes
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

// Version is that of the program at the other end.
func (c *Client) Version() string { return c.version }

// Close closes the pipe, upon which the agent ends its children and leaves.
func (c *Client) Close() error { return c.pipe.Close() }

// read takes the agent's lines until there are no more.
func (c *Client) read(greeted chan<- error) {
	lines := bufio.NewScanner(c.pipe)
	lines.Buffer(nil, maxLine)
	err := c.greet(lines)
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
	c.pipe.Close() // nobody may be left to read what is written
}

func (c *Client) greet(lines *bufio.Scanner) error {
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

// ask sends a request and waits for its answer's value.
func (c *Client) ask(ctx context.Context, r request, value any) error {
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
	select {
	case a := <-answered:
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
	case <-c.ended:
		c.mu.Lock()
		defer c.mu.Unlock()
		return fmt.Errorf("ask the agent to %s: %w", r.Do, c.why)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (c *Client) writeLine(line []byte) error {
	c.write.Lock()
	defer c.write.Unlock()
	_, err := c.pipe.Write(append(line, '\n'))
	return err
}

// Describe asks for the machine's fingerprint, the ends in the agent's network namespace,
// and the engines.
func (c *Client) Describe(ctx context.Context) (Description, error) {
	var d Description
	err := c.ask(ctx, request{Do: describe}, &d)
	return d, err
}

// Routes asks how this end would send to each of some addresses. One that there is no
// route to is left out.
func (c *Client) Routes(ctx context.Context, to []netip.Addr) (map[netip.Addr]Route, error) {
	var m map[netip.Addr]Route
	err := c.ask(ctx, request{Do: routes, Addresses: to}, &m)
	return m, err
}

// VFs asks for those of the machine's PFs.
func (c *Client) VFs(ctx context.Context) ([]evidence.VF, error) {
	var all []evidence.VF
	err := c.ask(ctx, request{Do: vfs}, &all)
	return all, err
}

// Rate asks what the VF with that PCI address may send (max_tx_rate), in Mb/s; 0 is no limit.
func (c *Client) Rate(ctx context.Context, pci string) (mbps uint32, err error) {
	err = c.ask(ctx, request{Do: rate, PCI: pci}, &mbps)
	return mbps, err
}

// Rates asks the machine's culvertd which rates it can lend the VF with that PCI address, in Mb/s.
func (c *Client) Rates(ctx context.Context, pci string) (lowest, highest int, err error) {
	var r rateRange
	err = c.ask(ctx, request{Do: rates, PCI: pci}, &r)
	return r.Lowest, r.Highest, err
}

// Lend has the machine's culvertd lend the VF with that PCI address a rate, in Mb/s, for some seconds
// at most, and returns what the hardware keeps to. The VF has its own again after GiveBack,
// and whenever the agent leaves.
func (c *Client) Lend(ctx context.Context, pci string, mbps uint32, seconds int) (is uint32, err error) {
	err = c.ask(ctx, request{Do: lend, PCI: pci, Mbps: mbps, Seconds: seconds}, &is)
	return is, err
}

// GiveBack ends what Lend began, and returns when the VF was read back with its own rate.
func (c *Client) GiveBack(ctx context.Context) error {
	return c.ask(ctx, request{Do: giveBack}, nil)
}

// Receive readies this end to receive what the task's workload sends. It is ready
// when Receive returns; when nothing comes for half a minute, Finish says so.
func (c *Client) Receive(ctx context.Context, t Task) (*Part, error) {
	return c.begin(ctx, request{Do: receive, Task: &t})
}

// Send has this end send to one that is ready. The engines at both ends must have the same
// major and minor version.
func (c *Client) Send(ctx context.Context, t Task, to Ready) (*Part, error) {
	return c.begin(ctx, request{Do: send, Task: &t, To: &to})
}

// Watch has this end take no part, and sample the window of a part on the same
// machine, or on another one by the window's In. Of the task only Watch counts.
func (c *Client) Watch(ctx context.Context, t Task, w Window) (*Part, error) {
	return c.begin(ctx, request{Do: watch, Task: &t, Watch: &w})
}

func (c *Client) begin(ctx context.Context, r request) (*Part, error) {
	var s started
	if err := c.ask(ctx, r, &s); err != nil {
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

// Ready is what a sender has to know of a receiver.
func (p *Part) Ready() Ready { return p.ready }

// Held waits until a sender whose task has Hold would begin.
func (p *Part) Held(ctx context.Context) error {
	return p.client.ask(ctx, request{Do: held, Part: p.id}, nil)
}

// Release has such a sender begin. It is an error when the sender does not wait for it.
func (p *Part) Release(ctx context.Context) error {
	return p.client.ask(ctx, request{Do: release, Part: p.id}, nil)
}

// Window waits until the traffic has begun and says what will be counted.
func (p *Part) Window(ctx context.Context) (Window, error) {
	var w Window
	err := p.client.ask(ctx, request{Do: window, Part: p.id}, &w)
	return w, err
}

// Finish waits until the part has ended and returns what this end knows of the run; its
// evidence is in From for the end that sent, in To for one that received, and
// in From for one that watched. It can be called once, and after an error nothing of
// the part is left.
func (p *Part) Finish(ctx context.Context) (bench.Run, error) {
	var r bench.Run
	err := p.client.ask(ctx, request{Do: finish, Part: p.id}, &r)
	return r, err
}

// Stop ends the part early. After it, or after Finish, there is nothing left of it
// to stop, and that is no error.
func (p *Part) Stop(ctx context.Context) error {
	return p.client.ask(ctx, request{Do: stop, Part: p.id}, nil)
}
