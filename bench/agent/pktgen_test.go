package agent

import (
	"context"
	"fmt"
	"io/fs"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/culvert-net/culvert/bench"
)

// pktgenFake is pktgen with two threads, as Documentation/networking/pktgen.rst has it: start
// blocks until stop, and devices count meanwhile.
type pktgenFake struct {
	mu      sync.Mutex
	said    []string
	device  map[string]string // by thread
	stopped chan struct{}
	since   time.Time
	refuse  string // a command that fails
}

func (f *pktgenFake) readFile(name string) (string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if d, ok := f.device[name]; ok {
		return "Running: \nStopped: " + d + "\nResult: OK: add_device=" + d + "\n", nil
	}
	for _, d := range f.device {
		if d == name {
			n := int64(0)
			if !f.since.IsZero() {
				n = time.Since(f.since).Milliseconds()
			}
			return fmt.Sprintf("Params: count 0  min_pkt_size: 60\nCurrent:\n     pkts-sofar: %d  errors: 0\n     started: 1us\n", n), nil
		}
	}
	return "", &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
}

func (f *pktgenFake) writeFile(name, command string) error {
	f.mu.Lock()
	f.said = append(f.said, name+": "+command)
	if command == f.refuse {
		f.mu.Unlock()
		return fmt.Errorf("%s: no", command)
	}
	if d, ok := strings.CutPrefix(command, "add_device "); ok {
		f.device[name] = d
	}
	if command == "rem_device_all" {
		f.device[name] = ""
	}
	if command == "start" {
		f.since = time.Now()
		f.mu.Unlock()
		<-f.stopped
		return nil
	}
	if command == "stop" {
		close(f.stopped)
	}
	f.mu.Unlock()
	return nil
}

func newPktgenFake() *pktgenFake {
	return &pktgenFake{device: map[string]string{"kpktgend_0": "", "kpktgend_1": ""}, stopped: make(chan struct{})}
}

var pktgenTask = Task{
	Workload: bench.Workload{Kind: bench.Packets, Engine: "pktgen", Seconds: 0.3, Warmup: 0.1, Streams: 2, Sources: 3, Flows: 10, MACs: 4, Rate: 2000, Size: 64},
	From:     netip.MustParseAddr("10.0.0.1"), To: netip.MustParseAddr("10.0.0.2"), Interface: "v0",
}

// pktgen would send larger frames than asked for over IPv6, and count them as the size that was asked for.
func TestPktgenRefusesSmallFramesOverIPv6(t *testing.T) {
	task := pktgenTask
	task.To = netip.MustParseAddr("fd00::2")
	if _, err := (&agent{}).pktgenSend(t.Context(), task, Ready{MAC: "02:00:00:00:00:01"}); err == nil || !strings.Contains(err.Error(), "size 64 of a frame: pktgen sends 78 bytes at least over IPv6") {
		t.Errorf("%v", err)
	}
}

func TestPktgen(t *testing.T) {
	fake := newPktgenFake()
	h, err := startPktgen(fake, pktgenTask, Ready{MAC: "02:00:00:00:00:01"})
	if err != nil {
		t.Fatal(err)
	}
	var edges []string
	run, err := h.carryTraffic(t.Context(), marks{
		planned: func(Window) { edges = append(edges, "planned") },
		begin:   func() { edges = append(edges, "begin") }, end: func() { edges = append(edges, "end") },
	})
	if err != nil || run.Sent < 200 || run.Sent > 20000 {
		t.Errorf("%+v, %v", run, err)
	}
	if err := h.close(); err != nil {
		t.Error(err)
	}
	if diff := cmp.Diff([]string{"planned", "begin", "end"}, edges); diff != "" {
		t.Error(diff)
	}
	want := strings.Split("add_device v0@1|count 0|clone_skb 0|pkt_size 64|dst_mac 02:00:00:00:00:01|dst 10.0.0.2|flag QUEUE_MAP_CPU|"+
		"src_min 10.0.0.1|src_max 10.0.0.3|udp_src_min 1024|udp_src_max 1033|src_mac_count 4|ratep 1000", "|")
	var got []string
	for _, s := range fake.said {
		if name, command, _ := strings.Cut(s, ": "); name == "v0@1" || name == "kpktgend_1" && len(got) == 0 {
			got = append(got, command)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	for thread, device := range fake.device {
		if device != "" {
			t.Errorf("left: %s in %s", device, thread)
		}
	}
}

// TestPktgenRefuses: startPktgen leaves another program's devices alone, and undoes a set-up that
// fails half-way.
func TestPktgenRefuses(t *testing.T) {
	used := newPktgenFake()
	used.device["kpktgend_1"] = "eth0"
	_, err := startPktgen(used, pktgenTask, Ready{})
	checkRefusal(t, "used", err, "pktgen is in use: kpktgend_1 has eth0")
	if len(used.said) != 0 {
		t.Errorf("it wrote %q", used.said)
	}
	many := pktgenTask
	many.Workload.Streams = 3
	_, err = startPktgen(newPktgenFake(), many, Ready{})
	checkRefusal(t, "threads", err, "pktgen has 2 threads, one for each processor, and 3 are wanted")
	odd := newPktgenFake()
	odd.refuse = "src_mac_count 4"
	_, err = startPktgen(odd, pktgenTask, Ready{})
	checkRefusal(t, "a command", err, "src_mac_count 4: no")
	if !slices.Contains(odd.said, "kpktgend_0: rem_device_all") || odd.device["kpktgend_0"] != "" {
		t.Errorf("left: %v", odd.device)
	}
}

// TestPktgenStops: a part that is ended early stops the threads.
func TestPktgenStops(t *testing.T) {
	fake := newPktgenFake()
	h, err := startPktgen(fake, pktgenTask, Ready{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	_, err = h.carryTraffic(ctx, marks{planned: func(Window) { cancel() }, begin: func() {}, end: func() {}})
	checkRefusal(t, "ended", err, "context canceled")
	if !slices.Contains(fake.said, "pgctrl: stop") {
		t.Errorf("it wrote %q", fake.said)
	}
}

// TestReceiverMAC: a MAC address from another machine's agent is checked before the kernel gets it
// as text.
func TestReceiverMAC(t *testing.T) {
	for _, mac := range []string{"", "02:00:00:00:00:01\nflag NODE_ALLOC", "02:00:00:00:00:00:00:01"} {
		_, err := (&agent{}).pktgenSend(t.Context(), pktgenTask, Ready{MAC: mac})
		checkRefusal(t, mac, err, "as its MAC address, which is none")
	}
}

func FuzzParsePktgen(f *testing.F) {
	f.Add("Current:\n     pkts-sofar: 12  errors: 0\n")
	f.Fuzz(func(t *testing.T, text string) {
		_, _ = parsePktgen(text)
		_ = pktgenDevices(text)
	})
}

// A generator is measured over the loopback interface, too.
func TestPktgenToLoopback(t *testing.T) {
	h, err := (&agent{}).pktgenReceive(t.Context(), Task{Interface: "lo"}, "")
	if err != nil || h.describeReady().MAC != "00:00:00:00:00:00" {
		t.Errorf("%+v, %v", h, err)
	}
}
