package ipam

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/culvert-net/culvert/internal/vf"
)

func nobody(netip.Addr) (vf.Owner, bool) { return vf.Owner{}, false }

// holders has the holder of each held address, as the ledger would report it.
type holders map[netip.Addr]string

func (h holders) held(a netip.Addr) (vf.Owner, bool) {
	name, taken := h[a]
	return vf.Owner{Kind: vf.OwnerPod, Name: name}, taken
}

func mustParse(t testing.TB, raw string) Config {
	t.Helper()
	c, err := Parse(json.RawMessage(raw))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

const dual = `{"type":"host-local","ranges":[[{"subnet":"10.0.0.0/29"}],[{"subnet":"fd00::/64","gateway":"fe80::1"}]],"exclude":["10.0.0.3"],
	"routes":[{"dst":"0.0.0.0/0"},{"dst":"10.9.0.0/16","gw":"10.0.0.5"},{"dst":"::/0"}]}`

const fixed = `{"type":"static","addresses":[{"address":"10.0.0.5/24","gateway":"10.0.0.1"}],"routes":[{"dst":"0.0.0.0/0"}]}`

func TestAllocate(t *testing.T) {
	for _, tc := range []struct {
		name, raw string
		held      holders
		last      []string
		wanted    []string
		want      string
	}{
		{name: "the gateway is never given out", raw: dual, want: "10.0.0.2/29 via 10.0.0.1, fd00::1/64 via fe80::1"},
		{name: "excluded and a route's gateway are skipped", raw: dual, held: holders{addr("10.0.0.2"): "default/a"}, want: "10.0.0.4/29 via 10.0.0.1, fd00::1/64 via fe80::1"},
		{name: "it goes on after the latest", raw: dual, last: []string{"10.0.0.6", "fd00::8", "10.0.0.2", "192.0.2.1"}, want: "10.0.0.4/29 via 10.0.0.1, fd00::9/64 via fe80::1"},
		{name: "and starts again", raw: dual, last: []string{"10.0.0.6", "fd00::ffff:ffff:ffff:ffff"}, want: "10.0.0.2/29 via 10.0.0.1, fd00::1/64 via fe80::1"},
		{name: "the latest itself when nothing else is free", raw: dual, last: []string{"10.0.0.4"}, held: holders{addr("10.0.0.2"): "a", addr("10.0.0.6"): "b"}, want: "10.0.0.4/29 via 10.0.0.1, fd00::1/64 via fe80::1"},
		{name: "by request", raw: dual, wanted: []string{"fd00::77/64", "::ffff:10.0.0.6/128"}, want: "10.0.0.6/29 via 10.0.0.1, fd00::77/64 via fe80::1"},
		{name: "held by request", raw: dual, wanted: []string{"10.0.0.6/32"}, held: holders{addr("10.0.0.6"): "default/a"}, want: "held: address 10.0.0.6: held by pod default/a"},
		{name: "out of range", raw: dual, wanted: []string{"10.0.1.6/32"}, want: "invalid: address 10.0.1.6: invalid: in none of the network's ranges (10.0.0.1-10.0.0.6, fd00::1-fd00::ffff:ffff:ffff:ffff)"},
		{name: "excluded by request", raw: dual, wanted: []string{"10.0.0.3/32"}, want: "invalid: address 10.0.0.3: invalid: the network excludes 10.0.0.3/32; ask for another one of 10.0.0.1-10.0.0.6"},
		{name: "the gateway by request", raw: dual, wanted: []string{"10.0.0.1/32"}, want: "invalid: address 10.0.0.1: invalid: it is a gateway's; ask for another one of 10.0.0.1-10.0.0.6"},
		{name: "two of one set", raw: dual, wanted: []string{"10.0.0.2/32", "10.0.0.4/32"}, want: "invalid: address 10.0.0.4: invalid: 10.0.0.2 is asked for too and an attachment gets one address of range set 0"},
		{name: "another prefix length", raw: dual, wanted: []string{"10.0.0.2/24"}, want: "invalid: address 10.0.0.2/24: invalid: its subnet is 10.0.0.0/29; want /29 or no prefix length"},
		{name: "full", raw: dual, held: holders{addr("10.0.0.2"): "default/a", addr("10.0.0.4"): "default/b", addr("10.0.0.6"): "default/a"}, want: "nothing free: addresses of 10.0.0.1-10.0.0.6: 3 of 3 are held (by pod default/a, pod default/b): nothing free; widen the range or delete what holds them"},
		{name: "all excluded", raw: `{"type":"host-local","subnet":"fd00::/64","exclude":["fd00::/64"]}`, want: "nothing free: addresses of fd00::1-fd00::ffff:ffff:ffff:ffff: nothing free: everything is excluded; take an entry out of exclude or widen the range"},
		{name: "static", raw: fixed, want: "10.0.0.5/24 via 10.0.0.1"},
		{name: "static, held", raw: fixed, held: holders{addr("10.0.0.5"): "default/a"}, want: "held: address 10.0.0.5: held by pod default/a"},
		{name: "static, by request", raw: fixed, wanted: []string{"10.0.0.9/24", "10.1.0.9/16"}, want: "10.0.0.9/24 via 10.0.0.1, 10.1.0.9/16 via invalid IP"},
		{name: "static, twice", raw: fixed, wanted: []string{"10.0.0.9/24", "10.0.0.9/16"}, want: "invalid: address 10.0.0.9: invalid: asked for twice"},
		{name: "static, no address for the route", raw: fixed, wanted: []string{"fd00::9/64"}, want: "invalid: route 0.0.0.0/0: invalid: the attachment has no IPv4 address; add one or take the route out"},
		{name: "no section", raw: ``, want: ""},
		{name: "no section, by request", raw: ``, wanted: []string{"10.0.0.9/24"}, want: "invalid: address 10.0.0.9/24: invalid: the network has no ipam section; add one whose range has the address"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var last []netip.Addr
			for _, s := range tc.last {
				last = append(last, addr(s))
			}
			var wanted []netip.Prefix
			for _, s := range tc.wanted {
				wanted = append(wanted, prefix(s))
			}
			r, err := mustParse(t, tc.raw).Allocate(tc.held.held, last, wanted)
			if d := cmp.Diff(tc.want, outcome(r, err)); d != "" {
				t.Errorf("-want +got\n%s", d)
			}
		})
	}
}

func outcome(r Result, err error) string {
	for _, sentinel := range []error{vf.ErrHeld, vf.ErrNothingFree, vf.ErrInvalid} {
		if errors.Is(err, sentinel) {
			return fmt.Sprintf("%v: %v", sentinel, err)
		}
	}
	s := ""
	for i, a := range r.Addresses {
		if i > 0 {
			s += ", "
		}
		s += fmt.Sprintf("%s via %s", a.Prefix, a.Gateway)
	}
	return s
}

// An address that no interface can have is refused, whether the network or a pod names it.
func TestUnusableAddresses(t *testing.T) {
	c := mustParse(t, `{"type":"static"}`)
	for text, want := range map[string]string{
		"0.0.0.0/24": "an interface cannot have it", "::/64": "an interface cannot have it", "255.255.255.255/32": "an interface cannot have it",
		"224.0.0.1/24": "an interface cannot have it", "ff02::1/64": "an interface cannot have it", "127.0.0.1/8": "an interface cannot have it", "::1/128": "an interface cannot have it",
		"::ffff:127.0.0.1/104": "an interface cannot have it", "::ffff:10.0.0.5/24": "wants /96 or longer", "::ffff:10.0.0.5/95": "wants /96 or longer",
		"::ffff:10.0.0.5/120": "", "10.0.0.0/24": "", "10.0.0.255/24": "", "fe80::1/64": "", "10.0.0.5/0": "",
	} {
		p := netip.MustParsePrefix(text)
		_, err := c.Allocate(nobody, nil, []netip.Prefix{p})
		if (err == nil) != (want == "") || err != nil && (!errors.Is(err, vf.ErrInvalid) || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s is asked for: %v, want %q", text, err, want)
		}
		if p.Addr().Is4In6() {
			continue
		}
		c := Config{Type: TypeStatic, Static: []vf.Address{{Prefix: p}}}
		if _, err := c.Allocate(nobody, nil, nil); (err == nil) != (want == "") {
			t.Errorf("%s of the network: %v, want %q", text, err, want)
		}
	}
	if _, err := (Config{Type: TypeStatic, Static: []vf.Address{{Prefix: netip.PrefixFrom(addr("10.0.0.5"), -72)}}}).Allocate(nobody, nil, nil); err == nil {
		t.Error("an address without a prefix length")
	}
}

func TestRoutesGetTheGatewayOfTheirFamily(t *testing.T) {
	r, err := mustParse(t, dual).Allocate(nobody, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	want := []vf.Route{
		{Dst: prefix("0.0.0.0/0"), Gateway: addr("10.0.0.1")},
		{Dst: prefix("10.9.0.0/16"), Gateway: addr("10.0.0.5")},
		{Dst: prefix("::/0"), Gateway: addr("fe80::1")},
	}
	if d := cmp.Diff(want, r.Routes, byValue); d != "" {
		t.Errorf("-want +got\n%s", d)
	}
}

// In a huge subnet, Allocate examines no more addresses than those held and the one that it gives
// out, whatever the network excludes.
func TestHugeSubnets(t *testing.T) {
	c := mustParse(t, `{"type":"host-local","subnet":"fd00::/16","rangeStart":"fd00::2","exclude":["fd00::/17","fd00:8000::/18"]}`)
	held := holders{}
	for n := range 1000 {
		asked := 0
		r, err := c.Allocate(func(a netip.Addr) (vf.Owner, bool) {
			if asked++; asked > n+1 {
				t.Fatalf("%d are held, and address %d is asked after: %s", n, asked, a)
			}
			return held.held(a)
		}, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		held[r.Addresses[0].Prefix.Addr()] = "a"
	}
	if _, taken := held[addr("fd00:c000::")]; !taken {
		t.Error("the first address past what is excluded was not given out")
	}
}

func BenchmarkAllocate(b *testing.B) {
	for _, n := range []int{0, 250} {
		b.Run(fmt.Sprintf("held=%d", n), func(b *testing.B) {
			c := mustParse(b, `{"type":"host-local","subnet":"172.16.0.0/16","routes":[{"dst":"0.0.0.0/0"}]}`)
			held := holders{}
			for a := addr("172.16.0.2"); len(held) < n; a = a.Next() {
				held[a] = "a"
			}
			for b.Loop() {
				if _, err := c.Allocate(held.held, nil, nil); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
