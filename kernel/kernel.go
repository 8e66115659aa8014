package kernel

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"time"

	"github.com/culvert-net/culvert/kernel/netns"
	"github.com/culvert-net/culvert/kernel/rtnl"
	"github.com/culvert-net/culvert/kernel/tuning"
	"github.com/culvert-net/culvert/vf"
)

// Options says where the kernel's files are. The zero value is right outside
// of tests.
type Options struct {
	SysRoot  string       // default /sys
	ProcRoot string       // default /proc; the host's, where the program has a PID namespace of its own
	RunRoot  string       // default /run; udev is looked for there
	Log      *slog.Logger // default: nothing is logged
}

// Kernel reads and changes the SR-IOV devices of this host. Its methods may
// be called at once from many goroutines; order between steps on one VF is the
// caller's business.
type Kernel struct {
	sys  tree
	proc string
	run  string
	log  *slog.Logger
	see  func(netns string, fn func(eyes) error) error           // lends a way to read rtnetlink
	tune func(name string, index int) (map[string]string, error) // tuning.Read

	autoprobe autoprobes
	writes    writes
	hangs     hangs
	known     allFacts
}

// New returns a Kernel. It must be called, and its methods too, from threads
// in the host's network namespace, where every thread of a program that uses
// package netns is.
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
	k := &Kernel{
		sys:  tree{or(o.SysRoot, "/sys")},
		proc: or(o.ProcRoot, "/proc"),
		run:  or(o.RunRoot, "/run"),
		log:  o.Log,
		tune: tuning.Read,
	}
	k.see = k.seeNetlink
	k.autoprobe.of = map[vf.PCIAddr]*autoprobe{}
	k.writes.begun = map[string]time.Time{}
	return k
}

// eyes is the part of rtnl.Conn that reading needs. A test has one that answers
// from a text.
type eyes interface {
	Link(index int, withVFs bool) (rtnl.Link, error)
	Links() ([]rtnl.Link, error)
	Addrs(index int) (rtnl.List[rtnl.Addr], error)
	Routes(index int) (rtnl.List[rtnl.Route], error)
}

func (k *Kernel) seeNetlink(path string, fn func(eyes) error) error {
	c, err := k.dial(path)
	if err != nil {
		return err
	}
	defer c.Close()
	return fn(c)
}

// dial opens a netlink socket in a netns; the empty path is the host's.
func (k *Kernel) dial(path string) (c *rtnl.Conn, err error) {
	if path == "" {
		return rtnl.Dial()
	}
	err = netns.Run(k.netnsFile(path), func() error {
		c, err = rtnl.Dial()
		return err
	})
	return c, err
}

// netnsFile returns the file of a netns that a process of the host calls path: runtimes
// name some netns by a process, and the host's /proc may be mounted elsewhere.
func (k *Kernel) netnsFile(path string) string {
	if below, ok := strings.CutPrefix(filepath.Clean(path), "/proc/"); ok {
		return filepath.Join(k.proc, below)
	}
	return path
}

// grace is how long a step that waits by events has to say itself what it
// waited for, once the context has ended.
const grace = 500 * time.Millisecond

// bounded calls fn and returns what it returns, or vf.ErrTimeout when ctx ends
// and fn still does not come back. Calls into the kernel cannot be cancelled:
// fn then goes on in its goroutine for as long as the kernel holds it (learnt
// where a function-level reset of a VF hung a writer for good).
func bounded[T any](ctx context.Context, fn func() (T, error)) (T, error) {
	type result struct {
		value T
		err   error
	}
	done := make(chan result, 1)
	// Not an errgroup, whose Wait would be as stuck as fn.
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
		var none T
		return none, fmt.Errorf("%w, and the call is still stuck in the kernel: it may yet take effect", ended(ctx))
	}
}

// ended is the error of a wait that ctx ended: vf.ErrTimeout for a deadline,
// the context's own error where the caller gave up.
func ended(ctx context.Context) error {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return fmt.Errorf("%w (%w)", vf.ErrTimeout, context.Cause(ctx))
	}
	return context.Cause(ctx)
}
