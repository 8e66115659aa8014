package hold

import "time"

// Operations that a Stopwatch measures.
const (
	OperationAttach = "attach"
	OperationDetach = "detach"
)

// Steps of an attach, in their order. An attach that fails ends with StepUndo.
const (
	StepReserve   = "reserve"   // choose a VF, look whether it is clean, write its lease
	StepConfigure = "configure" // change the kernel as the lease wants
	StepPlugin    = "plugin"    // run another project's IPAM plugin, if the network names one
	StepReadBack  = "read_back" // compare the kernel with the lease
	StepRecord    = "record"    // write the outcome to the ledger
	StepUndo      = "undo"      // take the VF back
)

// Steps of a detach, in their order. The last one is StepRecord.
const (
	StepLock   = "lock"   // wait for other work on the VF
	StepIntent = "intent" // write to the ledger that the VF is being released
	StepReset  = "reset"  // bring the VF to its baseline and read it back
)

// StepsOf returns the steps of an operation.
func StepsOf(operation string) []string {
	if operation == OperationDetach {
		return []string{StepLock, StepIntent, StepReset, StepRecord}
	}
	return []string{StepReserve, StepConfigure, StepPlugin, StepReadBack, StepRecord, StepUndo}
}

// observer is metrics.Node. Its methods do not block.
type observer interface {
	// ObserveOperation takes an attach or a detach as a whole.
	ObserveOperation(operation string, took time.Duration, err error)
	// ObserveStep takes one step of an attach or a detach.
	ObserveStep(operation, step string, took time.Duration, err error)
	// ObserveRetry takes the outcome of a retry of a VF in quarantine: nil if the VF is clean.
	ObserveRetry(err error)
}

// unobserved is the observer where there are no metrics.
type unobserved struct{}

func (unobserved) ObserveOperation(string, time.Duration, error) {}

func (unobserved) ObserveStep(string, string, time.Duration, error) {}

func (unobserved) ObserveRetry(error) {}

// Stopwatch measures one attach or detach and its steps. It reads the clock once for each step. A nil
// Stopwatch measures nothing.
type Stopwatch struct {
	vfs         *VFs
	operation   string
	began, last time.Time
}

// StartWatch starts to measure an operation.
func (h *VFs) StartWatch(operation string) *Stopwatch {
	now := h.Now()
	return &Stopwatch{vfs: h, operation: operation, began: now, last: now}
}

// EndStep reports a step that began when the one before it ended.
func (w *Stopwatch) EndStep(step string, err error) {
	if w == nil {
		return
	}
	now := w.vfs.Now()
	w.vfs.Observe.ObserveStep(w.operation, step, now.Sub(w.last), err)
	w.last = now
}

// EndOperation reports the whole operation, with the outcome in err.
func (w *Stopwatch) EndOperation(err *error) {
	w.vfs.Observe.ObserveOperation(w.operation, w.vfs.Now().Sub(w.began), *err)
}
