package demo

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	"github.com/culvert-net/culvert/bench"
	"github.com/culvert-net/culvert/demo/node"
)

const (
	rounds      = 3  // runs of iperf3 over each way
	runSeconds  = 4  // of each
	pings       = 10 // over each way
	attachments = 20 // one after the other
)

// timeAttachments attaches and detaches a VF again and again on the first
// node, which has nothing else to do. It is timed there, by Culvert's own
// program: no SSH is in it.
func (d *demo) timeAttachments(ctx context.Context) error {
	d.step("timing %d attachments through the CNI plugin on %s, one after the other", attachments, d.nodes[0].Name)
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

// way is one of the two that lead from pod to pod.
type way struct {
	name string
	to   netip.Addr
	out  *Way
}

// end is a pod or container that traffic is measured to or from.
type end struct {
	name            string
	node            node.Node
	exec            func(ctx context.Context, argv ...string) ([]byte, error)
	overlayIP, vfIP netip.Addr
}

// measure pings and transfers over both ways, in turns, so that what else the
// host does meanwhile hits both alike.
func (d *demo) measure(ctx context.Context, client, server end) error {
	ways := []way{{"overlay", server.overlayIP, &d.result.Overlay}, {"VF", server.vfIP, &d.result.VF}}
	for _, w := range ways {
		d.step("ping over the %s, from %s to %s (%s)", w.name, client.name, server.name, w.to)
		if err := d.ping(ctx, client, w); err != nil {
			return err
		}
	}
	for round := range rounds {
		for _, w := range ways {
			d.step("iperf3 over the %s, %d of %d", w.name, round+1, rounds)
			if err := d.transfer(ctx, client, server, w); err != nil {
				return err
			}
			last := len(w.out.Gbps) - 1
			d.show(fmt.Sprintf("         %.4f Gb/s, %.0f retransmits\n", w.out.Gbps[last], w.out.Retransmits[last]))
		}
	}
	if gain := d.result.comparison().Gain(); gain.Value < 1 {
		d.wrong("the VF carries %.2f times what the overlay carries", gain.Value)
	}
	return nil
}

// ping measures round trips. One packet goes before, for the neighbours to be
// found.
func (d *demo) ping(ctx context.Context, client end, w way) error {
	out, err := client.exec(ctx, "sh", "-c", fmt.Sprintf(
		`ping -c 1 -w 10 %[1]s >/dev/null; ping -c %[2]d -i 0.2 -W 2 %[1]s || true`, w.to, pings))
	if err != nil {
		return err
	}
	got, err := bench.ParsePing(out)
	if err != nil {
		return err
	}
	w.out.PingMS = got.Avg
	d.show(fmt.Sprintf("         %d of %d came back, %.2f ms on average\n", got.Received, got.Sent, got.Avg))
	if got.Received == 0 {
		d.wrong("nothing comes back over the %s (%s)", w.name, w.to)
	}
	return nil
}

// border stands between parts of what a script prints.
const border = "=====\n"

// transfer runs iperf3 once and reads both nodes' processors before and after.
// The client's are read right beside iperf3, within the container: /proc/stat
// is the machine's there too.
func (d *demo) transfer(ctx context.Context, client, server end, w way) error {
	before, err := cpuOf(ctx, server.node)
	if err != nil {
		return err
	}
	out, err := client.exec(ctx, "sh", "-c", fmt.Sprintf(
		"cat /proc/stat; echo %[1]s; iperf3 --client %[2]s --time %[3]d --json || true; echo %[1]s; cat /proc/stat",
		strings.TrimSpace(border), w.to, runSeconds))
	if err != nil {
		return err
	}
	after, err := cpuOf(ctx, server.node)
	if err != nil {
		return err
	}
	parts := bytes.Split(out, []byte(border))
	if len(parts) != 3 {
		return fmt.Errorf("iperf3 over the %s: %d parts instead of 3: %s", w.name, len(parts), out)
	}
	t, err := bench.ParseIperf3(parts[1])
	if err != nil {
		return fmt.Errorf("iperf3 over the %s: %w", w.name, err)
	}
	clientBefore, err := bench.ParseCPUTime(parts[0])
	if err != nil {
		return err
	}
	clientAfter, err := bench.ParseCPUTime(parts[2])
	if err != nil {
		return err
	}
	busy := clientAfter.Since(clientBefore).Plus(after.Since(before))
	w.out.Gbps = append(w.out.Gbps, t.Gbps)
	w.out.Retransmits = append(w.out.Retransmits, float64(t.Retransmits))
	w.out.Gigabits = append(w.out.Gigabits, t.Gigabits())
	w.out.CPU = append(w.out.CPU, busy.PerGigabit(t.Gigabits()))
	return nil
}

func cpuOf(ctx context.Context, n node.Node) (bench.CPUTime, error) {
	out, err := n.Run(ctx, "cat", "/proc/stat")
	if err != nil {
		return bench.CPUTime{}, err
	}
	return bench.ParseCPUTime(out)
}
