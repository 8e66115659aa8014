package api

import (
	"time"

	"github.com/culvert-net/culvert/vf"
)

// Pod is what of a pod matters to its networks.
type Pod struct {
	Namespace, Name string
	// UID is the API object's, which of a static pod is not the one that the
	// runtime knows.
	UID string
	// Annotations are those that are about networks, and where the pod comes from.
	Annotations map[string]string
	// Power is that of the pod's containers.
	Power vf.Power
}

// String is namespace/name.
func (p Pod) String() string { return p.Namespace + "/" + p.Name }

// NetworkDefinition is a NetworkAttachmentDefinition (k8s.cni.cncf.io/v1).
type NetworkDefinition struct {
	Namespace, Name string
	Annotations     map[string]string
	// Config is spec.config: a CNI configuration or a list of them; empty for one
	// that is a file on the node, and for one that was dropped.
	Config string
	// Dropped is the size in bytes of a spec.config that culvertd did not keep because
	// it is too large (netconf.MaxText).
	Dropped int
}

// ObjectRef names an object of the cluster that an event is about.
type ObjectRef struct {
	APIVersion, Kind     string
	Namespace, Name, UID string
}

// ClusterStatus is what a cluster's objects say of its nodes.
type ClusterStatus struct {
	Cluster string    `json:"cluster"` // as the kubeconfig calls it
	Time    time.Time `json:"time"`
	// Problems are those of no single node; each node has its own.
	Problems []Problem       `json:"problems"`
	Nodes    []NodeStatus    `json:"nodes"`
	Policies []ClusterPolicy `json:"policies"`
	Networks []Network       `json:"networks"`
}

// ClusterPolicy is a NodePolicy, and how many of the nodes that it selects have
// applied it.
type ClusterPolicy struct {
	Name     string `json:"name"`
	Priority int    `json:"priority"`
	Nodes    int    `json:"nodes"`
	Applied  int    `json:"applied"`
}

// Network is a network that VFs are attached to, or that has a pool of addresses
// in the cluster.
type Network struct {
	Name   string   `json:"name"`
	VFs    int      `json:"vfs"`
	Nodes  []string `json:"nodes"` // that have its VFs or its addresses
	Owners []string `json:"owners"`
	// Addresses is how many the pool has, and Granted how many of them nodes may
	// give out; both 0 without a pool. math.MaxInt64 stands for that and more.
	Addresses int64 `json:"addresses,omitempty"`
	Granted   int64 `json:"granted,omitempty"`
}

// DaemonPod is a pod that culvertd runs in.
type DaemonPod struct {
	Namespace, Name, Node string
	Ready                 bool
	// Reason is why it is not ready, as far as it is known.
	Reason string
}
