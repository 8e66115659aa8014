package share

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// An owner with many entries does not keep out another with few, whoever comes first.
func TestOwnersShare(t *testing.T) {
	b := New(1000)
	for i := range 100 {
		b.Put(Entry{"many", fmt.Sprint(i)}, 50)
	}
	if fits, _ := b.Put(Entry{"many", "more"}, 1); fits {
		t.Error("an owner with the most gets more than the total")
	}
	fits, dropped := b.Put(Entry{"few", "a"}, 120)
	if !fits || len(dropped) != 3 || slices.ContainsFunc(dropped, func(e Entry) bool { return e.Owner != "many" || b.Has(e) }) {
		t.Errorf("%t, dropped %v", fits, dropped)
	}
	if fits, dropped := b.Put(Entry{"few", "a"}, 100); !fits || len(dropped) > 0 {
		t.Errorf("a smaller version: %t, dropped %v", fits, dropped)
	}
	if fits, _ := b.Put(Entry{"few", "b"}, 900); fits || b.Has(Entry{"few", "b"}) {
		t.Error("an entry fits that makes its owner the one with the most")
	}
	if !b.Has(Entry{"few", "a"}) {
		t.Error("an owner with few entries lost one")
	}
	if !b.Drop(Entry{"few", "a"}) || b.Drop(Entry{"few", "a"}) || b.Drop(Entry{"nobody", "a"}) {
		t.Error("an entry is dropped twice, or not at all")
	}
	two := New(1000)
	for i := range 5 {
		two.Put(Entry{"a", fmt.Sprint(i)}, 100)
		two.Put(Entry{"b", fmt.Sprint(i)}, 98)
	}
	if fits, dropped := two.Put(Entry{"c", "large"}, 450); fits || len(dropped) > 0 || !two.Has(Entry{"a", "0"}) {
		t.Errorf("%t, dropped %v: others give way to an entry that does not fit", fits, dropped)
	}
	if fits, _ := New(10).Put(Entry{"a", "b"}, 11); fits {
		t.Error("more than the total fits")
	}
}

// The total stays within the bound, and an owner within an equal share keeps everything.
func TestBudgetHistories(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const most, owners = 400, 4
		b := New(most)
		small := map[string]int{} // of the owner "small", which stays within its share
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			e := Entry{rapid.SampledFrom([]string{"a", "b", "c", "small"}).Draw(t, "owner"), fmt.Sprint(rapid.IntRange(0, 9).Draw(t, "key"))}
			size := rapid.IntRange(1, 90).Draw(t, "size")
			if e.Owner == "small" {
				size = min(size, most/owners/10)
				small[e.Key] = size
			}
			if rapid.IntRange(0, 9).Draw(t, "drop") == 0 {
				b.Drop(e)
				delete(small, e.Key)
				continue
			}
			fits, dropped := b.Put(e, size)
			if fits != b.Has(e) || slices.ContainsFunc(dropped, b.Has) {
				t.Fatalf("fits %t, dropped %v", fits, dropped)
			}
			sum := 0
			for _, o := range b.owners {
				for _, n := range o.sizes {
					sum += n
				}
			}
			if sum != b.total || sum > most {
				t.Fatalf("the total is %d, noted %d", sum, b.total)
			}
		}
		for key := range small {
			if !b.Has(Entry{"small", key}) {
				t.Fatalf("an owner within its share lost %s", key)
			}
		}
	})
}
