package blocks

import (
	"fmt"
	"testing"
	"time"

	"github.com/culvert-net/culvert/internal/network/ipam"
	"github.com/culvert-net/culvert/internal/vf"
)

// A pool that several networks share has a request for the ranges of each network. A pool of a
// single network has one request, for the network's present ranges.
func TestRequestsOfAPoolWithSeveralNetworks(t *testing.T) {
	parse := func(pool, subnet string) ipam.Config {
		c, err := ipam.Parse(fmt.Appendf(nil, `{"type":"host-local","subnet":%q}`, subnet))
		if err != nil {
			t.Fatal(err)
		}
		c.Pool = pool
		return c
	}
	for pool, want := range map[string]int{"shared": 2, "": 1} {
		b := NewBook("a", func() {})
		for i, subnet := range []string{"10.0.0.0/24", "10.1.0.0/24", "10.1.0.0/24"} {
			defer b.Need("net", parse(pool, subnet), nil, vf.Owner{UID: fmt.Sprint(i)})()
		}
		l := Ledger{Held: []Held{{Network: "net"}}}
		l.Grants = b.Keep(l, time.Time{})
		requests, err := b.Requests(func() (Ledger, error) { return l, nil })
		if err != nil || len(requests) != want {
			t.Errorf("pool %q: %+v, %v; want %d requests", pool, requests, err, want)
		}
	}
	all := configs{}
	for i := range 3 * mostConfigs {
		all.add("shared", parse("shared", fmt.Sprintf("10.%d.0.0/16", i)))
	}
	if len(all["shared"]) != mostConfigs {
		t.Errorf("%d configurations are kept", len(all["shared"]))
	}
}
