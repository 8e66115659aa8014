package cni

import (
	"fmt"
	"net/netip"

	current "github.com/containernetworking/cni/pkg/types/100"

	"github.com/culvert-net/culvert/internal/network/config"
	"github.com/culvert-net/culvert/internal/node/attach"
	"github.com/culvert-net/culvert/internal/vf"
)

// findInterface returns the index of the interface of that name in that sandbox, or of
// that name without one (vfio); -1 when there is none.
func findInterface(r *current.Result, name, netns string) int {
	if r == nil {
		return -1
	}
	for i, in := range r.Interfaces {
		if in.Name == name && in.Sandbox == netns {
			return i
		}
	}
	return -1
}

// expectedRequest returns the request that CHECK hands to the engine: the
// configuration's, with the addresses that the prevResult says our interface
// has (specification, section 2, CHECK).
func expectedRequest(c config.Config, req attach.Request) (attach.Request, error) {
	i := findInterface(c.Prev, req.Spec.Interface, req.Netns)
	if i < 0 {
		i = findInterface(c.Prev, req.Spec.Interface, "")
	}
	if i < 0 {
		return req, fmt.Errorf("%w: prevResult has no interface %s in %s", errDiffers, req.Spec.Interface, req.Netns)
	}
	if in := c.Prev.Interfaces[i]; in.Mac != "" {
		mac, err := vf.ParseMAC(in.Mac)
		if err != nil {
			return req, fmt.Errorf("prevResult.interfaces[%d].mac: %w: %w", i, vf.ErrInvalid, err)
		}
		req.LinkMAC = &mac // a later plugin of the chain may have given it
	}
	for _, has := range c.Prev.IPs {
		if has.Interface == nil || *has.Interface != i {
			continue
		}
		a, _ := netip.AddrFromSlice(has.Address.IP) // config.Parse refuses a prevResult without it
		ones, _ := has.Address.Mask.Size()
		gw, _ := netip.AddrFromSlice(has.Gateway)
		req.Spec.Addresses = append(req.Spec.Addresses, vf.Address{Prefix: netip.PrefixFrom(a.Unmap(), ones), Gateway: gw.Unmap()})
	}
	return req, checkAsked(req)
}

// checkAsked checks that prevResult has each address that the request names.
func checkAsked(req attach.Request) error {
	for _, w := range req.Addresses {
		has := false
		for _, a := range req.Spec.Addresses {
			has = has || a.Prefix.Addr() == w.Addr().Unmap()
		}
		if !has {
			return fmt.Errorf("%w: address %s was asked for, and prevResult does not have it", errDiffers, w.Addr())
		}
	}
	return nil
}
