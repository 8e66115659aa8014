package conduct

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/culvert-net/culvert/bench"
	"github.com/culvert-net/culvert/bench/evidence"
)

// Through returns those paths that go through the station via. The station routes if it is the
// gateway of both ends to each other, and it may bridge if they are on one link. The counters of
// each run prove whether frames pass it. The error says why no path does.
func Through(via *Station, stations []*Station, paths []bench.Path) ([]bench.Path, error) {
	if via.isDevice() {
		return throughDevice(via, paths), nil
	}
	var through []bench.Path
	var errs []error
	for _, p := range paths {
		there := findStation(stations, p.From).Routes[p.To.Address].Gateway
		back := findStation(stations, p.To).Routes[p.From.Address].Gateway
		relay, err := via.asRelay(there, back)
		if err != nil {
			errs = append(errs, fmt.Errorf("from %s %s to %s %s: %w", p.From.Name, p.From.Address, p.To.Name, p.To.Address, err))
			continue
		}
		p.Via = relay
		through = append(through, p)
	}
	if len(through) == 0 && len(paths) > 0 {
		return nil, fmt.Errorf("no path goes through %s: %w", via.Name, errors.Join(errs...))
	}
	return through, nil
}

// asRelay returns the station as a relay in the middle of a path, by the gateways of the ends on
// both sides.
func (s *Station) asRelay(there, back netip.Addr) (bench.Relay, error) {
	r := bench.Relay{Machine: s.kernelName(), Name: s.Name}
	if !there.IsValid() && !back.IsValid() {
		r.How = bench.Bridges
		if !slices.ContainsFunc(s.Ends, func(e bench.End) bool { return e.Driver == "bridge" }) {
			return r, fmt.Errorf("they reach each other without a gateway, and %s has no bridge", s.Name)
		}
		return r, nil
	}
	r.How = bench.Routes
	for _, side := range []struct {
		gateway netip.Addr
		name    *string
	}{{there, &r.In}, {back, &r.Out}} {
		i := slices.IndexFunc(s.Ends, func(e bench.End) bool { return side.gateway.IsValid() && e.Address == side.gateway })
		if i < 0 {
			return r, fmt.Errorf("the way there has %s and the way back %s, and %s would have to be both: ip route add ADDRESS via an address of it",
				orNoGateway(there), orNoGateway(back), s.Name)
		}
		*side.name = s.Ends[i].Interface
	}
	return r, nil
}

func orNoGateway(a netip.Addr) string {
	if !a.IsValid() {
		return "no gateway"
	}
	return "the gateway " + a.String()
}

// isRelay reports whether the station is that relay.
func (s *Station) isRelay(r bench.Relay) bool {
	return r != (bench.Relay{}) && r.Machine == s.kernelName() && r.Name == s.Name
}

// relayInterfaces returns the interfaces over which the station may forward a path's frames.
func (s *Station) relayInterfaces(r bench.Relay) []evidence.Watched {
	if s.isDevice() { // its engine counts
		return nil
	}
	var all []evidence.Watched
	for _, e := range s.Ends {
		w := evidence.Watched{Interface: e.Interface, Role: "path"}
		if (r.In == "" || e.Interface == r.In || e.Interface == r.Out) && !slices.Contains(all, w) {
			all = append(all, w)
		}
	}
	return all
}

// relayShare is the part of the traffic that arrived which an interface of a relay carried at least.
const relayShare = 0.1

// addRelay adds the relay's evidence to a run. It keeps the interfaces that carried at least
// relayShare of the traffic.
func (f *flow) addRelay(run *bench.Run) {
	if f.relay == nil {
		return
	}
	seen := f.relayed.From
	claimed := claimOf(f.task.Workload, *run, bench.Path{})
	seen.Interfaces = slices.DeleteFunc(slices.Clone(seen.Interfaces), func(c bench.Counters) bool {
		return !claimed.isCovered(relayShare, max(c.RxBytes, c.TxBytes), max(c.RxPackets, c.TxPackets))
	})
	run.Via = &seen
	if f.relayed.Void != "" && run.Void == "" {
		run.Void = f.relay.Name + ": " + f.relayed.Void
	}
}

// checkRelayed returns the reason why a run does not prove that the relays of its paths forwarded
// the claimed traffic, or "" if it does: one interface of the relay received as much, and one sent
// as much.
func checkRelayed(arm bench.Arm, each []bench.Run) string {
	paths := arm.Paths()
	for i, p := range paths {
		if p.Via == (bench.Relay{}) {
			continue
		}
		if each[i].Via == nil {
			return "no agent saw the traffic that " + p.Via.Name + " forwarded"
		}
		var all claims
		for j, o := range paths {
			if o.Via == p.Via {
				all = all.addClaims(claimWithLoad(arm.Workload, each[j], o))
			}
		}
		var in, out bool
		for _, c := range each[i].Via.Whole.Interfaces {
			in = in || all.isCovered(leastShare, c.RxBytes, c.RxPackets)
			out = out || all.isCovered(leastShare, c.TxBytes, c.TxPackets)
		}
		if !in || !out {
			return fmt.Sprintf("no two interfaces of %s received and sent the %s that were claimed: the traffic took another way", p.Via.Name, formatAmount(all.bytes, all.packets, all))
		}
	}
	return ""
}

// explainDrops names a setting that may drop all traffic of a workload on the way, or returns "" if
// none is known.
func explainDrops(p bench.Path, w bench.Workload) string {
	sends, by := p.From, p.Via.In
	if w.Reverse {
		sends, by = p.To, p.Via.Out
	}
	switch {
	case w.Sources > 1 && p.Via.How == bench.Routes:
		return fmt.Sprintf("%s drops sources that it has no route back to, unless net.ipv4.conf.*.rp_filter is 0 there: ip route add 198.18.0.0/15 dev %s gives it one", p.Via.Name, by)
	case w.MACs > 1 && sends.VF != nil:
		return fmt.Sprintf("%s is a VF, whose spoof check drops frames from other MACs, unless its network has spoofchk off", sends.Interface)
	}
	return ""
}
