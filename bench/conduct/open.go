package conduct

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/culvert-net/culvert/bench/agent"
	"github.com/culvert-net/culvert/bench/place"
)

// Session has the stations of a measurement, and the functions that close them.
type Session struct {
	Stations []*Station
	mu       sync.Mutex // guards closers while stations are opened
	closers  []func() error
	undo     func() error // undoes the sides of an A/B measurement; nil: there are none

	cluster *place.Cluster      // in which openPods has made pods
	lenders map[string]*Station // beside the culvertd of a node of it, by the node
}

// Close undoes the sides of an A/B measurement, ends all agents, and takes back what was made for them.
func (c *Session) Close() error {
	var undone error
	if c.undo != nil {
		undone, c.undo = c.undo(), nil
	}
	var g errgroup.Group
	errs := make([]error, len(c.closers))
	for i, closer := range c.closers {
		g.Go(func() error { errs[i] = closer(); return nil })
	}
	_ = g.Wait() // the errors are in errs
	c.closers = nil
	return errors.Join(undone, errors.Join(errs...))
}

// Open puts an agent at each place, and on the host of each virtual machine. Stations that were
// opened before an error are in the session, to be closed.
func (c *Session) Open(ctx context.Context, specs []place.Spec, p place.Program) ([]*Station, error) {
	all := slices.Clone(specs)
	for _, s := range specs {
		if s.VM != "" && !slices.Contains(all, s.Host()) {
			all = append(all, s.Host())
		}
	}
	opened := make([]*Station, len(all))
	g, ctx := errgroup.WithContext(ctx)
	for i, spec := range all {
		g.Go(func() error {
			pipe, err := place.Open(ctx, spec, p)
			if err != nil {
				return err
			}
			s, err := c.Add(ctx, pipe, Site{Name: siteName(spec), Pod: spec.Netns != "", VM: spec.VM != "", PCI: spec.PCI})
			if err != nil {
				return fmt.Errorf("open %s: %w", spec, err)
			}
			if spec.VF != "" {
				s.outside, s.outsideIndex, err = spec.OutsideVF()
			}
			opened[i] = s
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return opened[:len(specs)], err
	}
	for i, spec := range specs {
		if spec.VM != "" {
			opened[i].Host = opened[slices.Index(all, spec.Host())]
		}
	}
	return opened[:len(specs)], nil
}

// Add makes a station of an agent at the other end of a pipe.
func (c *Session) Add(ctx context.Context, pipe *place.Pipe, site Site) (*Station, error) {
	c.mu.Lock()
	c.closers = append(c.closers, pipe.Close)
	c.mu.Unlock()
	client, err := agent.NewClient(ctx, pipe)
	if err != nil {
		_ = pipe.Close() // Close returns it, too; now all of its text is there
		return nil, fmt.Errorf("%w: %s", err, pipe.Said())
	}
	s := &Station{Site: site, Agent: client, Said: pipe.Said}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.Stations = append(c.Stations, s)
	return s, nil
}

// openBeside opens a station that is no end, and takes no part in runs.
func (c *Session) openBeside(ctx context.Context, spec place.Spec, p place.Program) (*Station, error) {
	pipe, err := place.Open(ctx, spec, p)
	if err != nil {
		return nil, err
	}
	own := &Session{}
	s, err := own.Add(ctx, pipe, Site{Name: siteName(spec)})
	c.closers = append(c.closers, own.closers...)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", spec, err)
	}
	return s, nil
}

// siteName returns a short name: "host" for a machine's own network, else the name of the
// namespace or the guest, or the PCI address of a VF that DPDK drives.
func siteName(s place.Spec) string {
	switch {
	case s.VM != "":
		return s.VM
	case s.PCI != "":
		return s.PCI
	}
	if s.Netns == "" {
		return "host"
	}
	name := path.Base(s.Netns)
	if name == "net" { // /proc/N/ns/net
		name = "pid " + path.Base(path.Dir(path.Dir(s.Netns)))
	}
	return name
}
