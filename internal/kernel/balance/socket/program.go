package socket

import (
	"encoding/binary"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"golang.org/x/sys/unix"

	"github.com/culvert-net/culvert/internal/kernel/balance"
)

// hook is one place in the kernel where a program of Culvert runs.
type hook struct {
	name   string // of the pinned link
	attach ebpf.AttachType
	v6     bool
	build  func(tables, bool) asm.Instructions
}

// hooks are all of them. The kernel runs connect for TCP and for UDP sockets that connect,
// sendmsg for datagrams that name their destination, recvmsg for the source address that
// an application reads, and getpeername for the address of a connected socket.
var hooks = []hook{
	{"connect4", ebpf.AttachCGroupInet4Connect, false, connect},
	{"connect6", ebpf.AttachCGroupInet6Connect, true, connect},
	{"sendmsg4", ebpf.AttachCGroupUDP4Sendmsg, false, sendmsg},
	{"sendmsg6", ebpf.AttachCGroupUDP6Sendmsg, true, sendmsg},
	{"recvmsg4", ebpf.AttachCGroupUDP4Recvmsg, false, reverse},
	{"recvmsg6", ebpf.AttachCGroupUDP6Recvmsg, true, reverse},
	{"getpeername4", ebpf.AttachCgroupInet4GetPeername, false, reverse},
	{"getpeername6", ebpf.AttachCgroupInet6GetPeername, true, reverse},
}

// Offsets in struct bpf_sock_addr (linux/bpf.h).
const (
	ctxIP4      = 4
	ctxIP6      = 8
	ctxPort     = 24 // 16 bits in network order, read and written as 32
	ctxProtocol = 36
)

// Offsets from the frame pointer. The layouts are those of entry.go.
const (
	atKey     = -40  // key: an ID, and the address, port and protocol of a Frontend. 8 zero bytes follow
	atMember  = -64  // member: a set and the backend that is looked for in it
	atSlot    = -72  // slot: a set and a number
	atChosen  = -104 // choice: the backend that the connection goes to
	atOrigin  = -136 // key of an origin
	atPod     = -144 // cookie of the network namespace
	atRecords = -148 // index of the first of the pod's maps of records
	atIndex   = -152 // index of its maps of one kind
	atOldest  = -184 // key of the record that makes room for a new one

	keyAddr    = 8 // within a key
	keyPort    = 24
	keyProto   = 26
	keyOrigin  = 27
	addrPort   = 16 // within a choice, an origin and a backend: the port after the address
	choiceAge  = 24
	podRecords = 8 // within a pod
)

// readKey copies the address, port and protocol of the context into the key, whose ID stays
// zero, and the context into R6. It also writes the zeros behind the key. IPv4 addresses are mapped ones (RFC 4291, 2.5.5.2): an
// IPv6 socket that connects to one meets connect6.
func readKey(v6 bool) asm.Instructions {
	in := asm.Instructions{asm.Mov.Reg(asm.R6, asm.R1), asm.Mov.Imm(asm.R1, 0)}
	for i := range int16(5) {
		in = append(in, asm.StoreMem(asm.RFP, atKey+8*i, asm.R1, asm.DWord))
	}
	if v6 {
		for i := range int16(4) {
			in = append(in, asm.LoadMem(asm.R1, asm.R6, ctxIP6+4*i, asm.Word), asm.StoreMem(asm.RFP, atKey+keyAddr+4*i, asm.R1, asm.Word))
		}
	} else {
		mapped := int64(int32(binary.NativeEndian.Uint32([]byte{0, 0, 0xff, 0xff})))
		in = append(in,
			asm.StoreImm(asm.RFP, atKey+keyAddr+8, mapped, asm.Word),
			asm.LoadMem(asm.R1, asm.R6, ctxIP4, asm.Word), asm.StoreMem(asm.RFP, atKey+keyAddr+12, asm.R1, asm.Word))
	}
	return append(in,
		asm.LoadMem(asm.R1, asm.R6, ctxPort, asm.Word), asm.StoreMem(asm.RFP, atKey+keyPort, asm.R1, asm.Half),
		asm.LoadMem(asm.R1, asm.R6, ctxProtocol, asm.Word), asm.StoreMem(asm.RFP, atKey+keyProto, asm.R1, asm.Byte))
}

// writeAddress sets the context's address and port to those at an offset from a register.
func writeAddress(v6 bool, from asm.Register, offset int16) asm.Instructions {
	var in asm.Instructions
	if v6 {
		for i := range int16(4) {
			in = append(in, asm.LoadMem(asm.R1, from, offset+4*i, asm.Word), asm.StoreMem(asm.R6, ctxIP6+4*i, asm.R1, asm.Word))
		}
	} else {
		in = append(in, asm.LoadMem(asm.R1, from, offset+12, asm.Word), asm.StoreMem(asm.R6, ctxIP4, asm.R1, asm.Word))
	}
	return append(in, asm.LoadMem(asm.R1, from, offset+addrPort, asm.Half), asm.StoreMem(asm.R6, ctxPort, asm.R1, asm.Word))
}

// lookUp sets R0 to the value of a key on the stack, or to 0.
func lookUp(m *ebpf.Map, key int32) asm.Instructions {
	return asm.Instructions{
		asm.LoadMapPtr(asm.R1, m.FD()), asm.Mov.Reg(asm.R2, asm.RFP), asm.Add.Imm(asm.R2, key), asm.FnMapLookupElem.Call(),
	}
}

// ask calls a helper with the context.
func ask(helper asm.BuiltinFunc) asm.Instructions {
	return asm.Instructions{asm.Mov.Reg(asm.R1, asm.R6), helper.Call()}
}

// one returns a single instruction, at a symbol.
func one(symbol string, in asm.Instruction) asm.Instructions {
	return asm.Instructions{in.WithSymbol(symbol)}
}

// join concatenates.
func join(all ...asm.Instructions) (out asm.Instructions) {
	for _, in := range all {
		out = append(out, in...)
	}
	return out
}

func connect(m tables, v6 bool) asm.Instructions { return forward(m, v6, false) }
func sendmsg(m tables, v6 bool) asm.Instructions { return forward(m, v6, true) }

// forward sends a connection or a datagram to a backend. R7 has the affinity in seconds, and R9 the
// set of backends and how many it has.
func forward(m tables, v6, datagram bool) asm.Instructions {
	return join(
		readKey(v6), findRule(m),
		findChoice(m, datagram),
		choose(m, datagram),
		remember(m, datagram), writeAddress(v6, asm.RFP, atChosen),
		one("pass", asm.Mov.Imm(asm.R0, 1)), asm.Instructions{asm.Return()},
		one("refuse", asm.Mov.Imm(asm.R1, -int32(unix.ECONNREFUSED))), asm.Instructions{
			asm.FnSetRetval.Call(), asm.Mov.Imm(asm.R0, 0), asm.Return(),
		},
	)
}

// findRule looks the destination up in the view of the network namespace, and then among the
// foreign Frontends. It lets a destination pass that is in neither, and every destination of a
// network namespace without a view.
func findRule(m tables) asm.Instructions {
	return join(
		ask(asm.FnGetNetnsCookie),
		asm.Instructions{asm.StoreMem(asm.RFP, atPod, asm.R0, asm.DWord)},
		lookUp(m.pods, atPod), asm.Instructions{asm.JEq.Imm(asm.R0, 0, "pass")},
		findSlot(),
		asm.Instructions{
			asm.LoadMem(asm.R1, asm.R0, 0, asm.DWord), asm.StoreMem(asm.RFP, atKey, asm.R1, asm.DWord),
		},
		lookUp(m.rules, atKey),
		asm.Instructions{
			asm.JNE.Imm(asm.R0, 0, "found"),
			asm.Mov.Imm(asm.R1, int32(balance.Foreign)), asm.StoreMem(asm.RFP, atKey, asm.R1, asm.DWord),
		},
		lookUp(m.rules, atKey),
		asm.Instructions{asm.JEq.Imm(asm.R0, 0, "pass")},
		// Set and count are read at once, since the kernel may reuse the element.
		one("found", asm.LoadMem(asm.R9, asm.R0, 0, asm.DWord)),
		asm.Instructions{
			asm.LoadMem(asm.R7, asm.R0, 8, asm.DWord),
			asm.Mov.Reg(asm.R1, asm.R9), asm.RSh.Imm(asm.R1, 32), asm.JEq.Imm(asm.R1, 0, "refuse"),
		},
	)
}

// findChoice goes to an earlier choice while that is one of the backends. With affinity it is the
// choice of the client, and without affinity the choice of a socket that sends datagrams.
// findChoice leaves the key of the choice and the index of its map on the stack.
func findChoice(m tables, datagram bool) asm.Instructions {
	whose := append(setKind(clients),
		asm.LoadMem(asm.R1, asm.RFP, atPod, asm.DWord), asm.StoreMem(asm.RFP, atKey, asm.R1, asm.DWord))
	if datagram {
		whose = join(
			whose,
			asm.Instructions{asm.JNE.Imm(asm.R7, 0, "whose")}, setKind(sockets),
			ask(asm.FnGetSocketCookie),
			asm.Instructions{asm.StoreMem(asm.RFP, atKey, asm.R0, asm.DWord)},
		)
	} else {
		whose = append(whose, asm.JEq.Imm(asm.R7, 0, "random"))
	}
	return join(
		whose,
		one("whose", asm.Mov.Reg(asm.R7, asm.R7)),
		lookUp(m.records, atIndex),
		asm.Instructions{asm.JEq.Imm(asm.R0, 0, "derive")},
		callWith(asm.FnMapLookupElem, asm.R0, atKey),
		asm.Instructions{
			asm.JEq.Imm(asm.R0, 0, "derive"),
			asm.Mov.Reg(asm.R8, asm.R0),
			asm.JEq.Imm(asm.R7, 0, "member"),
			asm.FnKtimeGetNs.Call(),
			asm.LoadMem(asm.R1, asm.R8, choiceAge, asm.DWord), asm.Sub.Reg(asm.R0, asm.R1),
			asm.Mov.Reg(asm.R2, asm.R7), asm.Mul.Imm(asm.R2, int32(time.Second)),
			asm.JGT.Reg(asm.R0, asm.R2, "random"),
		},
		one("member", asm.StoreMem(asm.RFP, atMember, asm.R9, asm.Word)),
		asm.Instructions{
			asm.LoadMem(asm.R1, asm.R8, addrPort, asm.Word), asm.StoreMem(asm.RFP, atMember+4, asm.R1, asm.Word),
			asm.StoreMem(asm.RFP, atChosen+addrPort, asm.R1, asm.Word),
			asm.LoadMem(asm.R1, asm.R8, 0, asm.DWord), asm.StoreMem(asm.RFP, atMember+8, asm.R1, asm.DWord),
			asm.StoreMem(asm.RFP, atChosen, asm.R1, asm.DWord),
			asm.LoadMem(asm.R1, asm.R8, 8, asm.DWord), asm.StoreMem(asm.RFP, atMember+16, asm.R1, asm.DWord),
			asm.StoreMem(asm.RFP, atChosen+8, asm.R1, asm.DWord),
		},
		lookUp(m.members, atMember),
		asm.Instructions{
			asm.JEq.Imm(asm.R0, 0, "derive"),
			asm.FnKtimeGetNs.Call(), asm.StoreMem(asm.R8, choiceAge, asm.R0, asm.DWord),
			asm.Ja.Label("remember"),
		},
	)
}

// choose takes a backend, and stores the choice if affinity or later datagrams of the socket need
// it. For these it derives the backend from the client or the socket and the ClusterIP. So a choice
// that had no room among the records of its pod is the same next time, while the backends are.
func choose(m tables, datagram bool) asm.Instructions {
	var needless asm.Instructions
	if !datagram {
		needless = asm.Instructions{asm.JEq.Imm(asm.R7, 0, "remember")}
	}
	return join(
		one("derive", asm.LoadMem(asm.R0, asm.RFP, atKey, asm.DWord)),
		asm.Instructions{
			asm.LoadMem(asm.R1, asm.RFP, atKey+keyAddr+8, asm.DWord), asm.Xor.Reg(asm.R0, asm.R1),
			asm.LoadImm(asm.R1, hashFactor, asm.DWord), asm.Mul.Reg(asm.R0, asm.R1), asm.RSh.Imm(asm.R0, 32),
			asm.Ja.Label("choose"),
		},
		one("random", asm.FnGetPrandomU32.Call()),
		one("choose", asm.Mov.Reg(asm.R1, asm.R9)),
		asm.Instructions{
			asm.RSh.Imm(asm.R1, 32), asm.Mod.Reg(asm.R0, asm.R1),
			asm.StoreMem(asm.RFP, atSlot, asm.R9, asm.Word), asm.StoreMem(asm.RFP, atSlot+4, asm.R0, asm.Word),
		},
		lookUp(m.backends, atSlot),
		asm.Instructions{
			asm.JEq.Imm(asm.R0, 0, "refuse"),
			asm.LoadMem(asm.R1, asm.R0, 0, asm.DWord), asm.StoreMem(asm.RFP, atChosen, asm.R1, asm.DWord),
			asm.LoadMem(asm.R1, asm.R0, 8, asm.DWord), asm.StoreMem(asm.RFP, atChosen+8, asm.R1, asm.DWord),
			asm.LoadMem(asm.R1, asm.R0, addrPort, asm.DWord), asm.StoreMem(asm.RFP, atChosen+addrPort, asm.R1, asm.DWord),
		},
		needless,
		asm.Instructions{asm.FnKtimeGetNs.Call(), asm.StoreMem(asm.RFP, atChosen+choiceAge, asm.R0, asm.DWord)},
		record(m, "choice", atKey, atChosen, true),
	)
}

// hashFactor makes consecutive IDs differ in their upper bits: 2^64 divided by the golden ratio
// (Knuth, The Art of Computer Programming, 6.4).
const hashFactor = -0x61c8864680b583eb

// remember stores which Frontend the socket means when the kernel names the backend. The Frontend
// is the part of the key behind its ID. A socket connects once, and sends many datagrams.
func remember(m tables, datagram bool) asm.Instructions {
	return join(
		one("remember", asm.Mov.Reg(asm.R6, asm.R6)), setKind(sockets),
		ask(asm.FnGetSocketCookie),
		asm.Instructions{
			asm.StoreMem(asm.RFP, atOrigin, asm.R0, asm.DWord),
			asm.LoadMem(asm.R1, asm.RFP, atChosen, asm.DWord), asm.StoreMem(asm.RFP, atOrigin+keyAddr, asm.R1, asm.DWord),
			asm.LoadMem(asm.R1, asm.RFP, atChosen+8, asm.DWord), asm.StoreMem(asm.RFP, atOrigin+keyAddr+8, asm.R1, asm.DWord),
			asm.Mov.Imm(asm.R1, 0), asm.StoreMem(asm.RFP, atOrigin+keyPort, asm.R1, asm.DWord),
			asm.LoadMem(asm.R1, asm.RFP, atChosen+addrPort, asm.Half), asm.StoreMem(asm.RFP, atOrigin+keyPort, asm.R1, asm.Half),
			asm.LoadMem(asm.R1, asm.RFP, atKey+keyProto, asm.Byte), asm.StoreMem(asm.RFP, atOrigin+keyProto, asm.R1, asm.Byte),
			asm.StoreImm(asm.RFP, atOrigin+keyOrigin, 1, asm.Byte),
		},
		record(m, "origin", atOrigin, atKey+keyAddr, datagram),
	)
}

// reverse shows an application the address of the Frontend in place of the backend that the kernel
// has.
func reverse(m tables, v6 bool) asm.Instructions {
	return join(
		readKey(v6), ask(asm.FnGetNetnsCookie),
		asm.Instructions{asm.StoreMem(asm.RFP, atPod, asm.R0, asm.DWord)},
		lookUp(m.pods, atPod), asm.Instructions{asm.JEq.Imm(asm.R0, 0, "pass")},
		findSlot(), setKind(sockets),
		lookUp(m.records, atIndex),
		asm.Instructions{asm.JEq.Imm(asm.R0, 0, "pass"), asm.Mov.Reg(asm.R8, asm.R0)},
		ask(asm.FnGetSocketCookie),
		asm.Instructions{asm.StoreMem(asm.RFP, atKey, asm.R0, asm.DWord), asm.StoreImm(asm.RFP, atKey+keyOrigin, 1, asm.Byte)},
		callWith(asm.FnMapLookupElem, asm.R8, atKey),
		asm.Instructions{asm.JEq.Imm(asm.R0, 0, "pass")},
		writeAddress(v6, asm.R0, 0),
		one("pass", asm.Mov.Imm(asm.R0, 1)), asm.Instructions{asm.Return()},
	)
}
