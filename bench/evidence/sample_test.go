package evidence

import (
	"embed"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/culvert-net/culvert/bench"
)

// testdata is compiled in, so that Go's cache has the result of the tests in every clone.
//
//go:embed testdata
var testdata embed.FS

// writeTree writes an archive to a folder of this test's and returns a Reader of it. A file that
// is "-> target" becomes a link.
func writeTree(t *testing.T, file string) Reader {
	t.Helper()
	text, err := testdata.ReadFile("testdata/" + file)
	if err != nil {
		t.Fatal(err)
	}
	a := txtar.Parse(text)
	r := Reader{Root: t.TempDir()}
	files := map[string]string{}
	for _, f := range a.Files {
		files[f.Name] = string(f.Data)
	}
	writeFiles(t, r, files)
	return r
}

// writeFiles writes texts to files of the Reader. A text "-> target" becomes a link.
func writeFiles(t *testing.T, r Reader, files map[string]string) {
	t.Helper()
	for name, text := range files {
		err := os.MkdirAll(filepath.Dir(r.pathOf(name)), 0o755)
		if target, link := strings.CutPrefix(text, "-> "); err == nil && link {
			err = os.Symlink(strings.TrimSpace(target), r.pathOf(name))
		} else if err == nil {
			err = os.WriteFile(r.pathOf(name), []byte(text), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

var watched = []Watched{{"net1", "path"}, {"eth0", "other"}}

// takeSamples returns samples of a machine before and after a window of two seconds.
func takeSamples(t *testing.T) (before, after Sample) {
	t.Helper()
	for file, to := range map[string]*Sample{"before.txtar": &before, "after.txtar": &after} {
		s, err := writeTree(t, file).Sample(watched, "db1")
		if err != nil {
			t.Fatal(err)
		}
		*to = s
	}
	after.at = before.at + 2*time.Second
	return before, after
}

func TestSample(t *testing.T) {
	before, after := takeSamples(t)
	got, err := before.Until(after)
	if err != nil {
		t.Fatal(err)
	}
	want := bench.Evidence{
		CPU: bench.CPUUse{
			Seconds: 2, User: 0.5, System: 1, IRQ: 0.1, SoftIRQ: 0.6, Steal: 0.2, Idle: 1.6,
			Busiest: 1, Busy: []float64{0.1, 1},
			Tasks:  map[string]float64{"ksoftirqd/1": 0.4, "vhost-900": 0.3, "qemu-system-x86 of db1": 0.1},
			Others: map[string]float64{"systemd": 0.5, "iperf3": 0.7},
		},
		Interfaces: []bench.Counters{
			{Interface: "net1", Role: "path", RxBytes: 5000000, RxPackets: 4000, RxDropped: 6, TxBytes: 66000, TxPackets: 1000, TxDropped: 3},
			{Interface: "eth0", Role: "other", RxBytes: 60, RxPackets: 1},
		},
		Softnet: bench.Softnet{Processed: 0x200, Dropped: 2, Squeezed: 5},
	}
	if diff := cmp.Diff(want, got, cmpopts.EquateApprox(0, 1e-9)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// TestUntilRefuses: two samples between which no difference is possible give an error that names
// the cause.
func TestUntilRefuses(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(before, after *Sample)
		want   string
	}{
		{"wrapped", func(b, _ *Sample) { b.links[0].RxBytes = 1 << 40 }, "rx_bytes of interface net1 fell from 1099511627776 to 6000000 in the window"},
		{"offline", func(_, a *Sample) { delete(a.each, 1) }, "2 processors were online before the window and 1 after it"},
		{"another", func(_, a *Sample) { delete(a.each, 1); a.each[7] = bench.CPUTime{} }, "processor 1 went offline in the window"},
		{"stat", func(b, _ *Sample) { b.all.User = time.Hour }, "/proc/stat of all processors fell in the window"},
		{"stat of one", func(b, _ *Sample) { b.each[1] = bench.CPUTime{System: time.Hour} }, "/proc/stat of processor 1 fell in the window"},
		{"softnet", func(_, a *Sample) { a.softnet = a.softnet[:1] }, "/proc/net/softnet_stat had 2 processors before the window and 1 after it"},
		{"queues", func(b, _ *Sample) { b.queues, b.queuesOf = []uint64{1}, "net1" }, "interface net1 had 1 receive queues before the window and 0 after it"},
		{"a queue", func(b, a *Sample) { b.queues, a.queues, b.queuesOf = []uint64{5}, []uint64{3}, "net1" }, "packets of receive queue 0 of interface net1 fell from 5 to 3"},
		{"no time", func(b, a *Sample) { a.at = b.at }, "the window has no length"},
	} {
		before, after := takeSamples(t)
		c.change(&before, &after)
		if got, err := before.Until(after); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, %+v, want %s", c.name, err, got, c.want)
		}
	}
}

// TestQueuesUntil: a window has the packets of each receive queue, in the order of the queues.
func TestQueuesUntil(t *testing.T) {
	before, after := takeSamples(t)
	before.queues, after.queues = []uint64{5, 7, 1}, []uint64{8, 7, 11}
	got, err := before.Until(after)
	if diff := cmp.Diff([]uint64{3, 0, 10}, got.Queues); diff != "" || err != nil {
		t.Errorf("%v, -want +got:\n%s", err, diff)
	}
}

func TestInterfaceGone(t *testing.T) {
	_, err := writeTree(t, "after.txtar").Sample([]Watched{{"net2", "path"}})
	if err == nil || err.Error() != "interface net2 is not in this network namespace: it has eth0, net1" {
		t.Error(err)
	}
}

// TestSampleRefuses: Sample returns an error if a file is wrong or missing. The files of a task
// that ended, and of a cgroup, may be missing.
func TestSampleRefuses(t *testing.T) {
	for file, want := range map[string]string{
		"proc/net/dev": "net1 is not in", "proc/stat": "cpu", "proc/net/softnet_stat": "softnet_stat", "proc/900/stat": "read task 900's stat", "sys/fs/cgroup/cpu.stat": "nr_throttled",
	} {
		r := writeTree(t, "before.txtar")
		writeFiles(t, r, map[string]string{"proc/self/cgroup": "0::/\n", file: "nr_throttled x\n"})
		if _, err := r.Sample(watched); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s is wrong: %v, want %s", file, err, want)
		}
		if err := os.Remove(r.pathOf(file)); err != nil {
			t.Fatal(err)
		}
		mayEnd := file == "proc/900/stat" || file == "sys/fs/cgroup/cpu.stat"
		if _, err := r.Sample(watched); (err == nil) != mayEnd {
			t.Errorf("%s is missing: %v", file, err)
		}
	}
}

// TestSampleAt: the time of a sample is that at which its reading began, so that a caller can wait
// for a window's end by [Now].
func TestSampleAt(t *testing.T) {
	before, err := Now()
	if err != nil {
		t.Fatal(err)
	}
	s, err := writeTree(t, "before.txtar").Sample(watched)
	if err != nil {
		t.Fatal(err)
	}
	after, err := Now()
	if err != nil || s.At() < before || s.At() > after {
		t.Errorf("at %s, between %s and %s: %v", s.At(), before, after, err)
	}
}

// TestCounters: the counters of one interface are those of /proc/net/dev, without a role.
func TestCounters(t *testing.T) {
	r := writeTree(t, "before.txtar")
	want := bench.Counters{Interface: "net1", RxBytes: 1000000, RxPackets: 1000, TxBytes: 34000, TxPackets: 500}
	if got, err := r.Counters("net1"); err != nil || got != want {
		t.Errorf("%+v, %v; want %+v", got, err, want)
	}
	if got, err := r.Counters("net2"); err == nil || got != (bench.Counters{}) {
		t.Errorf("of an interface that is not there: %+v, %v", got, err)
	}
}

// TestIdleMayFall: time of waiting for I/O does (proc_stat(5)), and counts as none.
func TestIdleMayFall(t *testing.T) {
	before, after := takeSamples(t)
	before.all.Idle = time.Hour
	if got, err := before.Until(after); err != nil || got.CPU.Idle != 0 {
		t.Errorf("%v, idle %g", err, got.CPU.Idle)
	}
}

func TestSoftnetWraps(t *testing.T) {
	got, err := softnetRisen([]bench.Softnet{{Processed: 1<<32 - 1}}, []bench.Softnet{{Processed: 4}})
	if err != nil || got.Processed != 5 {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestParseErrors(t *testing.T) {
	for _, text := range []string{"", "MemTotal: x kB\n", "MemTotal: -5 kB\n"} {
		if got, err := parseMemory(text); err == nil {
			t.Errorf("%q: %v", text, got)
		}
	}
}

// The name of a task may have parentheses, and the times are those of user space and the kernel.
func TestTaskName(t *testing.T) {
	r := Reader{Root: t.TempDir()}
	writeFiles(t, r, map[string]string{"proc/77/stat": "77 (a) b (c) S 5 1 1 0 -1 2097156 0 0 0 0 5 7 0 0 20 0 1 0 123 0 0" + strings.Repeat(" 0", 28)})
	proc, err := r.openProc()
	if err != nil {
		t.Fatal(err)
	}
	tasks, err := proc.AllProcs()
	if err != nil {
		t.Fatal(err)
	}
	all, err := readTasks(tasks)
	if err != nil || len(all) != 1 {
		t.Fatalf("%+v, %v", all, err)
	}
	if got := all[0]; got.task != (task{77, 123}) || got.name != "a) b (c" || got.time != 120*time.Millisecond || got.parent != 5 || !got.kernel {
		t.Errorf("%+v", got)
	}
}

func TestParseQueues(t *testing.T) {
	for name, c := range map[string]struct {
		stats map[string]uint64
		want  []uint64
	}{
		"igb":      {map[string]uint64{"rx_queue_0_packets": 5, "rx_queue_1_packets": 7, "rx_queue_0_bytes": 9, "rx_packets": 12}, []uint64{5, 7}},
		"mlx5":     {map[string]uint64{"rx0_packets": 1, "rx1_packets": 2, "rx0_cache_full": 3}, []uint64{1, 2}},
		"i40e":     {map[string]uint64{"rx-0.packets": 1, "rx-1.packets": 2, "tx-0.packets": 3}, []uint64{1, 2}},
		"old":      {map[string]uint64{"rx-0.rx_packets": 4}, []uint64{4}},
		"bnxt":     {map[string]uint64{"[0]: rx_ucast_packets": 8}, []uint64{8}},
		"a gap":    {map[string]uint64{"rx0_packets": 1, "rx2_packets": 2}, nil},
		"too many": {map[string]uint64{"rx99999999999999999999_packets": 1}, nil},
		"igbvf":    {map[string]uint64{"rx_packets": 1}, nil},
		"nothing":  {nil, nil},
	} {
		if diff := cmp.Diff(c.want, parseQueues(c.stats)); diff != "" {
			t.Errorf("%s: -want +got:\n%s", name, diff)
		}
	}
}

func TestNow(t *testing.T) {
	before, err := Now()
	if err != nil {
		t.Fatal(err)
	}
	after, err := Now()
	if err != nil || before <= 0 || after < before || after > before+time.Minute {
		t.Errorf("%s, then %s, %v", before, after, err)
	}
}

func FuzzParseMachine(f *testing.F) {
	f.Add("MemTotal:       16384000 kB\n", "model name\t: AMD EPYC\nflags\t\t: fpu hypervisor\n")
	f.Fuzz(func(t *testing.T, memory, cpus string) {
		if n, err := parseMemory(memory); err == nil && n < 0 {
			t.Errorf("%q: %d", memory, n)
		}
		_, _ = parseModel(cpus), nameHypervisor(cpus, "", "")
	})
}

func FuzzParseQueues(f *testing.F) {
	f.Add("rx_queue_0_packets", uint64(3))
	f.Fuzz(func(t *testing.T, name string, packets uint64) {
		if got := parseQueues(map[string]uint64{name: packets}); len(got) > 1 {
			t.Errorf("%q: %v", name, got)
		}
	})
}

// TestGuestOf: QEMU says in its command line which guest it runs.
func TestGuestOf(t *testing.T) {
	r := Reader{Root: t.TempDir()}
	writeFiles(t, r, map[string]string{"proc/77/cmdline": ""})
	proc, err := r.openProc()
	if err != nil {
		t.Fatal(err)
	}
	qemu, err := proc.Proc(77)
	if err != nil {
		t.Fatal(err)
	}
	for line, want := range map[string]string{
		"qemu-system-x86_64\x00-name\x00guest=db1,debug-threads=on\x00-S\x00": "db1",
		"qemu-system-x86_64\x00-name\x00db2\x00":                              "db2",
		"qemu-system-x86_64\x00-name":                                         "",
		"qemu-system-x86_64\x00-m\x001G\x00":                                  "",
	} {
		writeFiles(t, r, map[string]string{"proc/77/cmdline": line})
		if got := guestOf(qemu); got != want {
			t.Errorf("%q: %q, want %q", line, got, want)
		}
	}
	if err := os.Remove(r.pathOf("proc/77/cmdline")); err != nil {
		t.Fatal(err)
	}
	if got := guestOf(qemu); got != "" {
		t.Errorf("of one that has ended: %q", got)
	}
}
