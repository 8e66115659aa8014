package doctor

import "github.com/culvert-net/culvert/internal/api"

// checkPorts reports the virtio NICs of a virtual machine of OpenStack. Their ports pass only packets
// from addresses that Neutron knows (R3). Pods have other addresses, which packets show unless the
// pod network encapsulates them. The host cannot see which addresses a port passes.
func checkPorts(e *exam) {
	if !e.Host.OpenStack {
		return
	}
	for _, n := range e.NICs {
		if n.Driver != "virtio-pci" {
			continue
		}
		object := "NIC " + n.PCI.String()
		if n.Name != "" {
			object = "NIC " + n.Name
		}
		e.addFinding(finding{
			check: "ports", severity: api.SeverityNote, object: object,
			why: "pods whose packets leave without encapsulation reach no other machine (Calico with CrossSubnet or BGP, Flannel with host-gw, bridges)",
			mend: []string{
				"openstack port set --allowed-address ip-address=SUBNET PORT    # the pods' subnet, for the port of each node",
				"or encapsulate between all nodes, for example with Calico's vxlanMode: Always",
			},
		}, "it is a port of OpenStack, which drops packets from addresses that it does not know")
	}
}
