package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/culvert-net/culvert/test/fakecluster"
)

// TestUIFigures prints figures of the page of a large cluster: the memory of the command, the bytes of the
// overview, and the time from a change in the API server until a page has it. It takes longer than three
// seconds, since the cluster has 1,000 nodes of 64 VFs; with -short it has 100. The race detector needs
// more memory and time, so only the kind of growth is judged: an overview has fewer bytes than its VFs.
func TestUIFigures(t *testing.T) {
	nodes, changes := 1000, 31
	if testing.Short() {
		nodes, changes = 100, 5
	}
	const vfs = 64
	s := fakecluster.New(t)
	for i := range nodes {
		s.Put(fakecluster.MakeNode(i, vfs))
	}
	var out lines
	cmd, stop := startUI(t, s.Kubeconfig(t), &out)
	defer stop()
	began := time.Now()
	u := out.nextURL(t, 1)
	idle := readMemory(t, cmd, "VmRSS")
	browser, _ := openPage(t, u)
	base, _, _ := strings.Cut(u, "/?")
	stream := bufio.NewReader(get(t, browser, base+"/stream").Body)
	event, data := readEvent(t, stream, "overview")
	first := time.Since(began)
	if n := bytes.Count(data, []byte(`"name":"node`)); n != nodes {
		t.Fatalf("%s has %d nodes", event, n)
	}
	size := len(data)
	s.AwaitWatch(t, 1)
	var latencies []time.Duration
	for i := range changes {
		n := fakecluster.MakeNode(i, vfs)
		n.Status.VFs[1].Phase = "quarantined"
		n.Status.VFs[1].Reason = fmt.Sprint("test ", i)
		time.Sleep(250 * time.Millisecond) // longer than the feed rests
		at := time.Now()
		s.Put(n)
		if _, data = readEvent(t, stream, "rows"); bytes.Contains(data, []byte(`"name":"`+n.Name+`"`)) {
			latencies = append(latencies, time.Since(at))
		}
	}
	slices.Sort(latencies)
	if len(latencies) != changes {
		t.Fatalf("%d of %d changes came", len(latencies), changes)
	}
	load, _ := os.ReadFile("/proc/loadavg")
	t.Logf("%d nodes of %d VFs: overview after %.1f s, %d bytes; %d MiB resident (%d MiB at most, %d MiB before a page is open); an update after %d ms (median of %d, the slowest %d ms); %d lists; load %s",
		nodes, vfs, first.Seconds(), size, readMemory(t, cmd, "VmRSS"), readMemory(t, cmd, "VmHWM"), idle, latencies[changes/2].Milliseconds(), changes, latencies[changes-1].Milliseconds(),
		s.Asked(fakecluster.States), strings.TrimSpace(string(load)))
	if size > nodes*vfs*10 {
		t.Errorf("the overview has %d bytes", size)
	}
	if want := (nodes + 99) / 100; s.Asked(fakecluster.States) > want { // pages of 100
		t.Errorf("the NodeStates were listed in %d requests, want %d: is one list enough?", s.Asked(fakecluster.States), want)
	}
}

// startUI starts kubectl culvert ui as a process of its own.
func startUI(t *testing.T, kubeconfig string, out io.Writer) (cmd *exec.Cmd, stop func()) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd = exec.CommandContext(t.Context(), self, "ui", "--kubeconfig", kubeconfig)
	cmd.Args[0] = pluginName // TestMain calls main
	cmd.Stdout, cmd.Stderr = out, out
	in, err := cmd.StdinPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	return cmd, func() {
		_ = in.Close()
		if err := cmd.Wait(); err != nil {
			t.Error(err)
		}
	}
}

// readEvent waits for the next event of a name.
func readEvent(t *testing.T, from *bufio.Reader, name string) (event string, data []byte) {
	t.Helper()
	for {
		event, err := from.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		data, _ := from.ReadBytes('\n')
		_, _ = from.ReadString('\n')
		if event == "event: failure\n" {
			t.Fatalf("%s", data)
		}
		if event == "event: "+name+"\n" {
			return event, data
		}
	}
}

// readMemory returns a line of a process's status (proc(5)) in MiB.
func readMemory(t *testing.T, cmd *exec.Cmd, line string) (mib int) {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), line+":")
	if _, err := fmt.Sscan(rest, &mib); err != nil {
		t.Fatal(err)
	}
	return mib / 1024
}
