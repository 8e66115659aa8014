package main

import (
	"errors"
	"fmt"
	"io"
	"math"
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
	"github.com/culvert-net/culvert/internal/admin/cli"
	"github.com/culvert-net/culvert/internal/durable"
)

// run holds the flags of culvert bench run.
type run struct {
	conduct.Order
	out     string
	cluster clusterFlags
	judge   judge
	lab     bool
	senders int
}

func newRunCommand() *cobra.Command {
	b := &run{}
	cmd := &cobra.Command{
		Use:   "run [PRESET...]",
		Short: "Measure the paths between two ends, and their cost",
		Long: `Starts an agent at both ends, finds the paths between them (VF, overlay, host,
bond), and sends over each in turn. It does so in shuffled rounds: the first one
warms up, and at least six count. Without a preset it sends TCP (--send), or asks
questions for their round trips (--ask). The result is one sentence, a table, and
a file with all measurements. An end is

` + indentLines(place.Forms) + `

A run counts only when the counters of its path's interfaces rose by the bytes
that it claims, at both ends, and no other's did. Otherwise it is void with its
reason, and the program repeats it at most twice. When a run is missing at the
end, the result says so and the exit status is 1.

A preset repeats a figure of one of the field reports, with that report's
parameters: culvert bench presets lists them. Several presets run in turn and make
one result. m11 and m16 have several ends send at the same time: their figure is
the total, with the share of each end. m12 and m13 need a machine in the middle
(--via) that routes or bridges already: the program sets nothing on it. In a
cluster --via is the node of a pod that is made and routes between two networks.
m15 runs dpdk-testpmd on VFs that are bound to vfio-pci, which all ends name by
,pci=.

--ab compares two builds or settings in one run. Each round sets up both sides by
their commands, in an order that the seed decides, and measures all arms of each.
CULVERT_SIDE in a command's environment is A or B. After each command the program
finds the paths anew, and waits until they carry traffic. The result has a
fingerprint of each side, and the last line that its command printed. At the end
A's command, or --ab-undo, restores the state: also after Ctrl-C, an error, and
when the program dies. The sides are judged by round: --fail-if makes the exit
status 1 when a rule is broken, and 2 when it is unclear.

m9 pulls the cable of the --from end while traffic runs. In a lab it does so
itself. Elsewhere the commands of --pull and --plug do, or the program asks the
person at the terminal, and watches the traffic stop and come again.`,
		Example: runExamples,
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
			return slices.DeleteFunc(presetWords(), func(c cobra.Completion) bool {
				name, _, _ := strings.Cut(c, "\t")
				return slices.Contains(args, name)
			}), cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error { return b.runMeasurement(cmd, args) },
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

  # a cluster: VFs of two PFs; through a pod that routes; a rate that is swept
  culvert bench run m7 --cluster --nodes n1 --network left --network right
  culvert bench run m12 --cluster --nodes n1 --via n2 --network a --network b
  culvert bench run m17 --cluster --nodes n1,n2 --network default/sriov-network

  # report R3's three paths, in turns: every --from with every --to
  culvert bench run m1 --from ssh:n1 --from ssh:n1,netns=a --to ssh:n2,netns=b

  # three senders to one receiver at once, and the VFs of one PF, each to its own
  culvert bench run m11 --from netns:a --from netns:b --from netns:c --to netns:r
  culvert bench run m16 --from netns:a --from netns:b --to netns:r --to netns:s

  # round trips of questions, on the idle path and beside TCP
  culvert bench run --ask udp --load 10,50,90 --from ssh:n1 --to ssh:n2

  # what a path loses of 200 Mb/s of UDP; writes of three sizes, both ways at once
  sudo culvert bench run --send udp --rate 200 --from netns:a --to netns:b
  culvert bench run --size 64,1K,64K --direction both --from ssh:n1 --to ssh:n2

  # a ClusterIP beside its pod's own address
  sudo culvert bench run --from pid:4711 --to pid:4712 --service 10.96.0.10

  # the cable is pulled by a command while TCP runs; without --pull by you
  culvert bench run m9 --from ssh:n1 --to ssh:n2 --pull down.sh --plug up.sh

  # two settings in one run, judged: a command for each side, here or at the ends
  sudo culvert bench run --from netns:a --to netns:b --ab-on from \
    --fail-if 'throughput<-5%' --ab 'ip route replace 10.2.0.0/24 dev vxlan0' \
    'ip route replace 10.2.0.0/24 via 192.0.2.2'

  # DPDK sends, forwards and counts on free VFs of a pool with deviceType vfio-pci
  culvert bench run m15 --from ssh:root@n1,pci=0000:01:10.0 \
    --via ssh:root@n2,pci=0000:01:10.0 --to ssh:root@n1,pci=0000:01:10.2
  culvert bench run m15 --lab --quick

  # through a router, of which the CPU and the counters are seen as well
  culvert bench run m12 --from ssh:n1 --via ssh:router --to ssh:n2`

func (b *run) addFlags(cmd *cobra.Command) {
	b.Burst, b.senders = 1, 1
	f := cmd.Flags()
	f.StringArrayVar(&b.From, "from", nil, "where traffic starts; more than once: from each of them, for m11 and m16 at the same time")
	f.StringArrayVar(&b.To, "to", nil, "where traffic stops; more than once: to each of them, for m16 at the same time")
	f.StringVar(&b.Via, "via", "", "a third end, which forwards: measure only the traffic through it, and its cost there; with --cluster the node of a pod that is made and routes, for m12")
	f.StringVar(&b.Service, "service", "", "an address that leads to --to on the ports 5201 to 5208, such as a ClusterIP: measure the traffic to it beside that to the end's own address")
	f.StringVar(&b.Pull, "pull", "", "for m9: a `COMMAND` of this host that pulls the cable of the PF $1 of machine $2, such as 'ssh switch shut'")
	f.StringVar(&b.Plug, "plug", "", "for m9: the `COMMAND` that plugs it in again; without these, a person is asked")
	f.StringArrayVar(&b.Paths, "path", nil, "measure only these paths: words such as VF, overlay, pod-pod, 'same PF'; 'pod-pod,VF' needs both")
	cli.AddCount(cmd, &b.Limits.Repeats, "repeats", 1, 1000, "how many runs of each count at least (default 6, with --quick 3)")
	cli.AddNumber(cmd, &b.Limits.Precision, "precision", 0.001, 1, "go on until the median's 95 % interval reaches no further than this part to either side: 0.05 is 5 %")
	cli.AddTime(cmd, &b.Limits.MaxTime, "max-time", time.Second, 30*24*time.Hour, "begin no round that would end later (default twice what the repeats should take)")
	f.BoolVar(&b.Quick, "quick", false, "runs of 2 s (packets 6, a pulled cable 10), three of them: for a look, and for CI")
	f.BoolVar(&b.Limits.Rough, "rough", false, "skip the warm-up, send five pings in a second, and do not measure the generators: for a quick look")
	cli.AddSeconds(cmd, &b.Seconds, "seconds", 0.1, 86400, "count no longer than this in each run (packets 6 s, a pulled cable 10 s at least)")
	cli.AddCount(cmd, &b.Burst, "burst", 1, 64, "send so many packets at once (1 to 64), which the kernel cuts, so that more leave; not where tx-udp-segmentation is on")
	cli.AddCount(cmd, &b.Seed, "seed", 0, math.MaxUint64, "make the runs in the order of this seed, which a result has (default a new one)")
	f.BoolVar(&b.lab, "lab", false, "boot a lab of two nodes with a container on each (for m8 on one), and take it down; needs the source tree after 'make build', and culvert-lab")
	cli.AddCount(cmd, &b.senders, "senders", 1, 7, "with --lab: how many containers send at once, for m11 and m16")
	addQuestionFlags(cmd, &b.Question)
	f.StringArrayVar(&b.AB, "ab", nil, "compare two sides in one run: `COMMAND` sets up side A, and the next argument, or a second --ab, has that of side B")
	f.StringVar(&b.ABOn, "ab-on", "here", "where the commands of --ab run: here (this host), from, to, ends (in their network namespaces), nodes (the ends' machines)")
	f.StringVar(&b.ABUndo, "ab-undo", "", "the `COMMAND` that restores the state after --ab (default that of side A)")
	b.judge.addFlags(cmd)
	f.StringVar(&b.out, "out", "", "`FILE` for the result (default bench-TIME.json)")
	ends := func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
		return []cobra.Completion{"host", "netns:", "pid:", "ssh:", "lab:"}, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
	}
	for flag, complete := range map[string]cobra.CompletionFunc{
		"from": ends, "to": ends, "via": ends,
		"ab-on": cobra.FixedCompletions(conduct.Places, cobra.ShellCompDirectiveNoFileComp),
		"path":  cobra.FixedCompletions([]cobra.Completion{"VF", "VM", "overlay", "VLAN", "host", "bond", "service", "veth", "virtio", "pod-pod", "pod-node", "node-node", "same PF", "other PF", "same node", "other node"}, cobra.ShellCompDirectiveNoFileComp),
	} {
		cobra.CheckErr(cmd.RegisterFlagCompletionFunc(flag, complete)) // only if the flag were not there
	}
}

// buildOrder returns the order of the measurement that the flags describe.
func (b *run) buildOrder(presets []string) (conduct.Order, error) {
	o := b.Order
	var err error
	if o.Presets, o.AB, err = splitSides(presets, o.AB); err != nil {
		return o, err
	}
	if o.Rules, err = b.judge.parseRules(); err != nil {
		return o, err
	}
	if err := o.Check(); err != nil {
		return o, err
	}
	if len(o.AB) == 0 && (b.judge.format.String() != "" || b.judge.allowUnclear) {
		return o, errors.New("--output and --allow-unclear go with --ab; culvert bench report shows a result in other forms")
	}
	there := len(o.From)+len(o.To) > 0 || o.Service != ""
	switch {
	case b.senders != 1 && !b.lab:
		return o, errors.New("--senders goes with --lab: of ends that are there name each with --from")
	case b.senders != 1 && o.IsOnDevices():
		return o, errors.New("--senders does not go with m15, whose ends are single VFs")
	case b.lab && isOnOnePF(o.Presets) && (len(o.Presets) > 1 || b.senders > 1):
		return o, errors.New("--lab measures m8 alone, between two containers of one node, and from one sender: leave out the other presets and --senders")
	case b.lab && (there || o.Via != "" || b.cluster.isWanted()):
		return o, errors.New("--lab makes ends of its own: leave out --from, --via, --to, --service and what belongs to --cluster")
	case !b.cluster.isWanted():
		return o, nil
	case there:
		return o, errors.New("--from, --to and --service name what is there; in a cluster it is made: take --nodes")
	case o.Via != "" && slices.ContainsFunc(presets, func(name string) bool { return strings.EqualFold(name, "m13") }):
		return o, errors.New("m13 in a cluster: the pod in the middle routes (m12) and cannot bridge. A bridge receives frames for any MAC address. " +
			"A VF receives those for its own, unless its PF lets it be promiscuous, which igb does not; Culvert's other NICs were not tried: name ends with --from, --via and --to, and a machine that bridges")
	}
	c, err := b.cluster.checkFlags(o.Via)
	o.Cluster, o.Via = &c, ""
	if err == nil {
		err = o.Check()
	}
	return o, err
}

// isOnOnePF reports whether one of the presets measures between two VFs of one PF.
func isOnOnePF(presets []string) bool {
	return slices.ContainsFunc(presets, func(name string) bool { return strings.EqualFold(name, "m8") })
}

// splitSides takes side B's command out of the arguments if --ab has that of side A alone: it is the
// argument that is no preset.
func splitSides(args, commands []string) (presets, sides []string, err error) {
	if len(commands) != 1 {
		return args, commands, nil
	}
	sides = commands
	for _, a := range args {
		if _, err := preset.Find(a); err == nil {
			presets = append(presets, a)
		} else {
			sides = append(sides, a)
		}
	}
	if len(sides) != 2 {
		return nil, nil, fmt.Errorf("--ab takes two commands, and here are %d: --ab 'COMMAND-A' 'COMMAND-B'", len(sides))
	}
	return presets, sides, nil
}

// runMeasurement measures. However it ends, it takes back its changes and writes the measured
// results.
func (b *run) runMeasurement(cmd *cobra.Command, args []string) (err error) {
	order, err := b.buildOrder(args)
	if err != nil {
		return err
	}
	b.Rules = order.Rules
	if b.out == "" {
		b.out = "bench-" + time.Now().Format("20060102-150405") + ".json"
	}
	if b.lab {
		booted, bootErr := place.BootLab(cmd.Context(), b.senders, order.IsOnDevices())
		if bootErr != nil {
			return bootErr
		}
		defer func() { err = errors.Join(err, booted.Down()) }()
		order.From, order.To, order.Via, order.Management = booted.From, booted.To, booted.Via, booted.Management
		if isOnOnePF(order.Presets) {
			order.To = []string{booted.Near}
		}
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	progress := newProgress()
	defer progress.Close()
	if term.IsTerminal(int(os.Stdin.Fd())) && term.IsTerminal(int(os.Stderr.Fd())) {
		order.AskPerson = progress.Say
	}
	crew := &conduct.Session{}
	defer func() {
		progress.Step("taking back what was changed")
		if undone := crew.Close(); undone != nil { // else err may be an exit status
			err = errors.Join(err, undone)
		}
	}()
	order.AnnounceSides(progress.Say)
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
	return b.writeResult(cmd, r)
}

// writeResult writes the result and shows it, also when it cannot be written.
func (b *run) writeResult(cmd *cobra.Command, r bench.Result) error {
	err := durable.Write(b.out, 0o644, func(w io.Writer) error { return bench.Write(w, r) })
	shown := cmd.OutOrStdout()
	if b.judge.format.String() != "" { // standard output has the comparison alone
		shown = cmd.ErrOrStderr()
	}
	look := cli.ScreenOf(shown, os.Getenv).Look
	fmt.Fprint(shown, look.Fit(report.Text(r, look)))
	if err != nil {
		return fmt.Errorf("the result: %w", err)
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "written to %s\n", b.out)
	var judged error
	if len(r.Sides) > 0 {
		fmt.Fprintln(shown)
		judged = b.judge.finish(cmd, bench.CompareSides(r, b.Rules))
	}
	if r.Unfinished != "" {
		return fmt.Errorf("the result is not whole: %s", r.Unfinished)
	}
	return judged
}

// newProgress returns a Progress that writes to standard error, since standard output has the
// result.
func newProgress() *conduct.Progress {
	fd, width := int(os.Stderr.Fd()), 100
	live := term.IsTerminal(fd) && os.Getenv("TERM") != "dumb"
	if w, _, err := term.GetSize(fd); live && err == nil {
		width = w
	}
	return conduct.NewProgress(os.Stderr, live, width)
}
