package vf

import "fmt"

// Process is a process of the host, for messages.
type Process struct {
	PID  int    `json:"pid"`
	Name string `json:"name"` // as the kernel has it, at most 15 bytes (proc(5), comm)
}

func (p Process) String() string { return fmt.Sprintf("%s (process %d)", p.Name, p.PID) }

// Use is how a VF is used without a lease in the ledger.
type Use struct {
	Pod string  // that the kubelet gave it to, namespace/name
	By  Process // that has it open, where no pod is known
}

func (u Use) String() string {
	if u.Pod != "" {
		return "given by the kubelet to pod " + u.Pod
	}
	return "open by " + u.By.String()
}
