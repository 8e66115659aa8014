package engine

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// discard has the kernel drop a session's frames as soon as they have been counted, so that its IP
// stack is not what is measured: routing each frame to a closed port costs more than all
// before it. It is an eBPF program at the interface (TCX, Linux 6.6 and
// up; CAP_BPF and CAP_NET_ADMIN) that is gone with this process at the latest.
// Nil discards nothing.
type discard struct{ program, link int }

// discardFrames returns an error where the kernel has no TCX or refuses.
func discardFrames(index int, session uint64, v6 bool) (*discard, error) {
	code := discarding(session, v6)
	license := []byte("Apache-2.0\x00")
	load := struct { // of union bpf_attr (linux/bpf.h), as far as it matters
		kind, count   uint32
		code, license uint64
	}{
		unix.BPF_PROG_TYPE_SCHED_CLS, uint32(len(code)),
		uint64(uintptr(unsafe.Pointer(&code[0]))), uint64(uintptr(unsafe.Pointer(&license[0]))),
	}
	program, err := bpfCall(unix.BPF_PROG_LOAD, unsafe.Pointer(&load), unsafe.Sizeof(load))
	runtime.KeepAlive(code)
	runtime.KeepAlive(license)
	if err != nil {
		return nil, fmt.Errorf("load a program that discards frames: %w", err)
	}
	create := struct {
		program, target, kind, flags uint32
		relative                     uint32
		_                            uint32
		revision                     uint64
	}{program: uint32(program), target: uint32(index), kind: unix.BPF_TCX_INGRESS}
	link, err := bpfCall(unix.BPF_LINK_CREATE, unsafe.Pointer(&create), unsafe.Sizeof(create))
	if err != nil {
		return nil, errors.Join(fmt.Errorf("attach a program that discards frames: %w", err), unix.Close(program))
	}
	return &discard{program, link}, nil
}

func (d *discard) close() error {
	if d == nil {
		return nil
	}
	return errors.Join(unix.Close(d.link), unix.Close(d.program))
}

func bpfCall(command uintptr, attributes unsafe.Pointer, size uintptr) (int, error) {
	fd, _, errno := unix.Syscall(unix.SYS_BPF, command, uintptr(attributes), size)
	if errno != 0 {
		return -1, os.NewSyscallError("bpf", errno)
	}
	return int(fd), nil
}

// instruction is struct bpf_insn (linux/bpf.h).
type instruction struct {
	code      uint8
	registers uint8 // destination, and source << 4
	offset    int16
	immediate int32
}

// discarding returns TCX_DROP for a frame of the session, else TCX_NEXT.
func discarding(session uint64, v6 bool) []instruction {
	const (
		load    = unix.BPF_LDX | unix.BPF_MEM | unix.BPF_W // destination = *(u32 *)(source + offset)
		move    = unix.BPF_ALU64 | unix.BPF_MOV
		add     = unix.BPF_ALU64 | unix.BPF_ADD
		above   = unix.BPF_JMP | unix.BPF_JGT | unix.BPF_X // if destination > source, skip offset
		unlike  = unix.BPF_JMP32 | unix.BPF_JNE            // if destination != immediate, skip offset
		leave   = unix.BPF_JMP | unix.BPF_EXIT
		data    = 76 // in struct __sk_buff
		dataEnd = 80
		next    = -1 // TCX_NEXT
		drop    = 2  // TCX_DROP
	)
	words := binary.BigEndian.AppendUint64(nil, session)
	word := func(at int) int32 { return int32(binary.NativeEndian.Uint32(words[at:])) }
	at := int16(sessionAt(v6))
	return []instruction{
		{load, 2 | 1<<4, data, 0},
		{load, 3 | 1<<4, dataEnd, 0},
		{move | unix.BPF_X, 4 | 2<<4, 0, 0},
		{add, 4, 0, int32(at) + 8},
		{above, 4 | 3<<4, 6, 0},
		{load, 5 | 2<<4, at, 0},
		{unlike, 5, 4, word(0)},
		{load, 5 | 2<<4, at + 4, 0},
		{unlike, 5, 2, word(4)},
		{move, 0, 0, drop},
		{leave, 0, 0, 0},
		{move, 0, 0, next},
		{leave, 0, 0, 0},
	}
}
