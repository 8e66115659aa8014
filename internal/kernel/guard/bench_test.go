package guard

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/culvert-net/culvert/internal/vf"
)

// Addresses of the two ends of a measured connection.
var podAddress, otherAddress = netip.MustParsePrefix("172.16.91.5/24"), netip.MustParsePrefix("172.16.91.1/24")

// none is no guard, in the figures.
const none vf.GuardMode = "none"

// BenchmarkThroughput sends by TCP from the pod to its neighbour, in turns of 100 ms without a
// guard and with each mode. Its figures are the medians of the ratios of a turn to the two turns
// without a guard around it: bytes a second, and bytes for each second of processor time, which
// other work on the machine disturbs less. The mode none is the control: its turns have no guard
// either, so its distance from 1 is the error of the measurement.
func BenchmarkThroughput(b *testing.B) {
	w := newWorld(b)
	for path, address := range map[string]netip.Prefix{w.pod: podAddress, w.neighbour: otherAddress} {
		w.run(path, func() error {
			l, err := netlink.LinkByName(device)
			if err != nil {
				return err
			}
			return netlink.AddrAdd(l, &netlink.Addr{IPNet: &net.IPNet{IP: address.Addr().AsSlice(), Mask: net.CIDRMask(24, 32)}})
		})
	}
	_ = unix.Close(w.seen) // a listener of all frames costs more than the guard
	s := w.connectTCP(b)
	var speed, cost = map[vf.GuardMode][]float64{}, map[vf.GuardMode][]float64{}
	const pairs = 20 // of turns, for each mode and iteration
	before := s.sendTurn(b)
	for b.Loop() {
		for i := range 3 * pairs {
			mode := []vf.GuardMode{vf.GuardARP, vf.GuardIP, none}[i%3]
			if mode == none {
				w.setGuard(guardOf(vf.GuardARP)) // costs the same time as in the other turns
				w.run(w.pod, func() error { return Tables{}.Remove(podPCI) })
			} else {
				w.setGuard(guardOf(mode))
			}
			with := s.sendTurn(b)
			w.run(w.pod, func() error { return Tables{}.Remove(podPCI) })
			after := s.sendTurn(b)
			speed[mode] = append(speed[mode], 2*with.speed/(before.speed+after.speed))
			cost[mode] = append(cost[mode], 2*with.perCPU/(before.perCPU+after.perCPU))
			before = after
		}
	}
	for mode := range speed {
		b.ReportMetric(median(speed[mode]), fmt.Sprintf("x-%s", mode))
		b.ReportMetric(median(cost[mode]), fmt.Sprintf("x-%s/cpu", mode))
	}
}

// BenchmarkFrame sends small frames from the pod by a packet socket, in turns of 2,000 without a
// guard and with each mode. Its figures are the nanoseconds that a guard adds to a frame: the medians of
// the differences of a turn to the two turns without a guard around it. The kernel has one frame of up
// to 64 KiB for TCP, so BenchmarkThroughput shows far less of it.
func BenchmarkFrame(b *testing.B) {
	w := newWorld(b)
	_ = unix.Close(w.seen)
	for _, kind := range []struct {
		name  string
		frame []byte
	}{
		{"TCP4", newOwnIPv4(unix.IPPROTO_TCP, nil, 0, make([]byte, 20)...)}, {"UDP4", newOwnIPv4(unix.IPPROTO_UDP, nil, 0, newUDP(9, 9)...)},
		{"TCP6", newOwnIPv6(unix.IPPROTO_TCP, make([]byte, 20)...)},
	} {
		b.Run(kind.name, func(b *testing.B) {
			added := map[vf.GuardMode][]float64{}
			before := w.sendFrames(kind.frame)
			for b.Loop() {
				for i := range 40 {
					mode := []vf.GuardMode{vf.GuardARP, vf.GuardIP}[i%2]
					w.setGuard(guardOf(mode))
					with := w.sendFrames(kind.frame)
					w.run(w.pod, func() error { return Tables{}.Remove(podPCI) })
					after := w.sendFrames(kind.frame)
					added[mode] = append(added[mode], with-(before+after)/2)
					before = after
				}
			}
			b.ReportMetric(before, "ns-frame")
			for mode := range added {
				b.ReportMetric(median(added[mode]), fmt.Sprintf("ns-%s", mode))
			}
		})
	}
}

// sendFrames returns the nanoseconds that the kernel takes for a frame.
func (w *world) sendFrames(frame []byte) (each float64) {
	w.t.Helper()
	const turn = 2000
	w.run(w.pod, func() error {
		start := time.Now()
		for range turn {
			if err := sendPacket(w, frame, packetOptions{}); err != nil {
				return err
			}
		}
		each = float64(time.Since(start).Nanoseconds()) / turn
		return nil
	})
	return each
}

// stream is a connection from the pod whose other end reads and drops.
type stream struct {
	conn net.Conn
	data []byte
}

func (w *world) connectTCP(b *testing.B) *stream {
	b.Helper()
	var l net.Listener
	w.run(w.neighbour, func() (err error) {
		l, err = net.Listen("tcp4", netip.AddrPortFrom(otherAddress.Addr(), 5001).String())
		return err
	})
	done := make(chan struct{})
	go func() {
		defer close(done)
		c, err := l.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		into := make([]byte, 1<<20)
		for {
			if _, err := c.Read(into); err != nil {
				return
			}
		}
	}()
	s := &stream{data: make([]byte, 256<<10)}
	w.run(w.pod, func() (err error) {
		s.conn, err = net.DialTimeout("tcp4", netip.AddrPortFrom(otherAddress.Addr(), 5001).String(), limit)
		return err
	})
	b.Cleanup(func() {
		if err := errors.Join(s.conn.Close(), l.Close()); err != nil {
			b.Error(err)
		}
		<-done
	})
	return s
}

// turn is the result of one turn of 100 ms: the bytes sent for each second, and for each second of
// processor time.
type turn struct{ speed, perCPU float64 }

func (s *stream) sendTurn(b *testing.B) turn {
	b.Helper()
	const long = 100 * time.Millisecond
	cpu := func() float64 {
		var u unix.Rusage
		if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
			b.Fatal(err)
		}
		return time.Duration(u.Utime.Nano() + u.Stime.Nano()).Seconds()
	}
	send := func(long time.Duration) (sent int) {
		for start := time.Now(); time.Since(start) < long; {
			n, err := s.conn.Write(s.data)
			if err != nil {
				b.Fatal(err)
			}
			sent += n
		}
		return sent
	}
	send(long / 5) // the change of the rules stopped the stream
	start, used := time.Now(), cpu()
	sent := send(long)
	return turn{float64(sent) / time.Since(start).Seconds(), float64(sent) / (cpu() - used)}
}

func median(all []float64) float64 {
	sorted := slices.Sorted(slices.Values(all))
	return (sorted[(len(sorted)-1)/2] + sorted[len(sorted)/2]) / 2
}
