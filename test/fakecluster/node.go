package fakecluster

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/culvert-net/culvert/api/v1alpha1"
)

// MakeNode returns the NodeState of a node with so many VFs on two PFs. A pod of the network default/net
// has each second VF.
func MakeNode(number, vfs int) v1alpha1.NodeState {
	s := v1alpha1.NodeState{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("node%04d", number)}}
	s.Status.Version = "v0.1.0"
	s.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue}}
	wanted := int32(vfs / 2)
	for port := range 2 {
		s.Status.PFs = append(s.Status.PFs, v1alpha1.PFState{
			Name: fmt.Sprintf("enp1s0f%d", port), ID: fmt.Sprintf("90:e2:ba:%02x:%02x:%02x", number>>8&0xff, number&0xff, port), PCI: fmt.Sprintf("0000:01:00.%d", port),
			Vendor: "8086", Device: "1592", Driver: "ice", Carrier: true, SpeedMbps: 100000, MTU: 1500, MaxMTU: 9702, TotalVFs: 128, NumVFs: wanted, WantedVFs: &wanted, Segment: "storage",
		})
		for i := range vfs / 2 {
			v := v1alpha1.VFState{Name: fmt.Sprintf("enp1s0f%d#%d", port, i), PCI: fmt.Sprintf("0000:%02x:%02x.%d", 2+port, i>>3, i&7), Phase: "free", Pool: "culvert.dev/a"}
			if i%2 == 0 {
				v.Phase, v.Network, v.Addresses = "attached", "default/net", []string{fmt.Sprintf("10.%d.%d.%d/8", number>>8, number&0xff, port<<7|i)}
				v.Owner = &v1alpha1.Owner{Kind: "pod", Name: fmt.Sprintf("default/worker-%d-%d-%d", number, port, i), UID: fmt.Sprintf("%064x", number<<16|port<<8|i), Interface: "net1"}
			}
			s.Status.VFs = append(s.Status.VFs, v)
		}
	}
	s.Status.Pools = []v1alpha1.PoolState{{Name: "culvert.dev/a", DeviceType: "netdevice", VFs: int32(vfs), Free: int32(vfs / 2), PFs: []string{"enp1s0f0", "enp1s0f1"}}}
	s.Status.Policies = []v1alpha1.PolicyState{{Name: "all", Applied: true}}
	return s
}
