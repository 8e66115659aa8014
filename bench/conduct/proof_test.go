package conduct

import (
	"strings"
	"testing"

	"github.com/culvert-net/culvert/bench"
)

// seenEnd is an end's counters: of its path's interface, and of the other one.
func seenEnd(path, other uint64) bench.Evidence {
	count := func(name, role string, n uint64) bench.Counters {
		return bench.Counters{Interface: name, Role: role, RxBytes: n, TxBytes: n, RxPackets: n, TxPackets: n}
	}
	return countingEnd(count("net1", "path", path), count("eth0", "other", other))
}

// countingEnd is an end with these counters, in the window and in all of a run.
func countingEnd(all ...bench.Counters) bench.Evidence {
	return bench.Evidence{Interfaces: all, Whole: bench.Whole{Seconds: 10, Interfaces: all}}
}

func TestProof(t *testing.T) {
	const gb = 1e9
	const small64 bench.Kind = "writes of 64 bytes"
	arm := func(k bench.Kind) bench.Arm {
		w := bench.Workload{Kind: k}
		if k == small64 {
			w.Kind, w.Size = bench.Stream, 64
		}
		return bench.Arm{Workload: w, Path: bench.Path{From: bench.End{Name: "a", Interface: "net1"}, To: bench.End{Name: "b", Interface: "net1"}}}
	}
	stream := func(from, to bench.Evidence) bench.Run {
		return bench.Run{Seconds: 8, Bytes: 8 * gb / 10, Totals: bench.Totals{Sent: gb, Arrived: gb}, From: from, To: to}
	}
	// Frames of 1500 bytes.
	frames := func(bytes uint64) bench.Evidence {
		n := bytes / 1500
		return countingEnd(bench.Counters{Interface: "net1", Role: "path", RxBytes: bytes, TxBytes: bytes, RxPackets: n, TxPackets: n})
	}
	// A million segments of 64 bytes, each with its headers; and as much with three million foreign frames.
	small := countingEnd(bench.Counters{Interface: "net1", Role: "path", RxBytes: 130e6, TxBytes: 130e6, RxPackets: 1e6, TxPackets: 1e6})
	flood := countingEnd(bench.Counters{Interface: "net1", Role: "path", RxBytes: 1060e6 + 180e6, TxBytes: 1060e6 + 180e6, RxPackets: 3.7e6, TxPackets: 3.7e6})
	resent := func(n uint64) bench.Run {
		r := stream(frames(1.3*gb), frames(1.06*gb))
		r.Totals.Retransmits = n
		return r
	}
	for name, c := range map[string]struct {
		kind bench.Kind
		run  bench.Run
		want string // "" is proof
	}{
		"as claimed":              {bench.Stream, stream(seenEnd(1.06*gb, 1e5), seenEnd(1.06*gb, 1e5)), ""},
		"little is lacking":       {bench.Stream, stream(seenEnd(0.985*gb, 0), seenEnd(1.06*gb, 0)), ""},
		"a fortieth is lacking":   {bench.Stream, stream(seenEnd(0.975*gb, 0), seenEnd(1.06*gb, 0)), "net1 of a sent 975.0 MB, and 1000.0 MB were claimed: the traffic took another way"},
		"the window's are there":  {bench.Stream, stream(seenEnd(0.8*gb, 0), seenEnd(0.8*gb, 0)), "net1 of a sent 800.0 MB, and 1000.0 MB were claimed"},
		"frames of others":        {bench.Stream, stream(flood, frames(1.06*gb)), "net1 of a sent 1240.0 MB, and 1000.0 MB were claimed: other traffic"},
		"a quarter as much again": {bench.Stream, resent(0), "net1 of a sent 1300.0 MB, and 1000.0 MB were claimed: other traffic"},
		"sent again":              {bench.Stream, resent(160e3), ""},
		"the overlay carried it":  {bench.Stream, stream(seenEnd(1e4, 1.1*gb), seenEnd(1e4, 1.1*gb)), "net1 of a sent 0.0 MB, and 1000.0 MB were claimed"},
		"only there it did":       {bench.Stream, stream(seenEnd(1.06*gb, 0), seenEnd(0.5*gb, 0)), "net1 of b received 500.0 MB"},
		"both rose":               {bench.Stream, stream(seenEnd(1.06*gb, 0.5*gb), seenEnd(1.06*gb, 0)), "eth0 of a, which is not on the path, sent 500.0 MB"},
		"nothing arrived":         {bench.Stream, bench.Run{Seconds: 10, From: seenEnd(gb, 0), To: seenEnd(gb, 0)}, "nothing arrived at b"},
		"no counters":             {bench.Stream, stream(bench.Evidence{}, seenEnd(gb, 0)), "a has no counters of net1"},
		"other traffic on it":     {bench.Stream, stream(frames(1.06*gb), frames(9*gb)), "net1 of b received 9000.0 MB, and 1000.0 MB were claimed: other traffic was on the path"},
		"half as much again":      {bench.Stream, stream(frames(1.6*gb), frames(1.06*gb)), "net1 of a sent 1600.0 MB, and 1000.0 MB were claimed: other traffic"},
		"small segments":          {small64, bench.Run{Seconds: 10, Bytes: 64e6, Totals: bench.Totals{Sent: 64e6, Arrived: 64e6}, From: small, To: small}, ""},
		"datagrams elsewhere":     {bench.Datagram, bench.Run{Seconds: 10, Bytes: 64e6, Totals: bench.Totals{Sent: 64e6, Arrived: 64e6}, From: seenEnd(62e6, 0), To: small}, "net1 of a sent 62.0 MB"},
		"questions and a flood":   {bench.Request, bench.Run{Seconds: 10, Packets: 1e4, Totals: bench.Totals{Sent: 1e4, Arrived: 1e4}, From: seenEnd(2e4, 0), To: frames(40e6)}, "net1 of b received 26666 packets, and 10000 packets were claimed: other traffic"},
		"connections":             {bench.Connect, bench.Run{Seconds: 10, Packets: 1e4, Totals: bench.Totals{Sent: 1e4, Arrived: 1e4}, From: seenEnd(6e4, 0), To: seenEnd(6e4, 0)}, ""},
		"connections elsewhere":   {bench.Connect, bench.Run{Seconds: 10, Packets: 1e4, Totals: bench.Totals{Sent: 1e4, Arrived: 1e4}, From: seenEnd(1e4, 6e4), To: seenEnd(6e4, 0)}, "net1 of a sent 10000 packets, and 20000 packets were claimed: the traffic took another way"},
		"connections and a flood": {bench.Connect, bench.Run{Seconds: 10, Packets: 1e4, Totals: bench.Totals{Sent: 1e4, Arrived: 1e4}, From: seenEnd(6e4, 0), To: frames(40e6)}, "net1 of b received 26666 packets, and 20000 packets were claimed: other traffic"},
		"questions":               {bench.Request, bench.Run{Seconds: 10, Packets: 1e4, Totals: bench.Totals{Sent: 1e4, Arrived: 1e4}, From: seenEnd(2e4, 0), To: seenEnd(2e4, 0)}, ""},
		"other packets on it":     {bench.Packets, bench.Run{Seconds: 10, Packets: 1e6, Totals: bench.Totals{Sent: 1.1e6, Arrived: 1e6}, From: seenEnd(1.1e6, 0), To: seenEnd(3e6, 0)}, "net1 of b received 3000000 packets, and 1000000 packets were claimed: other traffic"},
		"many were lost":          {bench.Packets, bench.Run{Seconds: 10, Packets: 1e5, Totals: bench.Totals{Sent: 1e6, Arrived: 1e5}, From: seenEnd(1e6, 0), To: seenEnd(1e6, 0)}, ""},
		"packets":                 {bench.Packets, bench.Run{Seconds: 10, Packets: 1e6, Bytes: 6e7, From: seenEnd(1.2e6, 0), To: seenEnd(1e6, 0)}, ""},
		"packets elsewhere":       {bench.Packets, bench.Run{Seconds: 10, Packets: 1e6, From: seenEnd(100, 1e6), To: seenEnd(1e6, 0)}, "net1 of a sent 100 packets"},
		"echo":                    {bench.Echo, bench.Run{Seconds: 3, Packets: 3, From: seenEnd(3, 40), To: seenEnd(3, 40)}, ""},
		"echo elsewhere":          {bench.Echo, bench.Run{Seconds: 3, Packets: 3, From: seenEnd(0, 3), To: seenEnd(0, 3)}, "net1 of a sent 0 packets"},
	} {
		got := Proof(arm(c.kind), c.run)
		if c.want == "" && got != "" || !strings.Contains(got, c.want) {
			t.Errorf("%s: %q; want %q", name, got, c.want)
		}
	}
	flapped := stream(seenEnd(1.06*gb, 0), seenEnd(1.06*gb, 0))
	flapped.To.Interfaces[0].Downs = 2
	if got := Proof(arm(bench.Stream), flapped); got != "the link of net1 of b went down in the run (count 2)" {
		t.Errorf("a link that flapped: %q", got)
	}
	pulled := arm(bench.Stream)
	pulled.Workload.Pulled = true
	if got := Proof(pulled, flapped); got != "" {
		t.Errorf("a cable that is pulled on purpose: %q", got)
	}
	// When the other end sends, the counters of the way back count.
	reverse := arm(bench.Stream)
	reverse.Workload.Reverse = true
	one := func(rx, tx uint64) bench.Evidence {
		return countingEnd(bench.Counters{Interface: "net1", Role: "path", RxBytes: rx, TxBytes: tx})
	}
	if got := Proof(reverse, stream(one(gb, 0), one(0, gb))); got != "" {
		t.Error(got)
	}
	if got := Proof(arm(bench.Stream), stream(one(gb, 0), one(0, gb))); got == "" {
		t.Error("bytes of the other direction are proof")
	}
}

// Each of several paths is proven by itself, and an interface that they share must have carried the
// traffic of all.
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
		"only one came":           {func(s []bench.Share) []bench.Share { s[0].To = seenEnd(packets, 0); return s }, "net1 of r received 1000 packets, and 3000 packets were claimed"},
		"one went another way":    {func(s []bench.Share) []bench.Share { s[1].From = seenEnd(0, packets); return s }, "net1 of b sent 0 packets, and 1000 packets were claimed"},
		"one sent for two others": {func(s []bench.Share) []bench.Share { s[2].Packets = 0; return s }, "nothing arrived at r"},
		"one lacks":               {func(s []bench.Share) []bench.Share { return s[:2] }, "2 shares"},
	} {
		var shares []bench.Share
		for range arm.Paths() {
			shares = append(shares, bench.Share{Packets: packets, From: seenEnd(packets, 0), To: seenEnd(3*packets, 0)})
		}
		run := bench.Run{Seconds: 10, Packets: 3 * packets, Shares: c.spoil(shares)}
		if got := Proof(arm, run); c.want == "" && got != "" || !strings.Contains(got, c.want) {
			t.Errorf("%s: %q; want %q", name, got, c.want)
		}
	}
}
