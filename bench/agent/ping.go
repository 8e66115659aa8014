package agent

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/culvert-net/culvert/bench"
	"github.com/culvert-net/culvert/bench/engine"
	"github.com/culvert-net/culvert/internal/excerpt"
)

var (
	pingSays = regexp.MustCompile(`iputils[ -]\S*?(\d+)|BusyBox v(\d\S*)`)
	// iputils counts icmp_seq from 1, BusyBox seq from 0. A duplicate says so at the end.
	pingLine = regexp.MustCompile(`(?m)^\d+ bytes from .*\bseq=(\d+) .*\btime=([\d.]+) ms$|^\d+ bytes from .*\bicmp_seq=(\d+) .*\btime=([\d.]+) ms$`)
)

func pingVersion(ctx context.Context) (string, error) {
	return programVersion(ctx, engine.Ping, parsePingVersion, "-V")
}

// parsePingVersion also reads the message of a BusyBox that does not know the option.
func parsePingVersion(said string) (string, error) {
	m := pingSays.FindStringSubmatch(said)
	switch {
	case m == nil:
		return "", fmt.Errorf("ask ping for its version: it says %s", excerpt.QuoteOutput(said))
	case m[2] != "":
		return "busybox " + m[2], nil
	}
	return "iputils " + m[1], nil
}

// countEchoes reads how many echo requests this network namespace received and sent: InEchos and
// OutEchos of Icmp in /proc/net/snmp (RFC 5644's names), and of Icmp6 in /proc/net/snmp6.
func (a *agent) countEchoes() (in, out uint64, err error) {
	snmp, err := os.ReadFile(filepath.Join("/", a.Reader.Root, "proc/net/snmp"))
	if err != nil {
		return 0, 0, err
	}
	if in, out, err = parseEchoes(string(snmp)); err != nil {
		return 0, 0, err
	}
	six, err := os.ReadFile(filepath.Join("/", a.Reader.Root, "proc/net/snmp6"))
	if err != nil {
		return in, out, nil //nolint:nilerr // a kernel without IPv6
	}
	for line := range strings.Lines(string(six)) {
		fields := strings.Fields(line)
		if len(fields) != 2 {
			continue
		}
		n, _ := strconv.ParseUint(fields[1], 10, 64) // text that is no number counts as 0
		switch fields[0] {
		case "Icmp6InEchos":
			in += n
		case "Icmp6OutEchos":
			out += n
		}
	}
	return in, out, nil
}

// parseEchoes reads both counts from the text of /proc/net/snmp.
func parseEchoes(text string) (in, out uint64, err error) {
	all, err := parseProtocol(text, "Icmp", "InEchos", "OutEchos")
	if err != nil {
		return 0, 0, err
	}
	return all[0], all[1], nil
}

// parseProtocol reads counters of a protocol from the text of /proc/net/snmp: a line of names and a line of values, both of
// which begin with the protocol.
func parseProtocol(text, protocol string, names ...string) ([]uint64, error) {
	var heads []string
	for line := range strings.Lines(text) {
		rest, ok := strings.CutPrefix(line, protocol+":")
		if !ok {
			continue
		}
		fields := strings.Fields(rest)
		if heads == nil {
			heads = fields
			continue
		}
		var all []uint64
		for _, name := range names {
			i := slices.Index(heads, name)
			if i < 0 || i >= len(fields) {
				break
			}
			n, err := strconv.ParseUint(fields[i], 10, 64)
			if err != nil {
				return nil, fmt.Errorf("read /proc/net/snmp: %s: %w", name, err)
			}
			all = append(all, n)
		}
		if len(all) == len(names) {
			return all, nil
		}
	}
	return nil, fmt.Errorf("read /proc/net/snmp: no %s of %s", strings.Join(names, " and "), protocol)
}

// echoed is the half that receives echo requests: its kernel answers them.
type echoed struct {
	Task
	agent *agent
	first uint64
}

func (a *agent) pingReceive(_ context.Context, t Task, _ string) (half, error) {
	in, _, err := a.countEchoes()
	return &echoed{t, a, in}, err
}

func (e *echoed) describeReady() Ready { return Ready{Engine: engine.Ping} }
func (e *echoed) close() error         { return nil }

func (e *echoed) carryTraffic(ctx context.Context, m marks) (bench.Run, error) {
	asked := func() (bool, error) {
		in, _, err := e.agent.countEchoes()
		return in > e.first, err
	}
	none := fmt.Errorf("no ping came to %s in %s: is a firewall between the ends, or no route?", e.To, patience)
	void, err := callTimed(ctx, e.Workload, failAfter(patience, none, asked), nil, m)
	return bench.Run{Void: void}, err
}

// pinger is the half that sends echo requests.
type pinger struct {
	Task
	agent *agent
	first uint64
	child *child
}

// pingSize is how many bytes ping sends by default: 56 after ICMP's header.
const pingSize = 56

func (a *agent) pingSend(_ context.Context, t Task, _ Ready) (half, error) {
	_, out, err := a.countEchoes()
	if err != nil {
		return nil, err
	}
	c, err := startChild(engine.Ping, pingArguments(t)...)
	return &pinger{t, a, out, c}, err
}

func pingArguments(t Task) []string {
	w := t.Workload
	skip, count := pingCounts(w)
	args := []string{"-n", "-c", fmt.Sprint(skip + count), "-s", fmt.Sprint(pingBytes(w)), "-W", fmt.Sprint(lostAfter / 1e6)}
	if w.Rate > 0 { // ping sends one a second by default
		args = append(args, "-i", strconv.FormatFloat(1/w.Rate, 'f', -1, 64))
	}
	if t.From.IsValid() {
		args = append(args, "-I", t.From.String())
	}
	return append(args, t.To.String())
}

// pingCounts returns how many pings are sent to warm up, and how many that count.
func pingCounts(w bench.Workload) (skip, count int) {
	rate := w.Rate
	if rate == 0 {
		rate = 1
	}
	return int(math.Ceil(w.Warmup * rate)), max(1, int(math.Round(w.Seconds*rate)))
}

func pingBytes(w bench.Workload) int {
	if w.Size == 0 {
		return pingSize
	}
	return w.Size
}

func (p *pinger) describeReady() Ready { return Ready{} }

func (p *pinger) close() error {
	p.child.stopGroup()
	return nil
}

func (p *pinger) carryTraffic(ctx context.Context, m marks) (bench.Run, error) {
	begun := func() (bool, error) {
		select {
		case <-p.child.ended:
			return false, errors.New("it ended")
		default:
		}
		_, out, err := p.agent.countEchoes()
		return out > p.first, err
	}
	// The last ping may be answered before the window is over.
	none := fmt.Errorf("it sent nothing in %s", patience)
	void, err := callTimed(ctx, p.Workload, failAfter(patience, none, begun), nil, m)
	if err != nil {
		return bench.Run{}, p.child.explainFailure(err)
	}
	text, err := p.child.waitForEnd(ctx)
	run, wrong := parsePings(text, p.Workload)
	if wrong != nil {
		return bench.Run{}, errors.Join(err, fmt.Errorf("ping %s: %w", p.To, wrong))
	}
	run.Void = void
	return run, nil // ping ends with 1 also when only some were lost
}

// parsePings reads the output of ping, without the pings of the warm-up.
func parsePings(text []byte, w bench.Workload) (bench.Run, error) {
	all, err := bench.ParsePing(text)
	if err != nil {
		return bench.Run{}, err
	}
	skip, count := pingCounts(w)
	if all.Sent != skip+count {
		return bench.Run{}, fmt.Errorf("%d were sent and not %d", all.Sent, skip+count)
	}
	first := skip
	var times []float64
	seen := 0
	for _, m := range pingLine.FindAllSubmatch(text, -1) {
		if m[3] != nil {
			first = skip + 1
		}
		n, err := strconv.Atoi(string(m[1]) + string(m[3]))
		if err != nil {
			return bench.Run{}, fmt.Errorf("read ping's result: %w", err)
		}
		ms, err := strconv.ParseFloat(string(m[2])+string(m[4]), 64)
		if err != nil {
			return bench.Run{}, fmt.Errorf("read ping's result: %w", err)
		}
		seen++
		if n >= first {
			times = append(times, ms*1000)
		}
	}
	if seen != all.Received || len(times) > count {
		return bench.Run{}, fmt.Errorf("%d answers came, and %d are listed", all.Received, seen)
	}
	if len(times) == 0 {
		return bench.Run{}, fmt.Errorf("none of %d was answered: is a firewall between the ends, or no route?", count)
	}
	return bench.Run{
		Seconds: w.Seconds, Sent: uint64(count), Packets: uint64(len(times)), Lost: uint64(count - len(times)),
		Bytes: uint64(len(times) * pingBytes(w)), PPS: float64(len(times)) / w.Seconds, Delays: makeDelays(times, count),
		Totals: bench.Totals{Sent: uint64(all.Sent), Arrived: uint64(all.Received)},
	}, nil
}

// lostAfter is the time after which ping treats an answer as lost (its -W), in microseconds.
const lostAfter = 2e6

// makeDelays returns the Delays of count pings. us has the round trips in microseconds. A lost
// ping counts as long as ping waited; the mean is that of the others, as ping prints it.
func makeDelays(us []float64, count int) *bench.Delays {
	d := bench.Delays{Count: uint64(count)}
	for _, v := range us {
		d.Mean += v / float64(len(us))
	}
	for range count - len(us) {
		us = append(us, lostAfter)
	}
	for q, to := range map[float64]*float64{0: &d.Min, 0.5: &d.P50, 0.9: &d.P90, 0.99: &d.P99, 0.999: &d.P999, 1: &d.Max} {
		*to = bench.Quantile(us, q)
	}
	return &d
}
