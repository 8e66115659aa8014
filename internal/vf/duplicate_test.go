package vf

import (
	"errors"
	"fmt"
	"net/netip"
	"testing"
)

func TestDuplicateError(t *testing.T) {
	err := fmt.Errorf("attach: %w", DuplicateError{[]netip.Addr{netip.MustParseAddr("fd00::2"), netip.MustParseAddr("fd00::3")}})
	var found DuplicateError
	if !errors.Is(err, ErrDuplicate) || errors.Is(err, ErrHeld) || !errors.As(err, &found) || len(found.Addresses) != 2 {
		t.Errorf("%v", err)
	}
	want := "attach: address fd00::2, fd00::3: duplicate: another machine on the segment has it and answered duplicate address detection"
	if err.Error() != want {
		t.Errorf("got  %s\nwant %s", err, want)
	}
}

// An address that is set but a duplicate, so that the kernel does not let the owner use it, is a
// difference. An address whose detection has no result yet is none.
func TestDuplicateIsADifference(t *testing.T) {
	address := netip.MustParsePrefix("fd00::2/64")
	s := Spec{Interface: "net1", Addresses: []Address{{Prefix: address}}}
	b := Baseline{MTU: 1500, Driver: "igbvf"}
	for want, change := range map[string]func(*Link){
		"":                              func(*Link) {},
		"address is [], not fd00::2/64": func(l *Link) { l.Addrs = nil },
		"address is a duplicate, which another machine on the segment has, not fd00::2/64": func(l *Link) { l.Duplicates = []netip.Prefix{address} },
	} {
		for _, tentative := range [][]netip.Prefix{nil, {address}} {
			l := &Link{Netns: "n", Name: "net1", MTU: 1500, Up: true, Addrs: []netip.Prefix{address}, Tentative: tentative}
			change(l)
			if got := Differences(s.Diff(b, "n", State{Driver: "igbvf", Link: l})); got != want {
				t.Errorf("tentative %v: got %q, want %q", tentative, got, want)
			}
		}
	}
}
