package agent

import (
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/culvert-net/culvert/bench"
	"github.com/culvert-net/culvert/internal/kernel/netns"
)

// checkRefusal fails unless err has all of want.
func checkRefusal(t *testing.T, what string, err error, want ...string) {
	t.Helper()
	if err == nil {
		t.Errorf("%s: no error", what)
		return
	}
	for _, w := range want {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("%s: got %q, want %q", what, err, w)
		}
	}
}

func TestWhatCannotBe(t *testing.T) {
	p := newPair(t)
	c, _ := startAgent(t, p.netns[1])
	good := p.makeTask(bench.Workload{Kind: bench.Stream, Engine: "culvert", Seconds: 1}, 1)
	for _, b := range []struct {
		name   string
		change func(*Task)
		want   string
	}{
		{"engine", func(t *Task) { t.Workload.Engine = "netperf" }, `there is no engine "netperf": there are culvert, iperf3, iperf2, pktgen, ping`},
		{"kind", func(t *Task) { t.Workload.Engine = "ping" }, `ping does no "stream": it does ["echo"]`},
		{"time", func(t *Task) { t.Workload.Seconds = 0 }, "a workload of 0 s after 0 s"},
		{"reverse", func(t *Task) { t.Workload.Reverse = true }, "change the ends"},
		{"address", func(t *Task) { t.To = netip.MustParseAddr("10.98.0.1") }, "10.98.0.1"},
		{"interface", func(t *Task) { t.Watch[0].Interface = "eth7" }, "interface eth7 is not in this network namespace: it has lo, v1"},
	} {
		task := good
		task.Watch = slices.Clone(good.Watch)
		b.change(&task)
		_, err := c.Receive(t.Context(), task)
		checkRefusal(t, b.name, err, b.want)
	}
	for _, r := range []request{{Do: send}, {Do: receive}, {Do: watch, Task: &good}} {
		checkRefusal(t, string(r.Do), c.askAgent(t.Context(), r, nil), "lacks what to do")
	}
	checkRefusal(t, "verb", c.askAgent(t.Context(), request{Do: "jump", Part: 1}, nil), "there is no part 1")
}

// TestReceiverMissing: the sender reports an error if no receiver listens.
func TestReceiverMissing(t *testing.T) {
	p := newPair(t)
	c, _ := startAgent(t, p.netns[0])
	for _, b := range []struct{ engine, program, want string }{
		{"culvert", "", "connection refused"},
		{"iperf3", "iperf3", "Connection refused"},
		{"iperf2", "iperf", "refused"},
	} {
		t.Run(b.engine, func(t *testing.T) {
			to := Ready{Engine: b.engine, Version: "test", Ports: []uint16{5999}, Token: rand.Text()}
			if b.program != "" {
				needProgram(t, b.program)
				to.Version = versionAt(t, c, b.engine)
			}
			part, err := c.Send(t.Context(), p.makeTask(bench.Workload{Kind: bench.Stream, Engine: b.engine, Seconds: 1}, 0), to)
			if err != nil {
				t.Fatal(err)
			}
			run, err := part.Finish(t.Context())
			checkRefusal(t, b.engine, err, b.want)
			if run.Bytes != 0 {
				t.Errorf("half a figure: %+v", run)
			}
		})
	}
}

func versionAt(t *testing.T, c *Client, engine string) string {
	t.Helper()
	d, err := c.Describe(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	for _, tool := range d.Machine.Tools {
		if tool.Name == engine {
			return tool.Value
		}
	}
	t.Fatalf("no %s in %v", engine, d.Machine.Tools)
	return ""
}

func TestVersionsDiffer(t *testing.T) {
	needProgram(t, "iperf3")
	p := newPair(t)
	c, _ := startAgent(t, p.netns[0])
	task := p.makeTask(bench.Workload{Kind: bench.Stream, Engine: "iperf3", Seconds: 1}, 0)
	_, err := c.Send(t.Context(), task, Ready{Engine: "iperf3", Version: "3.99", Ports: []uint16{5999}})
	checkRefusal(t, "another version", err, "3.99 at the other end", "install one at both ends")
}

// TestOutOfPorts: with any engine, a receiver that finds no free port reports that and what would
// help.
func TestOutOfPorts(t *testing.T) {
	p := newPair(t)
	c, _ := startAgent(t, p.netns[1])
	one := netip.AddrPortFrom(p.addr[1], 61000)
	var taken net.Listener
	if err := netns.Run("/run/netns/"+p.netns[1], func() (err error) {
		if err := os.WriteFile("/proc/sys/net/ipv4/ip_local_port_range", []byte("61000 61000"), 0); err != nil {
			return err
		}
		taken, err = net.Listen("tcp", one.String())
		return err
	}); err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	engines := []string{"culvert"}
	if _, err := exec.LookPath("iperf3"); err == nil {
		engines = append(engines, "iperf3")
	}
	for _, engine := range engines {
		_, err := c.Receive(t.Context(), p.makeTask(bench.Workload{Kind: bench.Stream, Engine: engine, Seconds: 1}, 1))
		checkRefusal(t, engine, err, "no port is left", "address already in use", "ip_local_port_range")
	}
}

// TestNotInstalled: the error names the missing program, and how to install it.
func TestNotInstalled(t *testing.T) {
	p := newPair(t)
	c, _ := startAgent(t, p.netns[0], "PATH=/nonexistent")
	d, err := c.Describe(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	lacking := map[string]string{}
	for _, l := range d.Lacking {
		lacking[l.Engine] = l.Why
	}
	for engine, want := range map[string]string{
		"iperf3": "apt-get install iperf3", "iperf2": "apt-get install iperf,", "ping": "apt-get install iputils-ping",
	} {
		if !strings.Contains(lacking[engine], want) {
			t.Errorf("%s: %q", engine, lacking[engine])
		}
		kind := bench.Stream
		if engine == "ping" {
			continue // its receiver needs none
		}
		_, err := c.Receive(t.Context(), p.makeTask(bench.Workload{Kind: kind, Engine: engine, Seconds: 1}, 0))
		checkRefusal(t, engine, err, want)
	}
	if len(d.Machine.Tools) == 0 || d.Machine.Tools[0] != (bench.Setting{Name: "culvert", Value: "test"}) {
		t.Errorf("tools: %v", d.Machine.Tools)
	}
}

// listChildren are the processes that a process started.
func listChildren(t *testing.T, pid int) []string {
	t.Helper()
	all, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, file := range all {
		text, err := os.ReadFile(file)
		if err == nil {
			found = append(found, strings.Fields(string(text))...)
		}
	}
	return found
}

// TestChildKilled: an engine that dies in the window gives no figure.
func TestChildKilled(t *testing.T) {
	needProgram(t, "iperf3")
	p := newPair(t)
	from, sender := startAgent(t, p.netns[0])
	to, _ := startAgent(t, p.netns[1])
	w := bench.Workload{Kind: bench.Stream, Engine: "iperf3", Seconds: 20}
	receiver, err := to.Receive(t.Context(), p.makeTask(w, 1))
	if err != nil {
		t.Fatal(err)
	}
	part, err := from.Send(t.Context(), p.makeTask(w, 0), receiver.Ready())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := part.Window(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, pid := range listChildren(t, sender.cmd.Process.Pid) {
		var id int
		if _, err := fmt.Sscan(pid, &id); err != nil {
			t.Fatal(err)
		}
		if err := syscall.Kill(id, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
	}
	_, err = part.Finish(t.Context())
	checkRefusal(t, "the killed one", err, "iperf3 to 10.99.0.2", "signal: killed")
	_, err = receiver.Finish(t.Context())
	checkRefusal(t, "its server", err, "iperf3 server on 10.99.0.2")
}

// TestNothingIsLeft: however an agent ends, its children end with it.
func TestNothingIsLeft(t *testing.T) {
	needProgram(t, "iperf3")
	p := newPair(t)
	for name, end := range map[string]func(*Client, *process) error{
		"pipe closed": func(c *Client, _ *process) error { return c.Close() },
		"SIGTERM":     func(_ *Client, p *process) error { return p.cmd.Process.Signal(syscall.SIGTERM) },
		"SIGKILL":     func(_ *Client, p *process) error { return p.cmd.Process.Kill() },
		"stopped":     nil,
	} {
		t.Run(name, func(t *testing.T) {
			c, agent := startAgent(t, p.netns[1])
			part, err := c.Receive(t.Context(), p.makeTask(bench.Workload{Kind: bench.Stream, Engine: "iperf3", Seconds: 1}, 1))
			if err != nil {
				t.Fatal(err)
			}
			left := listChildren(t, agent.cmd.Process.Pid)
			if len(left) == 0 {
				t.Fatal("it has no children")
			}
			if end == nil {
				if err := errors.Join(part.Stop(t.Context()), part.Stop(t.Context())); err != nil {
					t.Error(err)
				}
			} else {
				if err := end(c, agent); err != nil {
					t.Fatal(err)
				}
				// After SIGTERM an agent may have the time to answer with an error.
				if _, err := part.Finish(t.Context()); !errors.Is(err, ErrGone) && (name != "SIGTERM" || err == nil) {
					t.Errorf("%v is no ErrGone", err)
				}
			}
			const long = time.Minute
			for until := time.Now().Add(long); len(left) > 0 && time.Now().Before(until); time.Sleep(10 * time.Millisecond) {
				left = slices.DeleteFunc(left, func(pid string) bool {
					text, err := os.ReadFile("/proc/" + pid + "/cmdline")
					return err != nil || !strings.Contains(string(text), "iperf3")
				})
			}
			if len(left) > 0 {
				t.Errorf("left: %v", left)
			}
		})
	}
}

// TestWatch: an agent that takes no part samples the same window.
func TestWatch(t *testing.T) {
	p := newPair(t)
	from, _ := startAgent(t, p.netns[0])
	to, _ := startAgent(t, p.netns[1])
	w := bench.Workload{Kind: bench.Datagram, Engine: "culvert", Rate: 1e7, Seconds: 1, Warmup: 5}
	receiver, err := to.Receive(t.Context(), p.makeTask(w, 1))
	if err != nil {
		t.Fatal(err)
	}
	sender, err := from.Send(t.Context(), p.makeTask(w, 0), receiver.Ready())
	if err != nil {
		t.Fatal(err)
	}
	window, err := receiver.Window(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	watcher, err := to.Watch(t.Context(), p.makeTask(w, 1), window)
	if err != nil {
		t.Fatal(err)
	}
	var runs []bench.Run
	for _, part := range []*Part{sender, receiver, watcher} {
		r, err := part.Finish(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		runs = append(runs, r)
	}
	if window.In <= 0 || window.In > 5*time.Second {
		t.Errorf("the window opens in %s, and it was to be after 5 s", window.In)
	}
	seen, own := runs[2].From.Interfaces[0].RxBytes, runs[1].To.Interfaces[0].RxBytes
	if runs[2].Void == "" && (seen == 0 || float64(seen) > 3*float64(own) || float64(own) > 3*float64(seen)) {
		t.Errorf("it saw %d bytes come, and the receiver %d", seen, own)
	}
	if _, err := receiver.Finish(t.Context()); err == nil {
		t.Error("a part finished twice")
	}
	window.In = 0 // of this clock
	late, err := to.Watch(t.Context(), p.makeTask(w, 1), window)
	if err != nil {
		t.Fatal(err)
	}
	r, err := late.Finish(t.Context())
	if err == nil && r.Void == "" {
		t.Error("a window that has closed was watched")
	}
}
