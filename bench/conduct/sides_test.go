package conduct

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/culvert-net/culvert/bench"
	"github.com/culvert-net/culvert/bench/engine"
	"github.com/culvert-net/culvert/bench/place"
)

// Each round sets up both sides and measures the arms of each together, in orders that the seed
// decides. An error of a command ends the runs.
func TestSidesTakeTurns(t *testing.T) {
	firsts := map[string]bool{}
	for seed := range uint64(10) {
		var made []string
		r := rounds(Limits{Repeats: 6, MaxTime: time.Hour}, good)
		r.Arms, r.Blocks, r.Seed = arms("a A", "b A", "a B", "b B"), [][]int{{0, 1}, {2, 3}}, seed
		r.SetUp = func(_ context.Context, block int) error {
			made = append(made, bench.SideNames[block])
			return nil
		}
		once := r.Once
		r.Once = func(ctx context.Context, arm int) (bench.Run, error) {
			made = append(made, r.Arms[arm].Name)
			return once(ctx, arm)
		}
		if _, unfinished := r.Run(t.Context()); unfinished != "" || len(made) != 7*6 {
			t.Fatalf("%q: %q", unfinished, made)
		}
		for ; len(made) > 0; made = made[6:] {
			round := slices.Clone(made[:6])
			firsts[round[0]] = true
			slices.Sort(round)
			if made[0] == made[3] || !strings.HasSuffix(made[1], made[0]) || !strings.HasSuffix(made[2], made[0]) || !slices.Equal(round, []string{"A", "B", "a A", "a B", "b A", "b B"}) {
				t.Errorf("seed %d: a round is %q", seed, made[:6])
			}
		}
	}
	if len(firsts) != 2 {
		t.Errorf("all rounds begin with %v", firsts)
	}
	r := rounds(Limits{Repeats: 6, MaxTime: time.Hour}, good)
	r.SetUp = func(context.Context, int) error { return errors.New("no such build") }
	if runs, unfinished := r.Run(t.Context()); len(runs) != 0 || unfinished != "no such build" {
		t.Errorf("%d runs, %q", len(runs), unfinished)
	}
}

// There are at least as many rounds as the family needs. Fewer are refused.
func TestRoundsOfSides(t *testing.T) {
	for name, c := range map[string]struct {
		arms, repeats, want int
		rules               []bench.Rule
		err                 string
	}{
		"one arm":              {1, 0, 6, nil, ""},
		"seven arms":           {7, 0, 9, nil, ""},
		"two rules":            {7, 0, 10, []bench.Rule{{Metric: "throughput"}, {Metric: "cpu"}}, ""},
		"more than needed":     {1, 20, 20, nil, ""},
		"fewer than needed":    {7, 6, 0, nil, "--repeats 6: figures that are judged as one family: 7; fewer than 9 rounds could not show a change of any"},
		"a rule about nothing": {1, 0, 6, []bench.Rule{{Metric: "pps"}}, ""},
	} {
		m := &Measurement{Limits: Limits{Repeats: c.repeats}, sides: &sides{}}
		m.plan.Repeats = 3
		for side := range bench.SideNames {
			m.addSide(side, arms(slices.Repeat([]string{"x"}, c.arms)...))
		}
		err := m.settlePlan(Order{Rules: c.rules})
		if (err == nil) != (c.err == "") || err != nil && !strings.HasPrefix(err.Error(), c.err) || err == nil && m.Limits.Repeats != c.want {
			t.Errorf("%s: %d rounds, %v", name, m.Limits.Repeats, err)
		}
	}
}

// Arms of both sides are compared over the same interfaces, or else between the same ends.
func TestArmsArePaired(t *testing.T) {
	over := func(name, network string) bench.Arm {
		return bench.Arm{Path: bench.Path{Ends: "pod-pod", Network: network, From: bench.End{Name: "a", Interface: name}, To: bench.End{Name: "b"}}}
	}
	x, y, tunnel := over("x", "VF"), over("y", "veth"), over("vx0", "overlay")
	if got, err := pairArms([]bench.Arm{x, y}, []bench.Arm{y, x}); err != nil || got[0].Path != x.Path || got[1].Path != y.Path {
		t.Errorf("%+v, %v", got, err)
	}
	if got, err := pairArms([]bench.Arm{y}, []bench.Arm{tunnel}); err != nil || got[0].Path != tunnel.Path {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := pairArms([]bench.Arm{x, y}, []bench.Arm{x}); err == nil || !strings.Contains(err.Error(), "side B has no arm") {
		t.Errorf("one arm is missing: %v", err)
	}
	if _, err := pairArms([]bench.Arm{x}, []bench.Arm{x, y}); err == nil || !strings.Contains(err.Error(), "side A has no arm") {
		t.Errorf("one arm is new: %v", err)
	}
}

// A side's description of a machine has the NICs and tunnels of the machine's own network, and not the
// VFs that are free there, nor veths.
func TestNICsOfASide(t *testing.T) {
	free := 3
	own := &Station{Site: Site{Name: "x/n1", Machine: bench.Machine{Name: "n1", Interfaces: []bench.Interface{
		{Name: "enp1s0", PCI: "0000:01:00.0", Driver: "igb"}, {Name: "enp1s0v3", PCI: "0000:01:10.6", Driver: "igbvf"}, {Name: "vx0", Driver: "vxlan"}, {Name: "veth0", Driver: "veth"},
	}}, Ends: []bench.End{{Interface: "enp1s0", Driver: "igb"}, {Interface: "enp1s0v3", Driver: "igbvf", VF: &free}, {Interface: "vx0", Driver: "vxlan"}, {Interface: "veth0", Driver: "veth"}}}}
	var names []string
	for _, i := range addNICs([]bench.Machine{{Name: "n1", Interfaces: []bench.Interface{{Name: "net1"}}}}, own)[0].Interfaces {
		names = append(names, i.Name)
	}
	if got := strings.Join(names, " "); got != "net1 enp1s0 vx0" {
		t.Errorf("the machine has %s", got)
	}
	if got := own.nameInFull(); got != "x/n1" {
		t.Error(got)
	}
}

// routed makes two pods, each behind a node of its own, as four network namespaces. The nodes are
// joined by a link, and by a VXLAN tunnel over it. It returns the namespaces: pod, node, node, pod.
func routed(t *testing.T) (names [4]string) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("making network namespaces needs root")
	}
	name := nameNamespaces("sides")
	for i := range names {
		names[i] = fmt.Sprintf("%s-%d", name, i)
		run(t, "ip", "netns", "add", names[i])
		t.Cleanup(func() { run(t, "ip", "netns", "del", names[i]) })
	}
	ip := func(i int, words string) { run(t, append([]string{"ip", "-n", names[i]}, strings.Fields(words)...)...) }
	for i := range names {
		ip(i, "link set lo up")
	}
	for pod, node := range map[int]int{0: 1, 3: 2} {
		ip(pod, "link add eth0 mtu 1450 type veth peer name pod0 netns "+names[node])
		ip(pod, fmt.Sprintf("addr add 10.96.%d.2/24 dev eth0", pod))
		ip(pod, "link set eth0 up")
		ip(node, fmt.Sprintf("addr add 10.96.%d.1/24 dev pod0", pod))
		ip(node, "link set pod0 up mtu 1450")
		ip(pod, fmt.Sprintf("route add default via 10.96.%d.1", pod))
		run(t, "ip", "netns", "exec", names[node], "sysctl", "-qw", "net.ipv4.ip_forward=1")
	}
	ip(1, "link add up0 type veth peer name up0 netns "+names[2])
	for i, other := range map[int]int{1: 2, 2: 1} {
		ip(i, fmt.Sprintf("addr add 192.168.96.%d/24 dev up0", i))
		ip(i, "link set up0 up")
		ip(i, fmt.Sprintf("link add vx0 type vxlan id 7 remote 192.168.96.%d dstport 4789 dev up0", other))
		ip(i, fmt.Sprintf("addr add 192.168.97.%d/24 dev vx0", i))
		ip(i, "link set vx0 up")
	}
	return names
}

// sidesOf plans an A/B measurement between two network namespaces. The crew is closed at the end of
// the test at the latest.
func sidesOf(t *testing.T, o Order) (*Measurement, *Session, error) {
	t.Helper()
	o.Burst = 1
	if err := o.Check(); err != nil {
		t.Fatal(err)
	}
	crew := &Session{}
	t.Cleanup(func() {
		if err := crew.Close(); err != nil {
			t.Error(err)
		}
	})
	m, err := crew.Plan(t.Context(), o, place.Program{Path: os.Args[0], Version: "test"})
	return m, crew, err
}

// steady has the arms send UDP at a rate that any machine has, so that both sides have the same
// figures. Rounds are short.
func steady(m *Measurement) {
	m.sides.pause = 50 * time.Millisecond
	for i := range m.Arms {
		m.Arms[i].Workload = bench.Workload{Kind: bench.Datagram, Engine: engine.Own, Seconds: 1, Streams: 1, Size: 1000, Rate: 4e6}
	}
}

// TestEncapsulation compares a path with encapsulation and without it in one result (M1 and M2): the
// sides replace one route on each node, and the pods keep their MTU. The result has both routes, and
// the first is there again at the end.
func TestEncapsulation(t *testing.T) {
	t.Parallel()
	ns := routed(t)
	log := filepath.Join(t.TempDir(), "log")
	route := func(side, hop string) string {
		var words []string
		for node, pod := range map[int]int{1: 3, 2: 0} {
			words = append(words, fmt.Sprintf("ip -n %s route replace 10.96.%d.0/24 via %s%d", ns[node], pod, hop, 3-node))
		}
		slices.Sort(words)
		return strings.Join(append(words, "echo "+side+" >>"+log, "ip -n "+ns[1]+" route get 10.96.3.2 | head -1"), "; ")
	}
	m, crew, err := sidesOf(t, Order{
		From: []string{"netns:" + ns[0]}, To: []string{"netns:" + ns[3]}, Presets: []string{"m1"}, Seed: 44,
		AB: []string{route("A", "192.168.97."), route("B", "192.168.96.")}, Limits: Limits{Rough: true},
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(m.Arms) != 2 || m.Limits.Repeats != 6 || m.Arms[0].Workload.Kind != bench.Stream {
		t.Fatalf("%d rounds of %+v", m.Limits.Repeats, m.Arms)
	}
	steady(m)
	r := m.Run(t.Context())
	isBusy := strings.Contains(r.Unfinished, bench.Busy) // a machine with much else to do may spoil all runs
	if err := r.Validate(); err != nil || r.Unfinished != "" && !isBusy {
		t.Fatalf("%v, %q", err, r.Unfinished)
	}
	unlike := strings.Join(r.UnlikeSides(), "\n")
	if !strings.Contains(unlike, "the command printed: 10.96.3.2 via 192.168.97.2 dev vx0") || !strings.Contains(unlike, "against 10.96.3.2 via 192.168.96.2 dev up0") {
		t.Errorf("the sides differ in:\n%s", unlike)
	}
	for i, a := range r.Arms {
		if len(r.Counted(i)) < 6 && !isBusy || a.Path.From.MTU != 1450 {
			t.Errorf("%s: %d runs, MTU %d", a.Name, len(r.Counted(i)), a.Path.From.MTU)
		}
	}
	if err := crew.Close(); err != nil {
		t.Error(err)
	}
	made, err := os.ReadFile(log)
	order := strings.Fields(string(made))
	if err != nil || len(order) != 2+2*6+1 && !isBusy || order[len(order)-1] != "A" {
		t.Errorf("the sides were set up in the order %q: %v", order, err)
	}
}

// TestSameSides compares a path with itself by a workload of a fixed rate: no loss of 5 % is there, and
// none is found. A busy machine can make figures scatter by a tenth and more.
func TestSameSides(t *testing.T) {
	t.Parallel()
	ns := routed(t)
	o := Order{
		From: []string{"netns:" + ns[0]}, To: []string{"netns:" + ns[1]}, AB: []string{"true", "true"}, ABOn: "from", Limits: Limits{Rough: true},
		Rules: []bench.Rule{{Metric: "throughput", Below: true, Part: -0.05}, {Metric: "throughput", Below: true, Part: -0.6}},
	}
	m, _, err := sidesOf(t, o)
	if err != nil {
		t.Fatal(err)
	}
	steady(m)
	r := m.Run(t.Context())
	if got := bench.CompareSides(r, o.Rules); strings.Contains(r.Unfinished, bench.Busy) {
		t.Log(r.Unfinished)
	} else if len(got.Broken) != 0 || len(got.Passed) == 0 || got.Changes[0].N[0] < 5 {
		t.Errorf("%q: broken %q, unclear %q, %d figures", r.Unfinished, got.Broken, got.Unclear, len(got.Changes))
	}
	if got := r.UnlikeSides(); len(got) > 0 {
		t.Errorf("the same sides differ in %q", got)
	}
}

// TestLostPath: a side whose path does not come back ends the measurement with the reason, and what
// was set up is undone. The commands run in the network namespace of an end, where the interface is.
func TestLostPath(t *testing.T) {
	t.Parallel()
	ns := routed(t)
	m, crew, err := sidesOf(t, Order{
		From: []string{"netns:" + ns[0]}, To: []string{"netns:" + ns[1]}, ABOn: "from", ABUndo: "ip link set eth0 mtu 1450",
		AB: []string{"ip link set eth0 mtu 1450", "ip link set eth0 mtu 1400; cat /sys/class/net/eth0/mtu"}, Limits: Limits{Rough: true},
	})
	if err != nil {
		t.Fatal(err)
	}
	if a, b := m.sides.described[0], m.sides.described[1]; b.Says != "1400" || a.Says != "" {
		t.Errorf("A printed %q, B %q", a.Says, b.Says)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	time.AfterFunc(2*time.Second, func() { cancel(errors.New("enough")) })
	m.sides.described[1].Command = "ip addr flush dev eth0"
	m.sides.undo = "ip link set eth0 mtu 1430"
	err = m.setUpSide(ctx, 1)
	if err == nil || !strings.Contains(err.Error(), "enough") {
		t.Errorf("a path that is gone: %v", err)
	}
	if err := crew.Close(); err != nil {
		t.Error(err)
	}
	run(t, "ip", "netns", "exec", ns[0], "sh", "-c", "test $(cat /sys/class/net/eth0/mtu) = 1430")
}

// TestGuestsHostRunsOnce: with --ab-on nodes a command runs once on a machine that has a guest and
// another end, and with --ab-on from in the guest. A network namespace with a shell stands in for the
// guest.
func TestGuestsHostRunsOnce(t *testing.T) {
	t.Parallel()
	ns := routed(t)
	for on, want := range map[string]string{"nodes": "A B A", "from": "guest A guest B guest A"} {
		log := filepath.Join(t.TempDir(), "log")
		say := `ip -o address show to 10.96.0.2 | grep . >/dev/null && printf 'guest ' >>` + log + "; echo $CULVERT_SIDE >>" + log
		_, crew, err := sidesOf(t, Order{
			From: []string{"host,vm=db1,by=ip netns exec " + ns[0] + " sh"}, To: []string{"netns:" + ns[1]}, ABOn: on, AB: []string{say, say}, Limits: Limits{Rough: true},
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := crew.Close(); err != nil {
			t.Error(err)
		}
		made, err := os.ReadFile(log)
		if got := strings.Join(strings.Fields(string(made)), " "); err != nil || got != want {
			t.Errorf("--ab-on %s: the commands wrote %q, want %q: %v", on, got, want, err)
		}
	}
}
