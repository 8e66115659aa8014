package doctor

import (
	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/vf"
)

// isPort reports whether a NIC is a port of OpenStack that passes only packets from addresses that
// Neutron knows (R3). Pods have other addresses, which packets show unless the pod network
// encapsulates them. The host cannot see which addresses a port passes.
func isPort(n vf.NIC, f Facts) bool { return f.Host.OpenStack && n.Driver == "virtio-pci" }

// warnOfPort returns the finding about a port, without its text.
func warnOfPort(object string) finding {
	return finding{
		check: "ports", severity: api.SeverityNote, object: object,
		why: "pods whose packets leave without encapsulation reach no other machine (Calico with CrossSubnet or BGP, Flannel with host-gw, bridges)",
		mend: []string{
			"openstack port set --allowed-address ip-address=SUBNET PORT    # the pods' subnet, for the port of each node",
			"or encapsulate between all nodes, for example with Calico's vxlanMode: Always",
		},
	}
}
