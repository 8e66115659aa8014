package demo

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/culvert-net/culvert/bench"
	"github.com/culvert-net/culvert/internal/program"
	"github.com/culvert-net/culvert/lab/demo/node"
)

// effort is how much a demo measures.
type effort struct {
	rounds      int // runs of iperf3 and of ping over each way
	attachments int // that Run times one after the other
	// afterDelete is how long requests are made after the deletion of a backend; targetRounds
	// are the turns in which a ClusterIP is set against its backend.
	afterDelete  time.Duration
	targetRounds int
}

// effort returns how much the demo measures.
func (o Options) effort() effort {
	if o.Quick {
		return effort{rounds: 1, attachments: 5, afterDelete: 10 * time.Second, targetRounds: 2}
	}
	return effort{rounds: 6, attachments: 20, afterDelete: 20 * time.Second, targetRounds: 6}
}

const runSeconds = 1 // of iperf3

// timeAttachments attaches and detaches a VF again and again on the first
// node, which has nothing else to do. Culvert's own program measures the time there, so that SSH is
// not in it.
func (d *demo) timeAttachments(ctx context.Context) error {
	attachments := d.effort().attachments
	d.Step("timing %d attachments through the CNI plugin on %s, one after the other", attachments, d.nodes[0].Name)
	n := d.nodes[0]
	_, config, err := vfConfig(reportObjects, n.Number, "")
	if err != nil {
		return err
	}
	const netns, file = "timing", "/run/culvert-demo/timing.conf"
	if err := n.WriteFile(ctx, file, config); err != nil {
		return err
	}
	if err := n.AddNetns(ctx, netns); err != nil {
		return err
	}
	out, err := n.Run(ctx, "culvert-bench", "attach-times",
		"--plugin", "/opt/cni/bin/sriov", "--config", file, "--netns", node.Netns(netns), "--times", strconv.Itoa(attachments))
	if err != nil {
		return err
	}
	if err := n.DelNetns(ctx, netns); err != nil {
		return err
	}
	var times bench.AttachTimes
	if err := json.Unmarshal(out, &times); err != nil {
		return fmt.Errorf("read the times of attachments: %w", err)
	}
	if d.result.Attach, err = bench.Latency(times.Add); err != nil {
		return err
	}
	d.result.Detach, err = bench.Latency(times.Del)
	return err
}

// measureWays has culvert-bench repeat the measurements of report R0, over both ways between two
// network namespaces, and takes its figures. The demos start it as a program, since it loads eBPF,
// which culvert-lab does not link.
//
// On a busy machine runs are void. measureWays measures once more if all runs over a way are.
func (d *demo) measureWays(ctx context.Context, from, to string) error {
	rounds := d.effort().rounds
	d.Step("culvert bench run m3 m4 m5: iperf3 and ping over the overlay and the VF, %d times each, in turns", rounds)
	for again := true; ; again = false {
		r, err := d.runBench(ctx, "m3", "m4", "m5", "--rough", "--repeats", strconv.Itoa(rounds), "--seconds", strconv.Itoa(runSeconds), "--from", from, "--to", to)
		if err != nil {
			return err
		}
		d.result.takeMeasured(r)
		if r.Unfinished != "" {
			fmt.Fprint(d.Steps, "         not all was measured: "+r.Unfinished+"\n")
		}
		lacks := d.result.findMissing()
		if lacks == "" {
			break
		}
		if !again {
			d.noteProblem("%s", lacks)
			break
		}
		d.Step("once more: %s", lacks)
	}
	switch problem, unclear := judgeGain(d.result.VF.Gbps, d.result.Overlay.Gbps); {
	case problem != "":
		d.noteProblem("%s", problem)
	case unclear != "":
		fmt.Fprint(d.Steps, "         note: "+unclear+"\n")
	}
	return nil
}

// judgeGain returns a problem if the throughput over the VF is lower than that over the overlay. It
// returns unclear if the runs do not show which is lower: the runs of the two ways overlap, as on a
// busy machine, or are fewer than enoughRuns.
func judgeGain(vf, overlay []float64) (problem, unclear string) {
	gain := bench.Median(vf) / bench.Median(overlay)
	switch {
	case len(vf) == 0 || len(overlay) == 0 || gain >= 1: // findMissing reports a way without runs
		return "", ""
	case min(len(vf), len(overlay)) < enoughRuns:
		return "", fmt.Sprintf("the VF carries %.2f times what the overlay carries, by too few runs to tell which is faster", gain)
	case slices.Max(vf) < slices.Min(overlay):
		return fmt.Sprintf("the VF carries %.2f times what the overlay carries", gain), ""
	}
	return "", fmt.Sprintf("the VF carries %.2f times what the overlay carries, and the runs of both overlap: this machine is too busy to tell which is faster", gain)
}

// enoughRuns of each way show which is faster, if they do not overlap.
const enoughRuns = 3

// goodbye bounds the clean-up of culvert-bench after ctx has ended.
const goodbye = 30 * time.Second

// runBench runs `culvert bench run`, shows its standard error, and returns its result, which may
// not be whole.
func (d *demo) runBench(ctx context.Context, args ...string) (bench.Result, error) {
	path, err := program.Find(program.Bench)
	if err != nil {
		return bench.Result{}, err
	}
	dir, err := os.MkdirTemp("", "culvert-demo-")
	if err != nil {
		return bench.Result{}, err
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, "result.json")
	cmd := exec.CommandContext(ctx, path, append([]string{"run", "--out", file}, args...)...)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = goodbye
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // Ctrl-C is for the demo
	failed := d.showLines(cmd)
	if ctx.Err() != nil {
		return bench.Result{}, context.Cause(ctx)
	}
	r, err := readResult(file)
	if failed != nil && (err != nil || r.Unfinished == "") {
		return r, failed
	}
	return r, err
}

// showLines runs a command, and shows its standard error line by line. The error has the last line.
func (d *demo) showLines(cmd *exec.Cmd) error {
	said, err := cmd.StderrPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return fmt.Errorf("start %s: %w", cmd.Path, err)
	}
	last := ""
	for lines := bufio.NewScanner(said); lines.Scan(); {
		last = lines.Text()
		fmt.Fprint(d.Steps, "         "+last+"\n")
	}
	if err := cmd.Wait(); err != nil {
		return fmt.Errorf("%s: %w: %s", filepath.Base(cmd.Path), err, last)
	}
	return nil
}

func readResult(file string) (bench.Result, error) {
	f, err := os.Open(file)
	if err != nil {
		return bench.Result{}, err
	}
	defer f.Close()
	r, err := bench.Read(f)
	if err != nil {
		return r, fmt.Errorf("read the result of culvert-bench: it %w", err)
	}
	return r, nil
}
