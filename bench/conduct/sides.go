package conduct

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/culvert-net/culvert/bench"
	"github.com/culvert-net/culvert/bench/place"
)

// Places says where the commands of an A/B measurement may run, for help texts.
var Places = []string{"here", "from", "to", "ends", "nodes"}

// checkSides returns an error for a fault of the fields of an A/B measurement.
func (o Order) checkSides() error {
	switch {
	case len(o.AB) == 0 && (o.ABOn != "" && o.ABOn != Places[0] || o.ABUndo != ""):
		return errors.New("--ab-on and --ab-undo go with --ab, which has the commands")
	case len(o.AB) == 0 && len(o.Rules) > 0:
		return errors.New("--fail-if goes with --ab: one result has nothing to be judged against")
	case len(o.AB) == 0:
		return nil
	case len(o.AB) != 2 || strings.TrimSpace(o.AB[0]) == "" || strings.TrimSpace(o.AB[1]) == "":
		return errors.New("--ab takes two commands, one for each side: --ab 'COMMAND-A' 'COMMAND-B'")
	case !slices.Contains(Places, cmp.Or(o.ABOn, Places[0])):
		return fmt.Errorf("--ab-on %q: take %s", o.ABOn, strings.Join(Places, ", "))
	case o.Cluster != nil && cmp.Or(o.ABOn, Places[0]) != Places[0]:
		return fmt.Errorf("--ab-on %s with --cluster: the image of the pods has no shell: take --ab-on here, where a command may use kubectl, or ssh to a node", o.ABOn)
	}
	return nil
}

// undoCommand returns the command that is run at the end.
func (o Order) undoCommand() string { return cmp.Or(o.ABUndo, o.AB[0]) }

// AnnounceSides says which commands will run where, and what is left at the end. It says nothing for
// a measurement without sides.
func (o Order) AnnounceSides(say func(format string, args ...any)) {
	if len(o.AB) == 0 {
		return
	}
	on := map[string]string{
		"here": "on this host", "from": "at each --from, in its network namespace", "to": "at each --to, in its network namespace",
		"ends": "at each end, in its network namespace", "nodes": "on the machine of each end, in the machine's own network namespace",
	}[cmp.Or(o.ABOn, Places[0])]
	say("A/B: sh runs these commands %s, before the runs of each side in each round:", on)
	for i, command := range o.AB {
		say("  %s: %s", bench.SideNames[i], command)
	}
	say("At the end, also after Ctrl-C, an error and the death of this program, it runs there: %s", o.undoCommand())
}

// sides are the sides of an A/B measurement.
type sides struct {
	described [2]bench.Side
	arms      [2][]int
	took      [2]time.Duration // to set it up and find its paths
	needs     string           // the number of rounds
	undo      string
	pause     time.Duration // pathsPause
	bounded   [2]bool       // the bounds of its arms are known

	runners []*Station                   // that run the commands
	beside  []*Station                   // on the machines of the ends, and no ends
	find    func() ([]bench.Path, error) // the paths that the order chooses among those that the stations found last
}

// openSides finds and opens the stations that run the commands, and has the session undo them.
func (c *Session) openSides(ctx context.Context, o Order, at opened, p place.Program) (s *sides, err error) {
	s = &sides{undo: o.undoCommand(), pause: pathsPause}
	s.find = func() ([]bench.Path, error) {
		paths, _, err := o.choosePaths(c.Stations, at)
		return paths, err
	}
	if o.Cluster == nil {
		if err := c.openMachines(ctx, s, o, p); err != nil {
			return nil, err
		}
	}
	switch cmp.Or(o.ABOn, Places[0]) {
	case "from":
		s.runners = at.from
	case "to":
		s.runners = at.to
	case "ends":
		s.runners = slices.Concat(at.from, at.to)
	case "nodes":
		s.runners = slices.DeleteFunc(slices.Concat(c.Stations, s.beside), func(s *Station) bool { return s.Pod || s.VM })
	default:
		here, err := c.openBeside(ctx, place.Spec{Kind: place.Host}, p)
		if err != nil {
			return nil, err
		}
		s.runners = []*Station{here}
	}
	if len(s.runners) == 0 {
		return nil, errors.New("--ab-on nodes: no end is on a machine whose own network can be entered")
	}
	for side := range s.described {
		s.described[side] = bench.Side{Name: bench.SideNames[side], Command: o.AB[side]}
	}
	c.undo = s.undoAll
	return s, nil
}

// openMachines opens a station in the own network of each machine that has an end in another network
// namespace. It sees the routes and the NICs by which the end's packets leave.
func (c *Session) openMachines(ctx context.Context, s *sides, o Order, p place.Program) error {
	n, err := o.parseSpecs()
	if err != nil {
		return err
	}
	specs := slices.Concat(n.from, n.to, n.via)
	for _, spec := range specs {
		if spec.VM != "" { // Open has a station on its host
			specs = append(specs, spec.Host())
		}
	}
	for _, spec := range specs {
		host := spec.Host()
		if spec.VM != "" || spec.Netns == "" || slices.Contains(specs, host) { // there is a station
			continue
		}
		specs = append(specs, host)
		machine, err := c.openBeside(ctx, host, p)
		if err != nil {
			return err
		}
		machine.Name = cmp.Or(host.Machine, machine.Name)
		s.beside = append(s.beside, machine)
	}
	return nil
}

// planSides sets up each side in turn and plans its arms, those of side A first.
func (c *Session) planSides(ctx context.Context, m *Measurement, o Order, at opened, p place.Program) (err error) {
	if m.sides, err = c.openSides(ctx, o, at, p); err != nil {
		return err
	}
	for side := range m.sides.described {
		began := time.Now()
		if err := m.sides.runCommand(ctx, side); err != nil {
			return err
		}
		if err := m.awaitPaths(ctx, side, m.arePathsStable()); err != nil {
			return err
		}
		plan, err := c.planHere(ctx, m, o, at)
		if err != nil {
			return fmt.Errorf("side %s: %w", bench.SideNames[side], err)
		}
		if side == 0 {
			m.plan = plan
		} else if plan.Arms, err = pairArms(m.Arms, plan.Arms); err != nil {
			return err
		}
		m.addSide(side, plan.Arms)
		if err := m.awaitPaths(ctx, side, m.findPathsOf(side)); err != nil {
			return err
		}
		m.sides.took[side] = time.Since(began)
		d := &m.sides.described[side]
		if d.Machines, d.Routes, err = m.sides.describePlaces(ctx, m.Stations, m.armsOfSide(side)); err != nil {
			return err
		}
	}
	for side := range m.sides.described {
		m.sides.described[side].At = m.sides.namePlaces()
	}
	return nil
}

// namePlaces names the places where the commands run.
func (s *sides) namePlaces() (all []string) {
	for _, r := range s.runners {
		if r.Machine.Name == "" { // no end is there
			return []string{"this host"}
		}
		all = append(all, r.nameInFull())
	}
	return all
}

// addSide adds the arms of a side.
func (m *Measurement) addSide(side int, arms []bench.Arm) {
	for _, a := range arms {
		a.Side = bench.SideNames[side]
		a.Name = strings.TrimSpace(a.Name + " " + a.Side)
		m.sides.arms[side] = append(m.sides.arms[side], len(m.Arms))
		m.Arms = append(m.Arms, a)
	}
}

func (m *Measurement) armsOfSide(side int) (arms []bench.Arm) {
	for _, i := range m.sides.arms[side] {
		arms = append(arms, m.Arms[i])
	}
	return arms
}

// pairArms returns the arms of side B in the order of those of side A with which they are compared:
// the same workload over the same interfaces, or else between the same ends.
func pairArms(a, b []bench.Arm) (paired []bench.Arm, err error) {
	left := slices.Clone(b)
	for _, x := range a {
		i := slices.IndexFunc(left, func(y bench.Arm) bool { return x.Workload == y.Workload && isSamePath(x.Path, y.Path) })
		if i < 0 {
			i = slices.IndexFunc(left, func(y bench.Arm) bool {
				return x.Workload == y.Workload && x.Path.Ends == y.Path.Ends && x.Path.From.Name == y.Path.From.Name && x.Path.To.Name == y.Path.To.Name
			})
		}
		if i < 0 {
			return nil, fmt.Errorf("side B has no arm to compare with side A's %s over %s: choose paths that both sides have with --path", x.Workload.Kind, Title(x.Path))
		}
		paired = append(paired, left[i])
		left = slices.Delete(left, i, i+1)
	}
	if len(left) > 0 {
		return nil, fmt.Errorf("side A has no arm to compare with side B's %s over %s: choose paths that both sides have with --path", left[0].Workload.Kind, Title(left[0].Path))
	}
	return paired, nil
}

// isSamePath reports whether two paths have the same ends, whatever their settings are.
func isSamePath(a, b bench.Path) bool {
	same := func(x, y bench.End) bool {
		return x.Machine == y.Machine && x.Name == y.Name && x.Interface == y.Interface && x.Address == y.Address
	}
	return same(a.From, b.From) && same(a.To, b.To) && a.Network == b.Network && a.Service == b.Service && a.Via == b.Via
}
