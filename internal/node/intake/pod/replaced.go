package pod

import (
	"fmt"
	"net"
	"strings"

	current "github.com/containernetworking/cni/pkg/types/100"

	"github.com/culvert-net/culvert/internal/network/config"
	"github.com/culvert-net/culvert/internal/network/netconf"
	"github.com/culvert-net/culvert/internal/node/journal"
)

// describeReplaced returns a warning for each network with VFs that takes all traffic of the pod's
// default network, and whose configuration alone says so. It returns none if the default network
// has other routes, or if the pod's annotation decides who has the default route. It looks at IPv4
// only: an IPv6 route does not go before another one with the same priority.
func (w *wish) describeReplaced() (out []string) {
	for _, gateways := range w.gateways {
		for _, g := range gateways {
			if g.Is4() {
				return nil
			}
		}
	}
	for i, n := range w.sandbox.Networks {
		r, err := config.DecodeResult(n.Result, n.Version)
		if err != nil || i == 0 && !hasOnlyDefaultRoute(r) {
			return nil
		}
		if i == 0 || !hasVFs(n) || !goesFirst(r) {
			continue
		}
		var gateways []string
		for _, g := range defaultGateways(r) {
			if g.Is4() {
				gateways = append(gateways, g.String())
			}
		}
		out = append(out, fmt.Sprintf("network %s (%s): its route to 0.0.0.0/0 goes before the one of %s, which has no other route: the pod sends to %s all that is for other pods, Services and nodes; "+
			"to keep it on %[3]s, leave the route out of the network's ipam or give it a priority, or add routes by %[3]s to the cluster's networks; if it is meant so, ask for it with default-route in the annotation",
			n.Name, n.Interface, w.sandbox.Networks[0].Interface, strings.Join(gateways, ", ")))
	}
	return out
}

// hasOnlyDefaultRoute reports whether an interface with this result reaches other hosts by its default
// route alone. Calico gives pods an address of 32 bits, so that no subnet is on the link. A route of
// 32 bits leads to the gateway.
func hasOnlyDefaultRoute(r *current.Result) bool {
	var addresses int
	for _, ip := range r.IPs {
		if ip == nil || ip.Address.IP.To4() == nil {
			continue
		}
		if addresses++; !isWhole(ip.Address) {
			return false
		}
	}
	for _, route := range r.Routes {
		if route == nil || route.Dst.IP.To4() == nil {
			continue
		}
		if ones, _ := route.Dst.Mask.Size(); ones != 0 && !isWhole(route.Dst) {
			return false
		}
	}
	return addresses > 0
}

// isWhole reports whether a prefix has one address only.
func isWhole(n net.IPNet) bool {
	ones, bits := n.Mask.Size()
	return ones == bits
}

// goesFirst reports whether a network has an IPv4 default route of the first priority, that of the
// default network's route.
func goesFirst(r *current.Result) bool {
	for _, route := range r.Routes {
		if route == nil || route.Dst.IP.To4() == nil || route.Priority != 0 {
			continue
		}
		if ones, _ := route.Dst.Mask.Size(); ones == 0 {
			return true
		}
	}
	return false
}

// hasVFs reports whether Culvert itself serves a network, whose routes it puts before those of other
// interfaces.
func hasVFs(n journal.SandboxNetwork) bool {
	own, err := config.OwnConfigs(netconf.List{Name: n.Network, Version: n.Version, Plugins: n.Plugins})
	return err == nil && len(own) > 0
}
