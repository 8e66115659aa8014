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
	// ConditionPoliciesApplied: the node follows its policies.
	ConditionPoliciesApplied = "PoliciesApplied"
	// ConditionAddresses: the node has, or was given, the addresses it holds. It is False when an address that a pod
	// of the node has is another node's, or when culvertd cannot read an address of its ledger.
	ConditionAddresses = "AddressesOwned"
	// ConditionDevicePluginConfig: culvertd could read the SR-IOV network device plugin's ConfigMap, so the node has its
	// pools. While it is False the pools are those of the last readable one. Without a ConfigMap there is no such condition.
	ConditionDevicePluginConfig = "DevicePluginConfigRead"
)

// NodeStateStatus is culvertd's report to the cluster.
type NodeStateStatus struct {
	// The version of culvertd.
	// +optional
	Version string `json:"version,omitempty"`
	// The UID of culvertd's Node object. Blocks of addresses belong to that object.
	// +optional
	NodeUID string `json:"nodeUID,omitempty"`
	// The time by the node's clock before which culvertd read the rest. The state has every attachment of an earlier time.
	// Earlier versions of culvertd leave it out.
	// +optional
	Observed *metav1.MicroTime `json:"observed,omitempty"`
	// Numbers of PFs and VFs.
	// +optional
	Counts Counts `json:"counts"`
	// The PFs of the node.
	// +optional
	// +listType=map
	// +listMapKey=name
	PFs []PFState `json:"pfs,omitempty"`
	// The VFs of the node.
	// +optional
	// +listType=map
	// +listMapKey=name
	VFs []VFState `json:"vfs,omitempty"`
	// The pools of the node.
	// +optional
	// +listType=map
	// +listMapKey=name
	Pools []PoolState `json:"pools,omitempty"`
	// Problems of the node; at most 32.
	// +optional
	// +listType=atomic
	Problems []Problem `json:"problems,omitempty"`
	// Settings of networks in use that Culvert accepted and that are probably mistakes; at most 16.
	// +optional
	// +listType=atomic
	NetworkWarnings []NetworkWarning `json:"networkWarnings,omitempty"`
	// Services (namespace/name) to which the node does not balance connections of its pods. Their namespaces use more
	// than their share of the node's rules and backends. It has the first 8 of a namespace, at most 64.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=64
	ServicesWithoutRoom []string `json:"servicesWithoutRoom,omitempty"`
	// The policies that select the node, the first of which takes precedence.
	// +optional
	// +listType=map
	// +listMapKey=name
	Policies []PolicyState `json:"policies,omitempty"`
	// The node's requests for addresses of the cluster. The controller answers in the AddressPools.
	// +optional
	// +listType=atomic
	AddressRequests []AddressRequest `json:"addressRequests,omitempty"`
	// The number of addresses of the node's ledger that culvertd cannot read. While there are any, the requests are not complete
	// and the controller takes no address back from the node.
	// +optional
	AddressesUnread int32 `json:"addressesUnread,omitempty"`
	// The IDs of the roll calls that the node has read in AddressPools before it wrote the requests. The requests claim
	// every address that the node holds and that is in no block of its own.
	// +optional
	// +listType=set
	RollCalls []string `json:"rollCalls,omitempty"`
	// Those of the roll calls that reached the node in an AddressPool no newer than one that it had read before: the API server was
	// restored from a backup.
	// +optional
	// +listType=set
	RollCallsBehind []string `json:"rollCallsBehind,omitempty"`
	// Ready, PoliciesApplied, AddressesOwned and DevicePluginConfigRead.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// Counts are numbers of PFs and VFs.
type Counts struct {
	// The number of PFs.
	PFs int32 `json:"pfs"`
	// The number of VFs of all PFs.
	VFs int32 `json:"vfs"`
	// The number of VFs that have an owner.
	Used int32 `json:"used"`
	// The number of VFs that an owner can get.
	Free int32 `json:"free"`
	// The number of VFs in quarantine.
	Quarantined int32 `json:"quarantined"`
}

// PFState is a Physical Function.
type PFState struct {
	// The netdevice, or the PCI address of a PF that has none.
	Name string `json:"name"`
	// The alternative names of the netdevice, 16 at most. Selectors match them as they match the name.
	// +optional
	// +listType=set
	AltNames []string `json:"altNames,omitempty"`
	// The permanent MAC address.
	ID string `json:"id"`
	// For example 0000:3b:00.0.
	PCI string `json:"pciAddress"`
	// The vendor ID, four hexadecimal digits.
	Vendor string `json:"vendor"`
	// The device ID, four hexadecimal digits.
	Device string `json:"device"`
	// The driver that is bound to the PF.
	Driver string `json:"driver"`
	// The NUMA node; -1: unknown or none.
	NUMA int32 `json:"numaNode"`
	// Whether its link is up. False while it is flapping, so that not each change of the link is written.
	Carrier bool `json:"carrier"`
	// Whether its link lost its carrier five times or more within a minute, and has not been steady for a minute
	// since. The kubelet gives no VF of it to a pod until then.
	// +optional
	Flapping bool `json:"flapping,omitempty"`
	// The kinds of the errors that the PF and its VFs had within the last ten minutes. PCIe: errors that PCIe does not
	// correct. TransmitQueue: a queue did not send in time.
	// +optional
	// +listType=set
	Faults []string `json:"faults,omitempty"`
	// The speed of the link; 0: unknown or no link.
	SpeedMbps int32 `json:"speedMbps"`
	// The present MTU in bytes.
	MTU int32 `json:"mtu"`
	// The largest MTU that the driver allows; 0: unknown.
	MaxMTU int32 `json:"maxMTU"`
	// The number of VFs that it can have.
	TotalVFs int32 `json:"totalVFs"`
	// The number of VFs that it should have. It is unset if no rule selects the PF.
	WantedVFs *int32 `json:"wantedVFs,omitempty"`
	// The number of VFs that it has.
	NumVFs int32 `json:"numVFs"`
	// The interface of the host of which the PF is a member, as a bond.
	// +optional
	Master *PFMaster `json:"master,omitempty"`
	// The name of the L2 segment that it is on, where a policy or host.yaml gives it one.
	// +optional
	Segment string `json:"segment,omitempty"`
	// Whether it has an RDMA device.
	// +optional
	RDMA bool `json:"rdma,omitempty"`
	// Settings of a VF that the driver does not have. It has the others, or culvertd has not asked for them yet.
	// +optional
	// +listType=set
	Unable []string `json:"unable,omitempty"`
	// The error, when culvertd could not read the PF.
	// +optional
	Error string `json:"error,omitempty"`
}

// PFMaster is an interface of the host that has PFs as members. It does not have the active member of a bond, because
// then every fail-over would change the NodeState.
type PFMaster struct {
	// The name of the interface.
	Name string `json:"name"`
	// The kernel's name of its kind: bond, team, bridge and others.
	// +optional
	Kind string `json:"kind,omitempty"`
	// The mode of a bond by its name in the kernel.
	// +optional
	Mode string `json:"mode,omitempty"`
}

// VFState is a Virtual Function.
type VFState struct {
	// PF#index.
	Name string `json:"name"`
	// For example 0000:3b:02.1.
	PCI string `json:"pciAddress"`
	// making, free, prepared, configuring, attached, releasing or quarantined. Or one of four more states. given: the kubelet gave
	// it to a pod, and no network attached it. outside: it is used outside Culvert (usedBy). unmanaged: it is not in the
	// ledger. missing: it is in the ledger and not on the bus.
	Phase string `json:"phase"`
	// The pool that the VF is in: prefix/name.
	// +optional
	Pool string `json:"pool,omitempty"`
	// The pod, container, guest or host that has the VF.
	// +optional
	Owner *Owner `json:"owner,omitempty"`
	// The ResourceClaim that has the VF: namespace/name.
	// +optional
	Claim string `json:"claim,omitempty"`
	// The use of a VF that has no owner in the ledger: a program, another network namespace or the node's own network.
	// culvertd leaves the VF to its user. It does not change the number of VFs of the PF, and the controller evicts no
	// pod for it.
	// +optional
	UsedBy string `json:"usedBy,omitempty"`
	// The bond of which the VF is a member: the owner's interface. The VFs with the same owner are its members.
	// +optional
	Bond *Bond `json:"bond,omitempty"`
	// The name of the network that attached the VF.
	// +optional
	Network string `json:"network,omitempty"`
	// The addresses of the VF, with their prefix lengths.
	// +optional
	// +listType=atomic
	Addresses []string `json:"addresses,omitempty"`
	// The reason of its quarantine.
	// +optional
	Reason string `json:"reason,omitempty"`
	// Whether its interface in the pod is up and has had no carrier for long, although its PF has a link.
	// +optional
	NoCarrier bool `json:"noCarrier,omitempty"`
}

// Bond is a bond of VFs.
type Bond struct {
	// The mode by its name in the kernel.
	Mode string `json:"mode"`
	// The number of VFs that it was made of.
	Links int32 `json:"links"`
}

// Owner is the owner of a VF.
type Owner struct {
	// pod, container, vm, host, or claim for a ResourceClaim whose pod does not have the VF yet.
	Kind string `json:"kind"`
	// namespace/name of a pod.
	// +optional
	Name string `json:"name,omitempty"`
	// The sandbox of a pod.
	// +optional
	UID string `json:"uid,omitempty"`
	// The UID of the pod itself. It is empty for a static pod, and where the runtime does not say.
	// +optional
	PodUID string `json:"podUID,omitempty"`
	// The VF's name there, or the name of its bond.
	// +optional
	Interface string `json:"interface,omitempty"`
	// namespace/name of the NetworkAttachmentDefinition, by culvertd's record of the pod's sandbox. It is empty where
	// Multus or another program made the sandbox, and in the reports of earlier versions of culvertd.
	// +optional
	Network string `json:"network,omitempty"`
}

// PoolState is a pool of the node.
type PoolState struct {
	// prefix/name: the resource that pods request.
	Name string `json:"name"`
	// netdevice or vfio-pci.
	DeviceType string `json:"deviceType"`
	// The way by which pods get its VFs: resource (by the device plugin) or claims (by ResourceSlices).
	// +optional
	Offer string `json:"offer,omitempty"`
	// The reason why the node does not serve the pool; empty for a pool that it serves.
	// +optional
	Unserved string `json:"unserved,omitempty"`
	// The number of VFs in the pool.
	VFs int32 `json:"vfs"`
	// The number of them that an owner can get.
	Free int32 `json:"free"`
	// PFs whose VFs are in the pool.
	// +optional
	// +listType=atomic
	PFs []string `json:"pfs,omitempty"`
}

// Problem is a problem with its next step.
type Problem struct {
	// The object with the problem, such as PF enp1s0.
	Object string `json:"object"`
	// A description of the problem.
	Reason string `json:"reason"`
	// The next step to mend it.
	// +optional
	Next string `json:"next,omitempty"`
}

// NetworkWarning is a setting of a network that Culvert accepted and that is probably a mistake.
type NetworkWarning struct {
	// namespace/name of its NetworkAttachmentDefinition.
	Network string `json:"network"`
	// The warning.
	Text string `json:"text"`
}

// PolicyState is the state of a policy on the node.
type PolicyState struct {
	// The name of the NodePolicy.
	Name string `json:"name"`
	// The generation that culvertd read.
	Generation int64 `json:"generation"`
	// Whether the node follows it.
	Applied bool `json:"applied"`
	// The policies of the same priority that contradict it.
	// +optional
	// +listType=atomic
	Conflicts []string `json:"conflicts,omitempty"`
	// The reason why the node does not follow it.
	// +optional
	Reason string `json:"reason,omitempty"`
}

// AddressRequest is a node's request for addresses of one range set of a network.
type AddressRequest struct {
	// The pool of the addresses: namespace/name of a NetworkAttachmentDefinition, or pool:NAME of a declared AddressPool.
	// Where a file on the nodes has the network's configuration, it is the network's name.
	Pool string `json:"pool"`
	// The addresses to give out, without gateways, network and broadcast addresses and the excluded ones.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=2048
	Ranges []AddressRange `json:"ranges,omitempty"`
	// The ID under which the node requests blocks. It names another one after it gave addresses of a block back. Earlier
	// versions of culvertd leave it out: their blocks stay theirs.
	// +optional
	Grant string `json:"grant,omitempty"`
	// Released lists the addresses that the node gives back: the controller may grant them again.
	// +optional
	// +listType=atomic
	Released []ReleasedRange `json:"released,omitempty"`
	// The number of addresses that attachments of the node hold and wait for.
	Used int64 `json:"used"`
	// Addresses that exactly this node must have: those that pods named, and those that were held before the cluster gave
	// out blocks.
	// +optional
	// +listType=atomic
	Claims []AddressClaim `json:"claims,omitempty"`
	// Addresses that pods of the node hold and keep after they have ended.
	// +optional
	// +listType=atomic
	Reservations []AddressReservation `json:"reservations,omitempty"`
	// Addresses that attachments of the node hold and that had to be unique on the node only (scope node). While the
	// network keeps that scope they mean nothing; when it becomes the cluster's, no node is granted them.
	// +optional
	// +listType=atomic
	NodeScope []AddressRange `json:"nodeScope,omitempty"`
}

// ReleasedRange is a run of addresses that a node got under a grant and does not give out under it again.
type ReleasedRange struct {
	// The ID of the grant.
	Grant        string `json:"grant"`
	AddressRange `json:",inline"`
}

// AddressRange is a run of addresses, both ends included.
type AddressRange struct {
	// The first address.
	First string `json:"first"`
	// The last address.
	Last string `json:"last"`
}

// AddressClaim is a single address and the claim on it. An ID is never used again after it was left out of the requests.
type AddressClaim struct {
	// The address that the node claims.
	Address string `json:"address"`
	// The ID of the claim.
	ID string `json:"id"`
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
