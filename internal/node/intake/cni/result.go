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

	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/network/config"
	"github.com/culvert-net/culvert/internal/network/ipam"
	"github.com/culvert-net/culvert/internal/node/journal"
	"github.com/culvert-net/culvert/internal/vf"
)

// formatResult writes the CNI result of an attachment in the configuration's version
// (specification, section 5): the result of the plugins before this one, and after it Culvert's
// interface, addresses and routes.
//
// A VF that went to vfio-pci has no interface in the sandbox. Its entry nevertheless has the
// sandbox, the admin MAC and the MTU, like the SR-IOV CNI plugin's result: Multus leaves
// interfaces without a sandbox out of the network-status, by which KubeVirt and DPDK programs
// find them.
func formatResult(c config.Config, rec journal.Record, netns string) ([]byte, error) {
	return formatLease(c, rec.Lease, interfaceEntry(rec, netns, c.Version))
}

// formatLease writes the CNI result of an attachment with these interfaces, of which the first
// has the lease's addresses.
func formatLease(c config.Config, lease journal.Lease, entries ...*current.Interface) ([]byte, error) {
	r := &current.Result{CNIVersion: api.CNINewest}
	if c.Prev != nil {
		r = c.Prev
	}
	index := len(r.Interfaces)
	r.Interfaces = append(r.Interfaces, entries...)
	for _, a := range lease.Wanted.Addresses {
		r.IPs = append(r.IPs, &current.IPConfig{Interface: &index, Address: ipNet(a.Prefix), Gateway: toIP(a.Gateway)})
	}
	for _, route := range lease.Wanted.Routes {
		to := &types.Route{Dst: ipNet(route.Dst), GW: toIP(route.Gateway)}
		if c.Version == api.CNINewest {
			to.MTU, to.AdvMSS, to.Priority = route.MTU, route.AdvMSS, route.Priority
			to.Table, to.Scope = optionalInt(route.Table), optionalInt(route.Scope)
		}
		r.Routes = append(r.Routes, to)
	}
	if r.DNS.IsEmpty() {
		r.DNS = dnsResult(c.DNS)
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

// interfaceEntry returns the entry of Culvert's interface. mtu and pciID came with 1.1.0. The
// library has room for both in results of 1.0.0 as well, where the SR-IOV CNI plugin reports
// the MTU.
func interfaceEntry(rec journal.Record, netns, version string) *current.Interface {
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

// optionalInt returns a number of a route, nil for 0, which stands for the default.
func optionalInt(n int) *int {
	if n == 0 {
		return nil
	}
	return &n
}

func dnsResult(d ipam.DNS) types.DNS {
	return types.DNS{Nameservers: d.Nameservers, Domain: d.Domain, Search: d.Search, Options: d.Options}
}

func toIP(a netip.Addr) net.IP { return net.IP(a.AsSlice()) }

func ipNet(p netip.Prefix) net.IPNet {
	return net.IPNet{IP: toIP(p.Addr()), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}
}
