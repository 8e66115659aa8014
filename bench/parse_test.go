package bench

import (
	"embed"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// testdata is compiled in, so that Go's cache has the result of the tests in every clone.
//
//go:embed testdata
var testdata embed.FS

func read(t testing.TB, name string) []byte {
	t.Helper()
	text, err := testdata.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func TestParsePing(t *testing.T) {
	busybox := "PING 127.0.0.1 (127.0.0.1): 56 data bytes\n\n--- 127.0.0.1 ping statistics ---\n" +
		"3 packets transmitted, 2 packets received, 33% packet loss\nround-trip min/avg/max = 0.782/6.467/17.723 ms\n"
	for _, c := range []struct {
		name, text string
		want       Pings
	}{
		{"all back", string(read(t, "ping.txt")), Pings{Sent: 3, Received: 3, Min: 0.804, Avg: 2.55, Max: 4.281}},
		{"all lost", string(read(t, "ping-lost.txt")), Pings{Sent: 3}},
		{"busybox", busybox, Pings{Sent: 3, Received: 2, Min: 0.782, Avg: 6.467, Max: 17.723}},
	} {
		got, err := ParsePing([]byte(c.text))
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s: -want +got:\n%s", c.name, diff)
		}
	}
	for _, text := range []string{
		"", "ping: connect: Network is unreachable\n",
		"3 packets transmitted, 3 received, 0% packet loss\n",
		"99999999999999999999 packets transmitted, 0 received\n",
		"1 packets transmitted, 99999999999999999999 received\n",
		"1 packets transmitted, 1 received\nrtt min/avg/max/mdev = 1.2.3/1/1/1 ms\n",
	} {
		if got, err := ParsePing([]byte(text)); err == nil {
			t.Errorf("%q: got %+v", text, got)
		}
	}
}

func TestParseCPUTime(t *testing.T) {
	//                          user nice system idle iowait irq softirq steal guest guest_nice
	before, err := ParseCPUTime([]byte("cpu  22 1 385 728 5 2 4 9 7 0\ncpu0 22 0 385 728 0 0 4 0 0 0\n"))
	if err != nil {
		t.Fatal(err)
	}
	ms := time.Millisecond
	want := CPUTime{User: 230 * ms, System: 3850 * ms, IRQ: 20 * ms, SoftIRQ: 40 * ms, Steal: 90 * ms, Idle: 7330 * ms}
	if before != want {
		t.Errorf("got %+v, want %+v", before, want)
	}
	after, err := ParseCPUTime([]byte("cpu  122 1 385 828 5 2 4 9\n"))
	if err != nil {
		t.Fatal(err)
	}
	did := after.Since(before)
	if want := (CPUTime{User: time.Second, Idle: time.Second}); did != want {
		t.Errorf("since then %+v, want %+v", did, want)
	}
	if got := want.Busy(); got != 4140*ms {
		t.Errorf("busy %s, steal and idle not among it: want 4.14 s", got)
	}
	for _, text := range []string{"", "cpu", "cpu0 1 2 3 4 5 6 7\n", "cpu 1 2 3 4 5 6\n", "cpu 1 2 3 -4 5 6 7\n", "cpu 1 2 3 9223372036854775807 5 6 7\n"} {
		if got, err := ParseCPUTime([]byte(text)); err == nil {
			t.Errorf("%q: got %+v", text, got)
		}
	}
}

func TestParseCPUTimes(t *testing.T) {
	all, each, err := ParseCPUTimes([]byte("cpu  3 0 0 30 0 0 0\ncpu0 1 0 0 10 0 0 0 0\ncpu2 2 0 0 20 0 0 0 0\nintr 5 cpu\ncpu9 x\n"))
	if err != nil {
		t.Fatal(err)
	}
	of := func(n int) CPUTime {
		return CPUTime{User: time.Duration(n) * Tick, Idle: time.Duration(10*n) * Tick}
	}
	if all != of(3) {
		t.Errorf("all: %+v", all)
	}
	if diff := cmp.Diff(map[int]CPUTime{0: of(1), 2: of(2)}, each); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	for _, text := range []string{"", "cpu0 1 2 3 4 5 6 7\n", "cpu  1 2 3 4 5 6 7\ncpu0 1 2\n", "cpu  1 2 3 4 5 6 7\ncpu-1 1 2 3 4 5 6 7\n"} {
		if _, got, err := ParseCPUTimes([]byte(text)); err == nil {
			t.Errorf("%q: got %+v", text, got)
		}
	}
}

func TestLatency(t *testing.T) {
	var all []time.Duration
	for i := range 100 {
		all = append(all, time.Duration(100-i)*time.Millisecond)
	}
	got, err := Latency(all)
	if err != nil {
		t.Fatal(err)
	}
	// A hundred are too few for a 99th percentile: the text has the largest. The key p99 of
	// the demos' JSON stays.
	if got.P50 < 49.9 || got.P50 > 50.1 || got.P99 < 98.9 || got.P99 > 99.1 || got.Max < 99.9 || got.Max > 100.1 || got.String() != "p50 50 ms, largest 100 ms of 100" {
		t.Errorf("of 1 to 100 ms: %s, %g, %g", got, got.P99, got.Max)
	}
	if got, err = Latency(slices.Repeat(all, 10)); err != nil || got.P99 < 98.9 || got.P99 > 99.1 || got.String() != "p50 50 ms, p99 99 ms of 1000" {
		t.Errorf("of 1000: %s, %v", got, err)
	}
	for _, bad := range []time.Duration{-time.Second, time.Hour} {
		if got, err := Latency([]time.Duration{time.Second, bad}); err == nil {
			t.Errorf("%s was taken: %+v", bad, got)
		}
	}
}

func FuzzParsePing(f *testing.F) {
	f.Add(read(f, "ping.txt"))
	f.Add(read(f, "ping-lost.txt"))
	f.Fuzz(func(t *testing.T, text []byte) {
		got, err := ParsePing(text)
		if err == nil && (got.Sent < 0 || got.Received < 0 || got.Avg < 0) {
			t.Errorf("%q: %+v without an error", text, got)
		}
	})
}

func FuzzParseCPUTime(f *testing.F) {
	f.Add([]byte("cpu  22 1 385 728 5 2 4 9 7 0\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		all, each, err := ParseCPUTimes(text)
		if err != nil {
			return
		}
		busy, idle := all.Busy(), all.Idle
		for _, got := range each {
			busy, idle = busy+got.Busy(), idle+got.Idle
			if got.Busy() < 0 || got.Idle < 0 || got.Steal < 0 {
				t.Errorf("%q: %+v without an error", text, got)
			}
		}
		if busy < 0 || idle < 0 {
			t.Errorf("%q: busy %s and idle %s without an error", text, busy, idle)
		}
	})
}
