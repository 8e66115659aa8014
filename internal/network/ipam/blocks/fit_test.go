package blocks

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/culvert-net/culvert/internal/network/ipam"
)

func TestBytesOfBlocks(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		var p Pool
		for i := range rapid.IntRange(0, 20).Draw(r, "blocks") {
			a := netip.AddrFrom4([4]byte{10, 0, byte(i), 0})
			if rapid.Bool().Draw(r, "IPv6") {
				a = netip.AddrFrom16([16]byte{0xfd, 1: 0xff, 2: 0xff, 3: byte(i), 8: 0xff, 10: 0xff, 12: 0xff, 14: 0xff})
			}
			b := Block{Run: ipam.Run{First: a, Last: a}, Node: rapid.StringMatching("[a-z0-9.-]{1,60}").Draw(r, "node"), UID: "0a4b1b58-8b2d-4e3b-9a5e-0c1d2e3f4a5b"}
			if rapid.Bool().Draw(r, "claimed") {
				b.Claim = "held/" + b.UID + "/net1"
			} else {
				b.Grant = newID()
			}
			if rapid.Bool().Draw(r, "gone") {
				b.GoneSince = time.Unix(1e9, 0)
			}
			p.Blocks = append(p.Blocks, b)
		}
		for i := range rapid.IntRange(0, 5).Draw(r, "reservations") {
			kept := Reservation{Pod: rapid.StringMatching("[a-z]{1,63}/[a-z0-9.-]{1,60} net1").Draw(r, "pod"), Addr: netip.AddrFrom4([4]byte{10, 1, byte(i), 255})}
			kept.For = time.Duration(rapid.Int64Range(1, 1_234_567_890).Draw(r, "seconds")) * time.Second
			if rapid.Bool().Draw(r, "ended") {
				kept.Since = time.Unix(1e9, 0)
			}
			p.Reservations = append(p.Reservations, kept)
		}
		blocks, err1 := json.Marshal(p.Object())
		reservations, err2 := json.Marshal(ReservationObjects(p.Reservations))
		if err := errors.Join(err1, err2); err != nil {
			r.Fatal(err)
		}
		const brackets = 2 * len("[]")
		if is, said := len(blocks)+len(reservations), p.Bytes(); len(p.Blocks) > 0 && len(p.Reservations) > 0 && is > said+brackets {
			r.Fatalf("%d bytes, said %d", is, said)
		}
	})
}

// I4: a pool that would grow beyond etcd's limit grants nothing, and takes from a node
// only the addresses that it released.
func TestI4PoolFitsEtcd(t *testing.T) {
	before := Pool{Network: "n"}
	for i := range 9000 {
		a := netip.AddrFrom4([4]byte{10, byte(i >> 7), byte(i << 1), 0})
		before.Blocks = append(before.Blocks, Block{Run: ipam.Run{First: a, Last: a.Next()}, Node: fmt.Sprintf("node-%04d.example.com", i), UID: strings.Repeat("u", 36), Grant: "g"})
	}
	small := before
	small.Blocks = before.Blocks[:100]
	asks := demand("new0", 3, "10.0.0.0-10.255.255.255")
	gives := demand(before.Blocks[7].Node, 0)
	gives.UID, gives.Released = before.Blocks[7].UID, []Released{{"g", before.Blocks[7].Run}}
	demands := []Demand{gives, asks}
	var names []string
	for i := range 9 {
		demands = append(demands, demand(fmt.Sprintf("new%d", i), 3, "10.0.0.0-10.255.255.255"))
		names = append(names, fmt.Sprintf("new%d", i))
	}

	granted, _ := Grant(small, demands, 10)
	if got, refused := Fit(small, granted, demands); len(refused) > 0 || got.have(asks) == 0 {
		t.Errorf("a small pool: refused %v", refused)
	}
	granted, _ = Grant(before, demands, 10)
	got, refused := Fit(before, granted, demands)
	if !slices.Equal(refused, names) || got.have(asks) != 0 {
		t.Errorf("a pool of %d bytes: refused %v", before.Bytes(), refused)
	}
	want := slices.Delete(slices.Clone(before.Blocks), 7, 8)
	if !slices.Equal(want, got.Blocks) {
		t.Errorf("I4: %d blocks of %d, want all but the released one", len(got.Blocks), len(before.Blocks))
	}
}

// I4: an address in the middle of a block leaves two blocks when it goes back. A pool that has no
// room for these stays as it is, and its nodes keep their blocks.
func TestI4ReleaseThatDoesNotFit(t *testing.T) {
	before := Pool{Network: "n"}
	var demands []Demand
	for i := range 9000 {
		first := netip.AddrFrom4([4]byte{10, byte(i >> 6), byte(i << 2), 0})
		middle, node := first.Next(), fmt.Sprintf("node-%04d.example.com", i)
		before.Blocks = append(before.Blocks, Block{Run: ipam.Run{First: first, Last: middle.Next()}, Node: node, UID: strings.Repeat("u", 36), Grant: "g"})
		if i < 5 {
			gives := Demand{Node: node, UID: strings.Repeat("u", 36), Request: Request{Network: "n", Released: []Released{{"g", ipam.Run{First: middle, Last: middle}}}}}
			demands = append(demands, gives)
		}
	}
	demands = append(demands, demand("new", 3, "10.0.0.0-10.255.255.255"))
	granted, _ := Grant(before, demands, 10)
	got, refused := Fit(before, granted, demands)
	if !slices.Equal(before.Blocks, got.Blocks) || !slices.Equal(refused, []string{"new"}) {
		t.Errorf("I4: %d blocks, want the %d from before; refused %v", len(got.Blocks), len(before.Blocks), refused)
	}
}

// I4: reservations that do not fit are not made, nor is a block larger that was granted beside them. The
// pool stays as it was, whether it has blocks or not.
func TestI4ReservationsThatDoNotFit(t *testing.T) {
	asks := demand("a", 3, "10.0.0.0-10.0.0.255")
	own := Block{Run: ipam.Run{First: netip.MustParseAddr("10.0.0.1"), Last: netip.MustParseAddr("10.0.0.9")}, Node: "a", UID: asks.UID, Grant: asks.Grant}
	for _, before := range []Pool{{Network: "n"}, {Network: "n", Blocks: []Block{own}}} {
		granted, demands, want := before, []Demand(nil), []string(nil)
		for i := range 12000 {
			granted.Reservations = append(granted.Reservations, Reservation{Pod: fmt.Sprintf("d/%050d", i), Addr: netip.AddrFrom4([4]byte{10, 1, byte(i >> 8), byte(i)})})
		}
		if len(before.Blocks) > 0 {
			wider := own
			wider.Last = wider.Last.Next()
			granted.Blocks, demands, want = []Block{wider}, []Demand{asks}, []string{"a"}
		}
		got, refused := Fit(before, granted, demands)
		if len(got.Reservations) > 0 || !slices.Equal(got.Blocks, before.Blocks) || !slices.Equal(refused, want) {
			t.Errorf("I4: %d reservations, the blocks %v, and %v refused; want none, %v, and %v", len(got.Reservations), got.Blocks, refused, before.Blocks, want)
		}
	}
}

// I4: a node with all blocks of a pool without room gives a block back. It keeps a block of which it
// gives the middle back, which would leave two.
func TestI4ReleaseOfALargeNode(t *testing.T) {
	before := Pool{Network: "n"}
	const uid = "u"
	for i := range 15000 {
		first := netip.AddrFrom4([4]byte{10, byte(i >> 6), byte(i << 2), 0})
		before.Blocks = append(before.Blocks, Block{Run: ipam.Run{First: first, Last: first.Next().Next()}, Node: "a", UID: uid, Grant: "g"})
	}
	if before.Bytes() <= maxBytes {
		t.Fatalf("the pool has %d bytes, and so room", before.Bytes())
	}
	whole, middle := before.Blocks[7].Run, ipam.Run{First: before.Blocks[8].First.Next(), Last: before.Blocks[8].First.Next()}
	for given, want := range map[ipam.Run][]Block{
		whole:  slices.Delete(slices.Clone(before.Blocks), 7, 8),
		middle: before.Blocks,
	} {
		demands := []Demand{{Node: "a", UID: uid, Request: Request{Network: "n", Released: []Released{{"g", given}}}}}
		granted, _ := Grant(before, demands, 10)
		if got, refused := Fit(before, granted, demands); len(refused) > 0 || !slices.Equal(got.Blocks, want) {
			t.Errorf("I4: %v: %d blocks, want %d; refused %v", given, len(got.Blocks), len(want), refused)
		}
	}
}
