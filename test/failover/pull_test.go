//go:build lab

package failover

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/culvert-net/culvert/lab/demo/node"
	"github.com/culvert-net/culvert/test/soak"
)

// way is a means by which a bond fails over: culvertd, ARP requests of the kernel, or both.
type way struct {
	name string
	bond string // the key of the network
	away bool   // culvertd is stopped while wires are pulled
	// neighbour is true if the segment has another bond that sends ARP requests.
	neighbour bool
}

// A bond whose wire is pulled sends over the other PF, and no connection is lost. In one run, the
// test prints the times of each way: with culvertd, with culvertd and ARP requests, and with ARP
// requests of the kernel, once beside another bond and once alone on the segment. The test does not
// fail because of a long time. With -events, it continues with other events.
func TestFailOver(t *testing.T) {
	soak.Only(t, "two nodes and wires that are pulled; make demo pulls one too")
	w := bringUp(t)
	for _, way := range []way{
		{name: "culvertd", bond: plainBond},
		{name: "culvertd+arp_interval", bond: arpBond},
		{name: "arp_interval", bond: arpBond, away: true, neighbour: true},
		{name: "arp_interval-alone", bond: arpBond, away: true},
	} {
		t.Run(way.name, func(t *testing.T) { w.measurePulls(t, way) })
	}
	if *events {
		w.runEvents(t)
	}
}

// measurePulls pulls wires and prints the outages.
func (w *world) measurePulls(t *testing.T, way way) {
	if way.neighbour {
		defer w.attachNeighbour(t)()
	}
	detach := w.attachBond(t, way.bond)
	var all []node.Outage
	for range *pulls {
		all = append(all, w.pullOnce(t, way.away))
	}
	w.expectWhole(t)
	detach()
	printOutages("PulledWire/"+way.name, all)
}

// pullOnce pulls the wire of the PF that sends. It logs the lines of the node's journal of that
// time.
func (w *world) pullOnce(t *testing.T, away bool) node.Outage {
	t.Helper()
	if away {
		runScript(t, w.near.Node, "stop culvertd", "systemctl kill --signal=STOP culvertd")
		defer runScript(t, w.near.Node, "let culvertd go on", "systemctl kill --signal=CONT culvertd")
	}
	pull := node.Pull{Traffic: w.traffic(), Before: 2 * time.Second, Away: 4 * time.Second}
	pf, o, err := pull.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	w.logOutage(t, pf+" is pulled", o)
	return o
}

// logOutage logs an outage and the lines of the node's journal of that time. A lost connection is
// an error.
func (w *world) logOutage(t *testing.T, what string, o node.Outage) {
	t.Helper()
	if o.Lost != nil {
		t.Errorf("%s: the connection of iperf3 is lost: %v", what, o.Lost)
	}
	notes := runScript(t, w.near.Node, "read the journal", fmt.Sprintf(`journalctl --no-pager --output=short-unix --since=@%d | grep -E 'Link is (Down|Up)|bond moved|active interface|making interface' || :`, int64(o.Longest.From)))
	t.Logf("%s: gap %s, iperf3 back after %s, %d answers, %d duplicates%s", what, o.Longest.Length(), o.Recovery, o.Answers, o.Duplicates, describeNotes(notes, o.Longest))
}

// noteTime matches the time that culvertd wrote into a log line. The journal's own time of the line
// is later.
var noteTime = regexp.MustCompile(`time=(\S+)`)

// describeNotes returns the lines of a journal in and around a gap, with the time since it began.
func describeNotes(journal string, g node.Gap) string {
	var out strings.Builder
	for line := range strings.Lines(journal) {
		stamp, text, _ := strings.Cut(strings.TrimSpace(line), " ")
		at, err := strconv.ParseFloat(stamp, 64)
		if m := noteTime.FindStringSubmatch(text); m != nil {
			if own, err := time.Parse(time.RFC3339Nano, m[1]); err == nil {
				at = float64(own.UnixMicro()) / 1e6
			}
		}
		if err == nil && at > g.From-1 && at < g.To+1 {
			fmt.Fprintf(&out, "\n  %+8.1f ms  %s", (at-g.From)*1000, text)
		}
	}
	return out.String()
}

// printOutages prints outages in the format of Go's benchmarks. If iperf3 did not get its rate back
// after an outage, the outage counts as slow-iperf3, and has no part in the times of iperf3.
func printOutages(name string, all []node.Outage) {
	var gaps, recoveries []float64
	duplicates, lost := 0, 0
	for _, o := range all {
		gaps = append(gaps, milliseconds(o.Longest.Length()))
		if o.Recovery > 0 {
			recoveries = append(recoveries, milliseconds(o.Recovery))
		}
		duplicates += o.Duplicates
		if o.Lost != nil {
			lost++
		}
	}
	printLoad()
	fmt.Printf("Benchmark%s %d%s%s %d slow-iperf3 %d duplicates %d lost\n", name, len(all),
		describeTimes(gaps, "gap"), describeTimes(recoveries, "iperf3"), len(all)-len(recoveries), duplicates, lost)
}

// describeTimes returns the longest and the median of times in milliseconds. It sorts the times.
func describeTimes(all []float64, what string) string {
	if len(all) == 0 {
		return ""
	}
	slices.Sort(all)
	return fmt.Sprintf(" %.1f longest-%s-ms %.1f median-%s-ms", all[len(all)-1], what, all[len(all)/2], what)
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
