package cni

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/containernetworking/cni/pkg/version"

	"github.com/culvert-net/culvert/internal/excerpt"
	"github.com/culvert-net/culvert/internal/network/config"
	"github.com/culvert-net/culvert/internal/network/ipam"
	"github.com/culvert-net/culvert/internal/node/attach"
	"github.com/culvert-net/culvert/internal/vf"
)

// fillRequested fills in the pool from which the addresses of a request come, and the addresses
// that the request names. As with the CNI project's plugins, host-local gives each address that
// CNI_ARGS, args.cni or runtimeConfig names; static gives those of runtimeConfig, else those of
// args.cni, else its own and those of CNI_ARGS.
//
// An IPAM plugin of another project reads these keys itself, see delegateIPAM.
func fillRequested(c config.Config, a Arguments, req *attach.Request) error {
	if c.IPAM.IsDelegated() {
		return nil
	}
	if err := fillAddresses(c, a, req); err != nil {
		return err
	}
	if err := ipam.CheckResult(max(len(req.Addresses), len(req.IPAM.Static)), 0); err != nil {
		return fmt.Errorf("network %s: what is asked for: %w", c.Name, err)
	}
	return checkRoom(c, *req)
}

// checkFixed refuses the ADD of a network with ipam of type static if neither the network nor the
// request has an address. The SR-IOV CNI plugin refuses it too.
func checkFixed(c config.Config, req attach.Request) error {
	if c.IPAM.Type != ipam.TypeStatic || len(req.IPAM.Static)+len(req.Addresses) > 0 {
		return nil
	}
	return fmt.Errorf("network %s: %w: ipam of type static has no address: add addresses to it, or name one in the pod's annotation (ips)", c.Name, vf.ErrInvalid)
}

// checkRoom refuses a second address of a family where results have no room for it.
func checkRoom(c config.Config, req attach.Request) error {
	if ok, err := version.GreaterThanOrEqualTo(c.Version, "0.3.0"); err != nil || ok {
		return nil //nolint:nilerr // config.Parse has read the version
	}
	count := map[bool]int{}
	for _, set := range req.IPAM.Sets {
		count[set[0].Start.Is4()]++
	}
	for _, a := range req.IPAM.Named(req.Addresses) {
		if len(req.IPAM.Sets) == 0 {
			count[a.Is4()]++
		}
	}
	if max(count[true], count[false]) > 1 {
		return fmt.Errorf("network %s: %w: results of cniVersion %s have room for one address of each family: set a later cniVersion", c.Name, vf.ErrInvalid, c.Version)
	}
	return nil
}

func fillAddresses(c config.Config, a Arguments, req *attach.Request) (err error) {
	if req.IPAM, err = c.IPAM.AddRanges(c.Ranges); err != nil {
		return err
	}
	if c.IPAM.Type == ipam.TypeHostLocal && c.IPAM.PoolOf == "" && c.IPAM.AddressPool == "" && len(req.IPAM.Sets) == 0 {
		return fmt.Errorf("network %s: %w: ipam has no range, and the runtime gave none (runtimeConfig.ipRanges): add a subnet", c.Name, vf.ErrInvalid)
	}
	listed := splitList(a.ip)
	if c.IPAM.Type != ipam.TypeStatic {
		req.Addresses, err = parseAddresses(c, slices.Concat(listed, c.ArgIPs, c.IPs))
		return err
	}
	asked := c.ArgIPs
	if len(c.IPs) > 0 {
		asked = c.IPs
	}
	if req.Addresses, err = parseAddresses(c, asked); err != nil || len(asked) > 0 {
		return err
	}
	more, err := parseAddresses(c, listed)
	if err != nil {
		return err
	}
	req.IPAM.Static = slices.Clone(c.IPAM.Static)
	for _, p := range more {
		req.IPAM.Static = slices.DeleteFunc(req.IPAM.Static, func(o vf.Address) bool { return o.Prefix.Addr() == p.Addr() })
		req.IPAM.Static = append(req.IPAM.Static, vf.Address{Prefix: p})
	}
	for _, text := range splitList(a.gateway) {
		gateway, err := netip.ParseAddr(text)
		if err != nil {
			return fmt.Errorf("%w CNI_ARGS: GATEWAY: %s: want an IP address, e.g. 172.16.91.1", errEnvironment, excerpt.Quote(text))
		}
		for i, o := range req.IPAM.Static {
			if o.Prefix.Masked().Contains(gateway.Unmap()) {
				req.IPAM.Static[i].Gateway = gateway.Unmap()
			}
		}
	}
	return nil
}

// splitList splits a value of CNI_ARGS at its commas.
func splitList(value string) (out []string) {
	for _, s := range strings.Split(value, ",") {
		if s = strings.TrimSpace(s); s != "" {
			out = append(out, s)
		}
	}
	return out
}

// parseAddresses parses the addresses that are asked for by name, each once. A bare address
// becomes a full-length prefix, which leaves the length to the network's
// range; the static addresses of ipam have no range. A lenient network without addresses
// has none by name either, as the SR-IOV CNI plugin does it (ignoresIPs).
func parseAddresses(c config.Config, asked []string) ([]netip.Prefix, error) {
	var out []netip.Prefix
	if ignoresIPs(c) {
		return nil, nil
	}
	for _, s := range asked {
		s = excerpt.Line(s)
		p, err := netip.ParsePrefix(s)
		if a, bare := netip.ParseAddr(s); bare == nil && c.IPAM.Type != ipam.TypeStatic && a.Zone() == "" {
			p, err = netip.PrefixFrom(a, a.BitLen()), nil
		}
		if err == nil {
			p, err = ipam.Unmap(p)
		}
		switch {
		case err != nil && c.IPAM.Type == ipam.TypeStatic:
			return nil, fmt.Errorf("requested address %q: %w: want it with its prefix length, e.g. 172.16.91.5/24", s, vf.ErrInvalid)
		case err != nil:
			return nil, fmt.Errorf("requested address %q: %w: want an IP address, e.g. 172.16.91.5", s, vf.ErrInvalid)
		case c.IPAM.IsZero():
			return nil, fmt.Errorf("requested address %q: %w: network %s has no ipam section; add one whose range has the address", s, vf.ErrInvalid, c.Name)
		}
		if !slices.ContainsFunc(out, func(o netip.Prefix) bool { return o.Addr() == p.Addr() }) || c.IPAM.Type == ipam.TypeStatic {
			out = append(out, p)
		}
	}
	return out, nil
}

// ignoresIPs reports whether addresses that are asked for by name are left out.
func ignoresIPs(c config.Config) bool { return c.Lenient && c.IPAM.IsZero() }

// wantedMAC returns the MAC address of a call's VF, nil where none is asked for. As with the SR-IOV CNI
// plugin, that of runtimeConfig counts before that of CNI_ARGS, and both before the network's. The
// plugin tuning sets that of args.cni, so another one beside it is refused.
//
// Multus passes no MAC address to a CHECK, so a CHECK by it does not compare the network's: the ADD may
// have had another one.
func (c Call) wantedMAC() (*vf.MAC, error) {
	asked := cmp.Or(c.config.MAC, c.args.mac)
	for i := range c.config.ArgMACs {
		other := &c.config.ArgMACs[i]
		if asked == nil {
			asked = other
		}
		if *asked != *other {
			return nil, fmt.Errorf("network %s: %w: MAC address %s is asked for, and args.cni asks for %s: ask for one", c.config.Name, vf.ErrInvalid, asked, other)
		}
	}
	if asked == nil && c.Command == cmdCheck && c.args.Pod != "" && c.Definition == "" && c.Claim == "" {
		return nil, nil
	}
	return cmp.Or(asked, c.config.Spec.MAC), nil
}

// warnings lists the parts of a call that may not have the effect that their author expects.
func (c Call) warnings() []string {
	out := c.config.Warnings
	if ignoresIPs(c.config) && (c.args.ip != "" || len(c.config.ArgIPs)+len(c.config.IPs) > 0) {
		out = append(slices.Clone(out), "addresses are asked for, and it has no ipam section, so the interface gets none: add one")
	}
	return out
}
