package api

import (
	"time"

	"github.com/culvert-net/culvert/internal/vf"
)

// Pod has the parts of a pod that matter to its networks.
type Pod struct {
	Namespace, Name string
	// UID is the UID of the API object. For a static pod, the runtime has another UID.
	UID string
	// Annotations are the annotations about networks and about the pod's source.
	Annotations map[string]string
	// Power is the power of the pod's containers.
	Power vf.Power
	// Claims are the names of the pod's ResourceClaims, which are in its namespace: those of its spec in
	// their order, then the claim for its extended resources.
	Claims []string
}

// String is namespace/name.
func (p Pod) String() string { return p.Namespace + "/" + p.Name }

// NetworkDefinition is a NetworkAttachmentDefinition (k8s.cni.cncf.io/v1).
type NetworkDefinition struct {
	Namespace, Name string
	Annotations     map[string]string
	// Config is spec.config: a CNI configuration or a list of them; empty if the configuration is a
	// file on the node, or was dropped.
	Config string
	// Dropped is the size in bytes of a spec.config that culvertd did not keep because
	// it is too large (netconf.MaxText).
	Dropped int
	// UID and Version are metadata.uid and metadata.resourceVersion: two definitions with the same
	// ones have the same content. They are empty for a definition that the API server does not have.
	UID, Version string
}

// ObjectRef names an object of the cluster that an event is about.
type ObjectRef struct {
	APIVersion, Kind     string
	Namespace, Name, UID string
}

// ClusterStatus is the status of a cluster's nodes, as far as the cluster's objects show it.
type ClusterStatus struct {
	Cluster string    `json:"cluster"` // its name in the kubeconfig
	Time    time.Time `json:"time"`
	// Problems are the problems that concern no single node; each node has its own list.
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
	Nodes  []string `json:"nodes"` // nodes that have its VFs or its addresses
	Owners []string `json:"owners"`
	// Addresses is how many the pool has, and Granted how many of them nodes may
	// give out; both 0 without a pool. math.MaxInt64 stands for that number or more.
	Addresses int64 `json:"addresses,omitempty"`
	Granted   int64 `json:"granted,omitempty"`
}

// DaemonPod is a pod that culvertd runs in.
type DaemonPod struct {
	Namespace, Name, Node string
	Ready                 bool
	// Reason is the reason why the pod is not ready, if it is known.
	Reason string
}

// ResourceClaim has the parts of a ResourceClaim (resource.k8s.io/v1) that matter to its devices.
type ResourceClaim struct {
	Namespace, Name, UID string
	// PodClaim is the name of the claim in its pod if a ResourceClaimTemplate made it; empty for others.
	PodClaim string
	// Pods are the pods for which the claim is reserved. They are in the claim's namespace.
	Pods []ClaimPod
	// Allocated says that the scheduler has allocated the claim. Results and Configs are empty if it
	// has not.
	Allocated bool
	Results   []ClaimResult
	Configs   []ClaimConfig
}

// String is namespace/name.
func (c ResourceClaim) String() string { return c.Namespace + "/" + c.Name }

// ClaimPod is a pod for which a ResourceClaim is reserved.
type ClaimPod struct{ Name, UID string }

// ClaimResult is one device that was allocated to a ResourceClaim.
type ClaimResult struct {
	// Request is REQUEST, or REQUEST/SUBREQUEST of a prioritised list.
	Request              string
	Driver, Pool, Device string
	// AdminAccess says that the device was allocated for administration, beside its owner.
	AdminAccess bool
	// ShareID is the part of a device that several claims share; empty for a whole device.
	ShareID string
}

// ClaimedDevice is a device that the kubelet has had prepared for a pod.
type ClaimedDevice struct {
	// Claim is the name of the ResourceClaim, which is in the pod's namespace.
	Claim string
	// Driver prepared the device, which has the name Device in the driver's pool Pool.
	Driver, Pool, Device string
}

// ClaimDevice is a device of a ResourceClaim as its status shows it.
type ClaimDevice struct {
	// Pool and Device name it in a ResourceSlice.
	Pool, Device string
	// Ready is whether its pod can use it. Reason is one word, and Since when that began.
	Ready           bool
	Reason, Message string
	Since           time.Time
	// Interface, MAC and Addresses (with their prefix lengths) are those in the pod. They are empty for a
	// device that no network has.
	Interface, MAC string
	Addresses      []string
	// Clean says whether the device was as its driver made it when the claim got it.
	Clean ClaimCondition
	Data  ClaimDeviceData
}

// ClaimCondition is the value of a condition of a ClaimDevice. Status is True, False or Unknown.
type ClaimCondition struct {
	Status, Reason, Message string
	Since                   time.Time
}

// ClaimDeviceData is the data of a ClaimDevice that only Culvert has.
type ClaimDeviceData struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	// Network is namespace/name of the NetworkAttachmentDefinition, or namespace/claim:name where a claim
	// makes its network.
	Network string `json:"network,omitempty"`
	MAC     string `json:"mac,omitempty"`
	VLAN    uint16 `json:"vlan,omitempty"`
	// Pool is the full name of the pool of VFs, and PCI the address of the VF.
	Pool string `json:"pool,omitempty"`
	PCI  string `json:"pciAddress,omitempty"`
	// Readback is the proof that the VF is clean; nil: it is not on record.
	Readback *ClaimReadback `json:"readback,omitempty"`
}

// ClaimReadback is a vf.Readback for the next owner, who may be another tenant.
type ClaimReadback struct {
	Time time.Time `json:"time"`
	// Attributes is how many attributes were compared, and Changed the names of those that were not equal
	// before the reset. More is how many more those are. Unknown says why there may be others.
	Attributes int      `json:"attributes"`
	Changed    []string `json:"changed,omitempty"`
	More       int      `json:"more,omitempty"`
	Unknown    string   `json:"unknown,omitempty"`
}

// ClaimConfig is an opaque configuration of devices in a ResourceClaim or its DeviceClass.
type ClaimConfig struct {
	// Source is FromClass or FromClaim.
	Source string
	// Requests are the requests that the configuration is for; empty: all. A name without a
	// subrequest is for each of its subrequests.
	Requests []string
	Driver   string
	// Parameters are the JSON of the configuration.
	Parameters []byte
}

// Sources of a ClaimConfig (k8s.io/api/resource/v1, AllocationConfigSource).
const (
	FromClass = "FromClass"
	FromClaim = "FromClaim"
)
