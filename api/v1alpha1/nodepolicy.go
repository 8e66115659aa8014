package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// NodePolicy says how many VFs the PFs of some nodes have, and how the VFs are
// cut into pools. Of several policies that select a node the one of the highest
// priority is followed for each PF and each pool; the node's own host.yaml comes
// before all of them.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:metadata:annotations="helm.sh/resource-policy=keep"
// +kubebuilder:resource:scope=Cluster,shortName=cvnp,categories=culvert
// +kubebuilder:printcolumn:name="Priority",type=integer,JSONPath=`.spec.priority`
// +kubebuilder:printcolumn:name="Nodes",type=integer,JSONPath=`.status.nodes`
// +kubebuilder:printcolumn:name="Applied",type=integer,JSONPath=`.status.appliedNodes`
// +kubebuilder:printcolumn:name="Conflict",type=string,JSONPath=`.status.conditions[?(@.type=="Conflict")].status`
// +kubebuilder:printcolumn:name="Empty Pool",type=string,JSONPath=`.status.conditions[?(@.type=="EmptyPool")].status`
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

// NodePolicySpec has the keys of host.yaml, and which nodes they are for.
type NodePolicySpec struct {
	// Labels that a node must have; none selects every node.
	// +optional
	NodeSelector map[string]string `json:"nodeSelector,omitempty"`
	// The higher one is followed where two policies are about one PF or pool. Two of the same priority must not
	// contradict each other: then neither is followed for that PF or pool.
	// +optional
	// +kubebuilder:default=0
	// +kubebuilder:validation:Minimum=-1000000
	// +kubebuilder:validation:Maximum=1000000
	Priority int32 `json:"priority"`
	// PFs and what they should look like. A PF takes the first entry that matches it; one that none matches is left
	// alone.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=256
	PFs []PFRule `json:"pfs,omitempty"`
	// Pools of VFs. A VF is in the first pool that matches it.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=256
	Pools []Pool `json:"pools,omitempty"`
}

// PFRule is about the PFs for which all of name, mac, pciAddress, vendor, device and driver that are given hold.
//
// +kubebuilder:validation:XValidation:rule="has(self.name) || has(self.mac) || has(self.pciAddress) || has(self.vendor) || has(self.device) || has(self.driver)",message="which PFs? Write name, mac, pciAddress, vendor, device or driver"
type PFRule struct {
	// The netdevice, or a pattern such as enp1s0f*.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
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

	// How many, 0 for none, or max for as many as the PF can have.
	// +required
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:Pattern=`^max$`
	VFs intstr.IntOrString `json:"vfs"`
	// Of the PF, in bytes; left alone when not given.
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
	// Whether the kernel also binds a driver to VFs that somebody else makes; default true.
	// +optional
	Autoprobe *bool `json:"autoprobe,omitempty"`
	// Make VFs only when the PF has carrier; default true.
	// +optional
	NeedCarrier *bool `json:"needCarrier,omitempty"`
}

// Pool is a set of VFs that are given out under one name.
type Pool struct {
	// What pods ask for, after the prefix.
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
	// What happens when somebody else changes settings of a VF that an owner has: mend, the default, or report.
	// +optional
	// +kubebuilder:validation:Enum=mend;report
	Drift string `json:"drift,omitempty"`
	// No NUMA hints to the kubelet.
	// +optional
	ExcludeTopology *bool `json:"excludeTopology,omitempty"`
	// Added to PCIDEVICE_..._INFO, by PCI address or * for every device.
	// +optional
	AdditionalInfo map[string]map[string]string `json:"additionalInfo,omitempty"`
	// Device nodes are handed over by the Container Device Interface.
	// +optional
	CDI *bool `json:"cdi,omitempty"`
	// Bounds what owners may ask for. Without it the pool serves every network that names it.
	// +optional
	Allow *Allow `json:"allow,omitempty"`
	// A VF is in the pool when one of these matches it; none matches every VF.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	Selectors []Selector `json:"selectors,omitempty"`
}

// Allow bounds what owners may ask of a pool's VFs. What it does not name is not allowed, but for namespaces.
type Allow struct {
	// Names or patterns such as team-*; with neither this nor namespaceSelector every owner is served, guests too.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	Namespaces []string `json:"namespaces,omitempty"`
	// Labels, all of which a namespace must have that namespaces does not name.
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
	// MACs, or how they begin: 02:00:5e:00:00:00/24. A VF may always keep its own.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	MACs []string `json:"macs,omitempty"`
	// Networks that all addresses must be in, such as 10.1.0.0/16.
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

// Selector matches a VF when each key that is given has a value that does. The keys are those of the SR-IOV device plugin.
type Selector struct {
	// Of the VF, four hexadecimal digits.
	// +optional
	// +listType=atomic
	Vendors []string `json:"vendors,omitempty"`
	// Of the VF, four hexadecimal digits.
	// +optional
	// +listType=atomic
	Devices []string `json:"devices,omitempty"`
	// The driver that the VF has as a netdevice, or vfio-pci.
	// +optional
	// +listType=atomic
	Drivers []string `json:"drivers,omitempty"`
	// Of the VF.
	// +optional
	// +listType=atomic
	PCIAddresses []string `json:"pciAddresses,omitempty"`
	// Of the VF, from the firmware.
	// +optional
	// +listType=atomic
	ACPIIndexes []string `json:"acpiIndexes,omitempty"`
	// A PF's netdevice or pattern, then optionally # and VF indexes: enp1s0f0#0,2-7.
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
	// Give /dev/vhost-net and /dev/net/tun with the VF.
	// +optional
	NeedVhostNet *bool `json:"needVhostNet,omitempty"`
}

// Conditions of a NodePolicy.
const (
	// ConditionApplied: every node that is selected has applied the policy.
	ConditionApplied = "Applied"
	// ConditionConflict: another policy of the same priority says otherwise; the message names it.
	ConditionConflict = "Conflict"
	// ConditionEmptyPool: a pool has no VF on any node that is selected; the message names it.
	ConditionEmptyPool = "EmptyPool"
	// ConditionValid: the policy can be read. What the API server lets through is read once more.
	ConditionValid = "Valid"
)

// NodePolicyStatus is what became of a policy.
type NodePolicyStatus struct {
	// The generation of the spec that this is about.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// How many nodes are selected.
	// +optional
	Nodes int32 `json:"nodes"`
	// How many of them have applied this generation.
	// +optional
	AppliedNodes int32 `json:"appliedNodes"`
	// Nodes that have not, and why; at most 16 of them.
	// +optional
	// +listType=map
	// +listMapKey=node
	Pending []PendingNode `json:"pending,omitempty"`
	// Applied, Conflict, EmptyPool and Valid.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// PendingNode is a node that has not applied a policy.
type PendingNode struct {
	Node   string `json:"node"`
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
