package reasons

// Events of a Service.
//
// culvert-controller writes them when their text changes. The words are also reasons of the
// condition culvert.dev/Endpoints of the Service.
const (
	// Normal: only a reason of the condition, which is True: Culvert makes the Service's EndpointSlices.
	Served = "Served"
	// Warning: Culvert does not serve the Service, although its annotation asks for that. The text says
	// why, such as a type of Service that cannot be served.
	NotServed = "NotServed"
	// Warning: ready pods of the Service have no address on the network. The text names them. Check the
	// pods' annotations.
	EndpointsMissing = "EndpointsMissing"
	// Warning: the Service's network does not exist, or namespace isolation keeps it from the Service.
	NetworkMissing = "NetworkMissing"
	// Warning: only an event: the text names pods of the Service whose VFs are bound to vfio-pci and have
	// no address.
	VFIOPod = "VFIOPod"
	// Warning: only an event: nodes do not balance connections to the Service, since its namespace uses
	// more than its share of their room. The text names them.
	NoRoom = "NoRoom"
)

// Events of an AddressPool.
//
// culvert-controller writes one when a condition of the pool begins to report a problem, and
// Recovered when the problem is over. The words are also the reasons of the conditions. The reason
// of a condition without a problem begins with No, such as NoExhausted.
const (
	// Warning: condition Exhausted: a node needs addresses, and none are left for it. Widen the ranges.
	Exhausted = "Exhausted"
	// Warning: condition Disputed: a node claims an address of another node. The text names both. In
	// condition AddressesOwned of a NodeState, pods of that node have such an address: delete them.
	Disputed = "Disputed"
	// Warning: condition Outside: a node requests, or a pod has, an address that the network or the pool
	// does not have. The text names the node and the address.
	Outside = "Outside"
	// Warning: condition Overlaps: another pool has addresses of this pool. Keep the networks of the two
	// apart by VLAN or NIC, or change the subnets of one.
	Overlaps = "Overlaps"
	// Warning: condition TooLarge: the pool has too many blocks for one object, or a node too many of
	// them. Declare a larger blockSize, or divide the network.
	TooLarge = "TooLarge"
	// Warning: condition Waiting: the API server was restored from a backup, so the controller grants
	// nothing until the nodes in the text have reported their addresses. Delete the Node objects of
	// machines that are gone.
	Restored = "Restored"
	// Warning: condition Waiting: nodes hold addresses that are in no block, as after a restore. As
	// Restored.
	Waiting = "Waiting"
	// Warning: condition Valid is False: Culvert cannot serve the subnets of the pool, or cannot read the
	// NodePolicy. The text has the mistake. In condition DevicePluginConfigRead of a NodeState, culvertd
	// cannot read the ConfigMap.
	Invalid = "Invalid"
)

// Reasons of other conditions.
//
// They are in no event.
const (
	// NodePolicy Applied: every selected node follows the policy. Also of NodeState PoliciesApplied: the
	// node follows its policies.
	Applied = "Applied"
	// NodePolicy Applied: nodes have not applied the policy yet, or cannot. The message names them. Also
	// of NodeState PoliciesApplied.
	Pending = "Pending"
	// NodePolicy Applied: no node has the labels of nodeSelector.
	NoNodes = "NoNodes"
	// NodePolicy EmptyPool: the message names the pools that have no VF on any selected node.
	NoVF = "NoVF"
	// NodePolicy EmptyPool: each pool has a VF.
	VFs = "VFs"
	// NodePolicy Conflict: another policy of the same priority contradicts this one.
	Contradicts = "Contradicts"
	// NodePolicy Conflict: no other policy contradicts this one.
	NoConflict = "NoConflict"
	// NodePolicy Healthy: all PFs on which the policy wants VFs are healthy.
	Healthy = "Healthy"
	// NodePolicy Healthy: culvertd cannot read a PF.
	Unreadable = "Unreadable"
	// NodePolicy Healthy: a PF has no link.
	NoLink = "NoLink"
	// NodePolicy Healthy: the link of a PF is flapping.
	Flapping = "Flapping"
	// NodePolicy Healthy: a PF has VFs in quarantine.
	Quarantine = "Quarantine"
	// NodePolicy Healthy: there are faults of several kinds. The message has them.
	Several = "Several"
	// NodePolicy Maintenance: the policy is new, and its DeviceTaintRules follow.
	Beginning = "Beginning"
	// NodePolicy Maintenance: the effect is None. The message says how many pods NoExecute would evict.
	DryRun = "DryRun"
	// NodePolicy Maintenance: no new pod gets a VF of the PFs by a claim.
	NoSchedule = "NoSchedule"
	// NodePolicy Maintenance: Kubernetes evicts the pods that have VFs of the PFs by claims.
	NoExecute = "NoExecute"
	// NodePolicy Maintenance: no PF with VFs on the selected nodes has a name that the policy names.
	NoPF = "NoPF"
	// NodePolicy Maintenance: the cluster is older than Kubernetes 1.37.
	NoTaintRules = "NoTaintRules"
	// NodePolicy Maintenance: the API server refused a DeviceTaintRule. The message says why.
	NotWritten = "NotWritten"
	// NodePolicy Valid: Culvert can read the policy. Also of AddressPool Valid.
	Valid = "Valid"
	// NodeState Ready: culvertd serves attachments.
	Serving = "Serving"
	// NodeState Ready: culvertd has not made the VFs yet.
	Starting = "Starting"
	// NodeState PoliciesApplied: policies of the same priority contradict each other.
	Conflict = "Conflict"
	// NodeState PoliciesApplied: culvertd has not read the cluster's policies yet.
	NotHeard = "NotHeard"
	// NodeState PoliciesApplied: no policy selects the node.
	NoPolicies = "NoPolicies"
	// NodeState AddressesOwned: the node has the addresses that its pods hold.
	Owned = "Owned"
	// NodeState AddressesOwned: culvertd cannot read addresses of its ledger. "culvert ledger check"
	// shows them.
	Unread = "Unread"
	// NodeState DevicePluginConfigRead: the node serves all resources of the ConfigMap.
	Read = "Read"
	// NodeState DevicePluginConfigRead: the node does not serve the resources in the message.
	NotAllServed = "NotAllServed"
	// ResourceClaim Clean: the VF equals its baseline, and neither its last owner nor another program had
	// changed it.
	ReadBack = "ReadBack"
	// ResourceClaim Clean: the VF equals its baseline after a reset, which undid changes. The message names
	// their attributes.
	ChangesUndone = "ChangesUndone"
	// ResourceClaim Clean: the VF equals its baseline after a reset. The message says why it is not known
	// what had changed before.
	ChangesUnknown = "ChangesUnknown"
	// ResourceClaim Clean: an earlier version of culvertd prepared the VF, so the ledger has no readback.
	NoReadback = "NoReadback"
)
