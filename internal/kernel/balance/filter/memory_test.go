package filter

import (
	"errors"
	"fmt"
	"net/netip"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/google/nftables"
	"github.com/mdlayher/netlink"
	conntrack "github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/culvert-net/culvert/internal/kernel/balance"
	"github.com/culvert-net/culvert/internal/kernel/netns"
	"github.com/culvert-net/culvert/internal/kernel/rtnl"
)

// applyFresh applies a view to a pod as culvertd does right after its start. It returns how much
// memory culvertd took in all.
func applyFresh(t *testing.T, pod balance.Pod, v balance.View) uint64 {
	t.Helper()
	b, err := Open()
	if err != nil {
		skipOutsideLab(t, err)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	err = b.Apply(balance.Table{Pods: []balance.Pod{pod}, Views: map[balance.ViewID]balance.View{1: v}})
	runtime.ReadMemStats(&after)
	if errors.Is(err, unix.ENOENT) {
		skipOutsideLab(t, err) // a module is missing
	}
	if err != nil {
		t.Fatal(err)
	}
	return after.TotalAlloc - before.TotalAlloc
}

// TestI7PodsOwnTables: a pod with NET_ADMIN adds thousands of tables, chains, sets or elements to
// nftables. Apply takes as much memory as in a pod that adds nothing.
func TestI7PodsOwnTables(t *testing.T) {
	const many, margin = 2000, 192 << 10
	ours := &nftables.Table{Family: nftables.TableFamilyIPv4, Name: tableName}
	for name, tt := range map[string]struct {
		view balance.View
		add  func(c *nftables.Conn, i int) error
	}{
		"tables, without Services": {nil, func(c *nftables.Conn, i int) error {
			c.AddTable(&nftables.Table{Family: nftables.TableFamilyIPv4, Name: fmt.Sprint("more-", i)})
			return nil
		}},
		"tables": {view(time.Minute), func(c *nftables.Conn, i int) error {
			c.AddTable(&nftables.Table{Family: nftables.TableFamilyIPv4, Name: fmt.Sprint("more-", i)})
			return nil
		}},
		"chains": {view(time.Minute), func(c *nftables.Conn, i int) error {
			c.AddChain(&nftables.Chain{Table: c.AddTable(ours), Name: fmt.Sprint("more-", i)})
			return nil
		}},
		"sets": {view(time.Minute), func(c *nftables.Conn, i int) error {
			return c.AddSet(&nftables.Set{Table: c.AddTable(ours), Name: fmt.Sprint("more-", i), KeyType: nftables.TypeInetService}, nil)
		}},
		"choices of affinity": {view(time.Minute), func(c *nftables.Conn, i int) error {
			r := ruler{table: c.AddTable(ours)}
			choices := &nftables.Set{
				Table: ours, Name: choicesName, ID: 1, IsMap: true, HasTimeout: true, Concatenation: true, KeyType: r.keyType(), DataType: r.targetType(),
			}
			if i == 0 {
				return c.AddSet(choices, nil)
			}
			f := frontend{Frontend: balance.Frontend{Addr: netip.MustParseAddr("10.96.0.9"), Port: uint16(i), Protocol: balance.TCP}}
			to := target(netip.MustParseAddrPort("172.16.91.1:80"))
			return c.SetAddElements(choices, []nftables.SetElement{{Key: f.key(), Val: to, Timeout: time.Hour}})
		}},
	} {
		t.Run(name, func(t *testing.T) {
			pod := newPod(t)
			applyFresh(t, newPod(t), tt.view) // what Go allocates only once
			usual := applyFresh(t, newPod(t), tt.view)
			if err := netns.Run(pod.Netns, func() error { return addMany(many, tt.add) }); err != nil {
				t.Fatal(err)
			}
			took := applyFresh(t, pod, tt.view)
			t.Logf("%d KiB, and %d KiB in a pod that adds nothing", took>>10, usual>>10)
			if took > usual+margin {
				t.Errorf("Apply took %d KiB of memory, and %d KiB in a pod that adds nothing", took>>10, usual>>10)
			}
		})
	}
}

// addMany adds things in one transaction.
func addMany(count int, add func(c *nftables.Conn, i int) error) error {
	const buffer = 64 << 20
	c, err := nftables.New(nftables.WithSockOptions(func(s *netlink.Conn) error {
		return errors.Join(s.SetReadBuffer(buffer), s.SetWriteBuffer(buffer))
	}))
	for i := range count {
		if err == nil {
			err = add(c, i)
		}
	}
	if err != nil {
		return err
	}
	return c.Flush()
}

// TestI7ManyFlows: a pod makes as many UDP flows as it likes. culvertd keeps none of them while it
// deletes those to removed backends, and leaves the others.
func TestI7ManyFlows(t *testing.T) {
	const many, mostKept = 4000, 128 << 10
	pod := newPod(t)
	service, there, gone := netip.MustParseAddrPort("10.96.0.1:53"), netip.MustParseAddrPort("172.16.91.1:53"), netip.MustParseAddrPort("172.16.91.2:53")
	stale := staleFlows{service: {there}}
	count := func() (flows int, kept int64) {
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		err := visitFlows(unix.AF_INET, func(flow) error {
			if flows++; flows == many {
				runtime.GC()
				runtime.ReadMemStats(&after)
				kept = int64(after.HeapAlloc) - int64(before.HeapAlloc)
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
		return flows, kept
	}
	err := netns.Run(pod.Netns, func() error {
		for i := range many {
			to := gone
			if i%2 == 0 {
				to = there
			}
			if err := addFlow(uint16(1+i), service, to); err != nil {
				return err
			}
		}
		flows, kept := count()
		t.Logf("%d flows, %d KiB kept", flows, kept>>10)
		if flows != many || kept > mostKept {
			t.Errorf("%d flows, for which culvertd keeps %d KiB; want %d flows and %d KiB at most", flows, kept>>10, many, mostKept>>10)
		}
		if err := stale.forgetFamily(unix.AF_INET); err != nil {
			return err
		}
		if flows, _ := count(); flows != many/2 {
			t.Errorf("%d flows remain, want the %d to a backend that is there", flows, many/2)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// addFlow adds a UDP flow to the connection tracking of the thread's network namespace.
func addFlow(port uint16, service, backend netip.AddrPort) error {
	client := netip.MustParseAddr("172.16.91.9")
	return conntrack.ConntrackCreate(conntrack.ConntrackTable, unix.AF_INET, &conntrack.ConntrackFlow{
		FamilyType: unix.AF_INET, TimeOut: 600,
		Forward: conntrack.IPTuple{Protocol: unix.IPPROTO_UDP, SrcIP: client.AsSlice(), SrcPort: port, DstIP: service.Addr().AsSlice(), DstPort: service.Port()},
		Reverse: conntrack.IPTuple{Protocol: unix.IPPROTO_UDP, SrcIP: backend.Addr().AsSlice(), SrcPort: backend.Port(), DstIP: client.AsSlice(), DstPort: port},
	})
}

// TestKeepChoices: a table that culvertd replaces passes on the choices of affinity for backends
// that remain, and no others.
func TestKeepChoices(t *testing.T) {
	pod := newPod(t)
	applyFresh(t, pod, view(time.Minute))
	table := &nftables.Table{Family: nftables.TableFamilyIPv4, Name: tableName}
	newFrontend := func(service string, p balance.Protocol, affinity time.Duration) frontend {
		at := netip.MustParseAddrPort(service)
		r := &balance.Rule{Affinity: affinity, Backends: []netip.AddrPort{netip.MustParseAddrPort("172.16.91.1:80")}}
		return frontend{balance.Frontend{Addr: at.Addr(), Port: at.Port(), Protocol: p}, r}
	}
	remains, moved := newFrontend("10.96.0.1:80", balance.TCP, time.Minute), newFrontend("10.96.0.1:80", balance.UDP, time.Minute)
	plain, without := newFrontend("10.96.0.1:80", balance.SCTP, 0), newFrontend("10.96.0.2:80", balance.TCP, time.Minute)
	err := netns.Run(pod.Netns, func() error {
		c, err := nftables.New()
		if err != nil {
			return err
		}
		choices, err := c.GetSetByName(table, choicesName)
		if err != nil {
			return err
		}
		at, other := target(netip.MustParseAddrPort("172.16.91.1:80")), target(netip.MustParseAddrPort("172.16.91.7:80"))
		if err := c.SetAddElements(choices, []nftables.SetElement{
			{Key: remains.key(), Val: at, Timeout: time.Hour}, {Key: moved.key(), Val: other, Timeout: time.Hour}, {Key: plain.key(), Val: at, Timeout: time.Hour},
		}); err != nil {
			return err
		}
		if err := c.Flush(); err != nil {
			return err
		}
		conn, err := rtnl.DialNetfilter()
		if err != nil {
			return err
		}
		defer conn.Close()
		kept, err := lookup{conn, table}.keepChoices([]frontend{moved, without, plain, remains})
		if err != nil {
			return err
		}
		if len(kept) != 1 || !slices.Equal(kept[0].Key, remains.key()) || !slices.Equal(kept[0].Val, at) || kept[0].Timeout != time.Minute {
			t.Errorf("kept are %+v, want only %s with %v", kept, remains.Frontend, time.Minute)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestChoicesOfOneFamily: choices that a pod's table for IPv4 passes on do not get into its new
// table for IPv6, whose kernel map refuses them.
func TestChoicesOfOneFamily(t *testing.T) {
	pod, both, v4 := newPod(t), view(time.Minute), balance.View{}
	for f, r := range both {
		if f.Addr.Is4() {
			v4[f] = r
		}
	}
	applyFresh(t, pod, v4)
	f := frontend{Frontend: balance.Frontend{Addr: netip.MustParseAddr("10.96.0.1"), Port: 80, Protocol: balance.TCP}}
	err := netns.Run(pod.Netns, func() error {
		c, err := nftables.New()
		if err != nil {
			return err
		}
		choices, err := c.GetSetByName(&nftables.Table{Family: nftables.TableFamilyIPv4, Name: tableName}, choicesName)
		if err != nil {
			return err
		}
		chosen := nftables.SetElement{Key: f.key(), Val: target(netip.MustParseAddrPort("172.16.91.1:80")), Timeout: time.Hour}
		if err := c.SetAddElements(choices, []nftables.SetElement{chosen}); err != nil {
			return err
		}
		return c.Flush()
	})
	if err != nil {
		t.Fatal(err)
	}
	applyFresh(t, pod, both)
}

// FuzzParseAnswers: no answer of the kernel makes a parser fail other than by its error.
func FuzzParseAnswers(f *testing.F) {
	f.Add([]byte{2, 0, 0, 0})
	f.Add(rtnl.AppendNested([]byte{2, 0, 0, 0}, tupleOriginal, rtnl.AppendNested(nil, partPorts, rtnl.AppendAttr(nil, protocolNumber, []byte{17}))))
	f.Fuzz(func(t *testing.T, raw []byte) {
		if got, err := parseFlow(raw); err == nil && len(got.attrs) > len(raw) {
			t.Errorf("%+v", got)
		}
		if got, err := parseChoice(raw); err == nil && got.expires != 0 && len(raw) < 8 {
			t.Errorf("%+v", got)
		}
	})
}
