package api

// Methods that culvertd serves, and methods by which it asks the client of a dialog.
const (
	// MethodStatus returns the NodeStatus.
	MethodStatus = "status"
	// MethodMetrics returns the Metrics.
	MethodMetrics = "metrics"
	// MethodEvents streams Events: EventsRequest in.
	MethodEvents = "events"
	// MethodLedger returns the Ledger.
	MethodLedger = "ledger"
	// MethodHostPlan returns the changes that a host.yaml would cause: HostRequest in, Plan out.
	MethodHostPlan = "host.plan"
	// MethodHostApply applies a host.yaml: HostRequest in, ApplyResult out.
	MethodHostApply = "host.apply"
	// MethodHostTry applies a host.yaml and goes back unless MethodHostConfirm comes in time:
	// HostTryRequest in, ApplyResult out. MethodHostConfirm ends the trial, and the file stays:
	// HostTrial out. MethodHostRevert goes back at once: ApplyResult out.
	MethodHostTry     = "host.try"
	MethodHostConfirm = "host.confirm"
	MethodHostRevert  = "host.revert"

	// MethodRebase records a new baseline of a VF, or returns how the VF differs from its baseline:
	// RebaseRequest in, Rebased out.
	MethodRebase = "vf.rebase"

	// MethodLendRate is a dialog that gives an attached VF another rate for a while:
	// LendRateRequest in. MethodRateIsLent is its question: LentRate in.
	MethodLendRate   = "vf.lendRate"
	MethodRateIsLent = "vf.rateIsLent"

	// MethodCNI is a dialog that serves the CNI shim: CNIRequest in, CNIResponse out.
	// MethodPlugin is its question. It makes the shim run a CNI plugin where the runtime would run
	// it: PluginRequest in, PluginResponse out.
	MethodCNI    = "cni"
	MethodPlugin = "plugin"

	// MethodGuestXML gives a guest a VF: GuestXMLRequest in, GuestXML out.
	MethodGuestXML = "vm.xml"
	// MethodGuestDetach takes VFs back from a guest: GuestDetachRequest in,
	// GuestDetached out.
	MethodGuestDetach = "vm.detach"
	// culvert-hook reports libvirt's events by these methods: GuestReport in, GuestAnswer out. A
	// guest that is about to start gets the VFs that its definition names, and gives them back when
	// it has ended. libvirt takes a device of a network for a guest, or puts it back.
	MethodGuestStart  = "vm.start"
	MethodGuestStop   = "vm.stop"
	MethodPortCreated = "vm.portCreated"
	MethodPortDeleted = "vm.portDeleted"
)
