package engine

import (
	"encoding/binary"
	"slices"

	"github.com/cilium/ebpf/asm"

	"github.com/culvert-net/culvert/internal/kernel/bpf"
)

// discard counts a session's frames as they come out of the interface, and has the kernel drop them
// there, so that the measurement does not include its IP stack. Routing each frame to a closed port
// costs more than all steps before it, and a packet socket that counts the frames costs a third of
// that again.
type discard struct{ *bpf.Ingress }

// discardFrames attaches the program that discards the session's frames to an interface. It returns
// an error if the kernel has no TCX or refuses the program.
func discardFrames(index int, a arriving) (*discard, error) {
	program, err := bpf.AttachIngress(index, func(frames bpf.Counter) asm.Instructions { return discardProgram(frames, a) })
	if err != nil {
		return nil, err
	}
	return &discard{program}, nil
}

func (d *discard) close() error { return d.Close() }

// countFrames returns how many frames arrived since the program was attached.
func (d *discard) countFrames() (uint64, error) { return d.Count() }

// discardProgram counts and drops a frame that has all fields of the session, and leaves others
// alone, the host's own traffic among them (TestDiscardMatchesExactly). It copies the fields by a
// helper, since a driver may have put no more than a frame's headers where a program can look
// (bpf_skb_load_bytes in bpf-helpers(7)).
func discardProgram(frames bpf.Counter, a arriving) asm.Instructions {
	const (
		vlanTag = 24  // of struct __sk_buff in linux/bpf.h
		frame   = -74 // where byte 0 of the frame would be on the stack: fields of 4 bytes are aligned
	)
	fields := a.listFields()
	first, last := fields[0], fields[len(fields)-1]
	program := asm.Instructions{
		asm.LoadMem(asm.R2, asm.R1, vlanTag, asm.Word),
		asm.And.Imm32(asm.R2, vlanID),
		asm.JNE.Imm32(asm.R2, 0, "others"),
		asm.Mov.Imm(asm.R2, int32(first.at)),
		asm.Mov.Reg(asm.R3, asm.RFP),
		asm.Add.Imm(asm.R3, frame+int32(first.at)),
		asm.Mov.Imm(asm.R4, int32(last.at+last.size-first.at)),
		asm.FnSkbLoadBytes.Call(),
		asm.JNE.Imm(asm.R0, 0, "others"),
	}
	for _, f := range fields {
		mask, value, size := f.inMemory()
		program = append(program, asm.LoadMem(asm.R1, asm.RFP, frame+int16(f.at), size))
		if f.mask != 1<<(8*f.size)-1 {
			program = append(program, asm.And.Imm32(asm.R1, mask))
		}
		program = append(program, asm.JNE.Imm32(asm.R1, value, "others"))
	}
	others := bpf.Next.Return()
	others[0] = others[0].WithSymbol("others")
	return slices.Concat(program, frames.Add("others"), bpf.Drop.Return(), others)
}

// inMemory returns a field's mask and value as a program loads them, in this machine's byte order.
func (f field) inMemory() (mask, value int32, size asm.Size) {
	load := func(v uint32) int32 {
		b := binary.BigEndian.AppendUint32(nil, v)[4-f.size:]
		switch f.size {
		case 1:
			return int32(b[0])
		case 2:
			return int32(binary.NativeEndian.Uint16(b))
		}
		return int32(binary.NativeEndian.Uint32(b))
	}
	return load(f.mask), load(f.value), map[uint32]asm.Size{1: asm.Byte, 2: asm.Half, 4: asm.Word}[f.size]
}
