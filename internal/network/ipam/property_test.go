package ipam

import (
	"errors"
	"net/netip"
	"testing"

	"pgregory.net/rapid"

	"github.com/culvert-net/culvert/internal/vf"
)

// small draws a Config with one set of one or two ranges of small subnets, so
// that the brute force below can count.
func small(t *rapid.T) Config {
	base := addr(rapid.SampledFrom([]string{"10.0.0.0", "fd00::", "0.0.0.0", "255.255.254.0"}).Draw(t, "base"))
	c := Config{Type: TypeHostLocal, Sets: [][]Range{nil}}
	for range rapid.IntRange(1, 2).Draw(t, "ranges") {
		subnet := netip.PrefixFrom(base, base.BitLen()-rapid.IntRange(2, 5).Draw(t, "hostbits")).Masked()
		within := func(name string) netip.Addr { return step(subnet.Addr(), rapid.IntRange(0, 31).Draw(t, name), subnet) }
		r := Range{Subnet: subnet, Start: within("start"), End: within("end"), Gateway: within("gateway")}
		if r.End.Less(r.Start) {
			r.Start, r.End = r.End, r.Start
		}
		c.Sets[0] = append(c.Sets[0], r)
		base = step(subnet.Addr(), 64, netip.PrefixFrom(base, 0))
	}
	for range rapid.IntRange(0, 3).Draw(t, "exclude") {
		r := rapid.SampledFrom(c.Sets[0]).Draw(t, "excludeFrom")
		a := step(r.Subnet.Addr(), rapid.IntRange(0, 31).Draw(t, "excluded"), r.Subnet)
		c.Exclude = append(c.Exclude, netip.PrefixFrom(a, a.BitLen()-rapid.IntRange(0, 3).Draw(t, "excludedBits")).Masked())
	}
	return c
}

// step returns the n-th address after a, or the last one in p.
func step(a netip.Addr, n int, p netip.Prefix) netip.Addr {
	for range n {
		if next := a.Next(); p.Contains(next) {
			a = next
		}
	}
	return a
}

// usableByHand counts one by one what segments count in runs.
func usableByHand(c Config) map[netip.Addr]bool {
	out := map[netip.Addr]bool{}
	for _, r := range c.Sets[0] {
		for a := r.Start; r.Contains(a); a = a.Next() {
			ok := a != r.Subnet.Addr() && !(a.Is4() && a == lastOf(r.Subnet))
			for _, other := range c.Sets[0] {
				ok = ok && a != other.Gateway
			}
			for _, p := range c.Exclude {
				ok = ok && !p.Contains(a)
			}
			if ok {
				out[a] = true
			}
		}
	}
	return out
}

// TestEveryAddressOnce: allocating until nothing is free gives every usable
// address exactly once, and nothing else (I4), wherever it starts.
func TestEveryAddressOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := small(t)
		usable := usableByHand(c)
		held := holders{}
		last := []netip.Addr{rapid.SampledFrom(c.Sets[0]).Draw(t, "last").Start}
		for range len(usable) {
			r, err := c.Allocate(held.held, last, nil)
			if err != nil {
				t.Fatalf("with %d of %d held: %v", len(held), len(usable), err)
			}
			a := r.Addresses[0].Prefix.Addr()
			if !usable[a] || held[a] != "" {
				t.Fatalf("%s: usable %v, held %q", a, usable[a], held[a])
			}
			held[a] = "x"
			last = append(last, a)
		}
		if _, err := c.Allocate(held.held, last, nil); !errors.Is(err, vf.ErrNothingFree) {
			t.Fatalf("all %d held, and the answer is %v", len(usable), err)
		}
	})
}

// TestNotReusedAtOnce: an address that was just let go of comes back only when
// no other is free.
func TestNotReusedAtOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := small(t)
		usable := usableByHand(c)
		held := holders{}
		for a := range usable {
			if rapid.Bool().Draw(t, "held") {
				held[a] = "x"
			}
		}
		first, err := c.Allocate(held.held, nil, nil)
		if err != nil {
			return
		}
		a := first.Addresses[0].Prefix.Addr()
		second, err := c.Allocate(held.held, []netip.Addr{a}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if b := second.Addresses[0].Prefix.Addr(); a == b && len(held) < len(usable)-1 {
			t.Fatalf("%s again, with %d of %d held", a, len(held), len(usable))
		}
	})
}

// A wanted address is given out if and only if it is usable and free.
func TestWantedIsGivenExactlyWhenUsableAndFree(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := small(t)
		r := rapid.SampledFrom(c.Sets[0]).Draw(t, "range")
		w := step(r.Subnet.Addr(), rapid.IntRange(0, 31).Draw(t, "wanted"), r.Subnet)
		held := holders{}
		if rapid.Bool().Draw(t, "held") {
			held[w] = "x"
		}
		got, err := c.Allocate(held.held, nil, []netip.Prefix{netip.PrefixFrom(w, w.BitLen())})
		switch {
		case !usableByHand(c)[w]:
			if !errors.Is(err, vf.ErrInvalid) {
				t.Fatalf("%s is not usable: %v, %v", w, got, err)
			}
		case held[w] != "":
			if !errors.Is(err, vf.ErrHeld) {
				t.Fatalf("%s is held: %v, %v", w, got, err)
			}
		case err != nil || got.Addresses[0].Prefix.Addr() != w:
			t.Fatalf("%s is free: %v, %v", w, got, err)
		}
	})
}
