package demo

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/culvert-net/culvert/lab/demo/node"
)

// Bond has the measurements of pulled wires. A gap is the longest time between two answers to a ping,
// of both directions.
type Bond struct {
	GapMS        float64 `json:"gap_ms"`          // culvertd watches the PFs
	GapARPOnlyMS float64 `json:"gap_arp_only_ms"` // culvertd is stopped: the kernel's ARP requests alone
	// RecoveredMS is the time from the first pull until iperf3 carries 90 % of its median before. It is
	// null if iperf3 did not get there.
	RecoveredMS     *float64 `json:"recovered_ms"`
	Pulls           int      `json:"pulls"`
	ConnectionsLost int      `json:"connections_lost"`
}

// String returns the lines of the report, or nothing if no wire was pulled.
func (b Bond) String() string {
	if b.Pulls == 0 {
		return ""
	}
	recovered := "iperf3 was not back at 90 % of its rate in this time"
	if b.RecoveredMS != nil {
		recovered = fmt.Sprintf("iperf3 back at 90 %% after %.0f ms", *b.RecoveredMS)
	}
	lost := "no connection lost"
	if b.ConnectionsLost > 0 {
		lost = fmt.Sprintf("%d connections lost", b.ConnectionsLost)
	}
	return fmt.Sprintf("bond    a wire was pulled: gap of %.0f ms by culvertd, %.0f ms without it;\n        %s; %s\n",
		b.GapMS, b.GapARPOnlyMS, recovered, lost)
}

const (
	bondDir   = "/run/culvert-demo/bond" // of a node: the network, and what programs print
	bondNetns = "bonded"
	// beforePull is how long iperf3 runs before a wire is pulled, and untilPlugged how long the wire is
	// away.
	beforePull   = 2 * time.Second
	untilPlugged = 2 * time.Second
)

// arpTimes are the arp_intervals of both bonds, in milliseconds. They differ for a lab whose wires are
// apart: docs/bond.md, "Keys".
var arpTimes = [nodeCount]int{100, 70}

// bondConfig returns the network of a node's bond. Each bond watches the other one. On a busy machine
// an answer may be late by more than an interval, and bonds on separate switches must not move then.
func bondConfig(number int) []byte {
	return fmt.Appendf(nil, `{"cniVersion": "1.1.0", "name": "bond", "plugins": [{"type": "culvert", "pool": %q,
  "bond": {"links": 2, "arpInterval": %d, "arpIPTargets": ["10.85.0.%d"], "arpMissedMax": 2},
  "ipam": {"type": "static", "addresses": [{"address": "10.85.0.%d/24"}]}}]}`,
		poolName, arpTimes[number-1], nodeCount+1-number, number)
}

// pullWires gives a network namespace of each node a bond of VFs of both PFs, and pulls the wire of the
// first node that carries iperf3: once with culvertd, and once while culvertd is stopped there.
func (d *demo) pullWires(ctx context.Context) (err error) {
	d.Step("a bond of VFs of both PFs on each node: the wire of the PF that sends is pulled under iperf3, twice")
	attachment := node.Attachment{Network: "bond", Dir: bondDir, Netns: bondNetns, Interface: "net1"}
	err = eachNode(ctx, d.nodes, func(ctx context.Context, _ int, n node.Node) error {
		if err := n.WriteFile(ctx, bondDir+"/10-bond.conflist", bondConfig(n.Number)); err != nil {
			return err
		}
		if err := n.AddNetns(ctx, bondNetns); err != nil {
			return err
		}
		_, err := n.CNI(ctx, "add", attachment)
		return err
	})
	if err != nil {
		return err
	}
	if err := d.pullUnderTraffic(ctx); err != nil {
		return err
	}
	fmt.Fprintf(d.Steps, "         gap of %.0f ms by culvertd, %.0f ms without it\n", d.result.Bond.GapMS, d.result.Bond.GapARPOnlyMS)
	return eachNode(ctx, d.nodes, func(ctx context.Context, _ int, n node.Node) error {
		if _, err := n.CNI(ctx, "del", attachment); err != nil {
			return err
		}
		return n.DelNetns(ctx, bondNetns)
	})
}

// pullUnderTraffic measures two pulls while iperf3 sends from the first node to the second one, and
// both nodes ping each other.
func (d *demo) pullUnderTraffic(ctx context.Context) error {
	ends := make([]node.End, nodeCount)
	for i, n := range d.nodes {
		ends[i] = node.End{Node: n, Netns: bondNetns, Dir: bondDir, Peer: fmt.Sprintf("10.85.0.%d", nodeCount+1-n.Number)}
	}
	pull := node.Pull{Traffic: node.Traffic{From: ends[0], To: ends[1]}, Before: beforePull, Away: untilPlugged}
	_, with, err := pull.Run(ctx)
	if err != nil {
		return err
	}
	without, err := d.pullWithoutCulvert(ctx, pull)
	if err != nil {
		return err
	}
	b := Bond{GapMS: milliseconds(with.Longest.Length()), GapARPOnlyMS: milliseconds(without.Longest.Length()), Pulls: 2}
	if with.Recovery > 0 {
		ms := milliseconds(with.Recovery)
		b.RecoveredMS = &ms
	}
	for _, o := range []node.Outage{with, without} {
		if o.Lost != nil {
			b.ConnectionsLost++
			d.noteProblem("iperf3 did not outlive the pulled wire: %s", o.Lost)
		}
	}
	d.result.Bond = b
	return nil
}

// pullWithoutCulvert pulls while culvertd is stopped.
func (d *demo) pullWithoutCulvert(ctx context.Context, pull node.Pull) (o node.Outage, err error) {
	signal := func(ctx context.Context, name string) error {
		_, err := pull.From.Run(ctx, "systemctl", "kill", "--signal="+name, "culvertd")
		return err
	}
	if err := signal(ctx, "STOP"); err != nil {
		return node.Outage{}, err
	}
	defer func() { err = errors.Join(err, signal(context.WithoutCancel(ctx), "CONT")) }()
	_, o, err = pull.Run(ctx)
	return o, err
}
