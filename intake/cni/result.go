package cni

import (
	"bytes"
	"fmt"
	"net"
	"net/netip"
	"slices"

	"github.com/containernetworking/cni/pkg/types"
	types020 "github.com/containernetworking/cni/pkg/types/020"
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
// A VF that went to vfio-pci has no interface in the sandbox. Its entry has the sandbox,
// the admin MAC and the MTU all the same, as the SR-IOV CNI plugin's result has: Multus
// leaves interfaces without a sandbox out of the network-status, by which KubeVirt and
// DPDK programs find them.
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
			to.MTU, to.AdvMSS, to.Priority = route.MTU, route.AdvMSS, route.Priority
			to.Table, to.Scope = given(route.Table), given(route.Scope)
		}
		r.Routes = append(r.Routes, to)
	}
	if r.DNS.IsEmpty() {
		r.DNS = dns(c.DNS)
	}
	return writeResult(r, c.Version)
}

func writeResult(r *current.Result, version string) ([]byte, error) {
	var asked types.Result = &types020.Result{CNIVersion: version, DNS: r.DNS}
	if len(r.IPs) > 0 || !slices.Contains([]string{"0.1.0", "0.2.0"}, version) { // the library converts no result without addresses
		var err error
		if asked, err = r.GetAsVersion(version); err != nil {
			return nil, fmt.Errorf("result as version %s: %w", version, err)
		}
	}
	var out bytes.Buffer
	if err := asked.PrintTo(&out); err != nil {
		return nil, fmt.Errorf("write the result: %w", err)
	}
	out.WriteByte('\n')
	return out.Bytes(), nil
}

// entry is our interface. mtu and pciID came with 1.1.0. The library has room for both in
// results of 1.0.0 as well, where the SR-IOV CNI plugin reports the MTU.
func entry(rec journal.Record, netns, version string) *current.Interface {
	l := rec.Lease
	i := &current.Interface{Name: l.Wanted.Interface, Mac: l.LinkMAC.String(), Sandbox: netns, Mtu: l.MTU}
	if l.Wanted.Driver == vf.DriverVFIO {
		i.Mac = l.Effective.MAC.String()
	}
	if version == api.CNINewest {
		i.PciID = rec.PCI.String()
	}
	return i
}

// given is a number of a route that 0 stands for the default of.
func given(n int) *int {
	if n == 0 {
		return nil
	}
	return &n
}

func dns(d ipam.DNS) types.DNS {
	return types.DNS{Nameservers: d.Nameservers, Domain: d.Domain, Search: d.Search, Options: d.Options}
}

func ip(a netip.Addr) net.IP { return net.IP(a.AsSlice()) }

func ipNet(p netip.Prefix) net.IPNet {
	return net.IPNet{IP: ip(p.Addr()), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}
}
