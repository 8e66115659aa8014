package pod

import (
	"fmt"
	"net/netip"
	"slices"

	current "github.com/containernetworking/cni/pkg/types/100"

	"github.com/culvert-net/culvert/internal/network/config"
	"github.com/culvert-net/culvert/internal/vf"
)

// addDefaultRoute records the default-route of an element of the annotation, whose network gets the
// index. Nil asks for no default route, an empty list for the gateways that the network itself
// names.
func (w *wish) addDefaultRoute(index int, asked []string) error {
	if asked != nil && len(asked) == 0 {
		w.ownGateways = append(w.ownGateways, index)
	}
	for _, s := range asked {
		gateway, err := netip.ParseAddr(s)
		if err != nil {
			return fmt.Errorf("default-route %.60q: %w: want an address", s, vf.ErrInvalid)
		}
		if other, taken := w.routedOver(gateway, index); taken {
			return fmt.Errorf("default-route %s: %w: network %s has one already", s, vf.ErrInvalid, w.sandbox.Networks[other].Name)
		}
		w.gateways[index] = append(w.gateways[index], gateway.Unmap())
	}
	return nil
}

// routedOver returns the index of another network than the given one that has the default route of
// a gateway's address family.
func (w *wish) routedOver(gateway netip.Addr, index int) (other int, taken bool) {
	for i, gateways := range w.gateways {
		for _, g := range gateways {
			if i != index && g.Is4() == gateway.Unmap().Is4() {
				return i, true
			}
		}
	}
	return 0, false
}

// findOwnGateways reads the gateways of the networks whose default-route is an empty list
// from their results. A family that the annotation sends over another network stays there.
func (w *wish) findOwnGateways() error {
	for _, i := range w.ownGateways {
		n := w.sandbox.Networks[i]
		r, err := config.DecodeResult(n.Result, n.Version)
		if err != nil {
			return fmt.Errorf("network %s (%s): result of version %s: %w: %w", n.Name, n.Interface, n.Version, vf.ErrInvalid, err)
		}
		found := ownGateways(r)
		if len(found) == 0 {
			w.ignored = append(w.ignored, fmt.Sprintf("network %s: default-route is an empty list, and the network has no gateway of its own: name one", n.Name))
		}
		for _, g := range found {
			if _, taken := w.routedOver(g, i); !taken && !slices.Contains(w.gateways[i], g) {
				w.gateways[i] = append(w.gateways[i], g)
			}
		}
	}
	return nil
}

// ownGateways returns the gateways of a result's default routes, or those of its addresses
// where it has no default route.
func ownGateways(r *current.Result) []netip.Addr {
	if found := defaultGateways(r); len(found) > 0 {
		return found
	}
	return addressGateways(r)
}

// addressGateways returns the gateways of a result's addresses.
func addressGateways(r *current.Result) (out []netip.Addr) {
	for _, ip := range r.IPs {
		if ip == nil {
			continue
		}
		if a, ok := netip.AddrFromSlice(ip.Gateway); ok {
			out = append(out, a.Unmap())
		}
	}
	return out
}

// defaultGateways returns the gateways of a result's default routes. A route that names none goes over
// those of the addresses of its family, as the CNI project's plugins set it.
func defaultGateways(r *current.Result) (out []netip.Addr) {
	for _, route := range r.Routes {
		if route == nil || route.Dst.IP == nil || !route.Dst.IP.IsUnspecified() {
			continue
		}
		if ones, _ := route.Dst.Mask.Size(); ones != 0 {
			continue
		}
		gateways := addressGateways(r)
		if gateway, ok := netip.AddrFromSlice(route.GW); ok {
			gateways = []netip.Addr{gateway.Unmap()}
		}
		for _, g := range gateways {
			if g.Is4() == (route.Dst.IP.To4() != nil) && !slices.Contains(out, g) {
				out = append(out, g)
			}
		}
	}
	return out
}
