package vf

// Fault is a kind of error that a PF or one of its VFs had of late. A NodeState has its name.
type Fault string

// The kinds of faults. Correctable errors are none: no data is lost, and some machines have them
// all day.
const (
	FaultPCIe          Fault = "PCIe"          // an error that PCIe does not correct
	FaultTransmitQueue Fault = "TransmitQueue" // a queue that did not send in time
)

// Faults returns all kinds of faults.
func Faults() []Fault { return []Fault{FaultPCIe, FaultTransmitQueue} }

// Describe describes the error that a PF with the fault had.
func (f Fault) Describe() string {
	switch f {
	case FaultPCIe:
		return "had PCIe errors"
	case FaultTransmitQueue:
		return "had a transmit queue that did not send in time"
	}
	return "had errors (" + string(f) + ")"
}
