package bench

import (
	"errors"
	"flag"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/culvert-net/culvert/bench"
	"github.com/culvert-net/culvert/internal/kernel/balance"
	"github.com/culvert-net/culvert/internal/kernel/balance/filter"
	"github.com/culvert-net/culvert/internal/kernel/balance/socket"
	"github.com/culvert-net/culvert/internal/kernel/netns"
	"github.com/culvert-net/culvert/test/patience"
)

// clusterIP is in the range of route, so that pods have a route to it: nftables needs one.
var clusterIP = netip.MustParseAddr("10.20.0.10")

// balancer is a mechanism that balances connections in the kernel.
type balancer interface {
	Apply(balance.Table) error
}

// The pods: two clients, of which eBPF balances for one and nftables for the other, and a server.
const byEBPF, byNftables, server = 0, 2, 1

// BenchmarkClusterIP compares a ClusterIP with the pod's own VF address, by `culvert bench`, in one
// measurement of both mechanisms. The pods have VFs that culvertd attached. All figures are
// compared with the pod's own address as the client without nftables reaches it. For the other
// client the kernel also tracks the connections to that address; own-throughput and own-requests
// show the cost. Each repetition (-test.count) reports one round.
func BenchmarkClusterIP(b *testing.B) {
	for _, pod := range []int{byEBPF, server, byNftables} {
		if err := host.add(pod); err != nil {
			b.Fatalf("%v\n%s", err, host.log())
		}
		b.Cleanup(func() {
			if err := host.del(pod); err != nil {
				b.Errorf("%v\n%s", err, host.log())
			}
		})
	}
	to, err := podAddress(server)
	if err != nil {
		b.Fatal(err)
	}
	balanceTo(b, openSocket(b), to, byEBPF)
	balanceTo(b, openFilter(b), to, byNftables)
	r, err := runBench(b.TempDir())
	if err != nil {
		b.Fatal(err)
	}
	for i, kind := range []bench.Kind{bench.Stream, bench.Connect} {
		name := []string{"throughput", "requests"}[i]
		own := findArm(b, r, kind, byEBPF, "")
		reportRounds(b, "eBPF/"+name, r.RatiosByRound(findArm(b, r, kind, byEBPF, bench.AtSocket), own))
		reportRounds(b, "nftables/"+name, r.RatiosByRound(findArm(b, r, kind, byNftables, bench.InPackets), own))
		reportRounds(b, "nftables/own-"+name, r.RatiosByRound(findArm(b, r, kind, byNftables, ""), own))
	}
}

// findArm returns the arm over VFs of a workload from a pod. It goes to the ClusterIP if replaced
// names a mechanism, else to the server's own address.
func findArm(b *testing.B, r bench.Result, kind bench.Kind, pod int, replaced bench.Replacement) int {
	b.Helper()
	i := slices.IndexFunc(r.Arms, func(a bench.Arm) bool {
		overVF := a.Path.From.VF != nil && a.Path.To.VF != nil
		return overVF && a.Workload.Kind == kind && a.Path.Replaced == replaced && a.Path.From.Name == filepath.Base(podNetns(pod))
	})
	if i < 0 {
		b.Fatalf("no arm of %s from pod %d over VFs is replaced %q: %+v", kind, pod, replaced, r.Arms)
	}
	return i
}

// reportRounds reports the ratio of one round in each repetition of a benchmark.
func reportRounds(b *testing.B, name string, ratios []float64) {
	b.Helper()
	round := 0
	b.Run(name, func(b *testing.B) {
		b.ReportMetric(0, "ns/op")
		if smoke && len(ratios) == 0 {
			b.ReportMetric(1, "busy-rounds") // runBench accepts no other reason
			return
		}
		if round == len(ratios) {
			b.Fatalf("only %d rounds have runs that count", len(ratios))
		}
		b.ReportMetric(ratios[round], "x-of-own-address")
		round++
	})
}

// balanceTo makes a mechanism balance the ClusterIP to a backend, for one pod.
func balanceTo(b *testing.B, by balancer, backend netip.Addr, pod int) {
	b.Helper()
	view := balance.View{}
	for _, port := range bench.ServicePorts {
		for _, p := range []balance.Protocol{balance.TCP, balance.UDP} {
			view[balance.Frontend{Addr: clusterIP, Port: port, Protocol: p}] = &balance.Rule{Backends: []netip.AddrPort{netip.AddrPortFrom(backend, port)}}
		}
	}
	err := by.Apply(balance.Table{
		Pods:  []balance.Pod{{ID: fmt.Sprint("bench-", pod), Netns: podNetns(pod), View: 1}},
		Views: map[balance.ViewID]balance.View{1: view},
	})
	if err != nil {
		b.Fatal(err)
	}
}

// openSocket opens the mechanism that balances at the socket, for all processes of the node.
func openSocket(b *testing.B) balancer {
	b.Helper()
	dir := b.TempDir()
	for kind, name := range map[string]string{"bpf": "bpf", "cgroup2": "cgroup"} {
		at := filepath.Join(dir, name)
		if err := errors.Join(os.Mkdir(at, 0o700), unix.Mount("culvert-bench", at, kind, 0, "")); err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() {
			if err := unix.Unmount(at, unix.MNT_DETACH); err != nil {
				b.Error(err)
			}
		})
	}
	pins := filepath.Join(dir, "bpf", "culvert")
	s, err := socket.Open(pins, filepath.Join(dir, "cgroup"))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := errors.Join(s.Close(), socket.Remove(pins)); err != nil {
			b.Error(err)
		}
	})
	return s
}

// openFilter opens nftables in the pods. Each request is a connection that the kernel tracks for two
// minutes, and a node of 512 MiB tracks 4,096 by default.
func openFilter(b *testing.B) balancer {
	b.Helper()
	f, err := filter.Open()
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := f.Apply(balance.Table{}); err != nil {
			b.Error(err)
		}
	})
	return tracking{f}
}

// tracking makes the kernel track more connections, once the rules have loaded the modules for
// that.
type tracking struct{ balancer }

func (t tracking) Apply(table balance.Table) error {
	if err := t.balancer.Apply(table); err != nil {
		return err
	}
	return os.WriteFile("/proc/sys/net/netfilter/nf_conntrack_max", []byte("262144"), 0o600)
}

// runBench runs `culvert bench` from both clients to the server, and returns its result.
func runBench(dir string) (r bench.Result, err error) {
	rounds := flag.Lookup("test.count").Value.String()
	file := filepath.Join(dir, "result.json")
	cmd := exec.Command(filepath.Join(programs, "culvert-bench"), "run", "--quick", "--seconds", "1", "--repeats", rounds, "--max-time", "30m",
		"--from", "netns:"+podNetns(byEBPF), "--from", "netns:"+podNetns(byNftables), "--to", "netns:"+podNetns(server), "--service", clusterIP.String(), "--path", "VF", "--out", file)
	if smoke {
		cmd.Args = append(cmd.Args, "--rough")
	}
	cmd.Stderr = os.Stderr
	ran := cmd.Run()
	f, err := os.Open(file)
	if err != nil {
		return r, errors.Join(ran, err)
	}
	defer f.Close()
	if r, err = bench.Read(f); err != nil {
		return r, errors.Join(ran, err)
	}
	if smoke && patience.OnlyBusyIsMissing(r) {
		return r, nil
	}
	if r.Unfinished != "" {
		return r, fmt.Errorf("not all was measured: %s", r.Unfinished)
	}
	return r, ran
}

// podAddress returns the address of a pod's VF.
func podAddress(pod int) (at netip.Addr, err error) {
	err = netns.Run(podNetns(pod), func() error {
		i, err := net.InterfaceByName(ifName)
		if err != nil {
			return err
		}
		addresses, err := i.Addrs()
		for _, a := range addresses {
			if p, parseErr := netip.ParsePrefix(a.String()); parseErr == nil && p.Addr().Is4() {
				at = p.Addr()
			}
		}
		if err == nil && !at.IsValid() {
			err = fmt.Errorf("%s of pod %d has no IPv4 address", ifName, pod)
		}
		return err
	})
	return at, err
}
