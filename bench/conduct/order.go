package conduct

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/culvert-net/culvert/bench"
	"github.com/culvert-net/culvert/bench/place"
	"github.com/culvert-net/culvert/bench/preset"
)

// Order says what to measure between which ends. The program's flags fill it.
type Order struct {
	// From and To are the ends where traffic starts and where it stops, and Via is the machine that
	// forwards between them, in the forms of package place.
	From, To []string
	Via      string
	// Service is an address that leads to the one end of To on bench.ServicePorts; empty: none.
	Service string
	// Cluster makes the ends in place of From and To.
	Cluster *place.Cluster
	// Management is the interface by which a lab that was booted for the measurement manages its
	// nodes. Its paths are left out unless Paths names some.
	Management string

	// Pull and Plug are the commands that pull the cable and plug it in again; empty: none. AskPerson
	// shows a person a text, where one is there who can pull the cable; nil: none is.
	Pull, Plug string
	AskPerson  func(format string, args ...any)

	// AB are the commands that set up side A and side B of an A/B measurement; none: it is not one. ABOn
	// says where they run ([Places]), and ABUndo undoes them at the end, in place of A's command.
	AB     []string
	ABOn   string
	ABUndo string
	Rules  []bench.Rule // by which the sides are judged

	Paths   []string // words that paths match ([Matches]); none: all paths
	Presets []string // names; none: Question
	// Question is asked over the software paths and the VF paths where no preset is named.
	Question preset.Question
	Quick    bool    // short runs, and few
	Seconds  float64 // that a run counts at most; 0: as the presets have it
	Burst    int     // packets that are sent at once, 1 to 64
	Limits   Limits  // Repeats and MaxTime of 0: what suits the presets
	Seed     uint64  // 0: a new one
}

// Check returns an error for a fault of an order that does not depend on its ends.
func (o Order) Check() error {
	if _, err := o.findPresets(); err != nil {
		return err
	}
	if err := o.Question.Check(o.Presets); err != nil {
		return err
	}
	if _, err := o.parseService(); err != nil {
		return err
	}
	if err := o.checkSides(); err != nil {
		return err
	}
	if err := o.checkDevices(); err != nil {
		return err
	}
	switch {
	case o.Service != "" && (o.Cluster != nil || o.Via != "" || len(o.To) > 1):
		return fmt.Errorf("--service %s with --cluster, --via or several --to: it leads to one end that is there: name that with one --to", o.Service)
	case (o.Pull == "") != (o.Plug == ""):
		return errors.New("--pull and --plug go together: one command pulls the cable, and the other plugs it in again")
	case o.Pull != "" && !slices.ContainsFunc(o.Presets, func(name string) bool { return strings.EqualFold(name, "m9") }):
		return errors.New("--pull and --plug are for m9, which pulls the cable")
	case o.Seconds < 0:
		return fmt.Errorf("--seconds %v: take a number above 0, such as 4", o.Seconds)
	case o.Burst < 1 || o.Burst > 64:
		return fmt.Errorf("--burst %d: take 1 to 64", o.Burst)
	}
	return nil
}

// parseService returns the address of Service.
func (o Order) parseService() (a netip.Addr, err error) {
	if o.Service == "" {
		return a, nil
	}
	if a, err = netip.ParseAddr(o.Service); err != nil || a.IsUnspecified() || a.Zone() != "" {
		return a, fmt.Errorf("--service %q: take an address such as 10.96.0.10 that leads to --to on the ports %d to %d, by TCP and UDP",
			o.Service, bench.ServicePorts[0], bench.ServicePorts[len(bench.ServicePorts)-1])
	}
	return a.Unmap(), nil
}

// findPresets finds the order's presets, each once.
func (o Order) findPresets() (all []preset.Preset, err error) {
	for _, name := range o.Presets {
		p, err := preset.Find(name)
		if err != nil {
			return nil, err
		}
		if !slices.ContainsFunc(all, func(q preset.Preset) bool { return q.Name == p.Name }) {
			all = append(all, p)
		}
	}
	return all, nil
}

// named are the ends of an order that exist already.
type named struct{ from, to, via []place.Spec }

// parseSpecs reads From, To and Via.
func (o Order) parseSpecs() (n named, err error) {
	if len(o.From) == 0 || len(o.To) == 0 {
		return n, fmt.Errorf("between which ends? Name them with --from and --to, or take --cluster:\n%s", place.Forms)
	}
	var via []string
	if o.Via != "" {
		via = []string{o.Via}
	}
	for _, side := range []struct {
		texts []string
		specs *[]place.Spec
	}{{o.From, &n.from}, {o.To, &n.to}, {via, &n.via}} {
		for _, text := range side.texts {
			s, err := place.Parse(text)
			if err != nil {
				return n, err
			}
			*side.specs = append(*side.specs, s)
		}
	}
	return n, errors.Join(n.checkDistinct(), n.checkDevices(o.IsOnDevices()))
}

// checkDistinct returns an error where one network namespace would be two ends.
func (n named) checkDistinct() error {
	for i, f := range n.from {
		if slices.Contains(n.to, f) {
			return fmt.Errorf("--from and --to are both %s: traffic within one network namespace takes no path", f)
		}
		if slices.Contains(n.from[:i], f) {
			return fmt.Errorf("--from is %s twice: name each end once", f)
		}
	}
	for i, t := range n.to {
		if slices.Contains(n.to[:i], t) {
			return fmt.Errorf("--to is %s twice: name each end once", t)
		}
	}
	for _, v := range n.via {
		if slices.Contains(slices.Concat(n.from, n.to), v) {
			return fmt.Errorf("--via is %s, which is an end as well: name what is between the ends", v)
		}
	}
	return nil
}

// opened are the stations where traffic starts, where it stops, and the one between them, if any.
type opened struct {
	from, to []*Station
	via      *Station
}

// withEngines returns the stations that need the engine: also the one between the ends, if its kernel
// does not forward.
func (at opened) withEngines() []*Station {
	all := slices.Concat(at.from, at.to)
	if at.via != nil && at.via.isDevice() {
		all = append(all, at.via)
	}
	return all
}

// openEnds puts an agent at each end of the order.
func (c *Session) openEnds(ctx context.Context, o Order, p place.Program) (at opened, err error) {
	if o.Cluster != nil {
		return c.openPods(ctx, *o.Cluster)
	}
	n, err := o.parseSpecs()
	if err != nil {
		return at, err
	}
	all, err := c.Open(ctx, slices.Concat(n.from, n.to, n.via), p)
	at.from, at.to = all[:len(n.from)], all[len(n.from):len(n.from)+len(n.to)]
	if len(n.via) > 0 {
		at.via = all[len(all)-1]
	}
	if err != nil {
		return at, err
	}
	if o.Service != "" {
		at.to[0].Named = true
		at.to[0].Service, err = o.parseService()
	}
	return at, err
}

// findCable returns the way to pull the cable of an end: the order's commands, else the lab in which
// all ends are, else a person.
func (o Order) findCable() Cable {
	var pull place.PullCable
	if o.Pull != "" {
		pull = place.CableCommands(o.Pull, o.Plug)
	} else if o.Cluster == nil {
		if n, err := o.parseSpecs(); err == nil { // openEnds has returned the error
			pull = place.LabCable(slices.Concat(n.from, n.to))
		}
	}
	switch {
	case pull != nil:
		return Cable{Move: func(ctx context.Context, e bench.End, in bool) error { return pull(ctx, e.Machine, e.PF, in) }}
	case o.AskPerson != nil:
		return Cable{Move: o.askForCable, ByHand: true}
	}
	return Cable{}
}

// askForCable asks the person to pull a cable, or to plug it in again.
func (o Order) askForCable(_ context.Context, e bench.End, in bool) error {
	do := "PULL the cable of %s now"
	if in {
		do = "PLUG the cable of %s IN again now"
	}
	o.AskPerson(do+" (%s of %s on %s)", cmp.Or(e.PF, e.Interface), e.Interface, e.Name, e.Machine)
	return nil
}

// choosePaths chooses the paths that the order asks for. The note says which paths it left out
// because the order does not name them.
func (o Order) choosePaths(stations []*Station, at opened) (paths []bench.Path, note string, err error) {
	all := Between(at.from, at.to)
	if at.via != nil {
		if all, err = Through(at.via, stations, all); err != nil {
			return nil, "", err
		}
	}
	if o.Management != "" && len(o.Paths) == 0 {
		all, note = withoutManagement(all, o.Management)
	}
	if o.Service != "" && !slices.ContainsFunc(all, func(p bench.Path) bool { return p.Service.IsValid() }) {
		return nil, "", fmt.Errorf("--service %s: no path from %s leads to it: look for a route (ip route get %s) and for the Service's backend, which is to be an address of %s",
			o.Service, at.from[0].Name, o.Service, at.to[0].Name)
	}
	for _, path := range all {
		if Matches(path, o.Paths) {
			paths = append(paths, path)
		}
	}
	if len(paths) == 0 && len(all) > 0 {
		return nil, "", fmt.Errorf("--path %s: no path is that: there is %s", strings.Join(o.Paths, " --path "), preset.List(all))
	}
	return paths, note, nil
}

// withoutManagement leaves out the paths over the management network of a lab's nodes, which no
// report had, and returns a note of that.
func withoutManagement(all []bench.Path, management string) (rest []bench.Path, note string) {
	for _, p := range all {
		if p.From.Interface == management || p.To.Interface == management {
			note = fmt.Sprintf("the lab's management network (%s) is left out, since no report had one; --path host measures it", management)
			continue
		}
		rest = append(rest, p)
	}
	return rest, note
}
