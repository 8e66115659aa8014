package conduct

import (
	"context"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/culvert-net/culvert/bench"
	"github.com/culvert-net/culvert/bench/preset"
)

// askOver makes the arms of a question over the path from a0 to a1.
func (w *world) askOver(t *testing.T, q preset.Question, seconds float64) {
	t.Helper()
	if err := q.Check(nil); err != nil {
		t.Fatal(err)
	}
	plan, err := q.Plan(preset.Here{Paths: Between(w.stations[:1], w.stations[1:]), Lacks: func(string) string { return "" }}, true)
	if err != nil {
		t.Fatal(err)
	}
	w.exchange.Arms = slices.DeleteFunc(plan.Arms, func(a bench.Arm) bool { return a.Path.From.Interface != "a0" })
	NameArms(w.exchange.Arms)
	for i := range w.exchange.Arms {
		w.exchange.Arms[i].Workload.Seconds, w.exchange.Arms[i].Workload.Warmup = seconds, 0.3
	}
}

// coverage makes runs of an arm, and returns the interval of the median of their figures. Where little
// time is to be used, these are three runs, and the interval is from the least to the largest figure.
func (w *world) coverage(t *testing.T, arm int, figure func(bench.Run) float64) bench.Interval {
	t.Helper()
	return w.coverageOver(t, &wiretap{}, arm, func(run bench.Run, _ tallyOfWire) float64 { return figure(run) })
}

// coverageOver is coverage with the counts of a wire for each run.
func (w *world) coverageOver(t *testing.T, x *wiretap, arm int, figure func(bench.Run, tallyOfWire) float64) bench.Interval {
	t.Helper()
	repeats := 6 // as in a result
	if testing.Short() {
		repeats = 3
	}
	var all []float64
	for range repeats {
		run, of := w.goodRunOver(t, x, arm)
		all = append(all, figure(run, of))
	}
	return intervalOf(all)
}

// intervalOf returns the interval of the median of figures, or of all of them where they are few.
func intervalOf(all []float64) bench.Interval {
	i := bench.Estimate(all)
	if testing.Short() {
		i.Low, i.High = slices.Min(all), slices.Max(all)
	}
	return i
}

// goodRunOver is goodRun with the counts of a wire for that run.
func (w *world) goodRunOver(t *testing.T, x *wiretap, arm int) (bench.Run, tallyOfWire) {
	t.Helper()
	for range 12 {
		x.takeTally()
		run, err := w.runOnce(t, arm)
		if err != nil {
			t.Fatal(err)
		}
		if run.Void == "" {
			return run, x.takeTally()
		}
		t.Log(run.Void)
	}
	t.Fatal("all runs are void")
	return bench.Run{}, tallyOfWire{}
}

// A wire of a known delay: no round trip is shorter than the delay, and the medians cover what the
// wire itself measured of the same questions. A connection takes two round trips.
func TestRoundTripsOfAKnownDelay(t *testing.T) {
	const delay = 20 * time.Millisecond
	for ask, trips := range map[string]float64{"udp": 1, "tcp": 1, "connect": 2} {
		t.Run(ask, func(t *testing.T) {
			t.Parallel()
			w, x := newWiredWorld(t, delay, nil)
			w.askOver(t, preset.Question{Ask: ask, Rate: 40, Streams: 8, DSCP: 46}, 1)
			least := trips * 2 * float64(delay.Microseconds())
			ratio := w.coverageOver(t, x, 0, func(run bench.Run, tally tallyOfWire) float64 {
				if run.Delays.Min < 0.999*least || run.Packets == 0 { // a histogram has three digits
					t.Errorf("the shortest of %d took %g us, and the wire alone %g", run.Packets, run.Delays.Min, least)
				}
				if asked, answered := tally.classes[0][46], tally.classes[1][46]; asked < int(run.Packets) || answered < int(run.Packets) {
					t.Errorf("%d questions and %d answers of %d have the DSCP", asked, answered, run.Packets)
				}
				of := tally.tripMicros()
				if ask == "tcp" { // the wire sees no questions in a stream
					of = least
				}
				return run.Delays.P50 / of
			})
			t.Logf("the median is %.3f (%.3f to %.3f) of what the wire measured", ratio.Value, ratio.Low, ratio.High)
			if ratio.Low > 1.25 || ratio.High < 0.99 {
				t.Errorf("the median round trip is %.2f to %.2f of what the wire measured", ratio.Low, ratio.High)
			}
		})
	}
}

// A wire that drops one question in forty: all of these are lost, and no other, and each counts with
// the second after which the sender gives up.
func TestQuestionsOfAKnownLoss(t *testing.T) {
	t.Parallel()
	const one = 40
	w, x := newWiredWorld(t, 0, func(d datagram) bool {
		return d.from == 0 && d.hasSequence && d.payload != ticketBytes && d.sequence%one == one/2
	})
	const streams = 4
	w.askOver(t, preset.Question{Ask: "udp", Streams: streams}, 3)
	run, of := w.goodRunOver(t, x, 0)
	if missing := int(run.Totals.Sent - run.Totals.Arrived); of.dropped[0] == 0 || missing < of.dropped[0] || missing > of.dropped[0]+streams {
		t.Errorf("%d of %d questions have no answer, and the wire dropped %d", missing, run.Totals.Sent, of.dropped[0])
	}
	h, err := hdrhistogram.Decode([]byte(run.Delays.Histogram))
	if err != nil {
		t.Fatal(err)
	}
	waited := uint64(0)
	for _, bar := range h.Distribution() {
		if bar.From >= (990 * time.Millisecond).Nanoseconds() {
			waited += uint64(bar.Count)
		}
	}
	if run.Lost == 0 || waited < run.Lost-streams || run.Delays.Count < run.Sent-streams {
		t.Errorf("%d are lost, %d of %d waited for a second, and %d were sent", run.Lost, waited, run.Delays.Count, run.Sent)
	}
}

// A wire that drops every tenth datagram, of a known size and class, from a known number of streams:
// the figures are those of the wire.
func TestDatagramsOfAKnownLoss(t *testing.T) {
	t.Parallel()
	n := 0
	w, x := newWiredWorld(t, 0, func(d datagram) bool {
		if d.from == 1 || d.tcp || d.payload == ticketBytes {
			return false
		}
		n++
		return n%10 == 0
	})
	q := preset.Question{Send: "udp", Rate: 4, Streams: 3, Sizes: []int{1000}, DSCP: 46}
	w.askOver(t, q, 1)
	lost := w.coverageOver(t, x, 0, func(run bench.Run, of tallyOfWire) float64 {
		passed := of.datagrams[0] - of.dropped[0]
		if run.Totals.Sent != uint64(1000*of.datagrams[0]) || run.Totals.Arrived != uint64(1000*passed) || of.sizes[1000] != of.datagrams[0] {
			t.Errorf("%+v of %d bytes; the wire had %d datagrams, of %v bytes, and dropped %d", run.Totals, 1000, of.datagrams[0], of.sizes, of.dropped[0])
		}
		if len(of.ports) != q.Streams || of.classes[0][q.DSCP] != of.datagrams[0] {
			t.Errorf("%d streams, DSCPs %v", len(of.ports), of.classes)
		}
		return float64(run.Lost) / float64(run.Sent)
	})
	t.Logf("lost: %.4f (%.4f to %.4f)", lost.Value, lost.Low, lost.High)
	if lost.High < 0.095 || lost.Low > 0.105 {
		t.Errorf("%.3f to %.3f of the datagrams are lost, and the wire dropped a tenth", lost.Low, lost.High)
	}
}

// limit gives an interface of the world a token bucket, whose rate is known.
func (w *world) limitRate(t *testing.T, i int, name, rate string) {
	t.Helper()
	run(t, "tc", "-n", w.netns[i], "qdisc", "replace", "dev", name, "root", "tbf", "rate", rate, "burst", "16kb", "limit", "128kb")
}

// payloadOf returns the TCP payload in Gb/s of a token bucket, which counts frames with their header.
func payloadOf(mbps float64) float64 { return mbps / 1e3 * (1500 - 52) / 1514 }

// Token buckets of known rates in each direction: the medians cover the rates, in one direction, in
// the other and in both at once. A rate below is kept.
func TestThroughputOfAKnownRate(t *testing.T) {
	there, back := payloadOf(40), payloadOf(20)
	for _, c := range []struct {
		name string
		preset.Question
		want []float64
	}{
		{"there", preset.Question{Send: "tcp"}, []float64{there}},
		{"back", preset.Question{Direction: "back", Streams: 2}, []float64{back}},
		{"both", preset.Question{Direction: "both"}, []float64{there + back, there, back}},
		{"at a rate", preset.Question{Rate: 10}, []float64{0.010}},
		{"udp at a rate", preset.Question{Send: "udp", Rate: 10}, []float64{0.010}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.limitRate(t, 0, "a0", "40mbit")
			w.limitRate(t, 1, "a1", "20mbit")
			w.askOver(t, c.Question, 1)
			var each [][]float64
			total := w.coverage(t, 0, func(run bench.Run) float64 {
				var shares []float64
				for _, s := range run.Shares {
					shares = append(shares, s.Gbps)
				}
				each = append(each, shares)
				return run.Gbps
			})
			t.Logf("%.5f Gb/s (%.5f to %.5f), want %v", total.Value, total.Low, total.High, c.want)
			checkCovers(t, c.name, total, c.want[0])
			for i, want := range c.want[1:] {
				var share []float64
				for _, s := range each {
					share = append(share, s[i])
				}
				checkCovers(t, c.name, intervalOf(share), want)
			}
		})
	}
}

// The traffic of a load that a relay did not forward took another way.
func TestLoadThroughARelay(t *testing.T) {
	path := bench.Path{Via: bench.Relay{Machine: "n1", Name: "r", How: bench.Routes}}
	arm := bench.Arm{Path: path, Workload: bench.Workload{Kind: bench.Request, Engine: "culvert", UDP: true, Load: 0.5}}
	run := bench.Run{Packets: 100, Totals: bench.Totals{Sent: 100, Arrived: 100}, Load: &bench.Load{Totals: bench.Totals{Sent: 1e6, Arrived: 1e6}}}
	for bytes, voided := range map[uint64]bool{1.1e6: false, 2e4: true} {
		run.Via = &bench.Evidence{Whole: bench.Whole{Interfaces: []bench.Counters{{RxBytes: bytes, RxPackets: 900}, {TxBytes: bytes, TxPackets: 900}}}}
		if why := checkRelayed(arm, []bench.Run{run}); (why != "") != voided {
			t.Errorf("%d bytes forwarded: %q", bytes, why)
		}
	}
}

// checkCovers fails if an interval is above a known value by more than the bucket's depth explains, or
// below it by more than acknowledgements and a busy machine do.
func checkCovers(t *testing.T, name string, is bench.Interval, want float64) {
	t.Helper()
	const above, below = 0.04, 0.15 // other tests of a busy machine take from the rate
	if is.High < want*(1-below) || is.Low > want*(1+above) || math.IsNaN(is.Value) {
		t.Errorf("%s: %.5f to %.5f, want %.5f", name, is.Low, is.High, want)
	}
}

// A load is the asked part of the throughput that was found, and its traffic is no other's: the run
// counts. A load of a path whose throughput is not known makes void runs.
func TestLoadOfAKnownRate(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.limitRate(t, 0, "a0", "40mbit")
	w.askOver(t, preset.Question{Ask: "udp", Rate: 200, Loads: []int{50}}, 1)
	if n := len(w.exchange.Arms); n != 2 {
		t.Fatalf("%d arms", n)
	}
	m := Measurement{Exchange: w.exchange}
	if run, err := m.RunArm(t.Context(), 1); err != nil || run.Void == "" {
		t.Errorf("without a throughput: %v, %+v", err, run)
	}
	if notes := m.findThroughputs(context.WithoutCancel(t.Context()), upTo(len(m.Arms))); notes != nil {
		t.Error(notes)
	}
	w.exchange.Arms = m.Arms
	var asked float64
	carried := w.coverage(t, 1, func(run bench.Run) float64 {
		asked = w.exchange.Arms[1].ThroughputGbps * 0.5
		if run.Load == nil || run.Delays == nil || run.Delays.Count == 0 {
			t.Fatalf("%+v", run)
		}
		return run.Load.Gbps
	})
	t.Logf("throughput %.5f, load %.5f (%.5f to %.5f)", w.exchange.Arms[1].ThroughputGbps, carried.Value, carried.Low, carried.High)
	if found := 2 * asked; found > 1.04*payloadOf(40) || found < payloadOf(40)/2 { // of few runs on a busy machine
		t.Errorf("a throughput of %.5f was found, and the bucket passes %.5f", found, payloadOf(40))
	}
	checkCovers(t, "load", carried, asked)
	if idle := w.goodRun(t, 0); idle.Load != nil {
		t.Errorf("a load on the idle path: %+v", idle.Load)
	}
}
