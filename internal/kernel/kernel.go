package kernel

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"time"

	"github.com/culvert-net/culvert/internal/kernel/netns"
	"github.com/culvert-net/culvert/internal/kernel/rtnl"
	"github.com/culvert-net/culvert/internal/kernel/tuning"
	"github.com/culvert-net/culvert/internal/vf"
)

// Options says where the kernel's files are. The zero value is right outside
// of tests.
type Options struct {
	SysRoot  string       // default /sys
	ProcRoot string       // default /proc; the host's, where the program has a PID namespace of its own
	RunRoot  string       // default /run; udev is looked for there
	Log      *slog.Logger // default: nothing is logged
	Guards   guards       // guard.Tables; default: the program cannot set guards, and sees none
}

// Kernel reads and changes the SR-IOV devices of this host. Its methods may be called
// concurrently. The caller orders the steps on one VF.
type Kernel struct {
	sys  tree
	proc string
	run  string
	log  *slog.Logger
	see  func(netns string, fn func(reader) error) error         // lends a way to read rtnetlink
	tune func(name string, index int) (map[string]string, error) // tuning.Read

	autoprobe autoprobes
	writes    writes
	hangs     hangs
	searches  searches
	calls     calls
	guards    guards
	known     allFacts
	carriers  carriers
}

// New returns a Kernel. The caller of New, and of the Kernel's methods, must be in the host's
// network namespace. Package netns keeps every goroutine of the program there.
func New(o Options) *Kernel {
	or := func(s, otherwise string) string {
		if s == "" {
			return otherwise
		}
		return s
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Guards == nil {
		o.Guards = noGuards{}
	}
	k := &Kernel{
		sys:  tree{or(o.SysRoot, "/sys")},
		proc: or(o.ProcRoot, "/proc"),
		run:  or(o.RunRoot, "/run"),
		log:  o.Log,
		tune: tuning.Read,

		guards: o.Guards,
	}
	k.see = k.seeNetlink
	k.autoprobe.of = map[vf.PCIAddr]*autoprobe{}
	k.writes.begun = map[string]time.Time{}
	return k
}

// reader is the part of rtnl.Conn that reads need. A test has an implementation that answers from a
// text.
type reader interface {
	Link(index int, withVFs bool) (rtnl.Link, error)
	FindLinks(match func(rtnl.Link) bool) ([]rtnl.Link, error)
	Addrs(index int) (rtnl.List[rtnl.Addr], error)
	Routes(index int) (rtnl.List[rtnl.Route], error)
}

func (k *Kernel) seeNetlink(path string, fn func(reader) error) error {
	c, err := k.dialIn(path)
	if err != nil {
		return err
	}
	defer c.Close()
	return fn(c)
}

// dialIn opens a netlink socket in a netns; the empty path is the host's.
func (k *Kernel) dialIn(path string) (c *rtnl.Conn, err error) {
	if path == "" {
		return rtnl.Dial()
	}
	err = netns.Run(k.netnsFile(path), func() error {
		c, err = rtnl.Dial()
		return err
	})
	return c, err
}

// netnsFile returns the file of the netns that has the given path on the host. Runtimes name some
// netns by a path below /proc, and the host's /proc may be mounted elsewhere.
func (k *Kernel) netnsFile(path string) string {
	if below, ok := strings.CutPrefix(filepath.Clean(path), "/proc/"); ok {
		return filepath.Join(k.proc, below)
	}
	return path
}

// grace is the time that a step has after the end of its context, to return an error of its own
// that says which event it waited for.
const grace = 500 * time.Millisecond

// callBounded calls fn and returns its results, or vf.ErrTimeout if ctx ends before fn returns.
// Calls into the kernel cannot be cancelled, so fn then goes on in its goroutine until the kernel
// returns (a function-level reset of a VF was seen to hang a writer for good).
func callBounded[T any](ctx context.Context, fn func() (T, error)) (T, error) {
	type result struct {
		value T
		err   error
	}
	done := make(chan result, 1)
	// This is no errgroup, since Wait would hang as long as fn.
	go func() {
		v, err := fn()
		done <- result{v, err}
	}()
	select {
	case r := <-done:
		return r.value, r.err
	case <-ctx.Done():
	}
	select {
	case r := <-done:
		return r.value, r.err
	case <-time.After(grace):
	}
	select {
	case r := <-done: // this process stood still, and not the call
		return r.value, r.err
	default:
		var none T
		return none, fmt.Errorf("%w, and the call is still stuck in the kernel: it may yet take effect", waitError(ctx))
	}
}

// waitError returns the error of a wait that ctx ended: vf.ErrTimeout for a deadline, or the
// context's own error if the caller gave up.
func waitError(ctx context.Context) error {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return fmt.Errorf("%w (%w)", vf.ErrTimeout, context.Cause(ctx))
	}
	return context.Cause(ctx)
}
