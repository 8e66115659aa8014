package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// NodeState is what culvertd sees on its node and what it asks the controller for. It has the node's name; culvertd alone
// writes it, at most every few seconds.
//
// +kubebuilder:object:root=true
// +kubebuilder:metadata:annotations="helm.sh/resource-policy=keep"
// +kubebuilder:resource:scope=Cluster,shortName=cns,categories=culvert
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Policies",type=string,JSONPath=`.status.conditions[?(@.type=="PoliciesApplied")].status`
// +kubebuilder:printcolumn:name="PFs",type=integer,JSONPath=`.status.counts.pfs`
// +kubebuilder:printcolumn:name="VFs",type=integer,JSONPath=`.status.counts.vfs`
// +kubebuilder:printcolumn:name="Used",type=integer,JSONPath=`.status.counts.used`
// +kubebuilder:printcolumn:name="Free",type=integer,JSONPath=`.status.counts.free`
// +kubebuilder:printcolumn:name="Quarantined",type=integer,JSONPath=`.status.counts.quarantined`
// +kubebuilder:printcolumn:name="Addresses Owned",type=string,JSONPath=`.status.conditions[?(@.type=="AddressesOwned")].status`,priority=1
// +kubebuilder:printcolumn:name="Version",type=string,JSONPath=`.status.version`,priority=1
// +kubebuilder:printcolumn:name="Problem",type=string,JSONPath=`.status.problems[0].reason`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type NodeState struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +optional
	Status NodeStateStatus `json:"status,omitzero"`
}

// Conditions of a NodeState.
const (
	// ConditionReady: culvertd serves attachments.
	ConditionReady = "Ready"
	// ConditionPoliciesApplied: what the policies want of this node is there.
	ConditionPoliciesApplied = "PoliciesApplied"
	// ConditionAddresses: the node has, or was given, the addresses it holds. It is False when an address that a pod
	// of the node has is another node's, or when culvertd cannot read an address of its ledger.
	ConditionAddresses = "AddressesOwned"
	// ConditionDevicePluginConfig: the SR-IOV network device plugin's ConfigMap could be read, so its pools are the node's.
	// While it is False they are those of the last that could. Without a ConfigMap there is no such condition.
	ConditionDevicePluginConfig = "DevicePluginConfigRead"
)

// NodeStateStatus is all that culvertd tells the cluster.
type NodeStateStatus struct {
	// Of culvertd.
	// +optional
	Version string `json:"version,omitempty"`
	// Of the Node object that culvertd runs for. Blocks of addresses belong to it.
	// +optional
	NodeUID string `json:"nodeUID,omitempty"`
	// How many there are of everything.
	// +optional
	Counts Counts `json:"counts"`
	// +optional
	// +listType=map
	// +listMapKey=name
	PFs []PFState `json:"pfs,omitempty"`
	// +optional
	// +listType=map
	// +listMapKey=name
	VFs []VFState `json:"vfs,omitempty"`
	// +optional
	// +listType=map
	// +listMapKey=name
	Pools []PoolState `json:"pools,omitempty"`
	// What is not as it should be; at most 32 of them.
	// +optional
	// +listType=atomic
	Problems []Problem `json:"problems,omitempty"`
	// The policies that select the node, in the order in which they are followed.
	// +optional
	// +listType=map
	// +listMapKey=name
	Policies []PolicyState `json:"policies,omitempty"`
	// What the node needs of the clusters' addresses. The controller answers in the AddressPools.
	// +optional
	// +listType=atomic
	AddressRequests []AddressRequest `json:"addressRequests,omitempty"`
	// How many addresses of the node's ledger culvertd cannot read. While there are any, the requests are not complete
	// and the controller takes no address back from the node.
	// +optional
	AddressesUnread int32 `json:"addressesUnread,omitempty"`
	// The IDs of the roll calls that the node has read in AddressPools before it wrote the requests: these claim every
	// address that the node holds and that is in no block of its own.
	// +optional
	// +listType=set
	RollCalls []string `json:"rollCalls,omitempty"`
	// Ready, PoliciesApplied, AddressesOwned and DevicePluginConfigRead.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// Counts are numbers of PFs and VFs.
type Counts struct {
	PFs         int32 `json:"pfs"`
	VFs         int32 `json:"vfs"`
	Used        int32 `json:"used"`
	Free        int32 `json:"free"`
	Quarantined int32 `json:"quarantined"`
}

// PFState is a Physical Function.
type PFState struct {
	// The netdevice, or the PCI address of a PF that has none.
	Name string `json:"name"`
	// The permanent MAC address.
	ID     string `json:"id"`
	PCI    string `json:"pciAddress"`
	Vendor string `json:"vendor"`
	Device string `json:"device"`
	Driver string `json:"driver"`
	// -1: unknown or none.
	NUMA int32 `json:"numaNode"`
	// Whether its link is up.
	Carrier bool `json:"carrier"`
	// 0: unknown or no link.
	SpeedMbps int32 `json:"speedMbps"`
	MTU       int32 `json:"mtu"`
	// 0: unknown.
	MaxMTU int32 `json:"maxMTU"`
	// How many VFs it can have, is wanted to have and has. Nothing is wanted of a PF that is left alone.
	TotalVFs  int32  `json:"totalVFs"`
	WantedVFs *int32 `json:"wantedVFs,omitempty"`
	NumVFs    int32  `json:"numVFs"`
	// Settings of a VF that the driver has not; the others it has, or nobody has asked yet.
	// +optional
	// +listType=set
	Unable []string `json:"unable,omitempty"`
	// What could not be read.
	// +optional
	Error string `json:"error,omitempty"`
}

// VFState is a Virtual Function.
type VFState struct {
	// PF#index.
	Name string `json:"name"`
	PCI  string `json:"pciAddress"`
	// making, free, configuring, attached, releasing, quarantined, given (by the kubelet to a pod, and not attached
	// by a network), unmanaged (not in the ledger) or missing (in the ledger, and not on the bus).
	Phase string `json:"phase"`
	// +optional
	Pool string `json:"pool,omitempty"`
	// +optional
	Owner *Owner `json:"owner,omitempty"`
	// +optional
	Network string `json:"network,omitempty"`
	// With their prefix lengths.
	// +optional
	// +listType=atomic
	Addresses []string `json:"addresses,omitempty"`
	// Why it is in quarantine.
	// +optional
	Reason string `json:"reason,omitempty"`
}

// Owner is who has a VF.
type Owner struct {
	// pod, container, vm, host.
	Kind string `json:"kind"`
	// namespace/name of a pod.
	// +optional
	Name string `json:"name,omitempty"`
	// Of a pod: its sandbox.
	// +optional
	UID string `json:"uid,omitempty"`
	// The VF's name there.
	// +optional
	Interface string `json:"interface,omitempty"`
}

// PoolState is a pool of the node.
type PoolState struct {
	// prefix/name: the resource that pods ask for.
	Name       string `json:"name"`
	DeviceType string `json:"deviceType"`
	// Why the node gives out nothing under this name; empty for a pool that is served.
	// +optional
	Unserved string `json:"unserved,omitempty"`
	VFs      int32  `json:"vfs"`
	Free     int32  `json:"free"`
	// PFs whose VFs are in the pool.
	// +optional
	// +listType=atomic
	PFs []string `json:"pfs,omitempty"`
}

// Problem is one thing that is not as it should be.
type Problem struct {
	Object string `json:"object"`
	Reason string `json:"reason"`
	// What mends it.
	// +optional
	Next string `json:"next,omitempty"`
}

// PolicyState is what became of a policy on the node.
type PolicyState struct {
	// Of the NodePolicy.
	Name string `json:"name"`
	// The generation that was read.
	Generation int64 `json:"generation"`
	// Whether everything that it says about this node is done.
	Applied bool `json:"applied"`
	// The policies of the same priority that contradict it.
	// +optional
	// +listType=atomic
	Conflicts []string `json:"conflicts,omitempty"`
	// Why it is not applied.
	// +optional
	Reason string `json:"reason,omitempty"`
}

// AddressRequest is what a node needs of the addresses of one range set of a network.
type AddressRequest struct {
	// The network's name, which is that of its configuration.
	Network string `json:"network"`
	// The pool that has the addresses: namespace/name of a NetworkAttachmentDefinition, or the network's name where a
	// file on the nodes has its configuration. Earlier versions of culvertd leave it out: their requests are of the pool
	// that has the network's name, and only what they have stays granted.
	// +optional
	Pool string `json:"pool,omitempty"`
	// What may be given out: without gateways, network and broadcast addresses and what the network excludes.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=2048
	Ranges []AddressRange `json:"ranges,omitempty"`
	// How many addresses attachments of the node hold and wait for.
	Used int64 `json:"used"`
	// Addresses that must be this very node's: those that were asked for by name, and those that were held before the
	// cluster gave out blocks.
	// +optional
	// +listType=atomic
	Claims []AddressClaim `json:"claims,omitempty"`
	// Addresses that attachments of the node hold and that had to be unique on the node only (scope node). While the
	// network keeps that scope they mean nothing; when it becomes the cluster's, no node is granted them.
	// +optional
	// +listType=atomic
	NodeScope []AddressRange `json:"nodeScope,omitempty"`
}

// AddressRange is a run of addresses, both ends included.
type AddressRange struct {
	First string `json:"first"`
	Last  string `json:"last"`
}

// AddressClaim is a single address and the claim on it. An ID is never used again after it was left out of the requests.
type AddressClaim struct {
	Address string `json:"address"`
	ID      string `json:"id"`
	// Whether an attachment holds the address; otherwise one waits for it.
	// +optional
	Held bool `json:"held,omitempty"`
}

// NodeStateList is a list of nodes' states.
//
// +kubebuilder:object:root=true
type NodeStateList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []NodeState `json:"items"`
}
