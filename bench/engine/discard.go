package engine

import (
	"encoding/binary"
	"slices"

	"github.com/cilium/ebpf/asm"

	"github.com/culvert-net/culvert/kernel/bpf"
)

// discard counts a session's frames as they come out of the interface, and has the kernel
// drop them there, so that its IP stack is not what is measured: routing each frame to a
// closed port costs more than all before it, and a packet socket that counts them
// a third of that again.
type discard struct{ *bpf.Ingress }

// discardFrames returns an error where the kernel has no TCX or refuses.
func discardFrames(index int, session uint64, v6 bool) (*discard, error) {
	program, err := bpf.AttachIngress(index, func(frames bpf.Counter) asm.Instructions { return discarding(frames, session, v6) })
	if err != nil {
		return nil, err
	}
	return &discard{program}, nil
}

func (d *discard) close() error { return d.Close() }

// count is how many frames arrived since the program was attached.
func (d *discard) count() (uint64, error) { return d.Count() }

// discarding counts and drops a frame of the session, and leaves others alone. It
// asks for the session by a helper, since a driver may have put no more than a
// frame's headers where a program can look (bpf_skb_load_bytes in bpf-helpers(7)).
func discarding(frames bpf.Counter, session uint64, v6 bool) asm.Instructions {
	const word = -16
	wanted := int64(binary.NativeEndian.Uint64(binary.BigEndian.AppendUint64(nil, session)))
	others := bpf.Next.Return()
	others[0] = others[0].WithSymbol("others")
	return slices.Concat(asm.Instructions{
		asm.Mov.Imm(asm.R2, int32(sessionAt(v6))),
		asm.Mov.Reg(asm.R3, asm.RFP),
		asm.Add.Imm(asm.R3, word),
		asm.Mov.Imm(asm.R4, 8),
		asm.FnSkbLoadBytes.Call(),
		asm.JNE.Imm(asm.R0, 0, "others"),
		asm.LoadMem(asm.R1, asm.RFP, word, asm.DWord),
		asm.LoadImm(asm.R2, wanted, asm.DWord),
		asm.JNE.Reg(asm.R1, asm.R2, "others"),
	}, frames.Add("others"), bpf.Drop.Return(), others)
}
