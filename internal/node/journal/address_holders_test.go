package journal

import (
	"fmt"
	"net/netip"
	"path/filepath"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/culvert-net/culvert/internal/vf"
)

// I4: HoldersOf returns the same entries of an address as AddressesOf, in every network and for
// every holder that shares it.
func TestI4HoldersOf(t *testing.T) {
	l, err := Open(filepath.Join(t.TempDir(), "l.db"), Options{NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	addresses := []string{"10.0.0.1", "10.0.0.10", "10.0.0.100", "fd00::1", "fd00::10"}
	rapid.Check(t, func(r *rapid.T) {
		err := l.Update(func(tx *Tx) error {
			if err := tx.Clear(); err != nil {
				return err
			}
			for i := range rapid.IntRange(0, 20).Draw(r, "entries") {
				a := Address{
					Network: rapid.SampledFrom([]string{"a", "a/b", "ab", "pool:a"}).Draw(r, "network"), Addr: netip.MustParseAddr(rapid.SampledFrom(addresses).Draw(r, "address")),
					VF: vf.ID{Index: i}, Owner: vf.Owner{Kind: vf.OwnerPod, UID: fmt.Sprint(i)}, Shared: rapid.Bool().Draw(r, "shared"),
				}
				_ = tx.HoldAddress(a) // another holder may already have it
			}
			for _, text := range addresses {
				want := slices.DeleteFunc(tx.AddressesOf(""), func(a Address) bool { return a.Addr.String() != text })
				if got := tx.HoldersOf(netip.MustParseAddr(text)); !slices.Equal(got, want) {
					r.Fatalf("I4: %s: %v, want %v", text, got, want)
				}
			}
			return nil
		})
		if err != nil {
			r.Fatal(err)
		}
	})
}
