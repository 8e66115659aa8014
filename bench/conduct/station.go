package conduct

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/culvert-net/culvert/bench"
	"github.com/culvert-net/culvert/bench/agent"
	"github.com/culvert-net/culvert/bench/evidence"
)

// Station is a site with its agent. Name, Pod and Cluster are given by who made it,
// and so is Machine.Name where the machine's host name does not tell it, as in a pod.
type Station struct {
	Site
	Agent   *agent.Client
	Said    func() string // the end of what the agent wrote to standard error
	Lacking []agent.Lack
}

// Meet asks each agent what it finds, and how it reaches the others.
func Meet(ctx context.Context, stations []*Station) error {
	var asked errgroup.Group
	for _, s := range stations {
		asked.Go(func() error {
			d, err := s.Agent.Describe(ctx)
			if err != nil {
				return fmt.Errorf("%s: %w", s.Name, err)
			}
			d.Machine.Name = cmp.Or(s.Machine.Name, d.Machine.Name)
			s.Machine, s.Ends, s.Lacking = d.Machine, d.Ends, d.Lacking
			return nil
		})
	}
	if err := asked.Wait(); err != nil {
		return err
	}
	for _, s := range stations {
		asked.Go(func() (err error) {
			if s.Sources, err = s.Agent.Sources(ctx, others(stations, s)); err != nil {
				return fmt.Errorf("%s: %w", s.Name, err)
			}
			return nil
		})
	}
	return asked.Wait()
}

// others are the addresses of all stations but one, with their Services'.
func others(stations []*Station, but *Station) []netip.Addr {
	var all []netip.Addr
	for _, s := range stations {
		if s == but {
			continue
		}
		for _, e := range s.Ends {
			all = append(all, e.Address)
		}
		all = append(all, s.Service)
	}
	return slices.DeleteFunc(all, func(a netip.Addr) bool { return !a.IsValid() })
}

// Between are the paths from each of some stations to each of others.
func Between(from, to []*Station) []bench.Path {
	var all []bench.Path
	for _, f := range from {
		for _, t := range to {
			all = append(all, Paths(f.Site, t.Site)...)
		}
	}
	return all
}

// Lacks says why an engine cannot run at all stations; it is empty for one that can.
func Lacks(stations []*Station, engine string) string {
	for _, s := range stations {
		if i := slices.IndexFunc(s.Lacking, func(l agent.Lack) bool { return l.Engine == engine }); i >= 0 {
			return s.Name + ": " + s.Lacking[i].Why
		}
		if !slices.ContainsFunc(s.Machine.Tools, func(t bench.Setting) bool { return t.Name == engine }) {
			return s.Name + ": its agent has no engine of that name"
		}
	}
	return ""
}

// Machines are those of the stations; of several on one machine, with the interfaces
// of all. VFs and veths that no arm goes over are left out: which ones there are is
// chance, and says nothing of the figures.
func Machines(stations []*Station, arms []bench.Arm) []bench.Machine {
	var all []bench.Machine
	for _, s := range stations {
		m := s.Machine
		m.Interfaces = slices.DeleteFunc(slices.Clone(m.Interfaces), func(i bench.Interface) bool { return s.idle(i.Name, arms) })
		at := slices.IndexFunc(all, func(o bench.Machine) bool { return o.Name == m.Name })
		if at < 0 {
			all = append(all, m)
			continue
		}
		all[at].Interfaces = slices.Concat(all[at].Interfaces, m.Interfaces)
	}
	return all
}

// idle reports whether an interface is a VF or a veth that no arm goes over.
func (s *Station) idle(name string, arms []bench.Arm) bool {
	made := slices.ContainsFunc(s.Ends, func(e bench.End) bool {
		return e.Interface == name && (e.VF != nil || e.Driver == "veth")
	})
	return made && !slices.ContainsFunc(arms, func(a bench.Arm) bool {
		return slices.ContainsFunc(a.Paths(), func(p bench.Path) bool {
			return slices.ContainsFunc([]bench.End{p.From, p.To}, func(e bench.End) bool {
				return e.Machine == s.Machine.Name && e.Name == s.Name && e.Interface == name
			})
		})
	})
}

// station finds the one that an end is of.
func station(stations []*Station, e bench.End) *Station {
	for _, s := range stations {
		if s.Name == e.Name && s.Machine.Name == e.Machine {
			return s
		}
	}
	return nil
}

// watched are the interfaces whose counters are evidence for an end: its own, and all
// others of its network namespace that have an address, but for siblings.
func (s *Station) watched(end bench.End, siblings []string) []evidence.Watched {
	all := []evidence.Watched{{Interface: end.Interface, Role: "path"}}
	for _, e := range s.Ends {
		w := evidence.Watched{Interface: e.Interface, Role: "other"}
		if e.Address.IsValid() && e.Interface != end.Interface && !slices.Contains(siblings, e.Interface) && !slices.Contains(all, w) {
			all = append(all, w)
		}
	}
	return all
}
