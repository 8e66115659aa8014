package vf

import "fmt"

// Process is a process of the host, for messages.
type Process struct {
	PID  int    `json:"pid"`
	Name string `json:"name"` // as the kernel has it, at most 15 bytes (proc(5), comm)
}

func (p Process) String() string { return fmt.Sprintf("%s (process %d)", p.Name, p.PID) }
