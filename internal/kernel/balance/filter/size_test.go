package filter

import (
	"encoding/binary"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/nftables"

	"github.com/culvert-net/culvert/internal/kernel/balance"
	"github.com/culvert-net/culvert/internal/kernel/netns"
)

// largeView has a Service with many backends, and others with ten, by IPv6, whose elements are the
// largest. All have affinity, so that their chains have the most rules.
func largeView(backends, others int) balance.View {
	address := func(kind byte, i int) netip.Addr {
		a := [16]byte{0xfd, kind}
		binary.BigEndian.PutUint32(a[12:], uint32(i))
		return netip.AddrFrom16(a)
	}
	many := &balance.Rule{Affinity: time.Hour}
	for i := range backends {
		many.Backends = append(many.Backends, netip.AddrPortFrom(address(1, i), 8080))
	}
	v := balance.View{{Addr: address(2, 0), Port: 80, Protocol: balance.TCP}: many}
	for i := range others {
		v[balance.Frontend{Addr: address(3, i), Port: 80, Protocol: balance.TCP}] = &balance.Rule{Affinity: time.Hour, Backends: many.Backends[:10]}
	}
	return v
}

// A table has each foreign Frontend that the view does not have itself, in the order of their names.
func TestContentHasForeignFrontends(t *testing.T) {
	at := func(i byte) balance.Frontend {
		return balance.Frontend{Addr: netip.AddrFrom4([4]byte{10, 0, 0, i}), Port: 80, Protocol: balance.TCP}
	}
	own, other := &balance.Rule{}, &balance.Rule{Affinity: time.Hour}
	got := newContent(balance.View{at(2): own, at(3): own}, balance.View{at(1): other, at(2): other}).rules
	want := []frontend{{at(1), other}, {at(2), own}, {at(3), own}}
	if !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// TestLargeTables: the kernel has each of the 2,000 backends of a Service, each of 1,000 Services, and
// as many Services and backends as a table may have. One attribute of netlink holds fewer elements, and a socket's usual buffers hold less.
func TestLargeTables(t *testing.T) {
	limit := Limit()
	for name, size := range map[string]struct {
		backends []int // one table after the other
		others   int
	}{
		"backends": {[]int{2000, 2001}, 0}, "Services": {[]int{20, 21}, 1000}, "limit": {[]int{limit.Backends - 10*(limit.Rules-1)}, limit.Rules - 1},
	} {
		t.Run(name, func(t *testing.T) {
			if size.others > 0 && os.Getenv("CULVERT_LAB_NODE") != "" {
				t.Skip("an emulated node takes minutes to check 1,000 chains; the kernel of the host does it in the unit level")
			}
			pod := newPod(t)
			b, err := Open()
			if err != nil {
				skipOutsideLab(t, err)
			}
			apply := func(backends, others int) error {
				return b.Apply(balance.Table{Pods: []balance.Pod{pod}, Views: map[balance.ViewID]balance.View{1: largeView(backends, others)}})
			}
			if err := apply(10, 0); err != nil {
				skipOutsideLab(t, err) // a module is missing
			}
			for _, backends := range size.backends {
				start := time.Now()
				if err := apply(backends, size.others); err != nil {
					t.Fatal(err)
				}
				t.Logf("a Service with %d backends beside %d others: written in %v", backends, size.others, time.Since(start))
				wantSizes(t, pod, backends, size.others+1)
			}
		})
	}
}

// wantSizes fails the test unless the pod's tables have so many elements.
func wantSizes(t *testing.T, pod balance.Pod, backends, services int) {
	t.Helper()
	err := netns.Run(pod.Netns, func() error {
		c, err := nftables.New()
		if err != nil {
			return err
		}
		sets, err := c.GetSets(&nftables.Table{Family: nftables.TableFamilyIPv6, Name: tableName})
		if err != nil {
			return err
		}
		var sizes []int
		count := map[string]int{}
		for _, s := range sets {
			elements, err := c.GetSetElements(s)
			if err != nil {
				return err
			}
			if strings.HasPrefix(s.Name, "service-") {
				sizes = append(sizes, len(elements))
			}
			count[s.Name] = len(elements)
		}
		if len(sizes) != services || slices.Max(sizes) != backends {
			t.Errorf("%d maps of up to %d backends, want %d of up to %d", len(sizes), slices.Max(sizes), services, backends)
		}
		if count["services"] != services || count["balanced"] != services {
			t.Errorf("%d Services in the map and %d in the set, want %d", count["services"], count["balanced"], services)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
