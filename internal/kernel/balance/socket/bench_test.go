package socket

import (
	"fmt"
	"net/netip"
	"runtime"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/culvert-net/culvert/internal/kernel/balance"
)

// BenchmarkConnect prints how much longer connect(2) takes to a ClusterIP than to its only
// backend, in one run, interleaved: the medians' difference. The socket is UDP's, so that
// only the hook is measured.
func BenchmarkConnect(b *testing.B) {
	w := newWorld(b)
	p := w.pod("client", tenant, "172.16.91.1/32")
	balancer := w.open()
	w.apply(balancer, largeTable(p, 0))
	times := map[string][]time.Duration{}
	w.in(p, func() error {
		for range b.N {
			for _, to := range []string{"172.16.91.1:80", "10.97.0.1:80"} {
				took, err := connectOnce(netip.MustParseAddrPort(to))
				if err != nil {
					return fmt.Errorf("%s: %w", to, err)
				}
				times[to] = append(times[to], took)
			}
		}
		return nil
	})
	median := func(to string) float64 {
		slices.Sort(times[to])
		return float64(times[to][len(times[to])/2].Nanoseconds())
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(median("172.16.91.1:80"), "direct-ns")
	b.ReportMetric(median("10.97.0.1:80")-median("172.16.91.1:80"), "added-ns")
}

// BenchmarkSend prints how much longer sendto(2) takes to a ClusterIP than to its only backend, as
// BenchmarkConnect does for connect(2). One socket sends all datagrams.
func BenchmarkSend(b *testing.B) {
	w := newWorld(b)
	p := w.pod("client", tenant, "172.16.91.1/32")
	w.apply(w.open(), largeTable(p, 0))
	to := []string{"172.16.91.1:80", "10.97.0.1:80"}
	times := map[string][]time.Duration{}
	w.in(p, func() error {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		for range b.N {
			for _, at := range to {
				addr := netip.MustParseAddrPort(at)
				start := time.Now()
				if err := unix.Sendto(fd, nil, 0, &unix.SockaddrInet4{Addr: addr.Addr().As4(), Port: int(addr.Port())}); err != nil {
					return err
				}
				times[at] = append(times[at], time.Since(start))
			}
		}
		return nil
	})
	for _, all := range times {
		slices.Sort(all)
	}
	direct, by := times[to[0]][b.N/2], times[to[1]][b.N/2]
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(float64(direct.Nanoseconds()), "direct-ns")
	b.ReportMetric(float64((by - direct).Nanoseconds()), "added-ns")
}

func connectOnce(to netip.AddrPort) (time.Duration, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, err
	}
	defer unix.Close(fd)
	sa := &unix.SockaddrInet4{Addr: to.Addr().As4(), Port: int(to.Port())}
	start := time.Now()
	err = unix.Connect(fd, sa)
	return time.Since(start), err
}

// largeTable has 1,000 Services with 10 backends each, for TCP and UDP in turn; the first
// backend of the second Service differs by its variant. The first Service has one backend.
func largeTable(p balance.Pod, variant int) balance.Table {
	view := balance.View{}
	for i := range 1000 {
		r := &balance.Rule{}
		for j := range 10 {
			r.Backends = append(r.Backends, netip.AddrPortFrom(netip.AddrFrom4([4]byte{172, 16, byte(i), byte(j)}), 80))
		}
		f := balance.Frontend{Addr: netip.AddrFrom4([4]byte{10, 97, byte(i >> 8), byte(i)}), Port: 80, Protocol: []balance.Protocol{balance.TCP, balance.UDP}[i%2]}
		if i == 1 {
			f.Addr, r = netip.MustParseAddr("10.97.0.1"), ruleTo("172.16.91.1:80")
		}
		if i == 2 {
			r.Backends[0] = netip.AddrPortFrom(netip.AddrFrom4([4]byte{172, 17, 0, byte(variant)}), 80)
		}
		view[f] = r
	}
	return balance.Table{Pods: []balance.Pod{p}, Views: map[balance.ViewID]balance.View{p.View: view}}
}

// BenchmarkFullSync writes 1,000 Services with 10 backends each into empty maps, and prints
// the memory that culvertd keeps for them afterwards, the table included.
func BenchmarkFullSync(b *testing.B) {
	w := newWorld(b)
	p := w.pod("client", tenant)
	var before, after runtime.MemStats
	for b.Loop() {
		b.StopTimer()
		w.check(Remove(w.dir))
		runtime.GC()
		runtime.ReadMemStats(&before)
		balancer, err := Open(w.dir, w.cgroup)
		if err != nil {
			b.Fatal(err)
		}
		table := largeTable(p, 0)
		b.StartTimer()
		w.apply(balancer, table)
		b.StopTimer()
		runtime.GC()
		runtime.ReadMemStats(&after)
		runtime.KeepAlive(table)
		w.check(balancer.Close())
		b.StartTimer()
	}
	b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/(1<<20), "MiB")
}

// BenchmarkUpdateEndpoint changes one backend among 1,000 Services with 10 backends each, and
// prints the time of a change.
func BenchmarkUpdateEndpoint(b *testing.B) {
	w := newWorld(b)
	p := w.pod("client", tenant)
	balancer := w.open()
	tables := []balance.Table{largeTable(p, 0), largeTable(p, 1)}
	w.apply(balancer, tables[1])
	for i := 0; b.Loop(); i++ {
		w.apply(balancer, tables[i%2])
	}
	b.ReportMetric(b.Elapsed().Seconds()*1e3/float64(b.N), "update-ms")
}
