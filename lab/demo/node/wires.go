package node

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
)

// An End is an interface net1 of a node's network namespace, a bond or a VF, that exchanges traffic
// with another one.
type End struct {
	Node
	Netns string
	Dir   string // folder of the node for what programs print
	Peer  string // address of the other end
}

// PingStep is the time between two pings.
const PingStep = time.Millisecond

// Scripts of a node; $1 is the folder, $2 the netns, $3 the address of the other end.
const (
	reachScript = `timeout 120 ip netns exec "$2" bash -c "until ping -q -c 2 -i 0.2 -W 1 $3; do sleep 0.3; done"`
	// serverScript waits until iperf3 listens.
	serverScript = `setsid ip netns exec "$2" iperf3 -s -1 >"$1/server" 2>&1 </dev/null & echo $! >"$1/server.pid"
		timeout 60 bash -c "until ip netns exec $2 ss -Hltn | grep :5201 >/dev/null; do sleep 0.1; done"`
	clientScript = `date +%s.%N >"$1/began"
		setsid ip netns exec "$2" iperf3 -c "$3" -t 3600 -i 0.1 -J >"$1/client" 2>&1 </dev/null & echo $! >"$1/client.pid"`
	pingScript = `setsid ip netns exec "$2" ping -D -n -i "$4" "$3" >"$1/ping" 2>&1 </dev/null & echo $! >"$1/ping.pid"`
	// endProgram defines the function end PROGRAM, which interrupts it and waits for its end. The
	// program may have ended already.
	endProgram = `end() {
			kill -INT "$(cat "$1/$2.pid")" 2>/dev/null || return 0
			for _ in $(seq 600); do kill -0 "$(cat "$1/$2.pid")" 2>/dev/null || return 0; sleep 0.05; done
			kill -KILL "$(cat "$1/$2.pid")" || :
		}
		`
	// endPingScript prints the time of each answer.
	endPingScript   = endProgram + `end "$1" ping; sed -n 's/^\[\([0-9.]*\)\] [0-9]* bytes from .*icmp_seq=[^(]*/\1 /p' "$1/ping"`
	endServerScript = endProgram + `end "$1" server`
	// endClientScript prints the time at which iperf3 began, and its result.
	endClientScript = endProgram + `end "$1" client; cat "$1/began" "$1/client"`
	// senderScript prints the PF by which the bond sends. It needs no culvertd.
	senderScript = `member=$(ip netns exec "$2" sed -n 's/^Currently Active Slave: //p' /proc/net/bonding/net1)
		[ "$member" != None ] || exit 0
		vf=$(ip -n "$2" -details -json link show "$member" | jq -r '.[].parentdev')
		ls "/sys/bus/pci/devices/$vf/physfn/net"`
)

// runScript runs a script of this file.
func (e End) runScript(ctx context.Context, what, script string, more ...string) (string, error) {
	out, err := e.Script(ctx, what, script, append([]string{e.Dir, e.Netns, e.Peer}, more...)...)
	return strings.TrimSpace(string(out)), err
}

// Reach waits until the other end answers.
func (e End) Reach(ctx context.Context) error {
	_, err := e.runScript(ctx, "reach "+e.Peer, reachScript)
	return err
}

// FindSender returns the PF by which the bond net1 sends. It is empty if no member sends.
func (e End) FindSender(ctx context.Context) (string, error) {
	return e.runScript(ctx, "find the PF that sends", senderScript)
}

// Traffic is iperf3 from one end to the other, and pings of both.
type Traffic struct{ From, To End }

// Outage is what Traffic suffered.
type Outage struct {
	// Longest is the longest gap of both pings. It begins by the clock of From.
	Longest    Gap
	Answers    int // fewest of a ping
	Duplicates int
	// Recovery is the time from the beginning of the gap until iperf3 carries 90 % of its median before.
	// It is 0 if iperf3 did not get there.
	Recovery time.Duration
	// Lost says why iperf3's connection ended before its time. It is nil if it did not.
	Lost error
}

// Start waits until both ends reach each other, and starts the traffic.
func (t Traffic) Start(ctx context.Context) error {
	err := t.eachEnd(func(e End, _ int) error { return e.Reach(ctx) })
	if err != nil {
		return err
	}
	if _, err := t.To.runScript(ctx, "start iperf3's server", serverScript); err != nil {
		return err
	}
	if _, err := t.From.runScript(ctx, "start iperf3", clientScript); err != nil {
		return err
	}
	return t.eachEnd(func(e End, _ int) error {
		_, err := e.runScript(ctx, "start to ping", pingScript, fmt.Sprint(PingStep.Seconds()))
		return err
	})
}

// End ends the traffic and returns what it suffered.
func (t Traffic) End(ctx context.Context) (o Outage, err error) {
	var answers [2]Answers
	err = t.eachEnd(func(e End, i int) error {
		out, err := e.runScript(ctx, "end the ping", endPingScript)
		if err == nil {
			answers[i], err = FindGap(out)
		}
		return err
	})
	text, clientErr := t.From.runScript(ctx, "end iperf3", endClientScript)
	_, serverErr := t.To.runScript(ctx, "end iperf3's server", endServerScript)
	if err := errors.Join(err, clientErr, serverErr); err != nil {
		return o, err
	}
	near, far := answers[0], answers[1]
	o.Longest, o.Answers, o.Duplicates = near.Longest, min(near.Count, far.Count), near.Duplicates+far.Duplicates
	// The clocks of the nodes differ: the time of the gap is the first one's.
	o.Longest.To = max(o.Longest.To, o.Longest.From+far.Longest.To-far.Longest.From)
	rates, lost := parseRates(text)
	o.Lost = lost
	if after, ok := findRecovery(rates, o.Longest); ok {
		o.Recovery = time.Duration(after * float64(time.Second)).Round(time.Millisecond)
	}
	return o, nil
}

func (t Traffic) eachEnd(f func(e End, i int) error) error {
	var g errgroup.Group
	for i, e := range []End{t.From, t.To} {
		g.Go(func() error { return f(e, i) })
	}
	return g.Wait()
}

// A Pull pulls the wire of the PF by which a bond sends, under traffic.
type Pull struct {
	Traffic
	// Before is how long the traffic runs before the pull, and Away how long the wire is away at least.
	Before, Away time.Duration
}

// Run pulls the wire, and plugs it in when the bond sends by another PF. It returns the PF.
func (p Pull) Run(ctx context.Context) (pf string, o Outage, err error) {
	if err := p.Start(ctx); err != nil {
		return "", o, err
	}
	pf, err = p.From.FindSender(ctx)
	if err == nil {
		err = p.pullPF(ctx, pf)
	}
	o, endErr := p.End(ctx)
	return pf, o, errors.Join(err, endErr)
}

func (p Pull) pullPF(ctx context.Context, pf string) (err error) {
	if err := sleep(ctx, p.Before); err != nil {
		return err
	}
	l := p.From.Lab
	if err := l.Link(p.From.Name, pf, false); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.Link(p.From.Name, pf, true)) }()
	if err := sleep(ctx, p.Away); err != nil {
		return err
	}
	return p.From.WaitForSender(ctx, func(now string) bool { return now != pf && now != "" })
}

// moveBound is how long a bond may take to move. It is long since machines may be slow, and says
// nothing of bonds.
const moveBound = 2 * time.Minute

// WaitForSender waits until the PF by which the bond net1 sends is as wanted.
func (e End) WaitForSender(ctx context.Context, isWanted func(pf string) bool) error {
	ctx, cancel := context.WithTimeout(ctx, moveBound)
	defer cancel()
	for {
		pf, err := e.FindSender(ctx)
		if err == nil && isWanted(pf) {
			return nil
		}
		if sleep(ctx, 200*time.Millisecond) != nil {
			return errors.Join(fmt.Errorf("%s: the bond in %s still sends by %q after %s", e.Name, e.Netns, pf, moveBound), err)
		}
	}
}

// sleep waits for d, or until ctx ends, and then returns the error of ctx.
func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
