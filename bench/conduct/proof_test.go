package conduct

import (
	"strings"
	"testing"

	"github.com/culvert-net/culvert/bench"
)

// seen is an end's counters: of its path's interface, and of the other one.
func seen(path, other uint64) bench.Evidence {
	count := func(name, role string, n uint64) bench.Counters {
		return bench.Counters{Interface: name, Role: role, RxBytes: n, TxBytes: n, RxPackets: n, TxPackets: n}
	}
	return bench.Evidence{Interfaces: []bench.Counters{count("net1", "path", path), count("eth0", "other", other)}}
}

func TestProof(t *testing.T) {
	const gb = 1e9
	arm := func(k bench.Kind) bench.Arm {
		return bench.Arm{Workload: bench.Workload{Kind: k}, Path: bench.Path{From: bench.End{Name: "a", Interface: "net1"}, To: bench.End{Name: "b", Interface: "net1"}}}
	}
	stream := func(from, to bench.Evidence) bench.Run {
		return bench.Run{Seconds: 10, Bytes: gb, From: from, To: to}
	}
	for name, c := range map[string]struct {
		kind bench.Kind
		run  bench.Run
		want string // "" is proof
	}{
		"as claimed":              {bench.Stream, stream(seen(1.06*gb, 1e5), seen(1.06*gb, 1e5)), ""},
		"the driver's count lags": {bench.Stream, stream(seen(0.8*gb, 0), seen(1.06*gb, 0)), ""},
		"the overlay carried it":  {bench.Stream, stream(seen(1e4, 1.1*gb), seen(1e4, 1.1*gb)), "net1 of a sent 0.0 MB, and 1000.0 MB were claimed"},
		"only there it did":       {bench.Stream, stream(seen(1.06*gb, 0), seen(0.5*gb, 0)), "net1 of b received 500.0 MB"},
		"both rose":               {bench.Stream, stream(seen(1.06*gb, 0.5*gb), seen(1.06*gb, 0)), "eth0 of a, which is not on the path, sent 500.0 MB"},
		"nothing arrived":         {bench.Stream, bench.Run{Seconds: 10, From: seen(gb, 0), To: seen(gb, 0)}, "nothing arrived at b"},
		"no counters":             {bench.Stream, stream(bench.Evidence{}, seen(gb, 0)), "a has no counters of net1"},
		"packets":                 {bench.Packets, bench.Run{Seconds: 10, Packets: 1e6, Bytes: 6e7, From: seen(1.2e6, 0), To: seen(1e6, 0)}, ""},
		"packets elsewhere":       {bench.Packets, bench.Run{Seconds: 10, Packets: 1e6, From: seen(100, 1e6), To: seen(1e6, 0)}, "net1 of a sent 100 packets"},
		"echo":                    {bench.Echo, bench.Run{Seconds: 3, Delays: &bench.Delays{Count: 3}, From: seen(3, 40), To: seen(3, 40)}, ""},
		"echo elsewhere":          {bench.Echo, bench.Run{Seconds: 3, Delays: &bench.Delays{Count: 3}, From: seen(0, 3), To: seen(0, 3)}, "net1 of a sent 0 packets"},
	} {
		got := Proof(arm(c.kind), c.run)
		if c.want == "" && got != "" || !strings.Contains(got, c.want) {
			t.Errorf("%s: %q; want %q", name, got, c.want)
		}
	}
	flapped := stream(seen(1.06*gb, 0), seen(1.06*gb, 0))
	flapped.To.Interfaces[0].Downs = 2
	if got := Proof(arm(bench.Stream), flapped); got != "the link of net1 of b went down in the run (count 2)" {
		t.Errorf("a link that flapped: %q", got)
	}
	pulled := arm(bench.Stream)
	pulled.Workload.Pulled = true
	if got := Proof(pulled, flapped); got != "" {
		t.Errorf("a cable that is pulled on purpose: %q", got)
	}
	// What came back is what counts when the other end sends.
	reverse := arm(bench.Stream)
	reverse.Workload.Reverse = true
	one := func(rx, tx uint64) bench.Evidence {
		return bench.Evidence{Interfaces: []bench.Counters{{Interface: "net1", Role: "path", RxBytes: rx, TxBytes: tx}}}
	}
	if got := Proof(reverse, stream(one(gb, 0), one(0, gb))); got != "" {
		t.Error(got)
	}
	if got := Proof(arm(bench.Stream), stream(one(gb, 0), one(0, gb))); got == "" {
		t.Error("bytes of the other direction are proof")
	}
}

// Of several paths each proves itself, and an interface that they share has carried them all.
func TestProofOfSeveral(t *testing.T) {
	const packets = 1000
	path := func(from string) bench.Path {
		return bench.Path{From: bench.End{Name: from, Interface: "net1"}, To: bench.End{Name: "r", Interface: "net1"}}
	}
	arm := bench.Arm{Workload: bench.Workload{Kind: bench.Packets}, Path: path("a"), Also: []bench.Path{path("b"), path("c")}}
	for name, c := range map[string]struct {
		spoil func([]bench.Share) []bench.Share
		want  string
	}{
		"as claimed":              {func(s []bench.Share) []bench.Share { return s }, ""},
		"only one came":           {func(s []bench.Share) []bench.Share { s[0].To = seen(packets, 0); return s }, "net1 of r received 1000 packets, and 3000 packets were claimed"},
		"one went another way":    {func(s []bench.Share) []bench.Share { s[1].From = seen(0, packets); return s }, "net1 of b sent 0 packets, and 1000 packets were claimed"},
		"one sent for two others": {func(s []bench.Share) []bench.Share { s[2].Packets = 0; return s }, "nothing arrived at r"},
		"one lacks":               {func(s []bench.Share) []bench.Share { return s[:2] }, "2 shares"},
	} {
		var shares []bench.Share
		for range arm.Paths() {
			shares = append(shares, bench.Share{Packets: packets, From: seen(packets, 0), To: seen(3*packets, 0)})
		}
		run := bench.Run{Seconds: 10, Packets: 3 * packets, Shares: c.spoil(shares)}
		if got := Proof(arm, run); c.want == "" && got != "" || !strings.Contains(got, c.want) {
			t.Errorf("%s: %q; want %q", name, got, c.want)
		}
	}
}
