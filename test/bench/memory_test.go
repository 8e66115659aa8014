package bench

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/culvert-net/culvert/api"
	"github.com/culvert-net/culvert/rpc"
)

const (
	mib       = 1 << 20
	maxMemory = 40 * mib
	maxGrowth = 1.15 // of memory at rest, from one tenth of the cycles to their end
)

// call asks a culvertd as the shim does, without the exec.
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

// size is a process's memory and files at rest.
type size struct{ rss, files int }

func sizeOf(b *testing.B, pid int) size {
	b.Helper()
	if err := host.quiet(); err != nil {
		b.Fatal(err)
	}
	rss, files, err := memory(pid)
	if err != nil {
		b.Fatal(err)
	}
	return size{rss, files}
}

// BenchmarkMemory attaches and detaches b.N times, four pods at once: the memory
// and the open files of culvertd stay as they are.
func BenchmarkMemory(b *testing.B) {
	pid := host.cmd.Process.Pid
	idle := sizeOf(b, pid)
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

// BenchmarkMemory256 is culvertd with 256 VFs of a kernel in memory: 16 pods
// with 16 networks each come at once and go, b.N times.
func BenchmarkMemory256(b *testing.B) {
	dir := b.TempDir()
	cmd := exec.Command(filepath.Join(programs, "fakenode"), dir)
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	socket := filepath.Join(dir, "culvertd.sock")
	for i := 0; rpc.Call(b.Context(), socket, "ready", nil, nil) != nil; i++ {
		if i == 600 {
			b.Fatal("fakenode is not ready after a minute")
		}
		time.Sleep(100 * time.Millisecond)
	}
	idle := sizeOf(b, cmd.Process.Pid)
	b.ResetTimer()
	var warm size
	peak := 0
	for i := range b.N {
		burst(b, socket, "ADD")
		rss, _, err := memory(cmd.Process.Pid)
		if err != nil {
			b.Fatal(err)
		}
		peak = max(peak, rss)
		burst(b, socket, "DEL")
		if i == b.N/10 {
			warm = sizeOf(b, cmd.Process.Pid)
		}
	}
	b.StopTimer()
	after := sizeOf(b, cmd.Process.Pid)
	b.ReportMetric(float64(idle.rss)/mib, "idle-MiB")
	b.ReportMetric(float64(peak)/mib, "burst-MiB")
	b.ReportMetric(float64(after.rss)/mib, "after-MiB")
	b.ReportMetric(float64(after.rss)/float64(warm.rss), "x-growth")
	b.ReportMetric(float64(after.files), "after-files")
	if peak > maxMemory {
		b.Errorf("%d MiB resident in a burst, at most %d are allowed", peak/mib, maxMemory/mib)
	}
	hold(b, warm, after)
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		b.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		b.Fatal(err)
	}
}

func burst(b *testing.B, socket, command string) {
	b.Helper()
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
		b.Fatal(err)
	}
}
