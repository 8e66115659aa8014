package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/culvert-net/culvert/bench"
	"github.com/culvert-net/culvert/bench/conduct"
	"github.com/culvert-net/culvert/bench/place"
	"github.com/culvert-net/culvert/bench/preset"
	"github.com/culvert-net/culvert/bench/report"
)

// run holds the flags of culvert bench run.
type run struct {
	from, to, paths []string
	via             string
	limits          conduct.Limits
	quick           bool
	seconds         float64
	seed            uint64
	out             string
	cluster         clusterFlags
	lab             bool
	management      string // with lab: the interface that its nodes are managed by
	senders, burst  int
	afXDP           bool
}

func newRunCommand() *cobra.Command {
	b := &run{}
	cmd := &cobra.Command{
		Use:   "run [PRESET...]",
		Short: "Measure what the paths between two ends carry, and what that costs",
		Long: `Puts an agent at both ends, finds the paths between them (VF, overlay, host,
bond), and sends over each in turns: in rounds, shuffled, the first one to warm up
and at least six that count. Without a preset it is TCP, and the result is one
sentence, a table, and a file with all that was measured. An end is

` + indentLines(place.Forms) + `

A run counts only when the counters of its path's interfaces rose by what it
claims, at both ends, and no other's did. Otherwise it is void, says why, and is
made again at most twice. When anything is missing at the end, the result says so
and the exit status is 1.

A preset measures what one of the field reports printed, with that report's
parameters: culvert bench presets lists them. Several are measured in turns and
make one result. m11 and m16 have several ends send at the same time: their figure
is the total, and the share of each is told. m12 and m13 want a machine in the
middle (--via) that routes or bridges already: nothing is set on it.`,
		Example: runExamples,
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
			return slices.DeleteFunc(presetWords(), func(c cobra.Completion) bool {
				name, _, _ := strings.Cut(c, "\t")
				return slices.Contains(args, name)
			}), cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error { return b.run(cmd, args) },
	}
	b.addFlags(cmd)
	b.cluster.addFlags(cmd)
	return cmd
}

const runExamples = `  # network namespaces or containers of this host, by all paths between them
  sudo culvert bench run --from netns:a --to netns:b
  sudo culvert bench run --from pid:4711 --to host --path VF

  # two hosts; the program is sent there when it is not there
  culvert bench run --from ssh:root@n1 --to ssh:root@n2
  culvert bench run m4 --from ssh:root@n1,netns=pod --to ssh:root@n2,netns=pod

  # nodes of a lab that is named x
  culvert bench run m10 --quick --from lab:x/worker01 --to lab:x/worker02

  # several presets in one result, and no run longer than 4 s
  culvert bench run m3 m4 m5 --seconds 4 --from ssh:n1,netns=a --to ssh:n2,netns=b

  # in a lab that is booted for it: overlay, VF and nodes' own network
  culvert bench run m3 m4 --lab --quick

  # a guest of this host, reached over its network, and a container
  sudo culvert bench run --from "host,vm=db1,by=ssh root@db1 sh" --to netns:b

  # a cluster: pods on two nodes, with a VF of that network, and removed again
  culvert bench run --cluster --nodes n1,n2 --network default/sriov-network

  # report R3's three paths, in turns: every --from with every --to
  culvert bench run m1 --from ssh:n1 --from ssh:n1,netns=a --to ssh:n2,netns=b

  # three senders to one receiver at once, and the VFs of one PF, each to its own
  culvert bench run m11 --from netns:a --from netns:b --from netns:c --to netns:r
  culvert bench run m16 --from netns:a --from netns:b --to netns:r --to netns:s

  # through a router, of which the CPU and the counters are seen as well
  culvert bench run m12 --from ssh:n1 --via ssh:router --to ssh:n2`

func (b *run) addFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringArrayVar(&b.from, "from", nil, "where traffic starts; more than once: from each of them, for m11 and m16 at the same time")
	f.StringArrayVar(&b.to, "to", nil, "where it stops; more than once: to each of them, for m16 at the same time")
	f.StringVar(&b.via, "via", "", "a third end, which forwards: measure what goes through it alone, and what that costs there")
	f.StringArrayVar(&b.paths, "path", nil, "measure these alone: words such as VF, overlay, pod-pod, 'same PF'; 'pod-pod,VF' wants both")
	f.IntVar(&b.limits.Repeats, "repeats", 0, "how many runs of each count at least (default 6, with --quick 3)")
	f.Float64Var(&b.limits.Precision, "precision", 0, "go on until the median's 95 % interval reaches no further than this part to either side: 0.05 is 5 %")
	f.DurationVar(&b.limits.MaxTime, "max-time", 0, "begin no round that would end later (default twice what the repeats should take)")
	f.BoolVar(&b.quick, "quick", false, "runs of 2 s (packets 6, a pulled cable 10), three of them: for a look, and for CI")
	f.Float64Var(&b.seconds, "seconds", 0, "count no longer than this in each run (packets 6 s, a pulled cable 10 s at least)")
	f.IntVar(&b.burst, "burst", 1, "send packets so many at once (1 to 64), which the kernel cuts, so that more leave; not where tx-udp-segmentation is on")
	f.BoolVar(&b.afXDP, "af-xdp", false, "send packets by AF_XDP sockets, in the copy mode that all drivers have")
	f.Uint64Var(&b.seed, "seed", 0, "make the runs in the order of this seed, which a result has (default a new one)")
	f.BoolVar(&b.lab, "lab", false, "boot a lab for it, of two nodes with a container on each, and take it down; needs the source tree, with 'make build' done, and culvert-lab")
	f.IntVar(&b.senders, "senders", 1, "with --lab: how many containers send at once, for m11 and m16")
	f.StringVar(&b.out, "out", "", "`FILE` for the result (default bench-TIME.json)")
	ends := func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
		return []cobra.Completion{"host", "netns:", "pid:", "ssh:", "lab:"}, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
	}
	for flag, complete := range map[string]cobra.CompletionFunc{
		"from": ends, "to": ends, "via": ends,
		"path": cobra.FixedCompletions([]cobra.Completion{"VF", "VM", "overlay", "host", "bond", "veth", "virtio", "pod-pod", "pod-node", "node-node", "same PF", "other PF", "same node", "other node"}, cobra.ShellCompDirectiveNoFileComp),
	} {
		cobra.CheckErr(cmd.RegisterFlagCompletionFunc(flag, complete)) // only if the flag were not there
	}
}

// run measures. Whatever happens, what was made is taken back and what was measured is
// written.
func (b *run) run(cmd *cobra.Command, args []string) (err error) {
	var presets []preset.Preset
	for _, name := range args {
		p, err := preset.Find(name)
		if err != nil {
			return err
		}
		if !slices.ContainsFunc(presets, func(q preset.Preset) bool { return q.Name == p.Name }) {
			presets = append(presets, p)
		}
	}
	if b.seconds < 0 {
		return fmt.Errorf("--seconds %v: take a number above 0, such as 4", b.seconds)
	}
	if b.burst < 1 || b.burst > 64 {
		return fmt.Errorf("--burst %d: take 1 to 64", b.burst)
	}
	if b.afXDP && b.burst > 1 {
		return fmt.Errorf("--af-xdp with --burst %d: an AF_XDP socket sends frames as they are: take one of both", b.burst)
	}
	if b.out == "" {
		b.out = "bench-" + time.Now().Format("20060102-150405") + ".json"
	}
	if b.senders != 1 && !b.lab {
		return errors.New("--senders goes with --lab: of ends that are there name each with --from")
	}
	if b.lab {
		booted, bootErr := b.bootLab(cmd.Context())
		if bootErr != nil {
			return bootErr
		}
		defer func() { err = errors.Join(err, booted.Down()) }()
	}
	open, err := b.ends()
	if err != nil {
		return err
	}
	progress := newProgress()
	defer progress.Close()
	crew := &conduct.Crew{}
	defer func() { err = errors.Join(err, crew.Close()) }()
	progress.Step("putting an agent at each end")
	at, err := open(cmd.Context(), crew)
	if err != nil {
		return err
	}
	if err := conduct.Meet(cmd.Context(), crew.Stations); err != nil {
		return err
	}
	m, plan, err := b.plan(cmd.Context(), crew, at, presets)
	if err != nil {
		return err
	}
	b.announce(progress, m, plan)
	m.Progress = progress
	r := m.Run(cmd.Context())
	r.Culvert, r.Preset, r.Printed, r.Notes = version, plan.Presets(), plan.Printed(r.Arms), append(plan.Notes, r.Notes...)
	progress.Step("")
	return b.finish(cmd, r)
}

// bootLab boots a lab and measures between its ends.
func (b *run) bootLab(ctx context.Context) (*place.BootedLab, error) {
	if len(b.from)+len(b.to)+len(b.via) > 0 || b.cluster.wanted() {
		return nil, errors.New("--lab makes ends of its own: leave out --from, --via, --to and what belongs to --cluster")
	}
	booted, err := place.BootLab(ctx, b.senders)
	if err == nil {
		b.from, b.to, b.management = booted.From, booted.To, booted.Management
	}
	return booted, err
}

// stations are where traffic starts, where it stops, and what is to be between them, if anything.
type stations struct {
	from, to []*conduct.Station
	via      *conduct.Station
}

// opener puts agents there.
type opener func(context.Context, *conduct.Crew) (stations, error)

// ends reads what says where they are.
func (b *run) ends() (opener, error) {
	if b.cluster.wanted() {
		if len(b.from)+len(b.to)+len(b.via) > 0 {
			return nil, errors.New("--from, --via and --to name ends that are there; in a cluster they are made: take --nodes")
		}
		c, err := b.cluster.place()
		return func(ctx context.Context, crew *conduct.Crew) (at stations, err error) {
			at.from, at.to, err = crew.OpenPods(ctx, c)
			return at, err
		}, err
	}
	from, to, via, err := b.specs()
	if err != nil {
		return nil, err
	}
	self, err := os.Executable()
	return func(ctx context.Context, crew *conduct.Crew) (at stations, err error) {
		all, err := crew.Open(ctx, slices.Concat(from, to, via), place.Program{Path: self, Version: version})
		at.from, at.to = all[:len(from)], all[len(from):len(from)+len(to)]
		if len(via) > 0 {
			at.via = all[len(all)-1]
		}
		return at, err
	}, err
}

// specs reads --from, --to and --via, of which there is one at most.
func (b *run) specs() (from, to, via []place.Spec, err error) {
	if len(b.from) == 0 || len(b.to) == 0 {
		return nil, nil, nil, fmt.Errorf("between which ends? Name them with --from and --to, or take --cluster:\n%s", place.Forms)
	}
	for _, side := range []struct {
		texts []string
		specs *[]place.Spec
	}{{b.from, &from}, {b.to, &to}, {b.middle(), &via}} {
		for _, text := range side.texts {
			s, err := place.Parse(text)
			if err != nil {
				return nil, nil, nil, err
			}
			*side.specs = append(*side.specs, s)
		}
	}
	for i, f := range from {
		if slices.Contains(to, f) {
			return nil, nil, nil, fmt.Errorf("--from and --to are both %s: traffic within one network namespace takes no path", f)
		}
		if slices.Contains(from[:i], f) {
			return nil, nil, nil, fmt.Errorf("--from is %s twice: name each end once", f)
		}
	}
	for i, t := range to {
		if slices.Contains(to[:i], t) {
			return nil, nil, nil, fmt.Errorf("--to is %s twice: name each end once", t)
		}
	}
	for _, v := range via {
		if slices.Contains(slices.Concat(from, to), v) {
			return nil, nil, nil, fmt.Errorf("--via is %s, which is an end as well: name what is between the ends", v)
		}
	}
	return from, to, via, nil
}

func (b *run) middle() []string {
	if b.via == "" {
		return nil
	}
	return []string{b.via}
}

// cable is what pulls one, where that can be done from here.
func (b *run) cable() func(ctx context.Context, machine, pf string, in bool) error {
	from, to, _, err := b.specs()
	if err != nil { // a cluster's
		return nil
	}
	return place.Cable(append(from, to...))
}

// plan says what is measured between the stations.
func (b *run) plan(ctx context.Context, crew *conduct.Crew, at stations, presets []preset.Preset) (*conduct.Measurement, preset.Plan, error) {
	paths, unmanaged, err := b.between(crew, at)
	if err != nil {
		return nil, preset.Plan{}, err
	}
	cable := b.cable()
	here := preset.Here{
		Paths: paths,
		Cable: cable != nil,
		Lacks: func(engine string) string { return conduct.Lacks(slices.Concat(at.from, at.to), engine) },
		Rates: func(p bench.Path) (lowest, highest int, err error) { return conduct.Rates(ctx, crew.Stations, p) },
	}
	plan, err := preset.Default(here, b.quick)
	if len(presets) > 0 {
		plan, err = preset.Together(presets, here, b.quick)
	}
	if err != nil {
		return nil, plan, err
	}
	if unmanaged != "" {
		plan.Notes = append(plan.Notes, unmanaged)
	}
	if b.seconds > 0 {
		plan.Shorten(b.seconds)
	}
	if b.burst > 1 {
		if err := plan.Burst(b.burst); err != nil {
			return nil, plan, err
		}
	}
	if b.afXDP {
		if err := plan.AFXDP(); err != nil {
			return nil, plan, err
		}
	}
	m := &conduct.Measurement{Exchange: conduct.Exchange{Stations: crew.Stations, Arms: plan.Arms}, Limits: b.limits, Seed: b.seed}
	if cable != nil {
		m.Cable = func(ctx context.Context, e bench.End, in bool) error { return cable(ctx, e.Machine, e.PF, in) }
	}
	if m.Limits.Repeats == 0 {
		m.Limits.Repeats = plan.Repeats
	}
	if m.Limits.MaxTime == 0 {
		m.Limits.MaxTime = max(10*time.Minute, 2*preset.Takes(plan.Arms, m.Limits.Repeats))
	}
	for m.Seed == 0 {
		m.Seed = rand.Uint64()
	}
	m.Prepare()
	return m, plan, nil
}

// between are the paths that are asked for; the note says what was left out that nobody named.
func (b *run) between(crew *conduct.Crew, at stations) (paths []bench.Path, note string, err error) {
	all := conduct.Between(at.from, at.to)
	if at.via != nil {
		if all, err = conduct.Through(at.via, crew.Stations, all); err != nil {
			return nil, "", err
		}
	}
	if b.lab && len(b.paths) == 0 {
		all, note = withoutManagement(all, b.management)
	}
	for _, path := range all {
		if conduct.Matches(path, b.paths) {
			paths = append(paths, path)
		}
	}
	if len(paths) == 0 && len(all) > 0 {
		return nil, "", fmt.Errorf("no path is %q: there is %s", b.paths, preset.List(all))
	}
	return paths, note, nil
}

// withoutManagement leaves out the paths of the network that a lab's nodes are managed by, and
// says so: no report had one.
func withoutManagement(all []bench.Path, management string) (rest []bench.Path, note string) {
	for _, p := range all {
		if p.From.Interface == management || p.To.Interface == management {
			note = fmt.Sprintf("the lab's management network (%s) is left out, since no report had one; --path host measures it", management)
			continue
		}
		rest = append(rest, p)
	}
	return rest, note
}

// announce says before it starts what will be measured, and what will not.
func (b *run) announce(progress *conduct.Progress, m *conduct.Measurement, plan preset.Plan) {
	took := preset.Takes(plan.Arms, m.Limits.Repeats)
	hint := ""
	if !b.quick && took > 5*time.Minute {
		hint = "; --quick is shorter"
	}
	progress.Say("%d arms, %d runs of each that count: about %s%s", len(m.Arms), m.Limits.Repeats, took.Round(time.Second), hint)
	for _, a := range m.Arms {
		for _, p := range a.Paths() {
			through := ""
			if p.Via != (bench.Relay{}) {
				through = fmt.Sprintf(", through %s, which %s", p.Via.Name, p.Via.How)
			}
			progress.Say("  %s: %s, %s %s to %s %s%s", a.Name, conduct.Title(p), p.From.Name, p.From.Address, p.To.Name, p.To.Address, through)
			if s := conduct.Mismatch(p); s != "" {
				progress.Say("  take care: %s", s)
			}
		}
	}
	for _, n := range plan.Notes {
		progress.Say("note: %s", n)
	}
}

// finish writes the result and shows it.
func (b *run) finish(cmd *cobra.Command, r bench.Result) error {
	var file bytes.Buffer
	if err := errors.Join(bench.Write(&file, r), os.WriteFile(b.out, file.Bytes(), 0o644)); err != nil { //nolint:gosec // who measures shows it around
		return fmt.Errorf("write the result: %w", err)
	}
	fmt.Fprint(cmd.OutOrStdout(), report.Text(r, lookOf(cmd)))
	fmt.Fprintf(cmd.ErrOrStderr(), "written to %s\n", b.out)
	if r.Unfinished != "" {
		return fmt.Errorf("the result is not whole: %s", r.Unfinished)
	}
	return nil
}

// newProgress makes one that writes to standard error: what is on standard output is the result.
func newProgress() *conduct.Progress {
	fd, width := int(os.Stderr.Fd()), 100
	live := term.IsTerminal(fd) && os.Getenv("TERM") != "dumb"
	if w, _, err := term.GetSize(fd); live && err == nil {
		width = w
	}
	return conduct.NewProgress(os.Stderr, live, width)
}
