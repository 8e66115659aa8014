package socket

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"

	"github.com/culvert-net/culvert/internal/kernel/balance"
)

// The programs remember their work in records:
//
//   - A choice is the backend of last time: cookie of a network namespace or a socket, Frontend ->
//     backend and time.
//   - An origin is what a socket means by a backend: cookie of the socket, backend -> Frontend.
//
// Each pod has maps of its own for them, so it can fill only its own. A full map drops its oldest
// record for a new one. LRU maps do not serve: older kernels reserve 128 of their places for each
// CPU that used them, so a small one drops records while it is nearly empty (Linux d4adf1c9ee77).

// Kinds of records. Each has its own maps, so that the sockets of a pod do not push out the affinity
// of the pod.
const (
	clients = iota // choices of the pod, which are its affinity
	sockets        // choices and origins of its sockets
	kinds
)

// room is how many records of each kind a pod may have. A record takes 160 bytes of memory with its
// places in both maps, used or not: 200 KiB for a pod.
var room = [kinds]uint32{clients: 256, sockets: 1 << 10}

// spare is how many records a map has room for beyond the keys in its queue. CPUs that make room at
// the same time need it.
const spare = 32

const recordSize = 32

// share is a key of the maps records and queues: the cookie of a pod's network namespace, and a
// kind.
type share struct{ Cookie, Kind uint64 }

func recordsOf(room uint32) *ebpf.MapSpec {
	return &ebpf.MapSpec{Type: ebpf.Hash, KeySize: keySize, ValueSize: recordSize, MaxEntries: room}
}

func queueOf(room uint32) *ebpf.MapSpec {
	return &ebpf.MapSpec{Type: ebpf.Queue, ValueSize: keySize, MaxEntries: room}
}

// setKind sets the kind of the share on the stack.
func setKind(kind int32) asm.Instructions {
	return asm.Instructions{asm.Mov.Imm(asm.R1, kind), asm.StoreMem(asm.RFP, atShare+shareKind, asm.R1, asm.DWord)}
}

// callWith calls a helper with a map in a register, and places of the stack. It keeps R6 to R9.
func callWith(helper asm.BuiltinFunc, m asm.Register, at ...int32) asm.Instructions {
	in := asm.Instructions{asm.Mov.Reg(asm.R1, m)}
	for i, offset := range at {
		r := asm.R2 + asm.Register(i)
		in = append(in, asm.Mov.Reg(r, asm.RFP), asm.Add.Imm(r, offset))
	}
	return append(in, helper.Call())
}

// flagExist is BPF_EXIST (linux/bpf.h): update only an entry that is there.
const flagExist = 2

// record stores a record of the stack in the maps of the share, and changes R7 and R8. Each record
// has its key in the queue. So a record is left out if another CPU was faster to take the place in
// the queue.
func record(m tables, name string, key, value int32) asm.Instructions {
	put := func(flags int32) asm.Instructions {
		in := callWith(asm.FnMapUpdateElem, asm.R8, key, value)
		return append(in[:len(in)-1], asm.Mov.Imm(asm.R4, flags), asm.FnMapUpdateElem.Call())
	}
	enqueue := func() asm.Instructions {
		in := callWith(asm.FnMapPushElem, asm.R7, key)
		return append(in[:len(in)-1], asm.Mov.Imm(asm.R3, 0), asm.FnMapPushElem.Call())
	}
	end, hasPlace := name+" end", name+" has a place"
	return join(
		lookUp(m.records, atShare), asm.Instructions{asm.JEq.Imm(asm.R0, 0, end), asm.Mov.Reg(asm.R8, asm.R0)},
		put(flagExist), asm.Instructions{asm.JEq.Imm(asm.R0, 0, end)},
		lookUp(m.queues, atShare), asm.Instructions{asm.JEq.Imm(asm.R0, 0, end), asm.Mov.Reg(asm.R7, asm.R0)},
		enqueue(), asm.Instructions{asm.JEq.Imm(asm.R0, 0, hasPlace)},
		callWith(asm.FnMapPopElem, asm.R7, atOldest), asm.Instructions{asm.JNE.Imm(asm.R0, 0, end)},
		callWith(asm.FnMapDeleteElem, asm.R8, atOldest),
		enqueue(), asm.Instructions{asm.JNE.Imm(asm.R0, 0, end)},
		one(hasPlace, asm.Mov.Reg(asm.R7, asm.R7)), put(0),
		one(end, asm.Mov.Imm(asm.R0, 0)),
	)
}

// addShares makes the maps of pods that lack them. A pod whose view is empty needs none.
func (b *Balancer) addShares(t balance.Table, pods map[uint64]balance.ViewID) error {
	var keys []share
	for cookie, view := range pods {
		if !b.shares[cookie] && len(t.Views[view]) > 0 {
			for kind := range uint64(kinds) {
				keys = append(keys, share{cookie, kind})
			}
		}
	}
	if len(keys) == 0 {
		return nil
	}
	err := fillShares(b.tables.records, keys, func(kind uint64) *ebpf.MapSpec { return recordsOf(room[kind]) })
	if err == nil {
		err = fillShares(b.tables.queues, keys, func(kind uint64) *ebpf.MapSpec { return queueOf(room[kind] - spare) })
	}
	if err != nil {
		return fmt.Errorf("make the maps of records of pods: %w", err)
	}
	for _, k := range keys {
		b.shares[k.Cookie] = true
	}
	return nil
}

// fillShares makes a map for each key, and puts all of them into a map of maps in one call: each
// call waits until the programs that run have ended.
func fillShares(into *ebpf.Map, keys []share, specOf func(kind uint64) *ebpf.MapSpec) (err error) {
	made, fds := []*ebpf.Map{}, []uint32{}
	defer func() {
		for _, m := range made {
			err = errors.Join(err, m.Close())
		}
	}()
	for _, k := range keys {
		m, err := ebpf.NewMap(specOf(k.Kind))
		if err != nil {
			return err
		}
		made, fds = append(made, m), append(fds, uint32(m.FD()))
	}
	_, err = into.BatchUpdate(keys, fds, nil)
	return err
}

// dropShares frees the maps of pods that have ended. pods has the pods that have not.
func (b *Balancer) dropShares(pods map[uint64]balance.ViewID) error {
	hasEnded := func(cookie uint64) bool { _, there := pods[cookie]; return !there }
	if !slices.ContainsFunc(slices.Collect(maps.Keys(b.shares)), hasEnded) {
		return nil
	}
	for _, m := range []*ebpf.Map{b.tables.records, b.tables.queues} {
		var ended []share
		err := eachShare(m, func(s share) {
			if hasEnded(s.Cookie) {
				ended = append(ended, s)
			}
		})
		if err == nil && len(ended) > 0 {
			_, err = m.BatchDelete(ended, nil)
		}
		if err != nil {
			return fmt.Errorf("free the maps of records of pods that have ended: %w", err)
		}
	}
	maps.DeleteFunc(b.shares, func(cookie uint64, _ bool) bool { return hasEnded(cookie) })
	return nil
}

// readShares notes which pods have maps, and whether each has all of them.
func (b *Balancer) readShares() error {
	count := map[uint64]int{}
	add := func(s share) {
		count[s.Cookie]++
		b.shares[s.Cookie] = count[s.Cookie] == 2*kinds
	}
	return errors.Join(eachShare(b.tables.records, add), eachShare(b.tables.queues, add))
}

func eachShare(m *ebpf.Map, fn func(share)) error {
	return each(m, func(k, _ []byte) error {
		fn(share{Cookie: native.Uint64(k), Kind: native.Uint64(k[shareKind:])})
		return nil
	})
}

// openRecords opens the map of records of a pod. It returns nil if there is none.
func (b *Balancer) openRecords(of share) (m *ebpf.Map, err error) {
	err = b.tables.records.Lookup(of, &m)
	if errors.Is(err, ebpf.ErrKeyNotExist) {
		return nil, nil
	}
	return m, err
}
