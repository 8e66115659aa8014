package engine

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
)

// discard counts a session's frames as they come out of the interface, and has the kernel
// drop them there, so that its IP stack is not what is measured: routing each frame to a
// closed port costs more than all before it, and a packet socket that counts them
// a third of that again. It is an eBPF program at the interface (TCX, Linux 6.6 and up;
// CAP_BPF and CAP_NET_ADMIN), before all others, that is gone with this process at the
// latest.
type discard struct {
	frames  *ebpf.Map // by processor
	program *ebpf.Program
	link    link.Link
}

// discardFrames returns an error where the kernel has no TCX or refuses.
func discardFrames(index int, session uint64, v6 bool) (*discard, error) {
	d := &discard{}
	var err error
	d.frames, err = ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.PerCPUArray, KeySize: 4, ValueSize: 8, MaxEntries: 1})
	if err != nil {
		return nil, fmt.Errorf("make a map that counts frames: %w", err)
	}
	d.program, err = ebpf.NewProgram(&ebpf.ProgramSpec{Type: ebpf.SchedCLS, License: "Apache-2.0", Instructions: discarding(d.frames.FD(), session, v6)})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("load a program that discards frames: %w", err), d.close())
	}
	d.link, err = link.AttachTCX(link.TCXOptions{Interface: index, Program: d.program, Attach: ebpf.AttachTCXIngress, Anchor: link.Head()})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("attach a program that discards frames: %w", err), d.close())
	}
	return d, nil
}

func (d *discard) close() error {
	var err error
	if d.link != nil {
		err = d.link.Close()
	}
	return errors.Join(err, d.program.Close(), d.frames.Close())
}

// count is how many frames arrived since the program was attached.
func (d *discard) count() (total uint64, err error) {
	var each []uint64
	if err := d.frames.Lookup(uint32(0), &each); err != nil {
		return 0, fmt.Errorf("count frames: %w", err)
	}
	for _, n := range each {
		total += n
	}
	return total, nil
}

// discarding counts a frame of the session and returns TCX_DROP, for others TCX_NEXT. It
// asks for the session by a helper, since a driver may have put no more than a
// frame's headers where a program can look (bpf_skb_load_bytes in bpf-helpers(7)).
func discarding(frames int, session uint64, v6 bool) asm.Instructions {
	const (
		next = -1
		drop = 2
		key  = -4
		word = -16
	)
	wanted := int64(binary.NativeEndian.Uint64(binary.BigEndian.AppendUint64(nil, session)))
	return asm.Instructions{
		asm.Mov.Imm(asm.R2, int32(sessionAt(v6))),
		asm.Mov.Reg(asm.R3, asm.RFP),
		asm.Add.Imm(asm.R3, word),
		asm.Mov.Imm(asm.R4, 8),
		asm.FnSkbLoadBytes.Call(),
		asm.JNE.Imm(asm.R0, 0, "next"),
		asm.LoadMem(asm.R1, asm.RFP, word, asm.DWord),
		asm.LoadImm(asm.R2, wanted, asm.DWord),
		asm.JNE.Reg(asm.R1, asm.R2, "next"),

		asm.StoreImm(asm.RFP, key, 0, asm.Word),
		asm.LoadMapPtr(asm.R1, frames),
		asm.Mov.Reg(asm.R2, asm.RFP),
		asm.Add.Imm(asm.R2, key),
		asm.FnMapLookupElem.Call(),
		asm.JEq.Imm(asm.R0, 0, "next"),
		asm.LoadMem(asm.R1, asm.R0, 0, asm.DWord),
		asm.Add.Imm(asm.R1, 1),
		asm.StoreMem(asm.R0, 0, asm.R1, asm.DWord),
		asm.Mov.Imm(asm.R0, drop),
		asm.Return(),

		asm.Mov.Imm(asm.R0, next).WithSymbol("next"),
		asm.Return(),
	}
}
