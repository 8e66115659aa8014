package api

// Methods that culvertd serves, and those that it asks the client of a dialog for.
const (
	// MethodStatus returns the NodeStatus.
	MethodStatus = "status"
	// MethodEvents streams Events: EventsRequest in.
	MethodEvents = "events"
	// MethodLedger returns the Ledger.
	MethodLedger = "ledger"
	// MethodHostPlan says what a host.yaml would change: HostRequest in, Plan out.
	MethodHostPlan = "host.plan"
	// MethodHostApply applies a host.yaml: HostRequest in, ApplyResult out.
	MethodHostApply = "host.apply"

	// MethodRebase takes the baseline of a VF anew, or says what that would change:
	// RebaseRequest in, Rebased out.
	MethodRebase = "vf.rebase"

	// MethodLendRate is a dialog that gives an attached VF another rate for a while:
	// LendRateRequest in. MethodRateIsLent is its question: LentRate in.
	MethodLendRate   = "vf.lendRate"
	MethodRateIsLent = "vf.rateIsLent"

	// MethodCNI is a dialog that serves the CNI shim: CNIRequest in, CNIResponse out.
	// MethodPlugin is its question, which has the shim run a CNI plugin where the
	// runtime would run it: PluginRequest in, PluginResponse out.
	MethodCNI    = "cni"
	MethodPlugin = "plugin"

	// MethodGuestXML gives a guest a VF: GuestXMLRequest in, GuestXML out.
	MethodGuestXML = "vm.xml"
	// MethodGuestDetach takes VFs back from a guest: GuestDetachRequest in,
	// GuestDetached out.
	MethodGuestDetach = "vm.detach"
	// culvert-hook reports libvirt's events by these: GuestReport in, GuestAnswer out. A
	// guest that is about to start gets the VFs that its definition names; a guest that
	// has ended gives them back; libvirt takes a device of a network for a guest, or
	// puts it back.
	MethodGuestStart  = "vm.start"
	MethodGuestStop   = "vm.stop"
	MethodPortCreated = "vm.portCreated"
	MethodPortDeleted = "vm.portDeleted"
)
