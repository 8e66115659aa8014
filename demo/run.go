package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/culvert-net/culvert/bench"
	"github.com/culvert-net/culvert/demo/node"
	"github.com/culvert-net/culvert/lab"
)

// DefaultName is the lab that the demo boots.
const DefaultName = "demo"

// nodeCount is how many nodes the demo has.
const nodeCount = 2

// The reports, within Out.
const (
	jsonFile  = "demo.json"
	textFile  = "report.txt"
	chartFile = "report.svg"
)

// Options says how the demo is run.
type Options struct {
	Name   string // of the lab, which must not be up
	Source string // the source tree, with build/bin in it
	Out    string // folder for demo.json, report.txt and report.svg
	Keep   bool   // leave the lab up

	Log  io.Writer  // step lines and the report
	Live bool       // Log is a terminal
	Look bench.Look // of the report
}

// ErrNotAsItShouldBe is returned when the demo ran to its end and found
// something wrong, which it has printed.
var ErrNotAsItShouldBe = errors.New("not everything is as it should be")

// demo is one run.
type demo struct {
	Options
	*steps
	nodes    []node.Node
	acceled  lab.Acceleration
	before   []node.VFs // of each node, before anything is attached
	result   Result
	problems []string
}

// Run shows the demo. Whatever happens, it leaves nothing behind but its
// report and the caches, or the lab if Keep is set.
func Run(ctx context.Context, o Options) (err error) {
	if l, err := lab.Open(o.Name); err == nil {
		return errors.Join(fmt.Errorf("the lab %s is up already: culvert lab down --name %s takes it down; or give another --name", o.Name, o.Name), l.Close())
	}
	d := &demo{Options: o, steps: newSteps(o.Log, o.Live)}
	defer d.steps.close()
	for _, name := range []string{jsonFile, textFile, chartFile} { // an earlier run's would pass for this one's
		if err := os.Remove(filepath.Join(o.Out, name)); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	parts, err := node.FindParts(ctx, o.Source, func(s string) { d.step("%s", s) })
	if err != nil {
		return err
	}
	stage, err := os.MkdirTemp("", "culvert-demo-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(stage)
	if err := parts.Stage(ctx, stage, hostYAML); err != nil {
		return err
	}
	l, err := lab.Up(ctx, lab.Options{Name: o.Name, Nodes: nodeCount, Progress: d.steps})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.leave(ctx, l)) }()
	d.nodes = node.Of(l, nodeCount)
	st, err := l.Status()
	if err != nil {
		return err
	}
	d.acceled = st.Acceleration
	if err := d.play(ctx, stage); err != nil {
		d.lastWords(ctx)
		return err
	}
	return d.report()
}

// lastWords shows what culvertd logged, after a failure.
func (d *demo) lastWords(ctx context.Context) {
	for _, n := range d.nodes {
		if words, err := n.LastWords(ctx); err == nil {
			d.quote(n, "journalctl -u culvertd", []byte(words))
		}
	}
}

// play is the story: VFs made, given out, measured, taken back.
func (d *demo) play(ctx context.Context, stage string) error {
	if err := d.install(ctx, stage); err != nil {
		return err
	}
	if err := d.countVFs(ctx); err != nil {
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
	if err := d.measure(ctx, pods); err != nil {
		return err
	}
	if err := d.stopPods(ctx, pods); err != nil {
		return err
	}
	return d.compareVFs(ctx)
}

// leave takes the lab down, even when ctx has ended.
func (d *demo) leave(ctx context.Context, l *lab.Lab) error {
	if d.Keep && ctx.Err() == nil {
		d.show(fmt.Sprintf("\nThe lab is up still. Go on with:\n"+
			"  culvert lab ssh worker01 --name %[1]s          # there: culvert status; culvert vf list\n"+
			"  culvert lab down --name %[1]s\n", d.Name))
		return l.Close()
	}
	d.step("taking the lab down")
	return l.Down(context.WithoutCancel(ctx))
}

// each does something on all nodes at once.
func (d *demo) each(do func(i int, n node.Node) error) error {
	var g errgroup.Group
	for i, n := range d.nodes {
		g.Go(func() error { return do(i, n) })
	}
	return g.Wait()
}

// wrong notes what is not as it should be; the demo goes on.
func (d *demo) wrong(format string, args ...any) {
	d.problems = append(d.problems, fmt.Sprintf(format, args...))
	d.show("         WRONG: " + d.problems[len(d.problems)-1] + "\n")
}

// quote shows what a command of a node printed.
func (d *demo) quote(n node.Node, command string, out []byte) {
	d.show(fmt.Sprintf("\n  %s# %s\n%s\n\n", n.Name, command, indent(string(out))))
}

func indent(s string) string {
	return "  " + strings.ReplaceAll(strings.TrimRight(s, "\n"), "\n", "\n  ")
}

// install sets both nodes up: Culvert, which makes its VFs, the overlay and
// what containers are made of.
func (d *demo) install(ctx context.Context, stage string) error {
	d.step("installing Culvert on both nodes; culvertd makes 7 VFs on each of 2 PFs as it starts")
	started := time.Now()
	err := d.each(func(_ int, n node.Node) error {
		var g errgroup.Group
		g.Go(func() error { return n.Install(ctx, stage) })
		g.Go(func() error { return n.Prepare(ctx) })
		return g.Wait()
	})
	if err != nil {
		return err
	}
	d.step("culvertd is ready on both nodes after %.1f s; joining them to the overlay: VXLAN, bridge, veth, MTU 1450", time.Since(started).Seconds())
	return d.each(func(_ int, n node.Node) error { return n.JoinOverlay(ctx, nodeCount) })
}

// countVFs shows the first node, counts everybody's VFs and keeps how they
// look now.
func (d *demo) countVFs(ctx context.Context) error {
	out, err := d.nodes[0].Run(ctx, "culvert", "status")
	if err != nil {
		return err
	}
	d.quote(d.nodes[0], "culvert status", out)
	d.before = make([]node.VFs, len(d.nodes))
	err = d.each(func(i int, n node.Node) (err error) {
		d.before[i], err = n.VFs(ctx)
		return err
	})
	if err != nil {
		return err
	}
	for _, seen := range d.before {
		d.result.VFsCreated += len(seen)
	}
	if want := nodeCount * 2 * 7; d.result.VFsCreated != want {
		d.wrong("%d VFs are there, and not %d", d.result.VFsCreated, want)
	}
	return nil
}

// report prints the findings and writes them to files.
func (d *demo) report() error {
	d.result.Accel, d.result.WhyNotKVM = d.acceled.Accel, d.acceled.WhyNot
	d.result.Problems = d.problems
	if err := os.MkdirAll(d.Out, 0o755); err != nil {
		return err
	}
	text := d.result.text(d.Look)
	d.show("\n" + text + "\n")
	plain := d.result.text(bench.Look{Unicode: d.Look.Unicode})
	err := errors.Join(
		d.result.write(filepath.Join(d.Out, jsonFile)),
		os.WriteFile(filepath.Join(d.Out, textFile), []byte(plain), 0o644),
		os.WriteFile(filepath.Join(d.Out, chartFile), []byte(d.result.comparison().SVG()), 0o644),
	)
	if err == nil && len(d.problems) > 0 {
		err = fmt.Errorf("%w: %s", ErrNotAsItShouldBe, strings.Join(d.problems, "; "))
	}
	return err
}
