package engine

import (
	"crypto/rand"
	"encoding/json"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/culvert-net/culvert/bench"
)

func TestParseMessage(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{`{"says":"ready"}`, ""},
		{`{"says":"hello","protocol":5,"workload":{"kind":"stream"}}`, ""},
		{`{"says":"other","run":{"seconds":1}}`, ""},
		{`{"says":"hello","protocol":5}`, `"hello" without a workload`},
		{`{"says":"hello","protocol":1,"workload":{}}`, "protocol 1, this one 5: use one version"},
		{`{"says":"result"}`, `"result" without a run`},
		{`{"says":"other","run":{"seconds":0}}`, `"other" without a run`},
		{`{"says":"other","run":{"seconds":-1}}`, `"other" without a run`},
		{`{"says":"boo"}`, "use one version"},
		{`SSH-2.0-OpenSSH_9.2`, "SSH-2.0"},
		{``, "says"},
	} {
		_, err := parseMessage([]byte(c.text))
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", c.text, err, c.want)
		}
	}
}

func FuzzParseMessage(f *testing.F) {
	f.Add([]byte(`{"says":"hello","protocol":5,"workload":{"kind":"datagram","seconds":1,"rate":1e9}}`))
	f.Add([]byte(`{"says":"other","run":{"seconds":0.5,"retransmits":3},"total":7}`))
	f.Fuzz(func(t *testing.T, line []byte) {
		m, err := parseMessage(line)
		if err != nil {
			return
		}
		text, err := json.Marshal(m)
		if err != nil {
			t.Fatalf("%q cannot be said again: %v", line, err)
		}
		again, err := parseMessage(text)
		if diff := cmp.Diff(m, again); err != nil || diff != "" {
			t.Errorf("%q is read again as another: %v\n%s", line, err, diff)
		}
		if m.Workload != nil {
			if w, err := Check(*m.Workload); err == nil && (w.Streams < 1 || w.Size < 0 || w.Seconds <= 0) {
				t.Errorf("%+v passes", w)
			}
		}
	})
}

func FuzzParseTicket(f *testing.F) {
	f.Add(ticket{token: rand.Text(), session: 1 << 60, stream: 3}.encodeTicket())
	f.Add([]byte(ticketMagic))
	f.Fuzz(func(t *testing.T, b []byte) {
		if ticket, ok := parseTicket(b); ok && string(ticket.encodeTicket()) != string(b) {
			t.Errorf("%x is read as %+v", b, ticket)
		}
	})
}

func FuzzParseHeader(f *testing.F) {
	b := make([]byte, headerSize)
	putHeader(b, 7, 9)
	f.Add(b, uint64(7))
	f.Fuzz(func(t *testing.T, b []byte, session uint64) {
		sequence, ok := parseHeader(b, session)
		if !ok {
			return
		}
		again := make([]byte, headerSize)
		putHeader(again, session, sequence)
		if string(again) != string(b[:headerSize]) {
			t.Errorf("%x is read as %d", b, sequence)
		}
	})
}

func FuzzIsOf(f *testing.F) {
	from, to := netip.MustParseAddrPort("192.0.2.1:1000"), netip.MustParseAddrPort("192.0.2.2:2000")
	f.Add(make([]byte, 60))
	f.Add(append(append(make([]byte, 12), 8, 0, 0x4f), make([]byte, 40)...))
	f.Add(append(append(make([]byte, 12), 0x86, 0xdd, 0x60), make([]byte, 60)...))
	f.Fuzz(func(_ *testing.T, b []byte) { isOf(b, from, to) }) // does not panic
}

func TestCheck(t *testing.T) {
	ok := bench.Workload{Kind: bench.Stream, Seconds: 1}
	for _, c := range []struct {
		name   string
		change func(*bench.Workload)
		want   string
	}{
		{"as it is", func(*bench.Workload) {}, ""},
		{"kind", func(w *bench.Workload) { w.Kind = "teleport" }, `kind "teleport": want stream, datagram, request, connect or packets`},
		{"echo", func(w *bench.Workload) { w.Kind = bench.Echo }, "use the engine ping"},
		{"seconds", func(w *bench.Workload) { w.Seconds = 0 }, "seconds 0: want 0.01 to 86400"},
		{"warmup", func(w *bench.Workload) { w.Warmup = -1 }, "warmup -1: want 0"},
		{"streams", func(w *bench.Workload) { w.Streams = 5000 }, "streams 5000: want 1 to 1024"},
		{"size", func(w *bench.Workload) { w.Size = -1 }, "size -1 for stream: want 1 to"},
		{"datagram", func(w *bench.Workload) { w.Kind, w.Size = bench.Datagram, 8 }, "size 8 for datagram: want 16 to 65507"},
		{"too large", func(w *bench.Workload) { w.Kind, w.UDP, w.Size = bench.Request, true, 1<<16 }, "want 16 to 65507"},
		{"frame", func(w *bench.Workload) { w.Kind, w.Size = bench.Packets, 59 }, "size 59 for packets: want 60 to"},
		{"window", func(w *bench.Workload) { w.Window = -5 }, "window -5: want 0 to"},
		{"DSCP", func(w *bench.Workload) { w.DSCP = 64 }, "DSCP 64: want 0 to 63"},
		{"DSCP of frames", func(w *bench.Workload) { w.Kind, w.DSCP = bench.Packets, 46 }, "its frames have none"},
		{"load", func(w *bench.Workload) { w.Load = 1.5 }, "load 1.5: want 0 to 1"},
		{"UDP", func(w *bench.Workload) { w.UDP = true }, "udp with stream: it is for request"},
		{"flows", func(w *bench.Workload) { w.Flows = 2 }, "flows 2: want 1 to 1 for stream"},
		{"many flows", func(w *bench.Workload) { w.Kind, w.Flows = bench.Packets, 65000 }, "flows 65000: want 1 to 60000"},
		{"sources", func(w *bench.Workload) { w.Kind, w.Sources = bench.Packets, -1 }, "sources -1: want 1 to 65536"},
		{"MACs", func(w *bench.Workload) { w.Kind, w.MACs = bench.Packets, 70000 }, "MACs 70000: want 1 to 65536"},
	} {
		w := ok
		c.change(&w)
		_, err := Check(w)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", c.name, err, c.want)
		}
	}
}
