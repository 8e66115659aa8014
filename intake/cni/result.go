package cni

import (
	"bytes"
	"fmt"
	"net"
	"net/netip"

	"github.com/containernetworking/cni/pkg/types"
	current "github.com/containernetworking/cni/pkg/types/100"

	"github.com/culvert-net/culvert/api"
	"github.com/culvert-net/culvert/ipam"
	"github.com/culvert-net/culvert/journal"
	"github.com/culvert-net/culvert/vf"
)

// result writes the CNI result of an attachment in the configuration's
// version (specification, section 5): what the plugins before this one made, and
// our interface, addresses and routes after it.
//
// A VF that went to vfio-pci has no interface in the sandbox: its entry has no
// sandbox, the admin MAC, and (1.1.0) the PCI address as pciID.
func result(c Config, rec journal.Record, netns string) ([]byte, error) {
	r := &current.Result{CNIVersion: api.CNINewest}
	if c.Prev != nil {
		r = c.Prev
	}
	index := len(r.Interfaces)
	r.Interfaces = append(r.Interfaces, entry(rec, netns, c.Version))
	for _, a := range rec.Lease.Wanted.Addresses {
		r.IPs = append(r.IPs, &current.IPConfig{Interface: &index, Address: ipNet(a.Prefix), Gateway: ip(a.Gateway)})
	}
	for _, route := range rec.Lease.Wanted.Routes {
		to := &types.Route{Dst: ipNet(route.Dst), GW: ip(route.Gateway)}
		if c.Version == api.CNINewest {
			to.MTU, to.Priority = route.MTU, route.Priority
		}
		r.Routes = append(r.Routes, to)
	}
	if r.DNS.IsEmpty() {
		r.DNS = dns(c.DNS)
	}
	asked, err := r.GetAsVersion(c.Version)
	if err != nil {
		return nil, fmt.Errorf("result as version %s: %w", c.Version, err)
	}
	var out bytes.Buffer
	if err := asked.PrintTo(&out); err != nil {
		return nil, fmt.Errorf("write the result: %w", err)
	}
	out.WriteByte('\n')
	return out.Bytes(), nil
}

// entry is our interface. mtu and pciID came with 1.1.0; the library's types are
// the same for every version and would write them always.
func entry(rec journal.Record, netns, version string) *current.Interface {
	l := rec.Lease
	i := &current.Interface{Name: l.Wanted.Interface, Mac: l.LinkMAC.String(), Sandbox: netns}
	if l.Wanted.Driver == vf.DriverVFIO {
		i.Mac, i.Sandbox = l.Effective.MAC.String(), ""
	}
	if version == api.CNINewest {
		i.Mtu, i.PciID = l.MTU, rec.PCI.String()
	}
	return i
}

func dns(d ipam.DNS) types.DNS {
	return types.DNS{Nameservers: d.Nameservers, Domain: d.Domain, Search: d.Search, Options: d.Options}
}

func ip(a netip.Addr) net.IP { return net.IP(a.AsSlice()) }

func ipNet(p netip.Prefix) net.IPNet {
	return net.IPNet{IP: ip(p.Addr()), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}
}
