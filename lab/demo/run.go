package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/culvert-net/culvert/bench/report"
	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/screen"
	"github.com/culvert-net/culvert/lab"
	"github.com/culvert-net/culvert/lab/cluster"
	"github.com/culvert-net/culvert/lab/demo/node"
)

// DefaultName is the lab that the demo boots.
const DefaultName = "demo"

// nodeCount is how many nodes the demo has.
const nodeCount = 2

// files are the reports, within Out.
type files struct{ json, text, page string } // page may be empty

var demoFiles = files{"demo.json", "report.txt", "report.html"}

// Options says how the demo is run.
type Options struct {
	Name   string // of the lab, which must not be up unless Up is set
	Source string // the source tree, with build/bin in it
	Out    string // folder for demo.json, report.txt, report.html and its measurements
	Keep   bool   // leave the lab up
	Up     bool   // the lab is up, of the kind that the demo boots: use it, and leave it up

	// Quick makes the fewest measurements with which the demo still shows everything. They say
	// little about speed.
	Quick bool

	// Attachments is how many pods RunKubernetes times with a VF, how many
	// without, and how many it starts in bursts.
	Attachments int

	// CNI is the default network of the pods of RunKubernetes. Empty means Flannel.
	CNI cluster.CNI

	// Guests is the number of nodes on which RunGuests runs a guest. 0 means all nodes.
	Guests int

	Log  io.Writer   // step lines and the report
	Live bool        // Log is a terminal
	Look screen.Look // of the report
}

// ErrNotAsItShouldBe is returned when the demo ran to its end and found
// something wrong, which it has printed.
var ErrNotAsItShouldBe = errors.New("not everything is as it should be")

// demo is one run.
type demo struct {
	Options
	*lab.Steps
	files    files
	nodes    []node.Node
	before   []node.VFs // of each node, before anything is attached
	result   Result
	problems []string
	// kernel and culvert read the VFs of a node; pace is the time between two looks.
	kernel  func(context.Context, node.Node) (node.VFs, error)
	culvert func(context.Context, node.Node) (api.NodeStatus, error)
	pace    time.Duration
}

// Run shows the demo. However it ends, it leaves nothing behind but its report and the caches,
// or the lab if Keep is set.
func Run(ctx context.Context, o Options) (err error) {
	d, err := beginDemo(o, demoFiles)
	if err != nil {
		return err
	}
	defer d.Steps.Close()
	stage, setup, err := d.stageFiles(ctx, hostYAML)
	if err != nil {
		return err
	}
	defer os.RemoveAll(stage)
	l, err := d.bringUp(ctx, func(ctx context.Context, o lab.Options) (*lab.Lab, error) {
		o.JoinWires = true // a bond needs PFs on one segment
		o.Prepare = prepareSetup(setup)
		return lab.Up(ctx, o)
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.leaveLab(ctx, l)) }()
	if d.Up {
		if err := setup.Run(ctx, l, d.Step); err != nil {
			return err
		}
	}
	if err := d.noteNodes(l); err != nil {
		return err
	}
	if err := d.playStory(ctx, stage); err != nil {
		d.lastWords(ctx)
		return err
	}
	return d.writeReport(&d.result)
}

// labOptions returns the options of the lab that a demo boots.
func (d *demo) labOptions() lab.Options {
	return lab.Options{Name: d.Name, Nodes: nodeCount, Progress: d.Steps, Bound: !d.Keep}
}

// bringUp brings the demo's lab up, or opens it if it is up.
func (d *demo) bringUp(ctx context.Context, up func(context.Context, lab.Options) (*lab.Lab, error)) (*lab.Lab, error) {
	if d.Up {
		return lab.Open(d.Name)
	}
	return up(ctx, d.labOptions())
}

// stageFiles lays out Culvert's files and a host.yaml for nodes in a new folder, which the caller removes. It also
// returns the setup that nodes get before.
func (d *demo) stageFiles(ctx context.Context, hostYAML string) (stage string, setup *lab.Setup, err error) {
	parts, err := node.FindParts(ctx, d.Source, func(s string) { d.Step("%s", s) })
	if err != nil {
		return "", nil, err
	}
	if setup, err = nodeSetup(parts); err != nil {
		return "", nil, err
	}
	if stage, err = os.MkdirTemp("", "culvert-demo-"); err != nil {
		return "", nil, err
	}
	if err := parts.StageCulvert(ctx, stage, hostYAML); err != nil {
		return "", nil, errors.Join(err, os.RemoveAll(stage))
	}
	return stage, setup, nil
}

// beginDemo makes sure that there is no such lab and no report of an earlier run.
func beginDemo(o Options, f files) (*demo, error) {
	d, err := newDemo(o)
	if err != nil {
		return nil, err
	}
	d.files = f
	for _, name := range []string{f.json, f.text, f.page} { // an earlier run's would pass for this one's
		if name == "" {
			continue
		}
		if err := os.Remove(filepath.Join(o.Out, name)); err != nil && !errors.Is(err, os.ErrNotExist) {
			return nil, err
		}
	}
	d.Steps = lab.NewSteps(o.Log, o.Live)
	return d, nil
}

// newDemo makes sure that there is no such lab, unless it is to be used.
func newDemo(o Options) (*demo, error) {
	if l, err := lab.Open(o.Name); err == nil && o.Up {
		if err := l.Close(); err != nil {
			return nil, err
		}
	} else if err == nil {
		return nil, errors.Join(fmt.Errorf("the lab %s is up already: culvert lab down --name %s takes it down; or give another --name", o.Name, o.Name), l.Close())
	}
	return &demo{
		Options: o,
		kernel:  func(ctx context.Context, n node.Node) (node.VFs, error) { return n.VFs(ctx) }, culvert: nodeStatus, pace: time.Second,
	}, nil
}

// noteNodes records the lab's nodes.
func (d *demo) noteNodes(l *lab.Lab) error {
	d.nodes = node.Of(l, nodeCount)
	st, err := l.Status()
	d.result.Accel, d.result.WhyNotKVM = st.Acceleration.Accel, st.Acceleration.WhyNot
	return err
}

// lastWords shows what culvertd logged, after a failure.
func (d *demo) lastWords(ctx context.Context) {
	for _, n := range d.nodes {
		if words, err := n.LastWords(ctx); err == nil {
			d.quoteOutput(n, "journalctl -u culvertd", []byte(words))
		}
	}
}

// playStory makes VFs, gives them out, measures them, and takes them back.
func (d *demo) playStory(ctx context.Context, stage string) error {
	if err := d.installNodes(ctx, stage); err != nil {
		return err
	}
	if err := d.countVFs(ctx, nodeCount*2*7); err != nil {
		return err
	}
	if err := d.timeAttachments(ctx); err != nil {
		return err
	}
	pods, err := d.startPods(ctx)
	if err != nil {
		return err
	}
	if err := d.showOwners(ctx); err != nil {
		return err
	}
	if err := d.measureWays(ctx, pods[0].Node.Place(pods[0].Name), pods[1].Node.Place(pods[1].Name)); err != nil {
		return err
	}
	if err := d.stopPods(ctx, pods); err != nil {
		return err
	}
	if err := d.pullWires(ctx); err != nil {
		return err
	}
	return d.compareVFs(ctx)
}

// leaveLab takes the lab down, even when ctx has ended, unless it was up before or is kept.
func (d *demo) leaveLab(ctx context.Context, l *lab.Lab) error {
	if d.Up {
		return l.Close()
	}
	if d.Keep && ctx.Err() == nil {
		fmt.Fprintf(d.Steps, "\nThe lab is up still. Go on with:\n"+
			"  culvert lab ssh worker01 --name %[1]s          # there: culvert status; culvert vf list\n"+
			"  culvert lab down --name %[1]s\n", d.Name)
		return l.Close()
	}
	d.Step("taking the lab down")
	return l.Down(context.WithoutCancel(ctx))
}

// eachNode does something on all nodes at once, until one fails.
func eachNode(ctx context.Context, nodes []node.Node, do func(ctx context.Context, i int, n node.Node) error) error {
	g, ctx := errgroup.WithContext(ctx)
	for i, n := range nodes {
		g.Go(func() error { return do(ctx, i, n) })
	}
	return g.Wait()
}

// noteProblem notes a problem, and the demo goes on.
func (d *demo) noteProblem(format string, args ...any) {
	d.problems = append(d.problems, fmt.Sprintf(format, args...))
	fmt.Fprint(d.Steps, "         WRONG: "+d.problems[len(d.problems)-1]+"\n")
}

// quoteOutput shows the output of a command on a node.
func (d *demo) quoteOutput(n node.Node, command string, out []byte) {
	fmt.Fprintf(d.Steps, "\n  %s# %s\n%s\n\n", n.Name, command, indentLines(string(out)))
}

func indentLines(s string) string {
	return "  " + strings.ReplaceAll(strings.TrimRight(s, "\n"), "\n", "\n  ")
}

// installNodes installs Culvert on both nodes; culvertd makes its VFs.
func (d *demo) installNodes(ctx context.Context, stage string) error {
	d.Step("installing Culvert on both nodes; culvertd makes 7 VFs on each of 2 PFs as it starts")
	started := time.Now()
	err := eachNode(ctx, d.nodes, func(ctx context.Context, _ int, n node.Node) error { return n.Install(ctx, stage) })
	if err != nil {
		return err
	}
	d.Step("culvertd is ready on both nodes after %.1f s", time.Since(started).Seconds())
	return nil
}

// countVFs shows the status of the first node, counts the VFs of all nodes, and records their
// present state.
func (d *demo) countVFs(ctx context.Context, want int) error {
	out, err := d.nodes[0].Run(ctx, "culvert", "status")
	if err != nil {
		return err
	}
	d.quoteOutput(d.nodes[0], "culvert status", out)
	d.before = make([]node.VFs, len(d.nodes))
	err = eachNode(ctx, d.nodes, func(ctx context.Context, i int, n node.Node) (err error) {
		d.before[i], err = d.kernel(ctx, n)
		return err
	})
	if err != nil {
		return err
	}
	for _, seen := range d.before {
		d.result.VFsCreated += len(seen)
	}
	if d.result.VFsCreated != want {
		d.noteProblem("%d VFs are there, and not %d", d.result.VFsCreated, want)
	}
	return nil
}

// outcome is a result that can be printed as a report.
type outcome interface {
	formatText(l screen.Look) string
	// formatPage returns HTML, and the measurements for the file to which it links, for a demo whose
	// files have a page.
	formatPage(data string) (page, measurements []byte, err error)
}

// writeReport prints the findings and writes them to files.
func (d *demo) writeReport(found outcome) error {
	d.result.Problems = d.problems
	if err := os.MkdirAll(d.Out, 0o755); err != nil {
		return err
	}
	fmt.Fprint(d.Steps, "\n"+d.Look.Fit(found.formatText(d.Look))+"\n")
	body, err := json.MarshalIndent(found, "", "  ")
	if err != nil {
		return err
	}
	write := func(name string, body []byte) error { return os.WriteFile(filepath.Join(d.Out, name), body, 0o644) }
	err = errors.Join(
		write(d.files.json, append(body, '\n')),
		write(d.files.text, []byte(found.formatText(screen.Look{Unicode: d.Look.Unicode}))),
	)
	if err == nil && d.files.page != "" {
		data := report.DataName(d.files.page)
		page, measurements, wrong := found.formatPage(data)
		if err = wrong; err == nil {
			err = errors.Join(write(d.files.page, page), write(data, measurements))
		}
	}
	if err == nil && len(d.problems) > 0 {
		err = fmt.Errorf("%w: %s", ErrNotAsItShouldBe, strings.Join(d.problems, "; "))
	}
	return err
}
