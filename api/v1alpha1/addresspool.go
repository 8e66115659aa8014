package v1alpha1

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// AddressPool is a pool of addresses, and which node gives out which of them. A person declares one by its subnets, and
// networks name it in their key ipam.addressPool; several networks may. For a network whose own ipam section has the
// subnet, the controller makes the pool. The blocks are the controller's alone, which writes them on the resourceVersion
// that it read: they are never on two nodes. Do not edit them, and do not delete a pool while pods have addresses of it.
//
// +kubebuilder:object:root=true
// +kubebuilder:metadata:annotations="helm.sh/resource-policy=keep"
// +kubebuilder:resource:scope=Cluster,shortName=cap,categories=culvert
// +kubebuilder:printcolumn:name="Network",type=string,JSONPath=`.spec.network`
// +kubebuilder:printcolumn:name="Subnets",type=string,JSONPath=`.status.subnets`
// +kubebuilder:printcolumn:name="Addresses",type=integer,JSONPath=`.status.addresses`
// +kubebuilder:printcolumn:name="Granted",type=integer,JSONPath=`.status.granted`
// +kubebuilder:printcolumn:name="Nodes",type=integer,JSONPath=`.status.nodes`
// +kubebuilder:printcolumn:name="Exhausted",type=string,JSONPath=`.status.conditions[?(@.type=="Exhausted")].status`
// +kubebuilder:printcolumn:name="Disputed",type=string,JSONPath=`.status.conditions[?(@.type=="Disputed")].status`
// +kubebuilder:printcolumn:name="Valid",type=string,JSONPath=`.status.conditions[?(@.type=="Valid")].status`,priority=1
// +kubebuilder:printcolumn:name="Overlaps",type=string,JSONPath=`.status.conditions[?(@.type=="Overlaps")].status`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type AddressPool struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +required
	Spec AddressPoolSpec `json:"spec"`
	// +optional
	Status AddressPoolStatus `json:"status,omitzero"`
}

// AddressPoolSpec has the addresses of a pool, and the blocks of each node.
//
// +kubebuilder:validation:XValidation:rule="has(self.subnets) != has(self.network)",message="write subnets; network is of the pools that culvert-controller makes, and a pool has one of the two"
// +kubebuilder:validation:XValidation:rule="has(self.network) == has(oldSelf.network) && (!has(self.network) || self.network == oldSelf.network)",message="a pool stays with its network"
// +kubebuilder:validation:XValidation:rule="!has(self.network) || !self.network.startsWith('pool:')",message="pool: is of pools that have subnets"
// +kubebuilder:validation:XValidation:rule="has(self.subnets) || !has(self.blockSize) && !has(self.keepAddress)",message="blockSize and keepAddress are of pools that have subnets"
// +kubebuilder:validation:XValidation:rule="has(self.subnets) || !has(self.namespaces) || has(self.network) && self.network.startsWith('whereabouts:')",message="namespaces are of pools that have subnets, and of those of whereabouts networks"
type AddressPoolSpec struct {
	// The subnets of a pool that a person declares. A pod gets one address of each family that the pool has. When a family
	// has several subnets, the pod gets an address of the first that has a free one. Subnets of one pool do not
	// overlap. Two pools may have one subnet where their networks are apart, by VLAN or NIC.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	Subnets []PoolSubnet `json:"subnets,omitempty"`
	// The number of addresses that a node gets at once. Default: a quarter of a node's share of the pool, a power of two, at
	// most 256. Small blocks leave more to the other nodes; large ones let many pods start at once.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1024
	BlockSize int32 `json:"blockSize,omitempty"`
	// The namespaces whose NetworkAttachmentDefinitions may name the pool; all of them when there are none here. The pool
	// of a network_name of whereabouts has the namespace of its oldest network, which the controller writes. Add others
	// to let their networks share it.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=256
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=63
	Namespaces []string `json:"namespaces,omitempty"`
	// How long, at most, a pod may keep its address after it has ended. A pod asks for it by the annotation
	// culvert.dev/keep-address, with a time such as 24h. A pod of the same name, as a StatefulSet makes it, then gets the
	// address again on any node. Without it the pool keeps no addresses.
	// +optional
	KeepAddress *metav1.Duration `json:"keepAddress,omitempty"`
	// The network of a pool that the controller made: namespace/name of its NetworkAttachmentDefinition, or the name in
	// its configuration where a file on the nodes has that. Networks of Kubernetes had pools of the latter kind before;
	// what they granted stays granted.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	Network string `json:"network,omitempty"`
	// The ID of a roll call. A controller that starts, or that finds the pool older than it was, calls the roll: the API
	// server may have been restored from a backup. Nodes repeat the ID in their NodeState. Before, it grants nothing.
	// +optional
	RollCall string `json:"rollCall,omitempty"`
	// Addresses in nodes' blocks that pods of other nodes name. A node that does not hold one gives it up.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=256
	Wanted []string `json:"wanted,omitempty"`
	// Addresses that are kept for pods. Take one out to end it before its time.
	// +optional
	// +listType=map
	// +listMapKey=address
	// +kubebuilder:validation:MaxItems=1024
	Reservations []AddressReservation `json:"reservations,omitempty"`
	// The blocks of the nodes. No two of them overlap.
	// +optional
	// +listType=atomic
	Blocks []AddressBlock `json:"blocks,omitempty"`
}

// PoolSubnet is a subnet of a pool.
type PoolSubnet struct {
	// For example 172.16.91.0/24 or fd00:91::/64.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=43
	CIDR string `json:"cidr"`
	// The parts to give out. Default: the whole subnet.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	Ranges []AddressRange `json:"ranges,omitempty"`
	// Addresses and subnets that are never given out, not even by name.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=256
	// +kubebuilder:validation:items:MaxLength=43
	Exclude []string `json:"exclude,omitempty"`
	// The gateway of routes that name none, which is never given out; the first address of the subnet when it is not
	// given, as host-local has it.
	// +optional
	// +kubebuilder:validation:MaxLength=39
	Gateway string `json:"gateway,omitempty"`
}

// AddressReservation is an address that is kept for the pods of one name.
type AddressReservation struct {
	// namespace/name of the pod, and its interface.
	Pod string `json:"pod"`
	// The address that is kept.
	Address string `json:"address"`
	// For how long after the pod has ended.
	KeepSeconds int64 `json:"keepSeconds"`
	// Since when no node holds the address.
	// +optional
	Since *metav1.Time `json:"since,omitempty"`
}

// AddressBlock is a run of addresses that one node gives out, both ends included.
type AddressBlock struct {
	// The name of the node.
	Node string `json:"node"`
	// The UID of the Node object that got the block. A later Node of the same name does not have the block: the earlier
	// machine may still run. Earlier versions of the controller left it out.
	// +optional
	NodeUID string `json:"nodeUID,omitempty"`
	// The first address of the block.
	First string `json:"first"`
	// The last address of the block.
	Last string `json:"last"`
	// The ID under which the node requested the block. It gives back addresses of the block by naming the ID, which is
	// used once. Blocks without one stay with the node until its Node object is gone.
	// +optional
	Grant string `json:"grant,omitempty"`
	// The ID of the claim, for a single address that the node claimed. The block goes when the claim does.
	// +optional
	Claim string `json:"claim,omitempty"`
	// Since when that Node object is gone, by the clock of the controller that noted it. The block is taken back some
	// minutes later; until then no node gives out its addresses.
	// +optional
	NodeGoneSince *metav1.Time `json:"nodeGoneSince,omitempty"`
}

// Conditions of an AddressPool.
const (
	// ConditionExhausted: a node asked for addresses and there are none left.
	ConditionExhausted = "Exhausted"
	// ConditionDisputed: a node claims an address of another node, or reports one for a pod that is not on it while the
	// pool keeps another address for that pod. The message names both.
	ConditionDisputed = "Disputed"
	// ConditionOutside: a node requests an address or a range that the network's NetworkAttachmentDefinition does not
	// have, which is refused, or a pod of it holds such an address. The message names the node, the address and the ranges.
	ConditionOutside = "Outside"
	// ConditionOverlaps: another pool has addresses of the pool's subnets. That is right only where the networks of the
	// two are apart, by VLAN or NIC.
	ConditionOverlaps = "Overlaps"
	// ConditionTooLarge: the pool has so many blocks that etcd would soon refuse the object, or a node has more of them
	// than there is room left. The nodes in the message get no more blocks, and keep those that they have.
	ConditionTooLarge = "TooLarge"
	// ConditionWaiting: the API server was restored from a backup (reason Restored), or a node holds an address that is in
	// no block, so it may have been. The controller grants nothing until the nodes in the message have reported their addresses.
	ConditionWaiting = "Waiting"
)

// AddressPoolStatus has the counts and conditions of a pool.
type AddressPoolStatus struct {
	// The subnets of a pool that a person declared, in one text.
	// +optional
	Subnets string `json:"subnets,omitempty"`
	// The number of addresses of the pool; 9223372036854775807 stands for more than that.
	// +optional
	Addresses int64 `json:"addresses"`
	// The number of addresses in blocks of nodes.
	// +optional
	Granted int64 `json:"granted"`
	// The number of nodes with blocks.
	// +optional
	Nodes int32 `json:"nodes"`
	// The number of nodes of the cluster. It decides the size of a block and the number of spare addresses of a node.
	// +optional
	ClusterNodes int32 `json:"clusterNodes,omitempty"`
	// Nodes that need addresses and got none, since none are left.
	// +optional
	// +listType=set
	Starved []string `json:"starved,omitempty"`
	// Exhausted, Disputed, Outside, TooLarge and Waiting. A pool that a person declared also has Overlaps and Valid: while
	// its subnets cannot be served Culvert gives out no address anew, and pods keep theirs.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// AddressPoolList is a list of pools.
//
// +kubebuilder:object:root=true
type AddressPoolList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []AddressPool `json:"items"`
}

// longestName leaves room for a hash within what an object may be called (RFC 1123 subdomain, 253).
const longestName = 200

// declaredPrefix begins the IDs of pools that a person declares. No CNI name and no namespace/name has it.
const declaredPrefix = "pool:"

// DeclaredPoolID is the ID of the pool that a person declares in the AddressPool of a name.
func DeclaredPoolID(name string) string { return declaredPrefix + name }

// IsDeclaredPool reports whether a pool's ID is one of DeclaredPoolID.
func IsDeclaredPool(id string) bool { return strings.HasPrefix(id, declaredPrefix) }

// PoolID is what ledgers and the requests of nodes call the pool: the network that the controller made it for, or
// DeclaredPoolID of its name.
func (p *AddressPool) PoolID() string {
	if p.Spec.Network != "" {
		return p.Spec.Network
	}
	return DeclaredPoolID(p.Name)
}

// AddressPoolName is the name of the AddressPool that has a PoolID: of a pool that the controller made, the network's own
// where that is a name that objects may have, else one made of it that no other network has.
func AddressPoolName(network string) string {
	if declared, ok := strings.CutPrefix(network, declaredPrefix); ok {
		return declared
	}
	name := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9', r == '-':
			return r
		case r >= 'A' && r <= 'Z':
			return r - 'A' + 'a'
		}
		return '-'
	}, network)
	name = strings.Trim(name[:min(len(name), longestName)], "-")
	if name == network && name != "" {
		return name
	}
	sum := sha256.Sum256([]byte(network))
	return strings.TrimPrefix(name+"."+hex.EncodeToString(sum[:5]), ".")
}
