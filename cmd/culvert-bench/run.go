package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/culvert-net/culvert/bench"
	"github.com/culvert-net/culvert/bench/conduct"
	"github.com/culvert-net/culvert/bench/place"
	"github.com/culvert-net/culvert/bench/report"
	"github.com/culvert-net/culvert/cli"
	"github.com/culvert-net/culvert/durable"
)

// run holds the flags of culvert bench run.
type run struct {
	conduct.Order
	out     string
	cluster clusterFlags
	lab     bool
	senders int
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
	f.StringArrayVar(&b.From, "from", nil, "where traffic starts; more than once: from each of them, for m11 and m16 at the same time")
	f.StringArrayVar(&b.To, "to", nil, "where it stops; more than once: to each of them, for m16 at the same time")
	f.StringVar(&b.Via, "via", "", "a third end, which forwards: measure what goes through it alone, and what that costs there")
	f.StringArrayVar(&b.Paths, "path", nil, "measure these alone: words such as VF, overlay, pod-pod, 'same PF'; 'pod-pod,VF' wants both")
	f.IntVar(&b.Limits.Repeats, "repeats", 0, "how many runs of each count at least (default 6, with --quick 3)")
	f.Float64Var(&b.Limits.Precision, "precision", 0, "go on until the median's 95 % interval reaches no further than this part to either side: 0.05 is 5 %")
	f.DurationVar(&b.Limits.MaxTime, "max-time", 0, "begin no round that would end later (default twice what the repeats should take)")
	f.BoolVar(&b.Quick, "quick", false, "runs of 2 s (packets 6, a pulled cable 10), three of them: for a look, and for CI")
	f.BoolVar(&b.Limits.Rough, "rough", false, "let nothing warm up, send pings five in a second, and do not measure what the generators make: for a look in little time")
	f.Float64Var(&b.Seconds, "seconds", 0, "count no longer than this in each run (packets 6 s, a pulled cable 10 s at least)")
	f.IntVar(&b.Burst, "burst", 1, "send packets so many at once (1 to 64), which the kernel cuts, so that more leave; not where tx-udp-segmentation is on")
	f.BoolVar(&b.AFXDP, "af-xdp", false, "send packets by AF_XDP sockets, in the copy mode that all drivers have")
	f.Uint64Var(&b.Seed, "seed", 0, "make the runs in the order of this seed, which a result has (default a new one)")
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

// order is what the flags ask for.
func (b *run) order(presets []string) (conduct.Order, error) {
	o := b.Order
	o.Presets = presets
	if err := o.Check(); err != nil {
		return o, err
	}
	there := len(o.From)+len(o.To) > 0 || o.Via != ""
	switch {
	case b.senders != 1 && !b.lab:
		return o, errors.New("--senders goes with --lab: of ends that are there name each with --from")
	case b.lab && (there || b.cluster.wanted()):
		return o, errors.New("--lab makes ends of its own: leave out --from, --via, --to and what belongs to --cluster")
	case !b.cluster.wanted():
		return o, nil
	case there:
		return o, errors.New("--from, --via and --to name ends that are there; in a cluster they are made: take --nodes")
	}
	c, err := b.cluster.place()
	o.Cluster = &c
	return o, err
}

// run measures. Whatever happens, what was made is taken back and what was measured is
// written.
func (b *run) run(cmd *cobra.Command, args []string) (err error) {
	order, err := b.order(args)
	if err != nil {
		return err
	}
	if b.out == "" {
		b.out = "bench-" + time.Now().Format("20060102-150405") + ".json"
	}
	if b.lab {
		booted, bootErr := place.BootLab(cmd.Context(), b.senders)
		if bootErr != nil {
			return bootErr
		}
		defer func() { err = errors.Join(err, booted.Down()) }()
		order.From, order.To, order.Management = booted.From, booted.To, booted.Management
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	progress := newProgress()
	defer progress.Close()
	crew := &conduct.Crew{}
	defer func() { err = errors.Join(err, crew.Close()) }()
	progress.Step("putting an agent at each end")
	m, err := crew.Plan(cmd.Context(), order, place.Program{Path: self, Version: version})
	if err != nil {
		return err
	}
	m.Progress = progress
	m.Announce()
	r := m.Run(cmd.Context())
	r.Culvert = version
	progress.Step("")
	return b.finish(cmd, r)
}

// finish writes the result and shows it, also when it cannot be written.
func (b *run) finish(cmd *cobra.Command, r bench.Result) error {
	err := durable.Write(b.out, 0o644, func(w io.Writer) error { return bench.Write(w, r) })
	fmt.Fprint(cmd.OutOrStdout(), report.Text(r, cli.ScreenOf(cmd.OutOrStdout(), os.Getenv).Look))
	if err != nil {
		return fmt.Errorf("the result: %w", err)
	}
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
