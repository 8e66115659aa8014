package agent

import (
	"embed"
	"fmt"
	"math"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/culvert-net/culvert/bench"
)

// testdata is compiled in, so that Go's cache has the result of the tests in every clone.
//
//go:embed testdata
var testdata embed.FS

func readTestdata(t testing.TB, name string) []byte {
	t.Helper()
	text, err := testdata.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// second is a window that cuts intervals in two.
var second = bench.Workload{Kind: bench.Stream, Warmup: 0.25, Seconds: 1}

func TestParseIperf(t *testing.T) {
	for _, c := range []struct {
		file  string
		parse func([]byte, bench.Workload) (tally, error)
		w     bench.Workload
		want  tally
	}{
		// 0.5009-0.25 of the first, all of the second, 1.25-1.1021 of the third
		{"iperf3-client.json", parseIperf3, second, tally{seconds: 1, bytes: 52715811, again: 7.63, resent: true, cwnd: []float64{2488384}, allBytes: 92930048, allAgain: 22, endBytes: 92930048, endAgain: 22, segment: 32768}},
		{"iperf3-server.json", parseIperf3, second, tally{seconds: 1, bytes: 45307852, allBytes: 92012544}},
		{"iperf3-twice.json", parseIperf3, second, tally{seconds: 1, bytes: 2000000, resent: true, allBytes: 4000000}},
		{"iperf2-server.csv", parseIperf2, second, tally{seconds: 1, bytes: 18231347, allBytes: 42688420}},
		{"iperf2-client.csv", parseIperf2, second, tally{seconds: 1, bytes: 18231296, allBytes: 42803320}},
	} {
		got, err := c.parse(readTestdata(t, c.file), c.w)
		if err != nil {
			t.Errorf("%s: %v", c.file, err)
			continue
		}
		c.want.bits = []float64{c.want.bytes * 8}
		about := cmpopts.EquateApprox(0.02, 1e-9)
		if diff := cmp.Diff(c.want, got, cmp.AllowUnexported(tally{}), about); diff != "" {
			t.Errorf("%s: -want +got:\n%s", c.file, diff)
		}
	}
}

func TestParseIperfErrors(t *testing.T) {
	for _, c := range []struct {
		text  string
		parse func([]byte, bench.Workload) (tally, error)
		want  string
	}{
		{string(readTestdata(t, "iperf3-refused.json")), parseIperf3, "unable to connect to server: Connection refused"},
		{string(readTestdata(t, "iperf3-killed.json")), parseIperf3, "the client has unexpectedly closed the connection"},
		{"", parseIperf3, "read the result of iperf3: unexpected end of JSON input: it wrote \"\""},
		{`{"start":{"version":"iperf 3.17.1"}}{"start":{"version":"iperf 3.17.1"},"end":{}}`, parseIperf3,
			`read the result of iperf 3.17.1: other text follows the result: it wrote "{\"start\":{\"version\":\"iperf 3.17.1\"}}{\"start\":{\"version\":\"iperf 3.17.1\"},\"end\":{}}"`},
		{`{"start":{"version":"iperf 3.0.11"},"intervals":[{"sum":{"bytes":-nan}}]}`, parseIperf3,
			`read the result of iperf 3.0.11: a count is no number: it wrote "{\"start\":{\"version\":\"iperf 3.0.11\"},\"intervals\":[{\"sum\":{\"bytes\":-nan}}]}"`},
		{"{}", parseIperf3, "its intervals have 0 s of the window of 1 s: it ended too early"},
		{`{"intervals":[{"sum":{"start":0,"end":1.1,"bytes":5}}]}`, parseIperf3, "its intervals have 0.85 s of the window of 1 s: it ended too early"},
		{`{"intervals":[{"sum":{"start":0,"end":2,"bytes":-5}}]}`, parseIperf3, "from 0 s to 2 s it counted -5 bytes, 0 sent again: this cannot be"},
		{"", parseIperf2, "read iperf 2's result: there is none"},
		{"connect failed: Connection refused\n", parseIperf2, `read iperf 2's result: "connect failed: Connection refused\n" has 1 fields, and not 9`},
		{"1,a,1,b,2,3,0.0-x,5,6\n", parseIperf2, `read iperf 2's result: "1,a,1,b,2,3,0.0-x,5,6\n": strconv.ParseFloat: parsing "x": invalid syntax`},
	} {
		if got, err := c.parse([]byte(c.text), second); err == nil || err.Error() != c.want {
			t.Errorf("%q: got %+v, %v, want %s", c.text, got, err, c.want)
		}
	}
}

// TestParseIperf3NotANumber: old builds of iperf3 print -nan as a quotient of two zeros. A tally does
// not need it.
func TestParseIperf3NotANumber(t *testing.T) {
	for _, value := range []string{"-nan", "nan", "inf", "-inf"} {
		text := `{"intervals":[{"sum":{"start":0,"end":2,"bytes":800,"bits_per_second":	` + value + `,"seconds": ` + value + `}}]}`
		got, err := parseIperf3([]byte(text), second)
		if err != nil || got.bytes != 400 {
			t.Errorf("%s: %+v, %v", value, got, err)
		}
	}
}

// TestTallyRun: the counts of two processes become one run.
func TestTallyRun(t *testing.T) {
	w := bench.Workload{Kind: bench.Stream, Seconds: 2}
	one, err := cutWindow([]interval{{end: 1, bytes: 100}, {start: 1, end: 2, bytes: 300}}, 1, w)
	if err != nil {
		t.Fatal(err)
	}
	got := tally{}.addTally(one).addTally(one).makeRun(w, false)
	want := bench.Run{Seconds: 2, Bytes: 800, Gbps: 3.2e-6, Series: []float64{1.6e-6, 4.8e-6}, Totals: bench.Totals{Arrived: 800}}
	if diff := cmp.Diff(want, got, cmpopts.EquateApprox(1e-9, 0)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if diff := cmp.Diff(bench.Run{Totals: bench.Totals{Sent: 800}}, tally{}.addTally(one).addTally(one).makeRun(w, true)); diff != "" {
		t.Errorf("sent: -want +got:\n%s", diff)
	}
	// Threads of iperf3 still sent after the last interval.
	one.endBytes, one.endAgain, one.segment = 450, 2, 1448
	w.Kind = bench.Stream
	late := tally{}.addTally(one).addTally(one).makeRun(w, true).Totals
	if diff := cmp.Diff(bench.Totals{Sent: 900, Retransmits: 4, Segment: 1448}, late); diff != "" {
		t.Errorf("sent to the end: -want +got:\n%s", diff)
	}
}

func TestJoin(t *testing.T) {
	again := uint64(3)
	from := bench.Run{Sent: 10, Retransmits: &again, From: bench.Evidence{Queues: []uint64{1}}, Void: "late"}
	to := bench.Run{Seconds: 1, Bytes: 9, Packets: 9, Lost: 1, Gbps: 2, PPS: 9, Series: []float64{2}, To: bench.Evidence{Queues: []uint64{2}}}
	want := to
	want.Sent, want.Retransmits, want.From, want.Void = 10, &again, from.From, "late"
	if diff := cmp.Diff(want, Join(from, to)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	// An engine whose sender has all figures.
	whole := want
	whole.To, whole.Void = bench.Evidence{}, ""
	want.Void = ""
	if diff := cmp.Diff(want, Join(whole, bench.Run{To: to.To})); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	for _, to := range []bench.Run{{}, {Lost: 10}, {Packets: 1}} {
		if got := Join(bench.Run{Sent: 10}, to).Void != ""; got != (to.Lost+to.Packets == 0) {
			t.Errorf("10 were sent, of which the other end has %d and misses %d: void is %t", to.Packets, to.Lost, got)
		}
	}
}

// The sender's rate with pktgen is over its own window, and the lost packets follow from the
// difference of the two rates.
func TestJoinOfTwoWindows(t *testing.T) {
	got := Join(bench.Run{Sent: 3000, SentSeconds: 3}, bench.Run{Packets: 1500, Seconds: 2})
	if got.Lost != 500 || got.SentSeconds != 3 || got.Seconds != 2 {
		t.Errorf("%+v", got)
	}
	if got := Join(bench.Run{Sent: 3000, SentSeconds: 3}, bench.Run{Packets: 2001, Seconds: 2}); got.Lost != 0 {
		t.Errorf("more came than was sent: %d lost", got.Lost)
	}
}

// Retransmits that iperf3 does not report are unknown and not 0, and its congestion window is kept
// for each second.
func TestRetransmitsAndWindow(t *testing.T) {
	w := bench.Workload{Kind: bench.Stream, Seconds: 2}
	const text = `{"intervals":[{"sum":{"start":0,"end":1,"bytes":5%s},"streams":[{"snd_cwnd":1000},{"snd_cwnd":500}]},
		{"sum":{"start":1,"end":2,"bytes":5%[1]s},"streams":[{"snd_cwnd":2000},{"snd_cwnd":500}]}]}`
	for more, want := range map[string]bool{"": false, `,"retransmits":0`: true} {
		got, err := parseIperf3(fmt.Appendf(nil, text, more), w)
		if err != nil || got.resent != want {
			t.Errorf("%q: retransmits are known: %v, %v", more, got.resent, err)
		}
		if diff := cmp.Diff([]float64{1500, 2500}, got.makeRun(w, true).Cwnd); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
	}
}

func TestVersions(t *testing.T) {
	for _, c := range []struct {
		parse      func(string) (string, error)
		said, want string
	}{
		{parseIperf3Version, "iperf 3.12 (cJSON 1.7.15)\nLinux vm 6.18\n", "3.12"},
		{parseIperf3Version, "iperf 3.17.1+ (cJSON 1.7.15)\n", "3.17.1+"},
		{parseIperf2Version, "iperf version 2.1.8 (12 August 2022) pthreads\n", "2.1.8"},
		{parsePingVersion, "ping from iputils 20221126\nlibcap: yes\n", "iputils 20221126"},
		{parsePingVersion, "ping utility, iputils-s20160308\n", "iputils 20160308"},
		{parsePingVersion, "ping: invalid option -- 'V'\nBusyBox v1.35.0 (Debian 1:1.35.0-4+deb12u1+b1) multi-call binary.\n", "busybox 1.35.0"},
	} {
		if got, err := c.parse(c.said); err != nil || got != c.want {
			t.Errorf("%q: %q, %v", c.said, got, err)
		}
		if got, err := c.parse("command not found"); err == nil {
			t.Errorf("%q from nothing", got)
		}
	}
	for version, want := range map[string]bool{"3.12": false, "3.15": false, "3.16": true, "3.17.1+": true, "3": false} {
		if hasThreads(version) != want {
			t.Errorf("threaded(%s)", version)
		}
	}
	for version, want := range map[string]string{"3.17.1+": "3.17", "3.18": "3.18", "v1": "v1"} {
		if got := minorVersion(version); got != want {
			t.Errorf("minor(%s) = %s", version, got)
		}
	}
}

func TestLateness(t *testing.T) {
	w := Window{Opens: time.Minute, Closes: time.Minute + 10*time.Second}
	if got := explainLateness(2500*time.Millisecond, w); got != "" {
		t.Errorf("a quarter: %q", got)
	}
	if got := explainLateness(2600*time.Millisecond, w); !strings.HasPrefix(got, "the agent was woken 2.6s late, and a window of 10s is counted to 2.5s at best") {
		t.Errorf("more: %q", got)
	}
}

func TestShares(t *testing.T) {
	for _, c := range []struct {
		streams, processes int
		want               []int
	}{{0, 1, []int{1}}, {8, 1, []int{8}}, {8, 3, []int{3, 3, 2}}, {1, 2, []int{1, 1}}} {
		if diff := cmp.Diff(c.want, shareStreams(c.streams, c.processes)); diff != "" {
			t.Errorf("%+v: %s", c, diff)
		}
	}
}

func TestParsePings(t *testing.T) {
	w := bench.Workload{Kind: bench.Echo, Engine: "ping", Rate: 4, Warmup: 0.2, Seconds: 0.5}
	for _, file := range []string{"ping-iputils.txt", "ping-busybox.txt"} {
		got, err := parsePings(readTestdata(t, file), w)
		if err != nil {
			t.Errorf("%s: %v", file, err)
			continue
		}
		if d := got.Delays; got.Sent != 2 || got.Packets != 2 || got.Lost != 0 || got.Bytes != 112 || d.Count != 2 || d.Min <= 0 || d.Max > 1000 || d.Mean < d.Min || d.P50 > d.Max {
			t.Errorf("%s: %+v, %+v", file, got, got.Delays)
		}
	}
	lost := "3 packets transmitted, 0 received, 100% packet loss, time 645ms\n"
	if _, err := parsePings([]byte(lost), w); err == nil || !strings.Contains(err.Error(), "none of 2 was answered") {
		t.Errorf("all lost: %v", err)
	}
	killed := strings.ReplaceAll(string(readTestdata(t, "ping-iputils.txt")), "3 packets", "2 packets")
	if _, err := parsePings([]byte(killed), w); err == nil || err.Error() != "2 were sent and not 3" {
		t.Errorf("ended early: %v", err)
	}
}

func TestParseEchoes(t *testing.T) {
	in, out, err := parseEchoes(string(readTestdata(t, "snmp.txt")))
	if err != nil || in != 6 || out != 6 {
		t.Errorf("got %d, %d, %v", in, out, err)
	}
	for _, text := range []string{"", "Icmp: InMsgs\n", "Icmp: InEchos OutEchos\nIcmp: 1 x\n", "Icmp: InEchos OutEchos\nIcmp: 1\n"} {
		if in, out, err := parseEchoes(text); err == nil {
			t.Errorf("%q: %d %d", text, in, out)
		}
	}
}

// A socket that listens counts once, and the two ends of a connection count too.
func TestCountSockets(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	port := uint16(l.Addr().(*net.TCPAddr).Port)
	for state, want := range map[uint64]int{listening: 1, established: 2} {
		got, err := countSockets(func(s socket) bool { return (s.local == port || s.remote == port) && s.state == state })
		if err != nil || got != want {
			t.Errorf("state %d: %d, %v, want %d", state, got, err, want)
		}
	}
}

func TestArguments(t *testing.T) {
	task := Task{From: netip.MustParseAddr("10.0.0.1"), To: netip.MustParseAddr("10.0.0.2")}
	task.Workload = bench.Workload{Kind: bench.Stream, Seconds: 10, Warmup: 0.5, Streams: 4, Size: 1400, Window: 512 << 10}
	want := "--client 10.0.0.2 --port 5301 --json --connect-timeout 5000 --time 13 --interval 0.1 --parallel 2 --bind 10.0.0.1 --length 1400 --window 524288"
	if got := strings.Join(iperf3Client(task, 5301, 2), " "); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	task.Service = netip.MustParseAddr("10.96.0.7")
	want = strings.Replace(strings.Replace(want, "10.0.0.2", "10.96.0.7", 1), " --bind 10.0.0.1", "", 1)
	if got := strings.Join(iperf3Client(task, 5301, 2), " "); got != want {
		t.Errorf("to a Service: got  %s\nwant %s", got, want)
	}
	want = "-p 5301 -i 0.5 -y C -P 2 -l 1400 -w 524288"
	if got := strings.Join(iperf2Options(task.Workload, 5301, 2), " "); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	task.Workload = bench.Workload{Kind: bench.Echo, Seconds: 3, Warmup: 1, Rate: 2}
	want = "-n -c 8 -s 56 -W 2 -i 0.5 -I 10.0.0.1 10.0.0.2"
	if got := strings.Join(pingArguments(task), " "); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func FuzzParseIperf3(f *testing.F) {
	for _, name := range []string{"iperf3-client.json", "iperf3-server.json", "iperf3-killed.json", "iperf3-refused.json"} {
		f.Add(readTestdata(f, name))
	}
	f.Add(readTestdata(f, "iperf3-twice.json"))
	f.Add([]byte(`{"intervals":[{"sum":{"start":0,"end":2,"bytes":8,"lost_percent":-nan}}]}`))
	f.Fuzz(func(t *testing.T, text []byte) { checkTally(t, text, parseIperf3) })
}

func FuzzParseIperf2(f *testing.F) {
	for _, name := range []string{"iperf2-client.csv", "iperf2-server.csv"} {
		f.Add(readTestdata(f, name))
	}
	f.Fuzz(func(t *testing.T, text []byte) { checkTally(t, text, parseIperf2) })
}

func checkTally(t *testing.T, text []byte, parse func([]byte, bench.Workload) (tally, error)) {
	got, err := parse(text, second)
	if err != nil {
		return
	}
	r := got.makeRun(second, false)
	if r.Seconds < 0.9 || r.Seconds > 1.1 || r.Gbps < 0 || math.IsNaN(r.Gbps) || math.IsInf(r.Gbps, 0) {
		t.Errorf("%q: %+v without an error", text, r)
	}
}

func FuzzParsePings(f *testing.F) {
	f.Add(readTestdata(f, "ping-iputils.txt"))
	f.Add(readTestdata(f, "ping-busybox.txt"))
	w := bench.Workload{Rate: 4, Warmup: 0.2, Seconds: 0.5}
	f.Fuzz(func(t *testing.T, text []byte) {
		got, err := parsePings(text, w)
		if err == nil && (got.Delays.Count == 0 || got.Delays.Count > 2 || got.Packets+got.Lost != got.Sent) {
			t.Errorf("%q: %+v without an error", text, got)
		}
	})
}

func FuzzParseEchoes(f *testing.F) {
	f.Add(string(readTestdata(f, "snmp.txt")))
	f.Fuzz(func(t *testing.T, text string) { _, _, _ = parseEchoes(text) })
}
