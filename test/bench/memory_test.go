package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/node/journal"
	"github.com/culvert-net/culvert/internal/rpc"
	"github.com/culvert-net/culvert/test/child"
	"github.com/culvert-net/culvert/test/soak"
)

const (
	mib       = 1 << 20
	maxMemory = 40 * mib // the design's budget, for a node of a cluster
	maxGrowth = 1.15     // of memory at rest, from one tenth of the cycles to their end

	// The largest figures of docs/design/0005, and a quarter or more for noise, without pages of
	// files, of which the kernel keeps more or fewer. A host needs less memory, since it keeps no
	// state of a cluster. A change that needs more explains it there.
	maxIdle  = 18 * mib // culvertd at rest on a host with 14 VFs
	maxBurst = 20 * mib // fakenode when its 256 VFs are attached at once
)

// call calls culvertd as the shim does, without the exec.
func call(socket, command, netns, container, ifName string) error {
	req := api.CNIRequest{
		Command: command, ContainerID: container, Netns: netns, IfName: ifName, Path: programs, Config: []byte(culvertConfig),
	}
	var resp api.CNIResponse
	if err := rpc.Call(context.Background(), socket, api.MethodCNI, req, &resp); err != nil {
		return err
	}
	if resp.Exit != 0 {
		return fmt.Errorf("%s %s %s: %s", command, container, ifName, resp.Stdout)
	}
	return nil
}

// size is a process's memory in bytes and its open files. own is the resident memory
// without pages of files, of which the kernel keeps a varying number.
type size struct{ rss, own, files int }

func sizeOf(b *testing.B, pid int) size {
	b.Helper()
	if err := host.quiet(); err != nil {
		b.Fatal(err)
	}
	s, err := memory(pid)
	if err != nil {
		b.Fatal(err)
	}
	return s
}

// scrapeEvery is after how many cycles of a worker the metrics are read.
const scrapeEvery = 20

// BenchmarkMemory attaches and detaches b.N times, four pods at once, and reads the metrics meanwhile:
// the memory and the open files of culvertd stay as they are.
func BenchmarkMemory(b *testing.B) {
	pid := host.cmd.Process.Pid
	idle := sizeOf(b, pid)
	if idle.own > maxIdle {
		b.Errorf("%.1f MiB of its own at rest, at most %d are allowed: docs/design/0005-budgets.md has how to find what takes it", float64(idle.own)/mib, maxIdle/mib)
	}
	cycles := func(n int) {
		const workers = 4
		var g errgroup.Group
		for w := range workers {
			g.Go(func() error {
				for i := w; i < n; i += workers {
					for _, command := range []string{"ADD", "DEL"} {
						if err := call(host.socket, command, podNetns(w), fmt.Sprintf("cycle-%d", i), ifName); err != nil {
							return err
						}
					}
					if i/workers%scrapeEvery == 0 {
						if err := rpc.Call(context.Background(), host.socket, api.MethodMetrics, nil, nil); err != nil {
							return err
						}
					}
				}
				return nil
			})
		}
		if err := g.Wait(); err != nil {
			b.Fatalf("%v\n%s", err, host.log())
		}
	}
	b.ResetTimer()
	cycles(b.N / 10)
	b.StopTimer()
	warm := sizeOf(b, pid)
	b.StartTimer()
	cycles(b.N - b.N/10)
	b.StopTimer()
	after := sizeOf(b, pid)
	b.ReportMetric(float64(idle.rss)/mib, "idle-MiB")
	b.ReportMetric(float64(idle.own)/mib, "idle-own-MiB")
	b.ReportMetric(float64(after.rss)/mib, "after-MiB")
	b.ReportMetric(float64(after.rss)/float64(warm.rss), "x-growth")
	b.ReportMetric(float64(idle.files), "idle-files")
	b.ReportMetric(float64(after.files), "after-files")
	hold(b, warm, after)
}

// hold fails the benchmark when memory or files grow.
func hold(b *testing.B, warm, after size) {
	b.Helper()
	if after.rss > maxMemory {
		b.Errorf("%d MiB resident, at most %d are allowed", after.rss/mib, maxMemory/mib)
	}
	if g := float64(after.rss) / float64(warm.rss); b.N >= 100 && g > maxGrowth {
		b.Errorf("memory grew %.2f times, from %d to %d KiB", g, warm.rss>>10, after.rss>>10)
	}
	if after.files > warm.files {
		b.Errorf("%d files are open, %d were", after.files, warm.files)
	}
}

// startFakenode starts a culvertd with 256 VFs of a kernel in memory, and returns its
// socket.
func startFakenode(tb testing.TB, program string) (cmd *exec.Cmd, socket string) {
	return startFakenodeIn(tb, program, tb.TempDir())
}

func startFakenodeIn(tb testing.TB, program, dir string, cluster ...string) (cmd *exec.Cmd, socket string) {
	tb.Helper()
	cmd = exec.Command(program, append([]string{dir}, cluster...)...)
	cmd.Stderr = os.Stderr
	if err := child.Start(cmd); err != nil {
		tb.Fatal(err)
	}
	socket = filepath.Join(dir, "culvertd.sock")
	for i := 0; rpc.Call(tb.Context(), socket, "ready", nil, nil) != nil; i++ {
		if i == 600 {
			tb.Fatal("fakenode is not ready after a minute")
		}
		time.Sleep(100 * time.Millisecond)
	}
	return cmd, socket
}

func buildFakenode(t *testing.T) (program string) {
	t.Helper()
	program = filepath.Join(t.TempDir(), "fakenode")
	build := exec.CommandContext(t.Context(), "../../tools/go", "build", "-ldflags", "-s -w", "-o", program, "./fakenode")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return program
}

// endFakenode ends it, as systemd ends culvertd.
func endFakenode(tb testing.TB, cmd *exec.Cmd) {
	tb.Helper()
	if err := errors.Join(cmd.Process.Signal(syscall.SIGTERM), cmd.Wait()); err != nil {
		tb.Fatal(err)
	}
}

// TestMemoryOfABurst runs one round of BenchmarkMemory256 on this machine. It fails when
// culvertd needs a third more memory than before.
func TestMemoryOfABurst(t *testing.T) {
	if programs != "" {
		t.Skip("in a node")
	}
	cmd, socket := startFakenode(t, buildFakenode(t))
	burst(t, socket, "ADD")
	have, err := memory(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	burst(t, socket, "DEL")
	endFakenode(t, cmd)
	t.Logf("%.1f MiB resident, at most %d are allowed; %.1f of them are no pages of files, at most %d are allowed",
		float64(have.rss)/mib, maxMemory/mib, float64(have.own)/mib, maxBurst/mib)
	if have.rss > maxMemory || have.own > maxBurst {
		t.Error("too much memory with 256 VFs: docs/design/0005-budgets.md has how to find what takes it")
	}
}

// TestMemoryWithAFullHistory runs rounds until the ledger has all events that it keeps, and measures
// culvertd while its 256 VFs are attached. The pages of the ledger are counted apart: the kernel can
// drop them.
func TestMemoryWithAFullHistory(t *testing.T) {
	soak.Only(t, "10,000 events")
	if programs != "" {
		t.Skip("in a node")
	}
	dir := t.TempDir()
	cmd, socket := startFakenodeIn(t, buildFakenode(t), dir)
	for events := 0; events < journal.DefaultEvents; events += 2 * 256 {
		burst(t, socket, "ADD")
		burst(t, socket, "DEL")
	}
	burst(t, socket, "ADD")
	have, err := memory(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	mapped, err := mappedMemory(cmd.Process.Pid, "ledger.db")
	if err != nil || mapped == 0 {
		t.Fatalf("the ledger has %d mapped bytes, %v", mapped, err)
	}
	endFakenode(t, cmd)
	t.Logf("%.1f MiB resident, %.1f of them pages of the ledger, %.1f no pages of files", float64(have.rss)/mib, float64(mapped)/mib, float64(have.own)/mib)
	if have.rss-mapped > maxMemory || have.own > maxBurst {
		t.Errorf("at most %d MiB besides the ledger's pages and %d without pages of files are allowed", maxMemory/mib, maxBurst/mib)
	}
}

// BenchmarkMemory256 measures culvertd with 256 VFs of a kernel in memory. 16 pods with
// 16 networks each are attached and detached at once, b.N times.
func BenchmarkMemory256(b *testing.B) {
	cmd, socket := startFakenode(b, filepath.Join(programs, "fakenode"))
	idle := sizeOf(b, cmd.Process.Pid)
	b.ResetTimer()
	var warm size
	peak, peakOwn := 0, 0
	for i := range b.N {
		burst(b, socket, "ADD")
		have, err := memory(cmd.Process.Pid)
		if err != nil {
			b.Fatal(err)
		}
		peak, peakOwn = max(peak, have.rss), max(peakOwn, have.own)
		burst(b, socket, "DEL")
		if i == b.N/10 {
			warm = sizeOf(b, cmd.Process.Pid)
		}
	}
	b.StopTimer()
	after := sizeOf(b, cmd.Process.Pid)
	b.ReportMetric(float64(idle.rss)/mib, "idle-MiB")
	b.ReportMetric(float64(idle.own)/mib, "idle-own-MiB")
	b.ReportMetric(float64(peak)/mib, "burst-MiB")
	b.ReportMetric(float64(after.rss)/mib, "after-MiB")
	b.ReportMetric(float64(after.rss)/float64(warm.rss), "x-growth")
	b.ReportMetric(float64(after.files), "after-files")
	if peak > maxMemory || peakOwn > maxBurst {
		b.Errorf("%d MiB resident in a burst, at most %d are allowed; %d of them are no pages of files, at most %d are allowed",
			peak/mib, maxMemory/mib, peakOwn/mib, maxBurst/mib)
	}
	hold(b, warm, after)
	endFakenode(b, cmd)
}

func burst(tb testing.TB, socket, command string) {
	tb.Helper()
	var g errgroup.Group
	for pod := range 16 {
		g.Go(func() error {
			for n := range 16 {
				netns := fmt.Sprintf("/run/netns/pod-%d", pod)
				if err := call(socket, command, netns, fmt.Sprintf("pod-%d", pod), fmt.Sprintf("net%d", n)); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		tb.Fatal(err)
	}
}
