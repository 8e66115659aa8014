package conduct

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/culvert-net/culvert/bench"
	"github.com/culvert-net/culvert/bench/agent"
	"github.com/culvert-net/culvert/bench/evidence"
)

// After the command of a side, its paths may take pathsTime to be there. They are looked for each
// pathsPause, and no carrier may be lost for as long.
const (
	pathsTime  = 90 * time.Second
	pathsPause = time.Second
)

// runCommand sets up a side by its command, at one place after the other.
func (s *sides) runCommand(ctx context.Context, side int) error {
	d := &s.described[side]
	var says []string
	for _, r := range s.runners {
		last, err := r.setUp(ctx, agent.Setting{Side: d.Name, Do: d.Command, Undo: s.undo})
		if err != nil {
			return fmt.Errorf("set up side %s: %w", d.Name, err)
		}
		if last != "" && !slices.Contains(says, last) {
			says = append(says, last)
		}
	}
	if d.Says == "" {
		d.Says = strings.Join(says, "; ")
	}
	return nil
}

func (s *Station) setUp(ctx context.Context, setting agent.Setting) (says string, err error) {
	ctx, cancel := context.WithTimeout(ctx, agent.SettingTime+stopTime)
	defer cancel()
	says, err = s.Agent.SetUp(ctx, setting)
	return says, s.wrapError(err)
}

// undoAll undoes what the commands of the sides did, at all places, also after an interrupt. An error
// has the command for a person to run.
func (s *sides) undoAll() error {
	var errs []error
	for _, r := range s.runners {
		ctx, cancel := context.WithTimeout(context.Background(), agent.SettingTime+stopTime)
		if err := r.Agent.Undo(ctx); err != nil {
			errs = append(errs, fmt.Errorf("undo the sides: %w: run it by hand there: %s", r.wrapError(err), s.undo))
		}
		cancel()
	}
	return errors.Join(errs...)
}

// setUpSide sets up a side before its runs of a round, and finds its paths anew.
func (m *Measurement) setUpSide(ctx context.Context, side int) error {
	d := &m.sides.described[side]
	m.Progress.Step("setting up side %s", d.Name)
	if err := m.sides.runCommand(ctx, side); err != nil {
		return err
	}
	if err := m.awaitPaths(ctx, side, m.findPathsOf(side)); err != nil {
		return err
	}
	machines, routes, err := m.sides.describePlaces(ctx, m.Stations, m.armsOfSide(side))
	if err != nil {
		return err
	}
	for _, change := range d.ChangedSince(machines, routes) {
		m.addNote(fmt.Sprintf("side %s was not the same in each round: %s", d.Name, change))
	}
	if !m.sides.bounded[side] {
		m.sides.bounded[side] = true
		m.boundArms(ctx, m.sides.arms[side])
	}
	return nil
}

// awaitPaths looks at the paths until they are as look wants them.
func (m *Measurement) awaitPaths(ctx context.Context, side int, look func(ctx context.Context) error) error {
	for until := time.Now().Add(pathsTime); ; {
		err := look(ctx)
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case errors.Is(err, agent.ErrGone):
			return err
		case time.Now().After(until):
			return fmt.Errorf("side %s: within %s after its command: %w", bench.SideNames[side], pathsTime, err)
		}
		if err := pauseFor(ctx, m.sides.pause); err != nil {
			return err
		}
	}
}

// arePathsStable returns a look that wants the same paths as at the look before.
func (m *Measurement) arePathsStable() func(ctx context.Context) error {
	var last []bench.Path
	return func(ctx context.Context) error {
		if err := DescribeStations(ctx, m.Stations); err != nil {
			return err
		}
		paths, err := m.sides.find()
		if err != nil {
			return err
		}
		if len(paths) == 0 || !reflect.DeepEqual(paths, last) {
			last = paths
			return errors.New("no path is there, or they still change")
		}
		return nil
	}
}

// findPathsOf returns a look that finds the paths of a side's arms anew. It wants each to carry
// questions and answers, and its carriers not to be lost meanwhile.
func (m *Measurement) findPathsOf(side int) func(ctx context.Context) error {
	return func(ctx context.Context) error {
		if err := DescribeStations(ctx, m.Stations); err != nil {
			return err
		}
		there, err := m.sides.find()
		if err != nil {
			return err
		}
		var paths []bench.Path
		for _, i := range m.sides.arms[side] {
			if err := renewPaths(&m.Arms[i], there); err != nil {
				return err
			}
			for _, p := range m.Arms[i].Paths() {
				if !slices.ContainsFunc(paths, func(q bench.Path) bool { return reflect.DeepEqual(p, q) }) {
					paths = append(paths, p)
				}
			}
		}
		return m.tryPaths(ctx, paths)
	}
}

// renewPaths replaces an arm's paths by those with the same ends that are there now.
func renewPaths(a *bench.Arm, there []bench.Path) error {
	renew := func(p *bench.Path) error {
		i := slices.IndexFunc(there, func(q bench.Path) bool { return isSamePath(*p, q) })
		if i < 0 {
			return fmt.Errorf("the path %s, %s %s to %s %s, is not there", Title(*p), p.From.Name, p.From.Address, p.To.Name, p.To.Address)
		}
		*p = there[i]
		return nil
	}
	if err := renew(&a.Path); err != nil {
		return err
	}
	a.Also = slices.Clone(a.Also) // the first found are in other arms too
	for i := range a.Also {
		if err := renew(&a.Also[i]); err != nil {
			return err
		}
	}
	return nil
}

// tryPaths asks questions over each path, and returns an error if one gets no answers or a carrier
// is lost meanwhile.
func (m *Measurement) tryPaths(ctx context.Context, paths []bench.Path) error {
	before, err := m.readLosses(ctx, paths)
	if err != nil {
		return err
	}
	quiet := time.Now().Add(m.sides.pause)
	for _, p := range paths {
		if _, err := m.roundTrip(ctx, p); err != nil && !errors.Is(err, errBusy) { // late answers are answers
			return err
		}
	}
	if err := pauseFor(ctx, time.Until(quiet)); err != nil {
		return err
	}
	after, err := m.readLosses(ctx, paths)
	if err == nil && !slices.Equal(before, after) {
		err = errors.New("a carrier was lost")
	}
	return err
}

// readLosses returns how often the interfaces of each path's ends have lost their carriers.
func (m *Measurement) readLosses(ctx context.Context, paths []bench.Path) (losses []uint64, err error) {
	for _, p := range paths {
		for _, e := range []bench.End{p.From, p.To} {
			s := findStation(m.Stations, e)
			c, err := s.Agent.Counters(ctx, []evidence.Watched{{Interface: e.Interface, Role: "path"}})
			if err != nil {
				return nil, s.wrapError(err)
			}
			for _, one := range c {
				losses = append(losses, one.Downs)
			}
		}
	}
	return losses, nil
}

// describePlaces describes the machines and the routes to the ends of arms as the agents see them now.
func (s *sides) describePlaces(ctx context.Context, stations []*Station, arms []bench.Arm) (machines []bench.Machine, routes []bench.Setting, err error) {
	var g errgroup.Group
	for _, b := range s.beside {
		g.Go(func() error {
			d, err := b.Agent.Describe(ctx, "")
			b.Machine, b.Ends = d.Machine, d.Ends
			if err == nil {
				b.Routes, err = b.Agent.Routes(ctx, endAddresses(arms))
			}
			return b.wrapError(err)
		})
	}
	if err := g.Wait(); err != nil {
		return nil, nil, err
	}
	machines = Machines(stations, arms)
	for _, b := range s.beside {
		machines = addNICs(machines, b)
	}
	for _, station := range slices.Concat(stations, s.beside) {
		for _, to := range endAddresses(arms) {
			if r, known := station.Routes[to]; known {
				routes = append(routes, bench.Setting{Name: fmt.Sprintf("%s to %s", station.nameInFull(), to), Value: describeRoute(r)})
			}
		}
	}
	return machines, routes, nil
}

// endAddresses returns the addresses of the ends of arms, each once.
func endAddresses(arms []bench.Arm) (all []netip.Addr) {
	for _, a := range arms {
		for _, p := range a.Paths() {
			all = append(all, p.From.Address, p.To.Address)
		}
	}
	slices.SortFunc(all, netip.Addr.Compare)
	return slices.Compact(all)
}

func describeRoute(r agent.Route) string {
	said := "dev " + cmp.Or(r.Interface, "unknown")
	if r.Gateway.IsValid() {
		said += " via " + r.Gateway.String()
	}
	return said + " from " + r.Source.String()
}

// addNICs adds to a machine the NICs and tunnels of its own network, which the station sees. Other
// interfaces there come and go: veths, and VFs, of which a PF has up to 64.
func addNICs(machines []bench.Machine, own *Station) []bench.Machine {
	at := slices.IndexFunc(machines, func(m bench.Machine) bool { return m.Name == own.Machine.Name })
	if at < 0 {
		return machines
	}
	m := &machines[at]
	for _, i := range own.Machine.Interfaces {
		known := slices.ContainsFunc(m.Interfaces, func(o bench.Interface) bool { return o.Name == i.Name })
		if !known && !own.isIdle(i.Name, nil) && (i.PCI != "" || slices.Contains(tunnels, i.Driver)) {
			m.Interfaces = append(slices.Clone(m.Interfaces), i)
		}
	}
	return machines
}

// allMachines returns the machines of side A, and those that only side B has.
func (s *sides) allMachines() []bench.Machine {
	all := slices.Clone(s.described[0].Machines)
	for _, m := range s.described[1].Machines {
		if !slices.ContainsFunc(all, func(o bench.Machine) bool { return o.Name == m.Name }) {
			all = append(all, m)
		}
	}
	return all
}
