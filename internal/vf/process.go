package vf

import "fmt"

// Process is a process of the host, for messages. The zero value stands for one that could not be
// found.
type Process struct {
	PID  int    `json:"pid"`
	Name string `json:"name"` // as the kernel has it, at most 15 bytes (proc(5), comm)
	// Guest is the guest that the process runs, if it is a QEMU whose arguments name one: the number
	// that Proxmox VE gives it, if it does, and the name, as "100 web".
	Guest string `json:"guest,omitempty"`
}

func (p Process) String() string {
	switch {
	case p == Process{}:
		return "a process that culvertd could not find in time"
	case p.Guest != "":
		return fmt.Sprintf("%s %s (%s, process %d)", OwnerGuest, p.Guest, p.Name, p.PID)
	}
	return fmt.Sprintf("%s (process %d)", p.Name, p.PID)
}

// Use is the use of a VF for which the ledger has no lease. One of the fields is set; the zero value
// is no use.
type Use struct {
	Pod string  // that the kubelet gave it to, namespace/name
	By  Process // that has it open
	How string  // what the host's network shows, e.g. "its interface is in another network namespace"
}

func (u Use) String() string {
	switch {
	case u.Pod != "":
		return "given by the kubelet to pod " + u.Pod
	case u.How != "":
		return u.How
	case u.By.Guest != "":
		return u.By.String()
	}
	return "open by " + u.By.String()
}
