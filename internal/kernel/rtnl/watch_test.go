package rtnl

import (
	"context"
	"errors"
	"net/netip"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A Watcher wakes for a change of a link after the subscription, and for none before it.
// WatchAddresses also wakes for an address of IPv6. Wait ends with its context.
func TestWatcherWakes(t *testing.T) {
	none := func(*Conn, int) error { return nil }
	up := func(c *Conn, link int) error { return c.SetLink(link, unix.IFF_UP, unix.IFF_UP, nil) }
	address := func(c *Conn, link int) error {
		return c.AddAddr(Addr{Index: link, Prefix: netip.MustParsePrefix("fd00::1/64")})
	}
	for _, tt := range []struct {
		name   string
		watch  func() (*Watcher, error)
		change func(c *Conn, link int) error
		wakes  bool
	}{
		{"links, no change", Watch, none, false},
		{"links, a link", Watch, up, true},
		{"links, an address", Watch, address, false},
		{"addresses, no change", WatchAddresses, none, false},
		{"addresses, a link", WatchAddresses, up, true},
		{"addresses, an address", WatchAddresses, address, true},
	} {
		bound := 20 * time.Millisecond
		if tt.wakes {
			bound = 20 * time.Second
		}
		var got error
		inNewNetns(t, func() error {
			c, err := Dial()
			if err != nil {
				return err
			}
			defer c.Close()
			l, err := addVeth(c, "v0") // a change before the subscription
			if err != nil {
				return err
			}
			w, err := tt.watch()
			if err != nil {
				return err
			}
			defer w.Close()
			if err := tt.change(c, l.Index); err != nil {
				return err
			}
			ctx, cancel := context.WithTimeout(t.Context(), bound)
			defer cancel()
			got = w.Wait(ctx)
			return nil
		})
		if tt.wakes && got != nil || !tt.wakes && !errors.Is(got, context.DeadlineExceeded) {
			t.Errorf("%s: %v", tt.name, got)
		}
	}
}
