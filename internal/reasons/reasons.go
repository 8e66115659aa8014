// Package reasons names the reasons of the events and conditions that Culvert writes. People and
// their alerts look for these words, so a word never changes its meaning. docs/reference/events.md
// and docs/reference/api.md are generated from the comments here, block by block.
package reasons

// Events of a pod.
//
// culvertd writes them, and "kubectl describe pod" shows them. The events of a drain are from
// culvert-controller.
const (
	// Normal: a network of the pod is attached. The text has the interface and the addresses.
	AddedInterface = "AddedInterface"
	// Warning: a network of the pod could not be attached, so the pod does not start. The text has the
	// error and the next step. The kubelet tries again.
	NetworkFailed = "NetworkFailed"
	// Warning: another pod has the VF of the pod's ResourceClaim, so the pod does not start. Give each pod a
	// claim of its own by a ResourceClaimTemplate.
	ClaimInUse = "ClaimInUse"
	// Warning: the kubelet had a ResourceClaim of the pod prepared, and culvertd's ledger does not have it,
	// so the pod does not start. Delete the pod, so that the claim is prepared anew.
	ClaimNotPrepared = "ClaimNotPrepared"
	// Warning: a ResourceClaim holds a VF for the pod, and no network of the pod uses it. Add a
	// configuration to the claim, or a network to the pod's annotation.
	ClaimWithoutNetwork = "ClaimWithoutNetwork"
	// Warning: culvertd accepted a network or an annotation, and ignored a setting in it that is probably
	// a mistake. Correct the network or the annotation.
	NetworkSettingIgnored = "NetworkSettingIgnored"
	// Warning: a network over the pod's VF needs a trusted VF. Set trust to on in the VF's network.
	VFNotTrusted = "VFNotTrusted"
	// Warning: a network's default route goes before the only route of the pod's default network, so the
	// pod sends everything by that network. Leave the route out of ipam, give it a priority, or ask for it
	// by default-route in the pod's annotation.
	DefaultRouteReplaced = "DefaultRouteReplaced"
	// Warning: the pod can bypass its guard. Drop the capabilities that the text names.
	GuardNotEnforced = "GuardNotEnforced"
	// Warning: the AddressPool keeps the pod's address for a shorter time than the pod asks for. Raise
	// keepAddress of the pool, or lower the pod's annotation.
	AddressKeptShorter = "AddressKeptShorter"
	// Warning: another machine on the segment has an address that the pod was to get. culvertd gives
	// the pod another address, or refuses the network if it asks for this one. Remove the address from
	// the other machine, or exclude it. The ledger has this event too.
	DuplicateAddress = "DuplicateAddress"
	// Warning: a Service over a VF network cannot be balanced for the pod, as its VF is bound to
	// vfio-pci. Use a headless Service.
	ServiceUnreachable = "ServiceUnreachable"
	// Warning: the pod's VF no longer exists, or its interface is back on the host. Delete the pod, so
	// that its controller makes it anew.
	VFLost = "VFLost"
	// Warning: the pod's VF differs from its network, and culvertd cannot repair that while the pod
	// runs. Delete the pod, so that its controller makes it anew.
	VFChanged = "VFChanged"
	// Normal: culvert-controller evicted the pod, since the number of VFs of its PF is to change.
	Evicted = "Evicted"
	// Warning: a PodDisruptionBudget or the API server refuses the eviction. culvert-controller tries
	// again, and the node's change waits.
	EvictionRefused = "EvictionRefused"
)

// Events of a Node.
//
// culvertd writes them when a problem of its node begins and when it ends. The events of drains are
// from culvert-controller.
const (
	// Warning: a VF is in quarantine, and culvertd gives it to no owner until it is clean. The ledger has
	// this event too.
	Quarantined = "Quarantined"
	// Normal: the problem is over: a VF left its quarantine, or a condition of an AddressPool ended. The
	// ledger has this event too.
	Recovered = "Recovered"
	// Warning: a program or the host uses a VF outside Culvert, so culvertd gives it to no owner. Stop
	// that use. The ledger has this event too.
	UsedOutside = "UsedOutside"
	// Normal: the use outside Culvert has ended. The ledger has this event too.
	UseEnded = "UseEnded"
	// Warning: the node cannot reach its wanted state. The text has the reason.
	NotAsWanted = "NotAsWanted"
	// Normal: the node has reached its wanted state.
	AsWanted = "AsWanted"
	// Warning: a PF with VFs has no link. Check its cable and the port of its switch. The ledger has this
	// event too.
	LinkDown = "LinkDown"
	// Warning: a PF with VFs loses its link again and again. The kubelet gives no VF of it to a pod. The
	// ledger has this event too.
	LinkFlapping = "LinkFlapping"
	// Normal: the PF has a steady link again. The ledger has this event too.
	LinkUp = "LinkUp"
	// Warning: a PF or one of its VFs had errors of PCIe or of a transmit queue within ten minutes. The
	// ledger has this event too. As the reason of condition Healthy it has the same meaning.
	DeviceErrors = "DeviceErrors"
	// Normal: the device had no errors for ten minutes. The ledger has this event too.
	NoDeviceErrors = "NoDeviceErrors"
	// Warning: a VF has no carrier although its PF has a link. The pod gets this event too: delete it,
	// so that culvertd binds the VF's driver anew. The ledger has this event too. As the reason of
	// condition Healthy it has the same meaning.
	VFNoCarrier = "VFNoCarrier"
	// Normal: the VF has carrier again. The ledger has this event too.
	VFCarrier = "VFCarrier"
	// Warning: PFs of one pool do not hear each other, so their pods probably do not reach each other.
	// Divide the pool, or name the segments of the PFs.
	PFsDoNotHearEachOther = "PFsDoNotHearEachOther"
	// Normal: the PFs of the pool hear each other again.
	PFsHearEachOther = "PFsHearEachOther"
	// Normal: culvert-controller cordoned the node and evicts pods with VFs of a PF whose number of VFs
	// is to change.
	DrainBegan = "DrainBegan"
	// Normal: the change is made, and the node is uncordoned.
	DrainEnded = "DrainEnded"
	// Warning: a guest, a container outside Kubernetes or a program has a VF of the PF, so the
	// controller evicts no pod. Stop it, or detach its VF.
	DrainBlocked = "DrainBlocked"
	// Warning: the VFs were free for five minutes, and culvertd did not make the change. Solve the PF's
	// problems in the NodeState, then remove the annotation culvert.dev/drained-for from the Node.
	DrainGaveUp = "DrainGaveUp"
)

// Events of the ledger.
//
// "culvert events" and "culvert vf history" on the node show them, also without Kubernetes. culvertd
// keeps the last 10,000, or as many as its flag --keep-events says.
const (
	// Normal: a VF has an owner. The text names it.
	Attached = "Attached"
	// Normal: the kubelet prepared a ResourceClaim, and the VF waits for a pod of the claim. The text
	// names the claim and its pods.
	Prepared = "Prepared"
	// Normal: the kubelet reported that a ResourceClaim no longer needs the VF. It is a Warning if culvertd
	// ended the claim itself, since neither the cluster nor the kubelet knows it any more.
	Unprepared = "Unprepared"
	// Normal: a host.yaml is on trial ("culvert host apply --confirm"). Confirm it in time.
	HostTrial = "HostTrial"
	// Normal: an administrator confirmed the host.yaml on trial.
	HostConfirmed = "HostConfirmed"
	// Warning: the host.yaml on trial was not confirmed, and the one before it is in force.
	HostWentBack = "HostWentBack"
	// Warning: another program wrote host.yaml during its trial. The file stays as that program left it.
	HostTrialReplaced = "HostTrialReplaced"
	// Normal: the owner gave the VF back, and the VF is clean. It is a Warning if there was an error.
	Detached = "Detached"
	// Normal: the runtime named the valid attachments of a network (CNI GC), and this one was not among
	// them, so culvertd took the VF back.
	Collected = "Collected"
	// Warning: culvertd ended while it attached or released the VF, and then undid that.
	Undone = "Undone"
	// Warning: an attach failed, and culvertd has undone it. The text has the error.
	AttachFailed = "AttachFailed"
	// Warning: a guest no longer runs with its VF, and libvirt did not report that, so culvertd took the
	// VF back.
	GuestEnded = "GuestEnded"
	// Warning: a pod no longer exists and its VF is back on the host, and the runtime called no DEL, so
	// culvertd took the VF back.
	PodGone = "PodGone"
	// Warning: an administrator had culvertd take a VF's baseline anew ("culvert vf rebase"). The text has
	// the differences.
	Rebased = "Rebased"
	// Normal: a guest runs with a VF whose start libvirt's hook did not report. culvertd recorded it.
	Adopted = "Adopted"
	// Warning: another program changed settings of a VF that has an owner, and culvertd leaves them so,
	// as the pool's key drift says or as it could not change them.
	Drifted = "Drifted"
	// Warning: another program changed settings of a VF, and culvertd has set them again.
	DriftMended = "DriftMended"
	// Normal: culvertd made the VFs of a PF.
	VFsMade = "VFsMade"
	// Normal: a running guest got a whole PF, so culvertd leaves the PF and its VFs alone.
	PFTaken = "PFTaken"
	// Normal: the guest with the PF has ended, so culvertd serves the PF again.
	PFReturned = "PFReturned"
	// Warning: culvertd made another member of a bond active, since the PF of the active one failed.
	BondFailedOver = "BondFailedOver"
	// Normal: culvertd made the primary member of a bond active again.
	BondMovedBack = "BondMovedBack"
	// Normal: a measurement has a VF's rate for a bounded time.
	RateLent = "RateLent"
	// Normal: the VF has its own rate again.
	RateGivenBack = "RateGivenBack"
	// Warning: the ledger and libvirt's guests contradict each other. "culvert vm list" shows both.
	GuestContradicts = "GuestContradicts"
	// Normal: the ledger and libvirt agree about the guest again.
	GuestInOrder = "GuestInOrder"
	// Warning: a VF that had an owner no longer exists. The text names the owner that lost it.
	LeaseEnded = "LeaseEnded"
	// Normal: the ledger's file was written anew, without unused room.
	LedgerCompacted = "LedgerCompacted"
	// Warning: the ledger's file could not be written anew, and stays as it is.
	LedgerNotCompacted = "LedgerNotCompacted"
	// Warning: "culvert ledger repair" rebuilt the ledger. Compare it with the VFs of the node.
	LedgerRepaired = "LedgerRepaired"
	// Normal: a command of an administrator has changed something. The text has the command and the user.
	CommandRun = "CommandRun"
	// Warning: the ledger has an event here that culvertd cannot read.
	Damaged = "Damaged"
)
