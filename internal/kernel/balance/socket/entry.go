package socket

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"time"

	"github.com/cilium/ebpf"

	"github.com/culvert-net/culvert/internal/kernel/balance"
)

// tables has the maps that the programs and culvertd share. An update of a Service writes a new
// set of backends beside the old one, and then makes its rules name the new set, so a program
// sees either the old or the new set.
type tables struct {
	pods     *ebpf.Map // cookie of a network namespace -> view, index of its maps in the next two
	records  *ebpf.Map // index -> a map of records (records.go)
	queues   *ebpf.Map // index -> the keys of these records, the oldest first
	rules    *ebpf.Map // view, Frontend -> set and count of backends, affinity
	backends *ebpf.Map // set, number -> backend
	members  *ebpf.Map // set, backend -> nothing; only for sets whose choices are kept
}

// Sizes of the maps. They take memory for their entries, and 8 or 16 bytes for each place.
const maxPods, maxRules, maxBackends = 4 << 10, 64 << 10, 256 << 10

// noPrealloc is BPF_F_NO_PREALLOC (linux/bpf.h).
const noPrealloc = 1

// specs are the maps by the name of their pin. Another layout needs another version.
var specs = map[string]*ebpf.MapSpec{
	"pods":     {Type: ebpf.Hash, KeySize: 8, ValueSize: 16, MaxEntries: maxPods, Flags: noPrealloc},
	"rules":    {Type: ebpf.Hash, KeySize: keySize, ValueSize: 16, MaxEntries: maxRules, Flags: noPrealloc},
	"backends": {Type: ebpf.Hash, KeySize: 8, ValueSize: 24, MaxEntries: maxBackends, Flags: noPrealloc},
	"members":  {Type: ebpf.Hash, KeySize: 24, ValueSize: 4, MaxEntries: maxBackends, Flags: noPrealloc},
	"records":  {Type: ebpf.ArrayOfMaps, KeySize: 4, ValueSize: 4, MaxEntries: (1 + maxPods) * kinds, InnerMap: recordsOf(1)},
	"queues":   {Type: ebpf.ArrayOfMaps, KeySize: 4, ValueSize: 4, MaxEntries: (1 + maxPods) * kinds, InnerMap: queueOf(1)},
}

// byName returns the field for the map with a name.
func (m *tables) byName(name string) **ebpf.Map {
	return map[string]**ebpf.Map{
		"pods": &m.pods, "rules": &m.rules, "backends": &m.backends, "members": &m.members, "records": &m.records, "queues": &m.queues,
	}[name]
}

// native is the order of the bytes that the programs read as numbers. Ports are in network
// order.
var native = binary.NativeEndian

const keySize = 32

// key is an ID and a Frontend: 8 bytes, 16 of the address, 2 of the port, 1 of the protocol,
// 1 that marks an origin, and 4 that are zero. It has to be comparable.
type key [keySize]byte

func newKey(id uint64, f balance.Frontend) (k key) {
	native.PutUint64(k[:], id)
	addr := f.Addr.As16() // maps IPv4
	copy(k[keyAddr:], addr[:])
	binary.BigEndian.PutUint16(k[keyPort:], f.Port)
	k[keyProto] = byte(f.Protocol)
	return k
}

func (k key) id() uint64 { return native.Uint64(k[:]) }

func (k key) frontend() balance.Frontend {
	at := readAddrPort(k[keyAddr:])
	return balance.Frontend{Addr: at.Addr(), Port: at.Port(), Protocol: balance.Protocol(k[keyProto])}
}

// readAddrPort reads 16 bytes of an address and two of a port.
func readAddrPort(b []byte) netip.AddrPort {
	return netip.AddrPortFrom(netip.AddrFrom16([16]byte(b)).Unmap(), binary.BigEndian.Uint16(b[addrPort:]))
}

// pod is a value of the map pods: the view, and the slot of the pod's records.
type pod struct {
	view balance.ViewID
	slot uint32
}

// noSlot is the slot of pods without records. It has no maps.
const noSlot = 0

func (p pod) bytes() []byte {
	b := make([]byte, 16)
	native.PutUint64(b, uint64(p.view))
	native.PutUint32(b[podRecords:], p.slot*kinds)
	return b
}

func readPod(b []byte) pod {
	return pod{view: balance.ViewID(native.Uint64(b)), slot: native.Uint32(b[podRecords:]) / kinds}
}

// rule is a value of the map rules: set, count and affinity in seconds.
type rule struct {
	set, count uint32
	affinity   uint64
}

func (r rule) bytes() []byte {
	b := make([]byte, 16)
	native.PutUint64(b, uint64(r.set)|uint64(r.count)<<32)
	native.PutUint64(b[8:], r.affinity)
	return b
}

func readRule(b []byte) rule {
	first := native.Uint64(b)
	return rule{set: uint32(first), count: uint32(first >> 32), affinity: native.Uint64(b[8:])}
}

// seconds returns an affinity as the programs have it, rounded up.
func seconds(affinity time.Duration) uint64 {
	return uint64((affinity + time.Second - 1) / time.Second)
}

func slotKey(set, number uint32) []byte {
	b := make([]byte, 8)
	native.PutUint32(b, set)
	native.PutUint32(b[4:], number)
	return b
}

func backendBytes(at netip.AddrPort) []byte {
	b := make([]byte, 24)
	addr := at.Addr().As16()
	copy(b, addr[:])
	binary.BigEndian.PutUint16(b[addrPort:], at.Port())
	return b
}

func memberKey(set uint32, at netip.AddrPort) []byte {
	b := make([]byte, 24)
	native.PutUint32(b, set)
	binary.BigEndian.PutUint16(b[4:], at.Port())
	addr := at.Addr().As16()
	copy(b[8:], addr[:])
	return b
}

// each calls fn with all entries of a map.
func each(m *ebpf.Map, fn func(key, value []byte) error) error {
	k, v := make([]byte, m.KeySize()), make([]byte, m.ValueSize())
	entries := m.Iterate()
	for entries.Next(&k, &v) {
		if err := fn(k, v); err != nil {
			return err
		}
	}
	if err := entries.Err(); err != nil {
		return fmt.Errorf("list an eBPF map: %w", err)
	}
	return nil
}
