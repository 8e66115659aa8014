package netannotation

import (
	"encoding/json"

	"github.com/culvert-net/culvert/internal/vf"
)

// Annotations of pods and of network attachment definitions.
const (
	// Networks asks for networks beside the default one.
	Networks = "k8s.v1.cni.cncf.io/networks"
	// DefaultNetwork asks for another default network, in the same format: one
	// element.
	DefaultNetwork = "v1.multus-cni.io/default-network"
	// Status is the annotation in which the outcome is written.
	Status = "k8s.v1.cni.cncf.io/network-status"
	// ResourceName, on a network attachment definition, names the resource that
	// its pods have to request.
	ResourceName = "k8s.v1.cni.cncf.io/resourceName"
	// NodeSelector, on a network attachment definition, is a label that the nodes of its pods
	// have to have: key=value.
	NodeSelector = "k8s.v1.cni.cncf.io/nodeSelector"
	// Namespaces, on a network attachment definition, lists the other namespaces whose pods
	// may use it where namespaces are isolated: names separated by commas, or * for all.
	Namespaces = "culvert.dev/namespaces"
	// KeepAddress of a pod is for how long its addresses are kept for a pod of its name after
	// it has ended, such as 24h.
	KeepAddress = "culvert.dev/keep-address"
	// Confirmed of a pod has a Confirmation. The ValidatingAdmissionPolicy culvert-confirmations
	// keeps every credential but culvertd's from adding or changing it.
	Confirmed = "culvert.dev/confirmed"
)

// DefaultNamespace is where DefaultNetwork looks for a network that it names without a
// namespace, as Multus does.
const DefaultNamespace = "kube-system"

// Element is one attachment that a pod asks for.
type Element struct {
	Name string
	// Namespace of the network attachment definition; the pod's own unless the
	// annotation names another.
	Namespace string
	// Interface is the name in the pod; empty leaves it to the meta plugin: net1,
	// net2 and so on.
	Interface string
	MAC       *vf.MAC
	// IPs as they are written: addresses, with or without a prefix length.
	IPs []string
	// DefaultRoute are gateways: the pod's default route goes over this network. An empty
	// list stands for the network's own gateways; nil leaves the default route alone.
	DefaultRoute []string
	// DeviceID is the PCI address of the VF that the network should have.
	DeviceID       string
	PortMappings   []PortMapping
	Bandwidth      *Bandwidth
	InfinibandGUID string
	// CNIArgs are handed to the plugins as args.cni. The values are JSON.
	CNIArgs map[string]json.RawMessage
	// ForEveryPod is set for a network of EveryPod, which pods of every namespace may use.
	ForEveryPod bool
	// Ignored has a message for each key that is ignored, since it is not of the format.
	Ignored []string
}

// String returns namespace/name, with @interface where the element names one.
func (e Element) String() string {
	s := e.Namespace + "/" + e.Name
	if e.Interface != "" {
		s += "@" + e.Interface
	}
	return s
}

// PortMapping is one of the CNI capability portMappings.
type PortMapping struct {
	HostPort      int    `json:"hostPort"`
	ContainerPort int    `json:"containerPort"`
	Protocol      string `json:"protocol,omitempty"`
	HostIP        string `json:"hostIP,omitempty"`
}

// Bandwidth is the CNI capability bandwidth: rates in bit/s, bursts in bits.
type Bandwidth struct {
	IngressRate  int `json:"ingressRate,omitempty"`
	IngressBurst int `json:"ingressBurst,omitempty"`
	EgressRate   int `json:"egressRate,omitempty"`
	EgressBurst  int `json:"egressBurst,omitempty"`
}
