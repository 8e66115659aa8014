package controller

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/culvert-net/culvert/api/v1alpha1"
)

// Requests that come soon after the write of a pool with many blocks wait for the next one. A
// small pool is written at once.
func TestWritesOfALargePoolAreApart(t *testing.T) {
	for name, tc := range map[string]struct {
		blocks int
		waits  bool
	}{"small": {10, false}, "large": {1000, true}} {
		pool := declaredPool("storage", "10.0.0.0/8")
		for i := range tc.blocks {
			a := netip.AddrFrom4([4]byte{10, byte(1 + i>>8), byte(i), 1})
			pool.Spec.Blocks = append(pool.Spec.Blocks, v1alpha1.AddressBlock{Node: "a", NodeUID: "uid-a", First: a.String(), Last: a.String(), Grant: fmt.Sprint("g", i)})
		}
		c := newCluster(newNode("a", nil), newNode("b", nil), pool, askingPool("a", "storage", 1, nil))
		now := time.Now()
		a := addresses(c, now)
		a.Now = func() time.Time { return now }
		for range 3 { // the roll call is written, answered and over
			lookAt(t, a, "pool:storage")
			now = now.Add(time.Minute)
		}
		if err := c.Create(t.Context(), askingPool("b", "storage", 1, nil, run("10.0.0.2", "10.0.0.254"))); err != nil {
			t.Fatal(err)
		}
		lookAt(t, a, "pool:storage")
		before := len(getPool(t, c, "storage").Spec.Blocks)
		claims := askingPool("a", "storage", 1, nil, run("10.0.0.2", "10.0.0.254"))
		there := getState(t, c, "a")
		there.Status.AddressRequests = claims.Status.AddressRequests
		if err := c.Update(t.Context(), there); err != nil {
			t.Fatal(err)
		}
		now = now.Add(time.Millisecond)
		r := lookAt(t, a, "pool:storage")
		if waits := len(getPool(t, c, "storage").Spec.Blocks) == before; waits != tc.waits || waits && (r.RequeueAfter <= 0 || r.RequeueAfter > time.Second) {
			t.Errorf("%s: waits %t, looked at again in %s", name, waits, r.RequeueAfter)
		}
		now = now.Add(r.RequeueAfter)
		lookAt(t, a, "pool:storage")
		if len(getPool(t, c, "storage").Spec.Blocks) == before {
			t.Errorf("%s: the request is not answered", name)
		}
	}
}
