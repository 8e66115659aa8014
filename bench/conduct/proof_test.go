package conduct

import (
	"strings"
	"testing"

	"github.com/culvert-net/culvert/bench"
)

// counts is what an interface sent and received, bytes and packets.
func counts(name, role string, tx, txPackets, rx, rxPackets float64) bench.Counters {
	return bench.Counters{Interface: name, Role: role, TxBytes: uint64(tx), TxPackets: uint64(txPackets), RxBytes: uint64(rx), RxPackets: uint64(rxPackets)}
}

// countingEnd is an end with these counters, in the window and in all of a run.
func countingEnd(all ...bench.Counters) bench.Evidence {
	return bench.Evidence{Interfaces: all, Whole: bench.Whole{Seconds: 10, Interfaces: all}}
}

// withOther adds an interface beside the path, which sent and received that many bytes.
func withOther(e bench.Evidence, bytes float64) bench.Evidence {
	return countingEnd(append(e.Whole.Interfaces, counts("eth0", "other", bytes, bytes/1500, bytes, bytes/1500))...)
}

// Ends of a stream: full segments one way, an acknowledgement for two of them the other way.
func streamSender(bytes float64) bench.Evidence {
	return countingEnd(counts("net1", "path", bytes, bytes/1514, 66*bytes/1514/2, bytes/1514/2))
}

func streamReceiver(bytes float64) bench.Evidence { return turned(streamSender(bytes)) }

// Ends of packets of 64 bytes: nothing comes back.
func packetSender(n float64) bench.Evidence {
	return countingEnd(counts("net1", "path", 64*n, n, 0, 0))
}

func packetReceiver(n float64) bench.Evidence { return turned(packetSender(n)) }

// askingEnd is either end of questions of a byte, with so many packets in each direction.
func askingEnd(n float64) bench.Evidence {
	return countingEnd(counts("net1", "path", 67*n, n, 67*n, n))
}

// turned exchanges the directions.
func turned(e bench.Evidence) bench.Evidence {
	var all []bench.Counters
	for _, c := range e.Whole.Interfaces {
		c.TxBytes, c.TxPackets, c.RxBytes, c.RxPackets = c.RxBytes, c.RxPackets, c.TxBytes, c.TxPackets
		all = append(all, c)
	}
	return countingEnd(all...)
}

// withForeign adds traffic of another program to the path's interface.
func withForeign(e bench.Evidence, tx, txPackets, rx, rxPackets float64) bench.Evidence {
	c := e.Whole.Interfaces[0]
	all := append([]bench.Counters{counts(c.Interface, c.Role, float64(c.TxBytes)+tx, float64(c.TxPackets)+txPackets, float64(c.RxBytes)+rx, float64(c.RxPackets)+rxPackets)}, e.Whole.Interfaces[1:]...)
	return countingEnd(all...)
}

const gb = 1e9

// wired are the bytes of gb in full segments of Ethernet.
const wired = gb / 1448 * 1514

func streamRun(from, to bench.Evidence) bench.Run {
	return bench.Run{Seconds: 8, Bytes: 8 * gb / 10, Totals: bench.Totals{Sent: gb, Arrived: gb, Segment: 1448}, From: from, To: to}
}

func proofArm(k bench.Kind) bench.Arm {
	return bench.Arm{Workload: bench.Workload{Kind: k, Size: 1}, Path: bench.Path{From: bench.End{Name: "a", Interface: "net1"}, To: bench.End{Name: "b", Interface: "net1"}}}
}

func TestProof(t *testing.T) {
	const small64 bench.Kind = "writes of 64 bytes"
	arm := func(k bench.Kind) bench.Arm {
		a := proofArm(k)
		switch k {
		case small64:
			a.Workload.Kind, a.Workload.Size = bench.Stream, 64
		case bench.Stream:
			a.Workload.Size = 0
		case bench.Packets, bench.Datagram:
			a.Workload.Size = 64
		}
		return a
	}
	stream := streamRun
	// A million segments of 64 bytes, each with its headers; and as much with three million foreign frames.
	small := countingEnd(counts("net1", "path", 130e6, 1e6, 66e6, 1e6))
	resent := func(n uint64) bench.Run {
		r := stream(streamSender(1.3*wired), streamReceiver(wired))
		r.Totals.Retransmits = n
		return r
	}
	lost := func(n float64) bench.Run {
		return bench.Run{Seconds: 10, Packets: uint64(n), Totals: bench.Totals{Sent: 1e6, Arrived: uint64(n)}}
	}
	questions := func(from, to bench.Evidence) bench.Run {
		return bench.Run{Seconds: 10, Packets: 1e5, Totals: bench.Totals{Sent: 1e5, Arrived: 1e5}, From: from, To: to}
	}
	packets := func(sent, arrived float64, from, to bench.Evidence) bench.Run {
		r := lost(arrived)
		r.Totals.Sent, r.From, r.To = uint64(sent), from, to
		return r
	}
	for name, c := range map[string]struct {
		kind bench.Kind
		run  bench.Run
		want string // "" is proof
	}{
		"as claimed":              {bench.Stream, stream(withOther(streamSender(wired), 1e5), withOther(streamReceiver(wired), 1e5)), ""},
		"with tags and checksums": {bench.Stream, stream(streamSender(wired/1514*1522), streamReceiver(wired/1514*1522)), ""},
		"little is lacking":       {bench.Stream, stream(streamSender(0.985*gb), streamReceiver(wired)), ""},
		"a fortieth is lacking":   {bench.Stream, stream(streamSender(0.975*gb), streamReceiver(wired)), "net1 of a sent 975.0 MB, and 1000.0 MB were claimed: the traffic took another way"},
		"the window's are there":  {bench.Stream, stream(streamSender(0.8*gb), streamReceiver(0.8*gb)), "net1 of a sent 800.0 MB, and 1000.0 MB were claimed"},
		"sent again":              {bench.Stream, resent(220e3), ""},
		"not sent again":          {bench.Stream, resent(0), "net1 of a sent 1359.3 MB, and the run and an idle network cause at most"},
		"the overlay carried it":  {bench.Stream, stream(withOther(streamSender(1e4), 1.1*gb), withOther(streamReceiver(1e4), 1.1*gb)), "net1 of a sent 0.0 MB, and 1000.0 MB were claimed"},
		"only there it did":       {bench.Stream, stream(streamSender(wired), streamReceiver(0.5*gb)), "net1 of b received 500.0 MB"},
		"both rose":               {bench.Stream, stream(withOther(streamSender(wired), 0.5*gb), streamReceiver(wired)), "eth0 of a, which is not on the path, sent 500.0 MB"},
		"a fortieth beside it":    {bench.Stream, stream(streamSender(wired), withOther(streamReceiver(wired), 0.025*wired)), "eth0 of b, which is not on the path, sent 26.1 MB"},
		"nothing arrived":         {bench.Stream, bench.Run{Seconds: 10, From: streamSender(gb), To: streamReceiver(gb)}, "nothing arrived at b"},
		"no counters":             {bench.Stream, stream(bench.Evidence{}, streamReceiver(gb)), "a has no counters of net1"},
		"other traffic on it":     {bench.Stream, stream(streamSender(wired), streamReceiver(9*gb)), "net1 of b sent 196.2 MB, and the run and an idle network cause at most"},
		"small segments":          {small64, bench.Run{Seconds: 10, Bytes: 64e6, Totals: bench.Totals{Sent: 64e6, Arrived: 64e6}, From: small, To: turned(small)}, ""},
		"datagrams elsewhere":     {bench.Datagram, bench.Run{Seconds: 10, Bytes: 64e6, Totals: bench.Totals{Sent: 64e6, Arrived: 64e6}, From: streamSender(62e6), To: turned(small)}, "net1 of a sent 62.0 MB"},
		"questions":               {bench.Request, questions(askingEnd(1e5), askingEnd(1e5)), ""},
		"acknowledged by itself":  {bench.Request, questions(askingEnd(2e5), askingEnd(2e5)), ""},
		"questions and a flood":   {bench.Request, questions(askingEnd(1e5), withForeign(askingEnd(1e5), 0, 0, 40e6, 26e3)), "net1 of b received 46.7 MB, and the run and an idle network cause at most"},
		"answers and a flood":     {bench.Request, questions(askingEnd(1e5), withForeign(askingEnd(1e5), 7e6, 110e3, 0, 0)), "net1 of b sent 210000 packets, and the run and an idle network cause at most"},
		"connections":             {bench.Connect, questions(askingEnd(6e5), askingEnd(6e5)), ""},
		"connections elsewhere":   {bench.Connect, questions(withOther(askingEnd(1e5), 6e5), askingEnd(6e5)), "net1 of a sent 100000 packets, and 200000 packets were claimed: the traffic took another way"},
		"connections and a flood": {bench.Connect, questions(askingEnd(6e5), withForeign(askingEnd(6e5), 0, 0, 80e6, 53e3)), "net1 of b received 120.2 MB"},
		"packets":                 {bench.Packets, packets(1.2e6, 1e6, packetSender(1.2e6), packetReceiver(1e6)), ""},
		"many were lost":          {bench.Packets, packets(1e6, 1e5, packetSender(1e6), packetReceiver(1e6)), ""},
		"packets elsewhere":       {bench.Packets, packets(1e6, 1e6, withOther(packetSender(100), 1e6), packetReceiver(1e6)), "net1 of a sent 100 packets"},
		"other packets on it":     {bench.Packets, packets(1.1e6, 1e6, packetSender(1.1e6), packetReceiver(3e6)), "net1 of b received 192.0 MB, and the run and an idle network cause at most"},
		"echo":                    {bench.Echo, bench.Run{Seconds: 3, Packets: 3, From: askingEnd(3), To: askingEnd(3)}, ""},
		"echo elsewhere":          {bench.Echo, bench.Run{Seconds: 3, Packets: 3, From: askingEnd(0), To: askingEnd(0)}, "net1 of a sent 0 packets"},
	} {
		got := Proof(arm(c.kind), c.run)
		if c.want == "" && got != "" || !strings.Contains(got, c.want) {
			t.Errorf("%s: %q; want %q", name, got, c.want)
		}
	}
	flapped := stream(streamSender(wired), streamReceiver(wired))
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

// Proof voids a run with 2 % of other traffic or more, at each end and in each direction: frames of
// 1514 bytes, small ones, and packets of 64 KiB on interfaces that count such a packet as one. Proof
// accepts a run without other traffic, in whichever way its interfaces count.
func TestForeignTrafficIsSeen(t *testing.T) {
	const n = 1e7
	merged := countingEnd(counts("net1", "path", gb+66*16e3, 16e3, 66*16e3, 16e3))
	alone := countingEnd(counts("net1", "path", wired, gb/1448, 66*gb/1448, gb/1448)) // each is acknowledged
	datagrams := bench.Run{Seconds: 10, Bytes: gb, Totals: bench.Totals{Sent: gb, Arrived: gb}}
	datagrams.From = countingEnd(counts("net1", "path", gb/1400*1442, gb/1400, 0, 0))
	datagrams.To = turned(datagrams.From)
	for name, c := range map[string]struct {
		load     bench.Workload
		run      bench.Run
		bytes    float64 // forth
		smallest float64 // bytes of the foreign packets
	}{
		"a stream in segments":        {bench.Workload{Kind: bench.Stream}, streamRun(streamSender(wired), streamReceiver(wired)), wired, 256},
		"each segment acknowledged":   {bench.Workload{Kind: bench.Stream}, streamRun(alone, turned(alone)), wired, 400},
		"a stream in packets of 64 K": {bench.Workload{Kind: bench.Stream}, streamRun(merged, turned(merged)), wired, 256},
		"datagrams":                   {bench.Workload{Kind: bench.Datagram, Size: 1400}, datagrams, gb, 64},
		"packets": {bench.Workload{Kind: bench.Packets, Size: 1000},
			bench.Run{Seconds: 10, Packets: n, Totals: bench.Totals{Sent: n, Arrived: n}, From: countingEnd(counts("net1", "path", 1000*n, n, 0, 0)), To: countingEnd(counts("net1", "path", 0, 0, 1000*n, n))}, 1000 * n, 64},
	} {
		arm := proofArm(c.load.Kind)
		arm.Workload = c.load
		if why := Proof(arm, c.run); why != "" {
			t.Errorf("%s: %s", name, why)
		}
		for _, size := range []float64{c.smallest, 1514, 65226} {
			bytes := 0.02 * c.bytes
			for at, spoil := range map[string]func(*bench.Run){
				"sent at the sender":       func(r *bench.Run) { r.From = withForeign(r.From, bytes, bytes/size, 0, 0) },
				"received at the sender":   func(r *bench.Run) { r.From = withForeign(r.From, 0, 0, bytes, bytes/size) },
				"sent at the receiver":     func(r *bench.Run) { r.To = withForeign(r.To, bytes, bytes/size, 0, 0) },
				"received at the receiver": func(r *bench.Run) { r.To = withForeign(r.To, 0, 0, bytes, bytes/size) },
			} {
				run := c.run
				if spoil(&run); !strings.Contains(Proof(arm, run), "other traffic was on the path") {
					t.Errorf("%s: 2 %% in packets of %.0f bytes %s pass", name, size, at)
				}
			}
		}
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
		"only one came":           {func(s []bench.Share) []bench.Share { s[0].To = packetReceiver(packets); return s }, "net1 of r received 1000 packets, and 3000 packets were claimed"},
		"one went another way":    {func(s []bench.Share) []bench.Share { s[1].From = withOther(packetSender(0), 64*packets); return s }, "net1 of b sent 0 packets, and 1000 packets were claimed"},
		"one sent for two others": {func(s []bench.Share) []bench.Share { s[2].Packets = 0; return s }, "nothing arrived at r"},
		"one lacks":               {func(s []bench.Share) []bench.Share { return s[:2] }, "2 shares"},
	} {
		var shares []bench.Share
		for range arm.Paths() {
			shares = append(shares, bench.Share{Packets: packets, From: packetSender(packets), To: packetReceiver(3 * packets)})
		}
		run := bench.Run{Seconds: 10, Packets: 3 * packets, Shares: c.spoil(shares)}
		if got := Proof(arm, run); c.want == "" && got != "" || !strings.Contains(got, c.want) {
			t.Errorf("%s: %q; want %q", name, got, c.want)
		}
	}
}

// Questions without a size have the engine's usual one, and so have as many bytes on the path.
func TestQuestionsWithoutASize(t *testing.T) {
	const usual = 64
	for _, w := range []bench.Workload{{Kind: bench.Request, Seconds: 1}, {Kind: bench.Request, UDP: true, Seconds: 1}, {Kind: bench.Connect, Seconds: 1}} {
		run := bench.Run{Totals: bench.Totals{Sent: 1000, Arrived: 1000}}
		sized := w
		sized.Size = usual
		got, want := claimOf(w, run, bench.Path{}), claimOf(sized, run, bench.Path{})
		if got != want || got.forth.payload < 1000*usual {
			t.Errorf("%+v: %+v, want %+v", w, got, want)
		}
	}
}
