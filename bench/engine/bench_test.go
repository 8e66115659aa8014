package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os/exec"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"github.com/culvert-net/culvert/bench"
	"github.com/culvert-net/culvert/internal/kernel/netns"
)

// BenchmarkSmallest sends the smallest packets over a veth pair, in turns for a second each. It
// sends with the engine, with a ring alone (the floor, which is the kernel's part), and with
// iperf3: "sent/s" leave, "pps" arrive, and "pps/core" arrive for each second of processor time of
// all that send and receive.
//
//	go test -run '^$' -bench Smallest -benchtime 5x ./bench/engine
func BenchmarkSmallest(b *testing.B) {
	p := newPair(b)
	p.cutBursts(b)
	if _, err := exec.LookPath("iperf3"); err != nil {
		b.Skip("no iperf3 to compare with: apt-get install iperf3")
	}
	const second = 1
	arms := []struct {
		name    string
		measure func() rates
	}{
		{"packets", func() rates {
			return p.measureRates(b, bench.Workload{Kind: bench.Packets, Size: 60, Seconds: second, Warmup: 0.2})
		}},
		{"bursts", func() rates {
			return p.measureRates(b, bench.Workload{Kind: bench.Packets, Size: 60, Burst: 64, Seconds: second, Warmup: 0.2})
		}},
		{"floor", func() rates { return p.measureFloor(b, time.Second) }},
		{"datagrams", func() rates {
			return p.measureRates(b, bench.Workload{Kind: bench.Datagram, Size: 18, Seconds: second, Warmup: 0.2})
		}},
		{"iperf3", func() rates { return p.iperf3(b, "-u", "-b", "0", "-l", "18", "-t", fmt.Sprint(second)) }},
	}
	sums := make([]rates, len(arms))
	for b.Loop() {
		for i, arm := range arms {
			r := arm.measure()
			sums[i].sent += r.sent
			sums[i].arrived += r.arrived
			sums[i].seconds += r.seconds
			sums[i].cpu += r.cpu
		}
	}
	base := sums[len(sums)-1]
	for i, arm := range arms {
		s := sums[i]
		b.ReportMetric(s.sent/s.seconds, arm.name+"-sent/s")
		b.ReportMetric(s.arrived/s.seconds, arm.name+"-pps")
		b.ReportMetric(s.arrived/s.cpu.Seconds(), arm.name+"-pps/core")
		if i == 0 {
			b.ReportMetric((s.arrived/s.cpu.Seconds())/(sums[2].arrived/sums[2].cpu.Seconds()), "packets:floor-pps/core")
		}
		if arm.name != "floor" && arm.name != "iperf3" {
			b.ReportMetric((s.sent/s.seconds)/(base.sent/base.seconds), arm.name+":iperf3-sent")
			b.ReportMetric((s.arrived/s.seconds)/(base.arrived/base.seconds), arm.name+":iperf3-pps")
		}
	}
	b.ReportMetric(0, "ns/op") // it has no meaning here
}

// measureFloor has a ring send one frame over and over, and the other end discard it.
func (p pair) measureFloor(b *testing.B, d time.Duration) (r rates) {
	const session = 1
	way := p.findWay(b)
	f, err := newFrames(way, session, bench.Workload{Size: 60, Flows: 1})
	if err != nil {
		b.Fatal(err)
	}
	f.putFrame(f.template, 0)
	p.runIn(b, 1, func() error {
		far, err := net.InterfaceByName(wire)
		if err != nil {
			return err
		}
		discard, err := discardFrames(far.Index, arriving{way.to, session})
		if err != nil {
			return err
		}
		b.Cleanup(func() {
			if err := discard.close(); err != nil {
				b.Error(err)
			}
		})
		return nil
	})
	p.runIn(b, 0, func() error {
		s, err := newRing(way, f)
		if err != nil {
			return err
		}
		begun, used, sent := time.Now(), processorTime(b), 0
		for time.Since(begun) < d {
			for range ringSlots / 4 {
				if atomic.CompareAndSwapUint32(s.statusAt(s.next), unix.TP_STATUS_AVAILABLE, unix.TP_STATUS_SEND_REQUEST) {
					s.next = (s.next + 1) % ringSlots
					sent++
				}
			}
			if err := s.sendFilled(); err != nil {
				return errors.Join(err, s.close())
			}
		}
		r = rates{sent: float64(sent), arrived: float64(sent), seconds: time.Since(begun).Seconds(), cpu: processorTime(b) - used}
		return s.close()
	})
	return r
}

// rates are of one measurement.
type rates struct {
	sent, arrived, seconds float64
	cpu                    time.Duration
}

func (p pair) measureRates(b *testing.B, w bench.Workload) (r rates) {
	var before time.Duration
	marks := Marks{Begin: func() { before = processorTime(b) }, End: func() { r.cpu = processorTime(b) - before }}
	run, client, server := p.measureBetween(b.Context(), b, w, [2]Marks{marks})
	if err := errors.Join(client, server); err != nil {
		b.Fatal(err)
	}
	r.sent, r.arrived, r.seconds = float64(run.Sent), float64(run.Packets), run.Seconds
	return r
}

// processorTime returns the processor time that this process has used.
func processorTime(b *testing.B) time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// iperf3 runs the program iperf3 at both ends, for one test.
func (p pair) iperf3(b *testing.B, arguments ...string) (r rates) {
	ctx, cancel := context.WithTimeout(b.Context(), time.Minute)
	defer cancel()
	run := func(i int, arguments ...string) (out []byte, err error) {
		cmd := exec.CommandContext(ctx, "iperf3", arguments...)
		err = netns.Run(p.netns[i], func() error {
			out, err = cmd.Output()
			return err
		})
		if cmd.ProcessState != nil {
			r.cpu += cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
		}
		return out, err
	}
	var g errgroup.Group
	g.Go(func() error {
		_, err := run(1, "-s", "-1", "-p", "5201")
		return err
	})
	var said struct {
		Error string
		End   struct {
			Sum struct {
				Seconds float64
				Packets float64
				Lost    float64 `json:"lost_packets"`
			}
		}
	}
	for { // until the server listens; with -J the status is 0 when it does not
		text, err := run(0, append([]string{"-c", p.address[1].String(), "-p", "5201", "-J"}, arguments...)...)
		said.Error = ""
		if err := errors.Join(err, json.Unmarshal(text, &said)); err != nil {
			b.Fatalf("%v: %s", err, text)
		}
		if said.Error == "" {
			break
		}
		if ctx.Err() != nil {
			b.Fatal(said.Error)
		}
		time.Sleep(100 * time.Millisecond)
	}
	if err := g.Wait(); err != nil {
		b.Fatal(err)
	}
	r.sent, r.arrived, r.seconds = said.End.Sum.Packets, said.End.Sum.Packets-said.End.Sum.Lost, said.End.Sum.Seconds
	return r
}
