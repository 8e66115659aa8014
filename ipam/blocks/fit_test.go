package blocks

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/culvert-net/culvert/ipam"
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
		text, err := json.Marshal(p.Object())
		if err != nil {
			r.Fatal(err)
		}
		if is, said := len(text), p.Bytes(); len(p.Blocks) > 0 && is > said+2 {
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
