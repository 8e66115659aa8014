package socket

import (
	"errors"
	"fmt"

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
// Each pod has a slot with maps of its own for them, so it fills only its own. A full map drops its
// oldest record for a new one. The maps of a pod that has ended wait for the next pod. What is left
// in them has no effect, since the kernel uses no cookie twice.
//
// LRU maps would be simpler. But Linux before 6.17 reserves 128 places for each CPU that has used
// one, so a small one drops records while it is nearly empty (d4adf1c9ee77).

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

func recordsOf(room uint32) *ebpf.MapSpec {
	return &ebpf.MapSpec{Type: ebpf.Hash, KeySize: keySize, ValueSize: recordSize, MaxEntries: room}
}

func queueOf(room uint32) *ebpf.MapSpec {
	return &ebpf.MapSpec{Type: ebpf.Queue, ValueSize: keySize, MaxEntries: room}
}

// findSlot puts the index of the pod's maps on the stack, from the value of the map pods in R0.
func findSlot() asm.Instructions {
	return asm.Instructions{
		asm.LoadMem(asm.R1, asm.R0, podRecords, asm.Word), asm.StoreMem(asm.RFP, atRecords, asm.R1, asm.Word),
	}
}

// setKind chooses the pod's maps of a kind for the next look-ups of records and queues.
func setKind(kind int32) asm.Instructions {
	return asm.Instructions{
		asm.LoadMem(asm.R1, asm.RFP, atRecords, asm.Word), asm.Add.Imm(asm.R1, kind),
		asm.StoreMem(asm.RFP, atIndex, asm.R1, asm.Word),
	}
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

// record stores a record of the stack in the pod's maps of a kind, and changes R7 and R8. Each record
// has its key in the queue. So a record is left out if another CPU was faster to take the place in
// the queue. With update, record first looks whether the record is there already. Without, such a
// record has its key in the queue twice, and goes with the first.
func record(m tables, name string, key, value int32, update bool) asm.Instructions {
	put := func(flags int32) asm.Instructions {
		in := callWith(asm.FnMapUpdateElem, asm.R8, key, value)
		return append(in[:len(in)-1], asm.Mov.Imm(asm.R4, flags), asm.FnMapUpdateElem.Call())
	}
	enqueue := func() asm.Instructions {
		in := callWith(asm.FnMapPushElem, asm.R7, key)
		return append(in[:len(in)-1], asm.Mov.Imm(asm.R3, 0), asm.FnMapPushElem.Call())
	}
	end, hasPlace := name+" end", name+" has a place"
	var overwrite asm.Instructions
	if update {
		overwrite = append(put(flagExist), asm.JEq.Imm(asm.R0, 0, end))
	}
	return join(
		lookUp(m.records, atIndex), asm.Instructions{asm.JEq.Imm(asm.R0, 0, end), asm.Mov.Reg(asm.R8, asm.R0)},
		overwrite,
		lookUp(m.queues, atIndex), asm.Instructions{asm.JEq.Imm(asm.R0, 0, end), asm.Mov.Reg(asm.R7, asm.R0)},
		enqueue(), asm.Instructions{asm.JEq.Imm(asm.R0, 0, hasPlace)},
		callWith(asm.FnMapPopElem, asm.R7, atOldest), asm.Instructions{asm.JNE.Imm(asm.R0, 0, end)},
		callWith(asm.FnMapDeleteElem, asm.R8, atOldest),
		enqueue(), asm.Instructions{asm.JNE.Imm(asm.R0, 0, end)},
		one(hasPlace, asm.Mov.Reg(asm.R7, asm.R7)), put(0),
		one(end, asm.Mov.Imm(asm.R0, 0)),
	)
}

// assignSlots returns the pods with their slots, the lowest that are free. A pod whose view is empty
// needs none. If the kernel refuses maps for more slots, the pods have to do without records.
func (b *Balancer) assignSlots(t balance.Table, views map[uint64]balance.ViewID) (map[uint64]pod, error) {
	used := map[uint32]bool{noSlot: true}
	for _, p := range b.pods {
		used[p.slot] = true
	}
	out, next := map[uint64]pod{}, uint32(noSlot)
	for cookie, view := range views {
		slot := b.pods[cookie].slot
		if slot == noSlot && len(t.Views[view]) > 0 {
			for used[next] {
				next++
			}
			slot, used[next] = next, true
		}
		out[cookie] = pod{view, slot}
	}
	err := b.makeSlots(next)
	for cookie, p := range out {
		if p.slot > b.slots {
			out[cookie] = pod{p.view, noSlot}
		}
	}
	return out, err
}

// makeSlots makes the maps of all slots up to the last one.
func (b *Balancer) makeSlots(last uint32) error {
	if last <= b.slots {
		return nil
	}
	err := fill(b.tables.records, b.slots+1, last, func(kind int) *ebpf.MapSpec { return recordsOf(room[kind]) })
	if err == nil {
		err = fill(b.tables.queues, b.slots+1, last, func(kind int) *ebpf.MapSpec { return queueOf(room[kind] - spare) })
	}
	if err != nil {
		return fmt.Errorf("make eBPF maps for the records of %d pods: %w", last-b.slots, err)
	}
	b.slots = last
	return nil
}

// fill makes a map of each kind for each slot, and puts all of them into a map of maps in one call:
// each call waits until the programs that run have ended.
func fill(into *ebpf.Map, first, last uint32, specOf func(kind int) *ebpf.MapSpec) (err error) {
	made, indices, fds := []*ebpf.Map{}, []uint32{}, []uint32{}
	defer func() {
		for _, m := range made {
			err = errors.Join(err, m.Close())
		}
	}()
	for index := first * kinds; index < (last+1)*kinds; index++ {
		m, err := ebpf.NewMap(specOf(int(index % kinds)))
		if err != nil {
			return err
		}
		made, indices, fds = append(made, m), append(indices, index), append(fds, uint32(m.FD()))
	}
	_, err = into.BatchUpdate(indices, fds, nil)
	return err
}

// readSlots counts the slots that an earlier culvertd made.
func (b *Balancer) readSlots() error {
	for index := uint32(kinds); ; index++ {
		for _, m := range []*ebpf.Map{b.tables.records, b.tables.queues} {
			var id uint32
			err := m.Lookup(index, &id)
			if errors.Is(err, ebpf.ErrKeyNotExist) {
				return nil
			}
			if err != nil {
				return fmt.Errorf("read the eBPF maps of records: %w", err)
			}
		}
		b.slots = (index+1)/kinds - 1
	}
}

// openRecords opens the records of a pod. It returns nil if the pod has none.
func (b *Balancer) openRecords(p balance.Pod, kind uint32) (m *ebpf.Map, err error) {
	err = b.tables.records.Lookup(b.pods[b.cookies[p.ID]].slot*kinds+kind, &m)
	if errors.Is(err, ebpf.ErrKeyNotExist) {
		return nil, nil
	}
	return m, err
}
