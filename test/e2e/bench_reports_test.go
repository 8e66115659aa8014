//go:build lab

package e2e

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/culvert-net/culvert/bench"
	"github.com/culvert-net/culvert/lab/demo/node"
	"github.com/culvert-net/culvert/test/patience"
	"github.com/culvert-net/culvert/test/soak"
)

// reportLab has ends of the tests' lab that stand in for those of the commands of docs/reports.md.
type reportLab struct {
	from, to end // a container on each node, with a VF and an overlay's interface
}

// asLab returns the ends of --lab.
func (l reportLab) asLab(*testing.T) []string {
	return []string{"--from", place(l.from), "--to", place(l.to)}
}

// onOnePF returns the ends of m8 --lab: the receiver has a VF of the sender's PF.
func (l reportLab) onOnePF(t *testing.T) []string {
	return []string{"--from", place(l.from), "--to", place(plug(t, nodes[0], 0, 23))}
}

// asSenders returns the ends of --lab --senders 3, with VFs alone.
func (l reportLab) asSenders(t *testing.T) (ends []string) {
	for i := range 3 {
		ends = append(ends, "--from", place(plug(t, nodes[0], 0, 25+i)))
	}
	return append(ends, "--to", place(plug(t, nodes[1], 0, 28)))
}

// throughARouter returns the ends of m12, with a router on the first node.
func (l reportLab) throughARouter(t *testing.T) []string {
	from, to, router := routeVFs(t)
	return []string{"--from", place(from), "--via", place(router), "--to", place(to)}
}

// throughABridge returns the ends of m13: containers of the first node that a third joins by veths. A VF
// of igb cannot be a bridge's port.
func (l reportLab) throughABridge(t *testing.T) []string {
	names := []string{"bridged1", "bridged2", "bridge"}
	for _, name := range names {
		netns(t, nodes[0], name)
	}
	if _, err := nodes[0].Script(t.Context(), "bridge", `
		ip -n "$3" link add br0 type bridge
		ip -n "$3" link set br0 up
		for i in 1 2; do
			ip -n "$3" link add "port$i" type veth peer name eth0 netns "bridged$i"
			ip -n "$3" link set "port$i" master br0 up
			ip -n "bridged$i" address add "10.85.0.$i/24" dev eth0
			ip -n "bridged$i" link set eth0 up
		done`, names...); err != nil {
		t.Fatal(err)
	}
	at := func(name string) string { return nodes[0].Place("/run/netns/" + name) }
	return []string{"--from", at(names[0]), "--via", at(names[2]), "--to", at(names[1])}
}

// reportRow says how the command of a measurement of docs/reports.md runs in the tests' lab.
type reportRow struct {
	command string // on the page; empty: there is none
	ends    func(reportLab, *testing.T) []string
	more    []string
	soak    bool
	place   string // of the paths; empty: other node
}

// reportRows has the measurements of docs/reports.md. A new command there is a row here. TestBenchOfDPDK
// runs M15, which needs nodes that have DPDK.
var reportRows = map[string]reportRow{
	"M1":  {command: "m1 --lab", ends: reportLab.asLab},
	"M2":  {command: "m2 --lab", ends: reportLab.asLab},
	"M3":  {command: "m3 --lab", ends: reportLab.asLab},
	"M4":  {command: "m4 --lab", ends: reportLab.asLab},
	"M5":  {command: "m5 --lab", ends: reportLab.asLab},
	"M6":  {command: "m6 --lab", ends: reportLab.asLab},
	"M7":  {command: "m7 --lab", ends: reportLab.asLab},
	"M8":  {command: "m8 --lab", ends: reportLab.onOnePF, place: "same PF"},
	"M9":  {command: "m9 --lab", ends: reportLab.asLab},
	"M10": {command: "m10 --lab", ends: reportLab.asLab},
	"M11": {command: "m11 --lab --senders 3", ends: reportLab.asSenders, soak: true},
	"M12": {command: "m12 --from ssh:n1 --via ssh:router --to ssh:n2", ends: reportLab.throughARouter, soak: true},
	"M13": {command: "m13 --from ssh:n1 --via ssh:bridge --to ssh:n2", ends: reportLab.throughABridge, soak: true, place: "same node"},
	"M14": {command: "m14 --lab", ends: reportLab.asLab},
	"M15": {command: "m15 --lab"},
	"M16": {command: "m16 --lab --senders 3", ends: reportLab.asSenders, soak: true},
	"M17": {command: "m17 --lab", ends: reportLab.asLab},
	"M18": {command: "m18 --lab", ends: reportLab.asLab},
}

// readReportCommands reads the commands of the measurements from docs/reports.md, in its order.
func readReportCommands(t *testing.T) (names []string, commands map[string]string) {
	t.Helper()
	page, err := os.ReadFile("../../docs/reports.md")
	if err != nil {
		t.Fatal(err)
	}
	commands = map[string]string{}
	for _, row := range regexp.MustCompile(`(?m)^\| (M\d+) \|.*\| ([^|]*) \|$`).FindAllStringSubmatch(string(page), -1) {
		command, ok := strings.CutPrefix(strings.Trim(row[2], "`"), "culvert bench run ")
		if !ok {
			command = ""
		}
		names, commands[row[1]] = append(names, row[1]), command
	}
	return names, commands
}

// TestBench runs the command that docs/reports.md has for each measurement of the reports, in its
// shortest form and between ends of this lab. Each result names its path by the interfaces' own counters.
// A pulled cable stops the traffic over it, and nothing is left on the nodes. TestBenchOfSeveralEnds runs
// the rest.
func TestBench(t *testing.T) {
	runReports(t, false)
}

// TestBenchOfSeveralEnds is TestBench for the measurements with three senders or a machine in the middle.
func TestBenchOfSeveralEnds(t *testing.T) {
	soak.Only(t, "measurements of several ends")
	runReports(t, true)
}

// runReports runs the commands of the rows that are for make soak, or the others.
func runReports(t *testing.T, inSoak bool) {
	names, commands := readReportCommands(t)
	if len(names) != 18 || len(reportRows) != 18 {
		t.Fatalf("docs/reports.md has %q, and reportRows %d", names, len(reportRows))
	}
	leavesNothing(t, nodes...)
	l := newReportLab(t)
	for _, name := range names {
		row := reportRows[name]
		if commands[name] != row.command {
			t.Errorf("docs/reports.md has %q for %s, and reportRows %q", commands[name], name, row.command)
			continue
		}
		if row.ends != nil && row.soak == inSoak {
			t.Run(name, func(t *testing.T) { runReport(t, l, row) })
		}
	}
}

func runReport(t *testing.T, l reportLab, row reportRow) {
	ends := row.ends(l, t)
	before := [2]string{traces(t, nodes[0]), traces(t, nodes[1])}
	preset, _, _ := strings.Cut(row.command, " ")
	r := measuredBetween(t, slices.Concat([]string{preset}, ends, row.more, []string{"--quick", "--rough", "--seconds", "1", "--repeats", "1"})...)
	checkReport(t, r, preset, row)
	for i, n := range nodes {
		if after := traces(t, n); after != before[i] {
			t.Errorf("%s has\n%s\nand had\n%s", n.Name, after, before[i])
		}
	}
}

// newReportLab makes the containers of --lab.
func newReportLab(t *testing.T) reportLab {
	t.Helper()
	for _, n := range nodes {
		if err := n.JoinOverlay(t.Context(), len(nodes)); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if _, err := n.Script(context.Background(), "leave the overlay", "ip link delete flannel.1; ip link delete cni0; ip address flush dev "+node.UplinkPF); err != nil {
				t.Error(err)
			}
		})
	}
	l := reportLab{plug(t, nodes[0], 0, 21), plug(t, nodes[1], 0, 22)}
	for _, e := range []end{l.from, l.to} {
		add(t, e.node, node.Attachment{Network: node.OverlayNetwork, Dir: node.OverlayDir, Netns: e.Netns, Interface: "eth0"})
	}
	return l
}

// checkReport checks that a result has the arms of a preset, over the paths that the preset is for, and
// the report's figures.
func checkReport(t *testing.T, r bench.Result, preset string, row reportRow) {
	t.Helper()
	if r.Preset != preset || len(r.Arms) == 0 || len(r.Printed) == 0 {
		t.Fatalf("%s: %d arms, %d printed figures", r.Preset, len(r.Arms), len(r.Printed))
	}
	want := row.place
	if want == "" {
		want = "other node"
	}
	for i, a := range r.Arms {
		for _, p := range a.Paths() {
			ofVFs := p.Network == "VF" && p.From.Driver == "igbvf" && p.To.Driver == "igbvf"
			if p.Place != want || !ofVFs && p.Network != "overlay" && p.Via.How != bench.Bridges {
				t.Errorf("arm %s has the path %+v", a.Name, p)
			}
		}
		if !patience.HasRun(r, i) {
			t.Errorf("arm %s has no run that counts", a.Name)
		}
		if a.Workload.Pulled && counted(r, i) > 0 && !strings.Contains(fmt.Sprint(r.Notes), " 0 while it was,") {
			t.Errorf("a pulled cable did not stop the traffic: %q", r.Notes)
		}
	}
}
