package v1alpha1

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// AddressPool says which node gives out which addresses of a network. The controller alone writes it, always on the
// resourceVersion that it read: blocks are never on two nodes. Do not edit or delete it while pods have addresses of the
// network.
//
// +kubebuilder:object:root=true
// +kubebuilder:metadata:annotations="helm.sh/resource-policy=keep"
// +kubebuilder:resource:scope=Cluster,shortName=cap,categories=culvert
// +kubebuilder:printcolumn:name="Network",type=string,JSONPath=`.spec.network`
// +kubebuilder:printcolumn:name="Addresses",type=integer,JSONPath=`.status.addresses`
// +kubebuilder:printcolumn:name="Granted",type=integer,JSONPath=`.status.granted`
// +kubebuilder:printcolumn:name="Nodes",type=integer,JSONPath=`.status.nodes`
// +kubebuilder:printcolumn:name="Exhausted",type=string,JSONPath=`.status.conditions[?(@.type=="Exhausted")].status`
// +kubebuilder:printcolumn:name="Disputed",type=string,JSONPath=`.status.conditions[?(@.type=="Disputed")].status`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type AddressPool struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +required
	Spec AddressPoolSpec `json:"spec"`
	// +optional
	Status AddressPoolStatus `json:"status,omitzero"`
}

// AddressPoolSpec is which node has what.
//
// +kubebuilder:validation:XValidation:rule="self.network == oldSelf.network",message="a pool stays with its network"
type AddressPoolSpec struct {
	// The network: namespace/name of its NetworkAttachmentDefinition, or the name in its configuration where a file on
	// the nodes has that. Networks of Kubernetes had pools of the latter kind before; what they granted stays granted.
	// +kubebuilder:validation:MinLength=1
	Network string `json:"network"`
	// The ID of the roll call of a controller that started, or that found the pool older than it was: the API server may
	// have been restored from a backup. Nodes repeat it in their NodeState; before that, nothing is granted.
	// +optional
	RollCall string `json:"rollCall,omitempty"`
	// No two of them overlap.
	// +optional
	// +listType=atomic
	Blocks []AddressBlock `json:"blocks,omitempty"`
}

// AddressBlock is a run of addresses that one node gives out, both ends included.
type AddressBlock struct {
	Node string `json:"node"`
	// Of the Node object that the block was granted to. A later Node of the same name does not have the block: the earlier
	// machine may still run. Earlier versions of the controller left it out.
	// +optional
	NodeUID string `json:"nodeUID,omitempty"`
	First   string `json:"first"`
	Last    string `json:"last"`
	// Of a single address that the node claimed: the claim's ID. The block goes when the claim does.
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
	// ConditionDisputed: a node claims an address that is another node's; the message says which.
	ConditionDisputed = "Disputed"
	// ConditionOutside: a node requests an address or a range that the network's NetworkAttachmentDefinition does not
	// have, which is refused, or a pod of it holds such an address. The message names the node, the address and the ranges.
	ConditionOutside = "Outside"
	// ConditionWaiting: a node holds an address that is in no block, so the API server may have been restored from a
	// backup. Nothing is granted until the nodes that the message names have said what they hold.
	ConditionWaiting = "Waiting"
)

// AddressPoolStatus is for people.
type AddressPoolStatus struct {
	// How many the network has, and how many of them are in blocks; 9223372036854775807 stands for more than that.
	// +optional
	Addresses int64 `json:"addresses"`
	// +optional
	Granted int64 `json:"granted"`
	// How many nodes have blocks.
	// +optional
	Nodes int32 `json:"nodes"`
	// Nodes that need addresses and were refused, for want of any.
	// +optional
	// +listType=set
	Starved []string `json:"starved,omitempty"`
	// Exhausted, Disputed, Outside and Waiting.
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

// AddressPoolName is the name of a network's AddressPool: the network's own where that is a name that objects may have,
// else one made of it that no other network has.
func AddressPoolName(network string) string {
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
