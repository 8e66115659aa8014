package agent

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/culvert-net/culvert/bench/engine"
)

// testpmdProcess is a dpdk-testpmd that runs interactively: it takes commands on its standard input,
// prints a prompt after each, and ends at the end of its input.
type testpmdProcess struct {
	*child
	commands  io.WriteCloser
	dir       string // of its sockets and maps, which is removed at the end
	prompts   int    // that were awaited
	telemetry *telemetry
}

const (
	testpmdPrompt = "testpmd> "
	testpmdPrefix = "cv" // of its files in its own folder: the path of a socket there has at most 107 bytes
	// testpmdMbufs are the packet buffers of one port with queues of 512 descriptors, and
	// testpmdMemory the MiB of huge pages that these and DPDK itself take.
	testpmdMbufs  = 16384
	testpmdMemory = 64
	// testpmdStart bounds the start: where huge pages are many, to clear them takes seconds.
	testpmdStart = 60 * time.Second
	// testpmdLink bounds the wait for a link, which a VF gets within seconds of its reset.
	testpmdLink = 15 * time.Second
	testpmdPoll = 50 * time.Millisecond
	// testpmdPatience is how long a receiver waits for the first frames: those ahead of it start after
	// it, in seconds each.
	testpmdPatience = 75 * time.Second
)

// testpmdArguments returns the arguments of testpmd behind those of DPDK's environment (EAL), with
// "--" between them. It uses one queue and one core for the frames, as R4 counts them.
func testpmdArguments(cpus []int, role testpmdRole, t Task, peer string) []string {
	all := []string{"--lcores", placeCores(cpus, int(role)), "--huge-unlink", "--file-prefix", testpmdPrefix, "--allow", t.Interface, "--",
		"-i", "--forward-mode=" + role.forwardMode(), "--port-topology=loop", "--nb-cores=1", "--rxq=1", "--txq=1",
		fmt.Sprintf("--total-num-mbufs=%d", testpmdMbufs), "--disable-link-check", "--no-lsc-interrupt"}
	if peer != "" {
		all = append(all, "--eth-peer=0,"+peer)
	}
	if role == testpmdSends {
		all = append(all, fmt.Sprintf("--txpkts=%d", frameSize(t.Workload)))
	}
	return all
}

// placeCores gives the thread for the frames a processor of its own, where there is more than one, and
// another one to each of several testpmds on a machine. DPDK's main thread, which reads commands, has
// the first.
func placeCores(cpus []int, nth int) string {
	switch {
	case len(cpus) == 0:
		return "(0-1)@0"
	case len(cpus) == 1:
		return fmt.Sprintf("(0-1)@%d", cpus[0])
	}
	return fmt.Sprintf("0@%d,1@%d", cpus[0], cpus[len(cpus)-1-nth%(len(cpus)-1)])
}

// launchTestpmd starts testpmd and waits until it takes commands.
func (a *agent) launchTestpmd(ctx context.Context, pci string, args []string) (_ *testpmdProcess, err error) {
	e, _ := engine.FindEngine(engine.Testpmd)
	path, err := exec.LookPath(e.Program)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "culvert-testpmd-")
	if err != nil {
		return nil, err
	}
	p := &testpmdProcess{dir: dir}
	defer func() {
		if err != nil {
			err = errors.Join(err, p.close())
		}
	}()
	// DPDK makes its sockets there in place of /var/run (rte_eal, RuntimeDirectory= of systemd.exec(5)).
	if p.child, p.commands, err = startCommanded(path, []string{"RUNTIME_DIRECTORY=" + dir}, args...); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, testpmdStart, fmt.Errorf("testpmd on %s took no commands in %s", pci, testpmdStart))
	defer cancel()
	if err := p.awaitPrompt(ctx); err != nil {
		return nil, a.explainStart(pci, p, err)
	}
	p.telemetry, err = openTelemetry(filepath.Join(dir, "dpdk", testpmdPrefix, "dpdk_telemetry.v2"))
	return p, err
}

// awaitPrompt waits until testpmd has done all commands.
func (p *testpmdProcess) awaitPrompt(ctx context.Context) error {
	p.prompts++
	return pollUntil(ctx, testpmdPoll, func() (bool, error) {
		select {
		case <-p.ended:
			return false, p.explainEnd(errors.New("testpmd ended"))
		default:
			return bytes.Count(p.out.copyBytes(), []byte(testpmdPrompt)) >= p.prompts, nil
		}
	})
}

// command has testpmd do a command, and waits until it has.
func (p *testpmdProcess) command(ctx context.Context, line string) error {
	const long = 20 * time.Second
	ctx, cancel := context.WithTimeoutCause(ctx, long, fmt.Errorf("testpmd did not do %q in %s", line, long))
	defer cancel()
	if _, err := io.WriteString(p.commands, line+"\n"); err != nil {
		return p.explainEnd(fmt.Errorf("have testpmd %s: %w", line, err))
	}
	return p.awaitPrompt(ctx)
}

// awaitPort waits for the link, and returns the MAC address of the port.
func (p *testpmdProcess) awaitPort(ctx context.Context) (mac string, err error) {
	var info portInfo
	if err := p.telemetry.ask("/ethdev/info", &info); err != nil {
		return "", p.explainEnd(err)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, testpmdLink, fmt.Errorf("testpmd sees no link in %s: is the PF up, and the cable plugged in?", testpmdLink))
	defer cancel()
	return info.MAC, pollUntil(ctx, testpmdPoll, func() (bool, error) {
		var link linkStatus
		err := p.telemetry.ask("/ethdev/link_status", &link)
		return link.Status == "UP", err
	})
}

// explainEnd adds to an error what testpmd said last, if it has ended.
func (p *testpmdProcess) explainEnd(err error) error {
	select {
	case <-p.ended:
		return p.explainFailure(errors.Join(err, p.err))
	case <-time.After(testpmdPoll): // the socket closes a moment before the process ends
		return err
	}
}

// explainVoid adds to the reason of a void run that testpmd has ended.
func (p *testpmdProcess) explainVoid(void string) string {
	select {
	case <-p.ended:
		return p.explainEnd(fmt.Errorf("testpmd ended in the run")).Error()
	default:
		return void
	}
}

// close ends testpmd and removes its folder. At the end of its input it gives the VF back in order.
func (p *testpmdProcess) close() (err error) {
	const grace = 5 * time.Second
	if p.telemetry != nil {
		_ = p.telemetry.conn.Close() // a second time it is closed already
	}
	if p.child != nil {
		_ = p.commands.Close()
		select {
		case <-p.ended:
		case <-time.After(grace):
		}
		p.stopGroup()
	}
	return os.RemoveAll(p.dir)
}
