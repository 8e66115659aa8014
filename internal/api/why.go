package api

import "time"

// States of a pod or guest in a Why.
const (
	WhyWaits = "waits" // for something, before it runs
	WhyRuns  = "runs"
	WhyEnds  = "ends"  // it is being deleted, and is not gone yet
	WhyEnded = "ended" // it will not run again
)

// Why is the answer to the question why a pod or guest does not run, or what is wrong with its VFs.
type Why struct {
	Object string    `json:"object"` // pod default/a, guest db1
	State  string    `json:"state"`
	Since  time.Time `json:"since,omitzero"` // of the state
	Node   string    `json:"node,omitempty"`
	Time   time.Time `json:"time"`
	// Causes has the most probable cause first. There are none if nothing is wrong.
	Causes []Cause `json:"causes"`
}

// Cause is one reason why something waits, or one thing that is wrong with it.
type Cause struct {
	// Source is the program or object that reports the cause: scheduler, kubelet, culvertd, NodeStates.
	Source string    `json:"source"`
	Text   string    `json:"text"`
	Since  time.Time `json:"since,omitzero"`
	// Details has a line for each node or VF, such as the owners of the VFs of a pool.
	Details []string `json:"details,omitempty"`
	// Next is what would help.
	Next string `json:"next,omitempty"`
}
