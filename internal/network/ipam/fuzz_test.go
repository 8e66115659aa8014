package ipam

import (
	"encoding/json"
	"errors"
	"net/netip"
	"testing"

	"github.com/culvert-net/culvert/internal/vf"
)

// I4: Allocate works with everything that Parse accepts. An address is in a range, not
// excluded, no gateway, and given to one attachment only. A refusal is a documented,
// short error.
func FuzzParse(f *testing.F) {
	f.Add(`{"type":"host-local","subnet":"172.16.91.0/24","routes":[{"dst":"0.0.0.0/0"}],"gateway":"172.16.91.1"}`)
	f.Add(`{"type":"culvert","ranges":[[{"subnet":"fd00::/8","rangeStart":"fd00::"}],[{"subnet":"0.0.0.0/0"}]],"exclude":["::/0","0.0.0.0/1"]}`)
	f.Add(`{"type":"static","addresses":[{"address":"10.0.0.5/24"}]}`)
	f.Add(`{"type":"host-local","subnet":"10.0.0.0/30","exclude":["10.0.0.2"]}`)
	f.Add(`{"type":"host-local","subnet":"::ffff:10.0.0.0/120","resolvConf":"../../etc/shadow"}`)
	f.Add(`{"type":"host-local","Subnet":"10.0.0.0/30","x":1,"routes":[{"dst":"10.0.0.1/8","gw":"192.0.2.1","table":7,"scope":253,"advmss":1}]}`)
	f.Add(`{"type":"static","shared":true,"addresses":[{"address":"10.0.0.5/24","gateway":"192.0.2.1"}]}`)
	f.Fuzz(func(t *testing.T, raw string) {
		lenient, err := Reader{Lenient: true, TakesRanges: true}.Parse(json.RawMessage(raw))
		if err == nil {
			allocate(t, lenient, nobody)
		}
		strict, err := Parse(json.RawMessage(raw))
		if (err == nil) && len(lenient.Warnings) == 0 && len(strict.Sets) != len(lenient.Sets) {
			t.Fatalf("read in two ways without a warning: %+v and %+v", strict, lenient)
		}
		c := strict
		if err != nil {
			if !errors.Is(err, vf.ErrInvalid) || len(err.Error()) > 64<<10 {
				t.Fatalf("undocumented or long error %v", err)
			}
			return
		}
		first := allocate(t, c, nobody)
		held := map[netip.Addr]bool{}
		for _, a := range first.Addresses {
			held[a.Prefix.Addr()] = true
		}
		second := allocate(t, c, func(a netip.Addr) (vf.Owner, bool) { return vf.Owner{Kind: "pod", UID: "a"}, held[a] })
		for _, a := range second.Addresses {
			if held[a.Prefix.Addr()] {
				t.Fatalf("I4: %s is given out twice", a.Prefix)
			}
		}
	})
}

func allocate(t *testing.T, c Config, held func(netip.Addr) (vf.Owner, bool)) Result {
	t.Helper()
	r, err := c.Allocate(held, nil, nil)
	if err != nil {
		if !errors.Is(err, vf.ErrNothingFree) && !errors.Is(err, vf.ErrInvalid) && !errors.Is(err, vf.ErrHeld) {
			t.Fatalf("undocumented error %v", err)
		}
		return Result{}
	}
	if c.Type != TypeHostLocal {
		return r
	}
	if len(r.Addresses) != len(c.Sets) {
		t.Fatalf("%d addresses of %d sets", len(r.Addresses), len(c.Sets))
	}
	for i, a := range r.Addresses {
		ip := a.Prefix.Addr()
		in := rangeOf(c.Sets[i], ip)
		if in == nil || !in.Subnet.Contains(ip) || ip == in.Subnet.Addr() || ip == a.Gateway {
			t.Fatalf("%s is given out of set %d", a.Prefix, i)
		}
		for _, e := range c.Exclude {
			if e.Contains(ip) {
				t.Fatalf("%s is excluded by %s", ip, e)
			}
		}
	}
	return r
}
