package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// NodePolicy declares how many VFs the PFs of some nodes have, and the pools of
// the VFs. When several policies select a node, the one of the highest priority
// counts for each PF and each pool. The node's own host.yaml comes before all of
// them.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:metadata:annotations="helm.sh/resource-policy=keep"
// +kubebuilder:resource:scope=Cluster,shortName=cvnp,categories=culvert
// +kubebuilder:printcolumn:name="Priority",type=integer,JSONPath=`.spec.priority`
// +kubebuilder:printcolumn:name="Nodes",type=integer,JSONPath=`.status.nodes`
// +kubebuilder:printcolumn:name="Applied",type=integer,JSONPath=`.status.appliedNodes`
// +kubebuilder:printcolumn:name="Healthy",type=string,JSONPath=`.status.conditions[?(@.type=="Healthy")].status`
// +kubebuilder:printcolumn:name="Conflict",type=string,JSONPath=`.status.conditions[?(@.type=="Conflict")].status`
// +kubebuilder:printcolumn:name="Empty Pool",type=string,JSONPath=`.status.conditions[?(@.type=="EmptyPool")].status`
// +kubebuilder:printcolumn:name="Maintenance",type=string,JSONPath=`.spec.maintenance.effect`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Applied")].message`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type NodePolicy struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +required
	Spec NodePolicySpec `json:"spec"`
	// +optional
	Status NodePolicyStatus `json:"status,omitzero"`
}

// NodePolicySpec has the keys of host.yaml, and selects nodes for them.
type NodePolicySpec struct {
	// Labels that a node must have; none selects every node.
	// +optional
	NodeSelector map[string]string `json:"nodeSelector,omitempty"`
	// The policy of the higher priority counts where two are about one PF or pool. Two of the same priority must not
	// contradict each other: then neither counts for that PF or pool.
	// +optional
	// +kubebuilder:default=0
	// +kubebuilder:validation:Minimum=-1000000
	// +kubebuilder:validation:Maximum=1000000
	Priority int32 `json:"priority"`
	// PFs with their settings. A PF takes the first entry that matches it. Culvert leaves other PFs alone.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=256
	PFs []PFRule `json:"pfs,omitempty"`
	// Pools of VFs. A VF is in the first pool that matches it.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=256
	Pools []Pool `json:"pools,omitempty"`
	// Takes PFs of the selected nodes from new claims, and ends the claims' pods where it says so. It changes nothing on
	// the nodes. A policy for a maintenance needs neither pfs nor pools.
	// +optional
	Maintenance *Maintenance `json:"maintenance,omitempty"`
}

// Maintenance is a taint of all VFs of some PFs, by DeviceTaintRules of Kubernetes 1.37 or newer. It reaches VFs that
// ResourceClaims have or may get. The policy's condition Maintenance names the other owners.
type Maintenance struct {
	// The netdevices of PFs, or patterns such as enp1s0f*; none selects all PFs.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:Pattern=`^[^\s/\\\[\]]{1,127}$`
	PFs []string `json:"pfs,omitempty"`
	// None is a dry run: the condition Maintenance says how many pods NoExecute would evict. With NoSchedule no new pod
	// gets a VF. With NoExecute Kubernetes also evicts the pods that have one.
	// +required
	// +kubebuilder:validation:Enum=None;NoSchedule;NoExecute
	Effect string `json:"effect"`
}

// PFRule selects PFs by name, mac, pciAddress, vendor, device and driver: all that are set must match.
//
// +kubebuilder:validation:XValidation:rule="has(self.name) || has(self.mac) || has(self.pciAddress) || has(self.vendor) || has(self.device) || has(self.driver)",message="which PFs? Write name, mac, pciAddress, vendor, device or driver"
type PFRule struct {
	// The netdevice, or a pattern such as enp1s0f*. An alternative name of the netdevice matches too.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=127
	Name string `json:"name,omitempty"`
	// The PF's permanent address.
	// +optional
	// +kubebuilder:validation:Pattern=`^([0-9A-Fa-f]{2}[:-]){5}[0-9A-Fa-f]{2}$`
	MAC string `json:"mac,omitempty"`
	// For example 0000:3b:00.0.
	// +optional
	// +kubebuilder:validation:Pattern=`^([0-9A-Fa-f]{4}:)?[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-7]$`
	PCIAddress string `json:"pciAddress,omitempty"`
	// Four hexadecimal digits.
	// +optional
	// +kubebuilder:validation:Pattern=`^(0[xX])?[0-9A-Fa-f]{4}$`
	Vendor string `json:"vendor,omitempty"`
	// Four hexadecimal digits.
	// +optional
	// +kubebuilder:validation:Pattern=`^(0[xX])?[0-9A-Fa-f]{4}$`
	Device string `json:"device,omitempty"`
	// The PF's driver, such as igb.
	// +optional
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9_][-A-Za-z0-9_.]{0,63}$`
	Driver string `json:"driver,omitempty"`

	// The number of VFs, 0 for none, or max for as many as the PF can have.
	// +required
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:Pattern=`^max$`
	VFs intstr.IntOrString `json:"vfs"`
	// The MTU of the PF and of its free VFs, in bytes. Unset: Culvert leaves it alone.
	// +optional
	// +kubebuilder:validation:Minimum=68
	// +kubebuilder:validation:Maximum=65535
	MTU *int32 `json:"mtu,omitempty"`
	// Addresses of the PF's interface, such as the gateway of its VFs' networks: 172.16.91.1/24.
	// Every PF that the rule matches, on every node that the policy selects, gets them.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=43
	Addresses []string `json:"addresses,omitempty"`
	// Whether the kernel also binds a driver to VFs that other programs make; default true.
	// +optional
	Autoprobe *bool `json:"autoprobe,omitempty"`
	// Make VFs only when the PF has carrier; default true.
	// +optional
	NeedCarrier *bool `json:"needCarrier,omitempty"`
	// The name of the L2 segment that the PF is on, such as storage. A pool or bond over PFs of two named segments is
	// refused.
	// +optional
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`
	Segment string `json:"segment,omitempty"`
}

// Pool is a set of VFs under one name.
type Pool struct {
	// The name of the resource, after the prefix.
	// +required
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$`
	Name string `json:"name"`
	// Default culvert.dev.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`
	Prefix string `json:"prefix,omitempty"`
	// netdevice, or vfio-pci for user space and VMs.
	// +optional
	// +kubebuilder:validation:Enum=netdevice;netDevice;vfio-pci
	DeviceType string `json:"deviceType,omitempty"`
	// The pool takes VFs with the driver that is bound to them, and culvertd binds none for it, as the SR-IOV device plugin
	// does. drivers then is the driver that is bound now, and pfNames are whole names in any case.
	// +optional
	AsBound *bool `json:"asBound,omitempty"`
	// The MTU of the pool's free VFs, in bytes. The PF's MTU is raised to it and never lowered.
	// +optional
	// +kubebuilder:validation:Minimum=68
	// +kubebuilder:validation:Maximum=65535
	MTU *int32 `json:"mtu,omitempty"`
	// culvertd's reaction when another program changes settings of a VF that has an owner: mend, the default, or report.
	// +optional
	// +kubebuilder:validation:Enum=mend;report
	Drift string `json:"drift,omitempty"`
	// No NUMA hints to the kubelet.
	// +optional
	ExcludeTopology *bool `json:"excludeTopology,omitempty"`
	// Added to PCIDEVICE_..._INFO, by PCI address or * for every device.
	// +optional
	AdditionalInfo map[string]map[string]string `json:"additionalInfo,omitempty"`
	// Whether pods get device nodes by the Container Device Interface.
	// +optional
	CDI *bool `json:"cdi,omitempty"`
	// How pods get the pool's VFs: resource, the default, by the device plugin, or claims, by ResourceSlices.
	// +optional
	// +kubebuilder:validation:Enum=resource;claims
	Offer string `json:"offer,omitempty"`
	// What a PF without a steady link, or with errors, means for its VFs in ResourceSlices. With NoSchedule, the
	// default, no new pod gets one. With NoExecute Kubernetes also evicts the pods that have one.
	// +optional
	// +kubebuilder:validation:Enum=NoSchedule;NoExecute
	FaultTaint string `json:"faultTaint,omitempty"`
	// Bounds the settings of owners. Without it the pool serves every network that names it.
	// +optional
	Allow *Allow `json:"allow,omitempty"`
	// A VF is in the pool when one of these matches it; none matches every VF.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	Selectors []Selector `json:"selectors,omitempty"`
}

// Allow bounds the settings that owners may request of a pool's VFs. It refuses settings that it does not name. Without
// namespaces it serves all namespaces.
type Allow struct {
	// Names or patterns such as team-*. With neither this nor namespaceSelector the pool serves every owner, guests too.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	Namespaces []string `json:"namespaces,omitempty"`
	// Labels, all of which a namespace must have. A namespace that the key namespaces names needs none of them.
	// +optional
	// +kubebuilder:validation:MinProperties=1
	NamespaceSelector map[string]string `json:"namespaceSelector,omitempty"`
	// IDs and ranges such as 100-200; 0 is a network without VLAN, and the default.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	VLANs []string `json:"vlans,omitempty"`
	// The largest vlanQoS.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=7
	VLANQoS *int32 `json:"vlanQoS,omitempty"`
	// Networks may set vlanProto 802.1ad.
	// +optional
	ServiceVLANs *bool `json:"serviceVLANs,omitempty"`
	// Networks may set trust on.
	// +optional
	Trust *bool `json:"trust,omitempty"`
	// Networks may set spoofchk off.
	// +optional
	SpoofChkOff *bool `json:"spoofchkOff,omitempty"`
	// MACs, or their first bits: 02:00:5e:00:00:00/24. A VF may always keep its own.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	MACs []string `json:"macs,omitempty"`
	// Subnets that must contain all addresses, such as 10.1.0.0/16.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	Addresses []string `json:"addresses,omitempty"`
	// The largest, in bytes.
	// +optional
	// +kubebuilder:validation:Minimum=68
	// +kubebuilder:validation:Maximum=65535
	MTU *int32 `json:"mtu,omitempty"`
	// The largest max_tx_rate in Mb/s; with it every network must set one.
	// +optional
	// +kubebuilder:validation:Minimum=1
	MaxTxRate *int32 `json:"maxTxRate,omitempty"`
	// The largest min_tx_rate in Mb/s.
	// +optional
	// +kubebuilder:validation:Minimum=1
	MinTxRate *int32 `json:"minTxRate,omitempty"`
}

// Selector matches a VF when each key that is set has a matching value. The keys are those of the SR-IOV device plugin.
type Selector struct {
	// The VF's vendor IDs, four hexadecimal digits each.
	// +optional
	// +listType=atomic
	Vendors []string `json:"vendors,omitempty"`
	// The VF's device IDs, four hexadecimal digits each.
	// +optional
	// +listType=atomic
	Devices []string `json:"devices,omitempty"`
	// The driver that the VF has as a netdevice, or vfio-pci.
	// +optional
	// +listType=atomic
	Drivers []string `json:"drivers,omitempty"`
	// The VF's PCI addresses.
	// +optional
	// +listType=atomic
	PCIAddresses []string `json:"pciAddresses,omitempty"`
	// The VF's index in the firmware.
	// +optional
	// +listType=atomic
	ACPIIndexes []string `json:"acpiIndexes,omitempty"`
	// A PF's netdevice, an alternative name of it, or a pattern, then optionally # and VF indexes: enp1s0f0#0,2-7.
	// +optional
	// +listType=atomic
	PFNames []string `json:"pfNames,omitempty"`
	// A PF's PCI address, optionally with # and VF indexes.
	// +optional
	// +listType=atomic
	RootDevices []string `json:"rootDevices,omitempty"`
	// Only ether.
	// +optional
	// +listType=atomic
	LinkTypes []string `json:"linkTypes,omitempty"`
	// Only VFs that have an RDMA device; its character devices come with the VF.
	// +optional
	IsRDMA *bool `json:"isRdma,omitempty"`
	// Give /dev/vhost-net and /dev/net/tun with the VF.
	// +optional
	NeedVhostNet *bool `json:"needVhostNet,omitempty"`
}

// Conditions of a NodePolicy.
const (
	// ConditionApplied: every selected node has applied the policy.
	ConditionApplied = "Applied"
	// ConditionConflict: another policy of the same priority contradicts it; the message names it.
	ConditionConflict = "Conflict"
	// ConditionEmptyPool: a pool has no VF on any selected node; the message names it.
	ConditionEmptyPool = "EmptyPool"
	// ConditionHealthy: each PF on which the policy wants VFs has a steady link and had no errors of late, answers its
	// VFs, and has none in quarantine. The message names nodes and PFs.
	ConditionHealthy = "Healthy"
	// ConditionMaintenance: the policy has a maintenance. The message says for each PF how far it is.
	ConditionMaintenance = "Maintenance"
	// ConditionValid: Culvert can read the policy, or serve the subnets of the pool. It checks more than the API server
	// does. AddressPools that a person declared have it too.
	ConditionValid = "Valid"
)

// NodePolicyStatus is the state of a policy on its nodes.
type NodePolicyStatus struct {
	// The generation of the spec that this status describes.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// The number of selected nodes.
	// +optional
	Nodes int32 `json:"nodes"`
	// The number of them that have applied this generation.
	// +optional
	AppliedNodes int32 `json:"appliedNodes"`
	// Nodes that have not applied it, with the reason; at most 16 of them.
	// +optional
	// +listType=map
	// +listMapKey=node
	Pending []PendingNode `json:"pending,omitempty"`
	// Applied, Conflict, EmptyPool, Healthy and Valid, and Maintenance where there is one.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// PendingNode is a node that has not applied a policy.
type PendingNode struct {
	// The name of the node.
	Node string `json:"node"`
	// Why it has not applied the policy.
	Reason string `json:"reason"`
}

// NodePolicyList is a list of policies.
//
// +kubebuilder:object:root=true
type NodePolicyList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []NodePolicy `json:"items"`
}
