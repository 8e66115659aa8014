// Package bpf loads eBPF programs and attaches them to interfaces.
//
// AttachIngress takes a program's instructions and an interface of the calling thread's network
// namespace. It returns the attached program, whose Count returns the number of packets that it
// counted. Package bench/engine calls it. The programs of culvertd are in kernel/balance/socket.
package bpf

import (
	"errors"
	"fmt"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
)

// Ingress is an attached program that sees the packets that an interface receives, before all other
// programs there, and counts them. It ends with this process at the latest.
type Ingress struct {
	counter *ebpf.Map // one number for each processor
	program *ebpf.Program
	link    link.Link
}

// Action is what a program at an interface returns (enum tcx_action_base in linux/bpf.h).
type Action int32

// The actions of a program at an interface.
const (
	Next Action = -1 // the next program sees the packet, and after the last the kernel
	Drop Action = 2
)

// AttachIngress loads a program and attaches it to the interface of that index by TCX (Linux
// 6.6 and up; CAP_BPF and CAP_NET_ADMIN). program makes the instructions, which may count. The
// error matches [ebpf.ErrNotSupported] where the kernel has no TCX.
func AttachIngress(index int, program func(counter Counter) asm.Instructions) (*Ingress, error) {
	i := &Ingress{}
	var err error
	i.counter, err = ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.PerCPUArray, KeySize: 4, ValueSize: 8, MaxEntries: 1})
	if err != nil {
		return nil, fmt.Errorf("make the map of an eBPF program: %w", err)
	}
	i.program, err = ebpf.NewProgram(&ebpf.ProgramSpec{Type: ebpf.SchedCLS, License: "Apache-2.0", Instructions: program(Counter(i.counter.FD()))})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("load an eBPF program: %w", err), i.Close())
	}
	i.link, err = link.AttachTCX(link.TCXOptions{Interface: index, Program: i.program, Attach: ebpf.AttachTCXIngress, Anchor: link.Head()})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("attach an eBPF program to interface %d: %w", index, err), i.Close())
	}
	return i, nil
}

// Close detaches the program and unloads it.
func (i *Ingress) Close() error {
	var err error
	if i.link != nil {
		err = i.link.Close()
	}
	return errors.Join(err, i.program.Close(), i.counter.Close())
}

// Count returns how often the program counted since it was attached.
func (i *Ingress) Count() (total uint64, err error) {
	var each []uint64
	if err := i.counter.Lookup(uint32(0), &each); err != nil {
		return 0, fmt.Errorf("read the counter of an eBPF program: %w", err)
	}
	for _, n := range each {
		total += n
	}
	return total, nil
}

// Counter is the counter of a program, as its instructions name it.
type Counter int

// Add returns the instructions that add one to the counter and continue with the next instruction.
// They use the four bytes below the frame pointer and the registers R0 to R5. They jump to the
// symbol lost if the counter does not exist, a case that the verifier demands.
func (c Counter) Add(lost string) asm.Instructions {
	const key = -4
	return asm.Instructions{
		asm.StoreImm(asm.RFP, key, 0, asm.Word),
		asm.LoadMapPtr(asm.R1, int(c)),
		asm.Mov.Reg(asm.R2, asm.RFP),
		asm.Add.Imm(asm.R2, key),
		asm.FnMapLookupElem.Call(),
		asm.JEq.Imm(asm.R0, 0, lost),
		asm.LoadMem(asm.R1, asm.R0, 0, asm.DWord),
		asm.Add.Imm(asm.R1, 1),
		asm.StoreMem(asm.R0, 0, asm.R1, asm.DWord),
	}
}

// Return returns the instructions that end a program with an action.
func (a Action) Return() asm.Instructions {
	return asm.Instructions{asm.Mov.Imm(asm.R0, int32(a)), asm.Return()}
}
