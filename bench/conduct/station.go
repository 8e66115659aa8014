package conduct

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"path"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/culvert-net/culvert/bench"
	"github.com/culvert-net/culvert/bench/agent"
	"github.com/culvert-net/culvert/bench/evidence"
	"github.com/culvert-net/culvert/internal/vf"
)

// Station is a site with its agent. Its maker sets Name, Pod and Cluster, and also Machine.Name
// where that is not the host name, as in a pod.
type Station struct {
	Site
	Agent   *agent.Client
	Said    func() string // the end of what the agent wrote to standard error
	Lacking []agent.Lack
	Host    *Station // of a virtual machine: the station on its host

	macs     map[string]string   // the addresses of its interfaces
	carriers map[string][]string // for each interface, the others that may carry its frames
	passed   map[string]string   // of a virtual machine: the PCI addresses that its VFs have on its host

	namespace string   // of a pod in a cluster
	lender    *Station // of a pod in a cluster: beside the culvertd of its node, once it was asked for

	// outside is the port of the VF that the order names, and outsideIndex the VF's index.
	outside      string
	outsideIndex int
}

// DescribeStations asks each agent for its Description, and for its routes to the others.
func DescribeStations(ctx context.Context, stations []*Station) error {
	var asked errgroup.Group
	for _, s := range stations {
		asked.Go(func() error {
			d, err := s.Agent.Describe(ctx, s.PCI)
			if err != nil {
				return fmt.Errorf("%s: %w", s.Name, err)
			}
			d.Machine.Name = cmp.Or(s.Machine.Name, d.Machine.Name)
			s.Machine, s.Ends, s.Lacking, s.macs, s.carriers = d.Machine, d.Ends, d.Lacking, d.MACs, d.Carriers
			return s.nameOutsideVF()
		})
	}
	if err := asked.Wait(); err != nil {
		return err
	}
	for _, s := range stations {
		if s.Host == nil {
			continue
		}
		vfs, err := s.Host.Agent.VFs(ctx)
		if err != nil {
			return fmt.Errorf("%s: %w", s.Host.Name, err)
		}
		s.guestOf(s.Host.Machine.Name, vfs)
		for _, beside := range stations {
			if beside.Machine.Name == s.Machine.Name {
				beside.namePFs(vfs)
			}
		}
	}
	for _, s := range stations {
		asked.Go(func() (err error) {
			if s.Routes, err = s.Agent.Routes(ctx, otherAddresses(stations, s)); err != nil {
				return fmt.Errorf("%s: %w", s.Name, err)
			}
			return nil
		})
	}
	return asked.Wait()
}

// guestOf makes the station one of a virtual machine on that host, and finds which of the host's
// VFs it has. A guest does not see the PF, but has the MAC address that the PF holds for the VF.
func (s *Station) guestOf(host string, vfs []evidence.VF) {
	s.VM, s.Pod, s.Machine.Name, s.passed = true, false, host, map[string]string{}
	for i := range s.Ends {
		e := &s.Ends[i]
		at := slices.IndexFunc(vfs, func(v evidence.VF) bool { return v.MAC == s.macs[e.Interface] })
		if at >= 0 && e.VF == nil {
			e.PF, e.VF, s.passed[e.Interface] = vfs[at].PF, &vfs[at].Index, vfs[at].PCI
		}
	}
}

// nameOutsideVF gives the station's one interface with a driver of VFs the port that the order names.
// A virtual machine on a host without an agent does not see it.
func (s *Station) nameOutsideVF() error {
	if s.outside == "" {
		return nil
	}
	named := ""
	for i := range s.Ends {
		e := &s.Ends[i]
		if e.VF != nil || !vf.DrivesVFs(e.Driver) {
			continue
		}
		if named != "" && named != e.Interface {
			return fmt.Errorf("%s on %s: both %s and %s are VFs, and vf= names one: set one of them down", s.Name, s.Machine.Name, named, e.Interface)
		}
		named, e.PF, e.VF = e.Interface, s.outside, &s.outsideIndex
	}
	if named == "" {
		return fmt.Errorf("%s on %s: no interface has a driver of VFs, so %s is not here", s.Name, s.Machine.Name, s.outside)
	}
	return nil
}

// namePFs replaces the PCI address of a PF, which is all that a container sees of it, by the PF's
// name on the host, as for the VFs of guests.
func (s *Station) namePFs(vfs []evidence.VF) {
	for i := range s.Ends {
		if at := slices.IndexFunc(vfs, func(v evidence.VF) bool { return v.PFPCI == s.Ends[i].PF }); at >= 0 {
			s.Ends[i].PF = vfs[at].PF
		}
	}
}

// wrapError adds the station to an error, and, if its agent is gone, the agent's last text on
// standard error.
func (s *Station) wrapError(err error) error {
	if err == nil {
		return nil
	}
	if said := s.Said(); errors.Is(err, agent.ErrGone) && said != "" { // why it left, mostly
		return fmt.Errorf("%s: %w: %s", s.Name, err, said)
	}
	return fmt.Errorf("%s: %w", s.Name, err)
}

// nearPF returns the station on the machine that has the PF of this station's VF, and its
// culvertd: for a virtual machine that is its host's.
func (s *Station) nearPF() *Station {
	if s.Host != nil {
		return s.Host
	}
	return s
}

// kernelName returns the name of the machine or guest whose kernel the station is on. Each has a
// clock and processors of its own.
func (s *Station) kernelName() string {
	if s.VM {
		return s.Machine.Name + "/" + s.Name
	}
	return s.Machine.Name
}

// nameInFull names the station and its machine.
func (s *Station) nameInFull() string {
	if path.Base(s.Name) == s.Machine.Name { // the machine's own network, as the order names it
		return s.Name
	}
	return s.Name + " on " + s.Machine.Name
}

// otherAddresses returns the addresses of all stations but one, with those of their Services.
func otherAddresses(stations []*Station, but *Station) []netip.Addr {
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

// Between returns the paths from each station of from to each of to.
func Between(from, to []*Station) []bench.Path {
	var all []bench.Path
	for _, f := range from {
		for _, t := range to {
			all = append(all, Paths(f.Site, t.Site)...)
		}
	}
	return all
}

// WhyNoEngine returns the reason why an engine cannot run at every station, or "" if it can.
func WhyNoEngine(stations []*Station, engine string) string {
	var first *Station
	var version string
	for _, s := range stations {
		if i := slices.IndexFunc(s.Lacking, func(l agent.Lack) bool { return l.Engine == engine }); i >= 0 {
			return s.Name + ": " + s.Lacking[i].Why
		}
		i := slices.IndexFunc(s.Machine.Tools, func(t bench.Setting) bool { return t.Name == engine })
		if i < 0 {
			return s.Name + ": its agent has no engine of that name"
		}
		its := s.Machine.Tools[i].Value
		if first == nil {
			first, version = s, its
		}
		if !agent.Together(engine, version, its) {
			return fmt.Sprintf("%s has %s and %s %s, and figures of two versions say little: install one of them at both ends", first.Name, version, s.Name, its)
		}
	}
	return ""
}

// Machines returns the machines of the stations, also virtual ones, each with the interfaces of
// all its stations. It leaves out VFs and veths that no arm uses: they are there by chance and do
// not affect the figures.
func Machines(stations []*Station, arms []bench.Arm) []bench.Machine {
	var all []bench.Machine
	for _, s := range stations {
		m := s.Machine
		m.Name = s.kernelName()
		m.Interfaces = slices.DeleteFunc(slices.Clone(m.Interfaces), func(i bench.Interface) bool { return s.isIdle(i.Name, arms) })
		at := slices.IndexFunc(all, func(o bench.Machine) bool { return o.Name == m.Name })
		if at < 0 {
			all = append(all, m)
			continue
		}
		if s.isDevice() { // another VF of the machine may have its PF too
			m.Interfaces = slices.DeleteFunc(m.Interfaces, func(i bench.Interface) bool {
				return slices.ContainsFunc(all[at].Interfaces, func(o bench.Interface) bool { return o.Name == i.Name })
			})
		}
		all[at].Interfaces = slices.Concat(all[at].Interfaces, m.Interfaces)
	}
	return all
}

// isIdle reports whether an interface is a VF or a veth that no arm goes over.
func (s *Station) isIdle(name string, arms []bench.Arm) bool {
	made := slices.ContainsFunc(s.Ends, func(e bench.End) bool {
		return e.Interface == name && (e.VF != nil || e.Driver == "veth")
	})
	return made && !slices.ContainsFunc(arms, func(a bench.Arm) bool {
		return slices.ContainsFunc(a.Paths(), func(p bench.Path) bool {
			return s.isRelay(p.Via) && (p.Via.In == "" || name == p.Via.In || name == p.Via.Out) || slices.ContainsFunc([]bench.End{p.From, p.To}, func(e bench.End) bool {
				return e.Machine == s.Machine.Name && e.Name == s.Name && e.Over(name)
			})
		})
	})
}

// findStation returns the station of an end.
func findStation(stations []*Station, e bench.End) *Station {
	for _, s := range stations {
		if s.Name == e.Name && s.Machine.Name == e.Machine {
			return s
		}
	}
	return nil
}

// watchedInterfaces returns the interfaces whose counters are evidence for an end: its own, and
// the others of its network namespace, with an address or without. It leaves out siblings, and
// the interfaces that carry the end's frames, since those may carry other frames as well.
func (s *Station) watchedInterfaces(end bench.End, siblings []string) []evidence.Watched {
	if s.isDevice() { // its engine counts
		return nil
	}
	all := []evidence.Watched{{Interface: end.Interface, Role: "path"}}
	also := slices.Concat(strings.Split(end.Uplink, "+"), siblings, s.carriers[end.Interface])
	for _, e := range s.Ends {
		w := evidence.Watched{Interface: e.Interface, Role: "other"}
		if e.Interface != end.Interface && !slices.Contains(also, e.Interface) && !slices.Contains(all, w) {
			all = append(all, w)
		}
	}
	return all
}
