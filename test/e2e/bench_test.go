//go:build lab

package e2e

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/culvert-net/culvert/bench"
	"github.com/culvert-net/culvert/lab"
	"github.com/culvert-net/culvert/lab/demo"
	"github.com/culvert-net/culvert/lab/demo/node"
	"github.com/culvert-net/culvert/test/patience"
	"github.com/culvert-net/culvert/test/promises"
	"github.com/culvert-net/culvert/test/soak"
)

// M5's first half as docs/bench.md has it: on a node whose host.yaml gives a PF the gateway's
// address, one command pings that address from a VF of the PF. When the line leaves host.yaml, the
// address is removed.
func TestBenchToTheGateway(t *testing.T) {
	soak.Only(t, "a measurement")
	n := nodes[0]
	leavesNothing(t, n)
	const gateway, changed, result = "172.16.91.1", "/run/culvert-e2e/gateway.yaml", "/run/culvert-e2e/m5.json"
	with := strings.Replace(hostYAML, "vfs: 7", "vfs: 7\n  addresses: ["+gateway+"/24]", 1)
	for file, text := range map[string]string{changed: with, changed + ".before": hostYAML} {
		if err := n.WriteFile(t.Context(), file, []byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	must(t, n, "culvert", "host", "apply", changed)
	t.Cleanup(func() {
		if _, err := n.Run(context.Background(), "culvert", "host", "apply", changed+".before"); err != nil {
			t.Error(err)
		}
		if out, err := n.Run(context.Background(), "ip", "-4", "address", "show", "dev", node.UplinkPF); err != nil || strings.Contains(string(out), gateway) {
			t.Errorf("the address is not declared any more: %v\n%s", err, out)
		}
		if _, err := n.Run(context.Background(), "rm", "-f", changed, changed+".before", result); err != nil {
			t.Error(err)
		}
	})
	a := network(t, n, "a", "1.1.0", pool+`, "ipam": {"type": "host-local", "subnet": "172.16.91.0/24", "gateway": "`+gateway+`"}`)
	netns(t, n, a.Netns)
	add(t, n, a)
	said := must(t, n, "bash", "-c", "culvert bench run m5 --from netns:a --to host --repeats 1 --max-time 5m --out "+result)
	t.Logf("%s", said)
	r, err := bench.Read(bytes.NewReader(must(t, n, "cat", result)))
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(r.Arms, func(a bench.Arm) bool { return a.Path.Network == "VF" })
	if i < 0 || counted(r, i) == 0 {
		t.Fatalf("no run over a VF counts: %+v", r.Arms)
	}
	if p := r.Arms[i].Path; p.Ends != "pod-node" || p.Place != "same node" || p.From.Driver != "igbvf" || p.To.Interface != node.UplinkPF || p.To.Address.String() != gateway {
		t.Errorf("the path is %+v", p)
	}
}

// A bond of two VFs of two PFs is a path named bond, over both VFs.
func TestBenchOverABond(t *testing.T) {
	soak.Only(t, "a measurement")
	leavesNothing(t, nodes...)
	var ends []end
	for i, n := range nodes {
		e := plug(t, n, 0, 31+i)
		second := network(t, n, "second", "1.1.0", `"pool": "culvert.dev/rest"`)
		second.Netns, second.Interface = e.Netns, "net2"
		add(t, n, second)
		// The PF has set the VFs' MAC addresses, so the bond takes that of its active member.
		if _, err := n.Script(t.Context(), "bond", `
			modprobe bonding
			in="ip -n $(basename "$1")"
			$in address flush dev net1
			$in link add bond0 type bond mode active-backup fail_over_mac active miimon 100
			for i in net1 net2; do $in link set $i down; $in link set $i master bond0; done
			$in link set bond0 type bond primary net1 # the other wire's are no way to it
			$in link set bond0 up
			$in address add "$2/24" dev bond0
			while [ "$SECONDS" -lt 120 ]; do [ "$($in link show bond0 | grep -c LOWER_UP)" = 1 ] && exit; sleep 0.1; done
			exit 1`, e.Netns, e.ip); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if _, err := n.Script(context.Background(), "unbond", `ip -n "$(basename "$1")" link del bond0`, e.Netns); err != nil {
				t.Error(err)
			}
		})
		ends = append(ends, e)
	}
	r, _, err := tryToMeasure(t, ends[:1], ends[1], "--quick", "--repeats", "1", "--path", "bond")
	if len(r.Arms) != 1 {
		t.Fatalf("%d arms, %v", len(r.Arms), err)
	}
	if p := r.Arms[0].Path; p.Network != "bond" || p.Place != "other node" || p.From.Uplink != "net1+net2" || p.To.Uplink != "net1+net2" {
		t.Errorf("%+v", p)
	}
	if counted(r, 0) == 0 {
		t.Error("no run counts")
	}
	if r.Arms[0].CeilingGbps <= 0 {
		t.Error("it is not known what the bond's active member can carry")
	}
}

// culvert bench measures between two hosts by a real sshd. From one node it sends the program to
// the other node, which has none.
func TestBenchBySSH(t *testing.T) {
	soak.Only(t, "a measurement")
	leavesNothing(t, nodes...)
	from, to := plug(t, nodes[0], 0, 33), plug(t, nodes[1], 0, 34)
	letIn(t)
	before := traces(t, nodes[1])
	out, err := nodes[0].Script(t.Context(), "measure", `
		culvert bench run m4 --quick --repeats 1 --from "netns:$1" --to "ssh:far,netns=$2" --out /tmp/bench.json >&2
		cat /tmp/bench.json`, from.Netns, to.Netns)
	if err != nil {
		t.Fatal(err)
	}
	r, err := bench.Read(bytes.NewReader(out))
	if err != nil {
		t.Fatal(err)
	}
	if p := r.Arms[0].Path; len(r.Arms) != 1 || p.Network != "VF" || p.From.Machine != nodes[0].Name || p.To.Machine != nodes[1].Name || counted(r, 0) == 0 {
		t.Errorf("%d arms, %+v", len(r.Arms), p)
	}
	if after := traces(t, nodes[1]); after != before {
		t.Errorf("%s has\n%s\nand had\n%s", nodes[1].Name, after, before)
	}
}

// Three VFs of a PF send to one VF at the same time, and each has a share of the packets that
// arrive.
func TestBenchOfSeveralSenders(t *testing.T) {
	soak.Only(t, "a measurement of four nodes")
	leavesNothing(t, nodes...)
	senders := []end{plug(t, nodes[0], 0, 25), plug(t, nodes[0], 0, 26), plug(t, nodes[0], 0, 27)}
	r := measured(t, senders, plug(t, nodes[1], 0, 28), "m11", "m16", "--quick", "--repeats", "1")
	if len(r.Arms) != 1 { // m11 and m16 with one receiver are one experiment
		t.Errorf("%+v", r.Arms)
	}
	for i, a := range r.Arms {
		if len(a.Paths()) != 3 || counted(r, i) == 0 {
			t.Errorf("arm %s: %d paths, %d runs count", a.Name, len(a.Paths()), counted(r, i))
		}
	}
}

// M12 as its report has it: a container with a VF of its own routes from one node's VF to
// another's. The result has the number of packets that it forwarded. The container is on the
// sender's node: on the receiver's node it would leave the receiver no processor time.
func TestBenchThroughARouter(t *testing.T) {
	soak.Only(t, "a measurement")
	leavesNothing(t, nodes...)
	from, to, router := routeVFs(t)
	r := measured(t, []end{from}, to, "m12", "--via", place(router), "--quick", "--rough", "--repeats", "1")
	if len(r.Arms) != 1 || counted(r, 0) == 0 {
		t.Fatalf("%+v", r.Arms)
	}
	if p := r.Arms[0].Path; p.Via.How != bench.Routes || p.Via.In != "net1" || p.Via.Out != "net1" || p.From.Driver != "igbvf" || p.To.Driver != "igbvf" {
		t.Errorf("%+v", p)
	}
	for _, run := range r.Counted(0) {
		if run.Via == nil || len(run.Via.Interfaces) != 1 || run.Via.Interfaces[0].TxPackets < run.Packets/2 {
			t.Errorf("%d packets arrived through %+v", run.Packets, run.Via)
		}
	}
}

// routeVFs makes two containers with a VF, one on each node, and a third beside the first, which routes
// between them.
func routeVFs(t *testing.T) (from, to, router end) {
	t.Helper()
	from, to, router = plug(t, nodes[0], 0, 39), plug(t, nodes[1], 0, 40), plug(t, nodes[0], 0, 41)
	for _, e := range [][2]end{{from, to}, {to, from}} {
		must(t, e[0].node, "ip", "-n", filepath.Base(e[0].Netns), "route", "add", e[1].ip+"/32", "via", router.ip)
	}
	must(t, router.node, "ip", "netns", "exec", filepath.Base(router.Netns), "sysctl", "-qw",
		"net.ipv4.ip_forward=1", "net.ipv4.conf.all.send_redirects=0", "net.ipv4.conf.net1.send_redirects=0", "net.ipv4.conf.all.rp_filter=0", "net.ipv4.conf.net1.rp_filter=0")
	return from, to, router
}

// make bench-lab measures in labs of its own, between the demo's containers, and from three senders
// to one receiver. Afterwards the labs are gone.
func TestBenchInALabOfItsOwn(t *testing.T) {
	soak.Only(t, "labs that boot, and measurements")
	dir := t.TempDir()
	if out, err := promises.Run(promises.Make(t.Context(), "../..", "bench-lab", "BENCH_LAB=m3 m4 m10 --path pod-pod", "BENCH_SENDERS=m11",
		"BENCH_RUN=--quick --rough --repeats 1", "BENCH_OUT="+dir)); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for name, arms := range map[string]int{"lab": 5, "lab-senders": 3, "lab-one-pf": 1} { // m10 and m11 have the overlay, the VF and the VLAN
		r := read(t, filepath.Join(dir, name+".json"))
		for i, a := range r.Arms {
			if counted(r, i) == 0 {
				t.Errorf("%s: arm %s has no run that counts", name, a.Name)
			}
		}
		if onePF := name == "lab-one-pf"; len(r.Arms) != arms || (r.Arms[0].Path.Place == "same PF") != onePF {
			t.Errorf("%s: %d arms, want %d: %+v", name, len(r.Arms), arms, r.Arms)
		}
		for _, f := range r.Printed { // each of R4's ratios has both arms
			if (f.Unit == bench.RatioUnit || f.Unit == bench.SentRatioUnit) && f.Base == "" {
				t.Errorf("%s: %s has no arm to compare with", name, f.Name)
			}
		}
		if page, err := os.Stat(filepath.Join(dir, name+".html")); err != nil || page.Size() == 0 {
			t.Errorf("%s has no page: %v", name, err)
		}
	}
	if l, err := lab.Open(demo.BenchName); err == nil {
		l.Close()
		t.Error("the lab is still up")
	}
}

// m15 in a lab of its own: DPDK sends from a VF, forwards by one of the other node, and counts by a
// third. The counters of the VFs and of the PFs' ports prove each run. Afterwards the lab is gone.
func TestBenchOfDPDK(t *testing.T) {
	soak.Only(t, "a lab that boots, packages that are fetched, and a measurement")
	file := filepath.Join(t.TempDir(), "m15.json")
	out, err := promises.Run(exec.CommandContext(t.Context(), "../../build/bin/culvert", "bench", "run", "m15", "--lab", "--quick", "--rough", "--repeats", "1", "--out", file))
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	t.Logf("%s", out)
	r := read(t, file)
	if len(r.Arms) != 1 || r.Arms[0].Path.Network != "DPDK" || r.Arms[0].Path.Via.How != bench.ForwardsByDPDK || r.Arms[0].Workload.Engine != "testpmd" || counted(r, 0) == 0 {
		t.Fatalf("%+v", r)
	}
	for _, run := range r.Counted(0) {
		for name, e := range map[string]bench.Evidence{"from": run.From, "via": *run.Via, "to": run.To} {
			if w := e.Whole.Interfaces; len(w) != 2 || w[0].Role != "path" || w[1].Role != "port" || !strings.HasPrefix(e.Mechanism.Name, "DPDK ") {
				t.Errorf("%s: %+v, %+v", name, e.Mechanism, w)
			}
		}
	}
	if l, err := lab.Open(demo.BenchName); err == nil {
		l.Close()
		t.Error("the lab is still up")
	}
}

// culvert bench reports each fault before or during a run, and gives no figure for it. A clock that
// is set changes no figure.
func TestBenchOnBadDays(t *testing.T) {
	soak.Only(t, "a measurement for each bad day")
	leavesNothing(t, nodes...)
	from, to := plug(t, nodes[0], 0, 29), plug(t, nodes[1], 0, 30)
	// meanwhile runs a script on the receiver's node during a measurement, once the receiver has
	// got 2 MB more. "$1" is the receiver's netns. The script goes on while the command going
	// succeeds.
	const going = `[ -e /tmp/going ]`
	meanwhile := func(t *testing.T, script string) (end func()) {
		t.Helper()
		must(t, to.node, "touch", "/tmp/going")
		done := make(chan error, 1)
		go func() {
			_, err := to.node.Script(context.WithoutCancel(t.Context()), "spoil a run",
				`come() { ip netns exec "$1" awk '/net1:/ { print int($2 / 2e6) }' /proc/net/dev; }
				was=$(come "$1"); while `+going+` && [ "$(come "$1")" -le "$was" ]; do sleep 0.2; done; `+script, to.Netns)
			done <- err
		}()
		return func() {
			must(t, to.node, "rm", "/tmp/going")
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
	}
	run := func(t *testing.T) (bench.Result, string, error) {
		t.Helper()
		return tryToMeasure(t, []end{from}, to, "m4", "--quick", "--repeats", "1")
	}
	fails := func(t *testing.T, words ...string) {
		t.Helper()
		r, out, err := run(t)
		if err == nil {
			t.Error("the exit status is 0")
		}
		for i, a := range r.Arms {
			if n := counted(r, i); n > 0 {
				t.Errorf("arm %s has %d runs that count", a.Name, n)
			}
		}
		mentions(t, out, words...)
	}

	t.Run("there is no receiver", func(t *testing.T) {
		gone := to
		gone.Netns = "/run/netns/gone"
		_, out, err := tryToMeasure(t, []end{from}, gone, "m4", "--quick")
		if err == nil {
			t.Error("the exit status is 0")
		}
		mentions(t, out, "/run/netns/gone", to.node.Name)
	})
	t.Run("a firewall", func(t *testing.T) {
		// The rule drops TCP without an answer. By default the kernel looks up local addresses
		// first, so that rule moves behind it.
		must(t, to.node, "bash", "-c", `for r in "add pref 10 lookup local" "del pref 0" "add pref 1 iif net1 ipproto tcp blackhole"; do ip -n "$1" rule $r || exit; done`, "-", filepath.Base(to.Netns))
		fails(t, to.node.Name)
		must(t, to.node, "ip", "-n", filepath.Base(to.Netns), "rule", "del", "pref", "1")
	})
	t.Run("a link that flaps", func(t *testing.T) {
		end := meanwhile(t, `while `+going+`; do ip -n "$(basename "$1")" link set net1 down; ip -n "$(basename "$1")" link set net1 up; sleep 1; done`)
		fails(t, "net1", "went down in the run")
		end()
	})
	t.Run("an old iperf3 at one end", func(t *testing.T) {
		oldIperf3(t, to.node)
		r, out, err := run(t)
		if err != nil || counted(r, 0) == 0 || r.Arms[0].Workload.Engine != "culvert" {
			t.Errorf("%v\n%s", err, out)
		}
		mentions(t, out, "figures of two versions say little", "Culvert's own engine sends the same instead")
	})
	t.Run("a clock that is set", func(t *testing.T) {
		end := meanwhile(t, `date -s '+1 hour'; while `+going+`; do sleep 0.2; done; date -s '-1 hour'`)
		r, out, err := run(t)
		end()
		if err != nil || len(r.Runs) == 0 {
			t.Fatalf("%v\n%s", err, out)
		}
		if counted(r, 0) == 0 {
			t.Error("no run counts")
		}
		for _, run := range r.Runs {
			if strings.Contains(run.Void, "was woken") { // the machine was busy; a run that counts followed
				continue
			}
			if run.Void != "" || run.Seconds < 1.5 || run.Seconds > 3 || run.Gbps <= 0 {
				t.Errorf("%g s, %g Gb/s, %q", run.Seconds, run.Gbps, run.Void)
			}
		}
	})
}

// oldIperf3 gives a node this host's iperf3, and skips the test if both have the same version. A
// lab's nodes run Debian 13, which has 3.18; Debian 12 has 3.12.
func oldIperf3(t *testing.T, n node.Node) {
	t.Helper()
	const ask = `iperf3 --version | awk 'NR == 1 { print $2 }'`
	here, err := exec.CommandContext(t.Context(), "bash", "-c", ask).Output()
	if err != nil {
		t.Skip("this host has no iperf3: apt-get install iperf3")
	}
	if there := must(t, n, "bash", "-c", ask); string(there) == string(here) {
		t.Skipf("this host has iperf3 %s as the node has", here)
	}
	library, err := exec.CommandContext(t.Context(), "bash", "-c", `ldd "$(command -v iperf3)" | awk '$1 ~ /^libiperf/ { print $3 }'`).Output()
	if err != nil {
		t.Fatal(err)
	}
	program, err := exec.LookPath("iperf3")
	if err != nil {
		t.Fatal(err)
	}
	const folder, wrapper = "/opt/old-iperf3", "/usr/local/bin/iperf3"
	for _, file := range []string{program, strings.TrimSpace(string(library))} {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if err := n.WriteFile(t.Context(), filepath.Join(folder, filepath.Base(file)), b); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		if _, err := n.Run(context.Background(), "rm", "-r", folder, wrapper); err != nil {
			t.Error(err)
		}
	})
	script := "#!/bin/sh\nLD_LIBRARY_PATH=" + folder + " exec " + folder + "/iperf3 \"$@\"\n"
	if err := n.WriteFile(t.Context(), wrapper, []byte(script)); err != nil {
		t.Fatal(err)
	}
	must(t, n, "chmod", "0755", wrapper, folder+"/iperf3")
	if got := must(t, n, "iperf3", "--version"); !strings.Contains(string(got), "iperf "+strings.TrimSpace(string(here))) {
		t.Fatalf("the node's iperf3 is %s", got)
	}
}

// measured runs presets from some containers to another one, as measuredBetween does.
func measured(t *testing.T, from []end, to end, args ...string) bench.Result {
	t.Helper()
	return measuredBetween(t, append(args, endFlags(from, to)...)...)
}

// measuredBetween runs culvert bench run on this host. Runs that are void because the machine was busy
// are no failure if another run counts, which shows that the measurement works.
func measuredBetween(t *testing.T, args ...string) bench.Result {
	t.Helper()
	r, _, err := benched(t, args...)
	if err == nil {
		return r
	}
	some := slices.ContainsFunc(r.Runs, func(run bench.Run) bool { return !run.Discard && run.Void == "" })
	if !some || !patience.OnlyBusyIsMissing(r) {
		t.Fatal(err)
	}
	t.Logf("the machine was too busy for some runs: %v", err)
	return r
}

// endFlags returns the flags that name the ends.
func endFlags(from []end, to end) []string {
	args := []string{"--to", place(to)}
	for _, e := range from {
		args = append(args, "--from", place(e))
	}
	return args
}

// tryToMeasure runs culvert bench run. It returns the result that the program wrote, if any, its
// output and its exit status.
func tryToMeasure(t *testing.T, from []end, to end, args ...string) (r bench.Result, said string, failed error) {
	t.Helper()
	return benched(t, append(args, endFlags(from, to)...)...)
}

// place returns the name of a container for culvert bench run.
func place(e end) string { return "lab:" + e.node.Lab.Name() + "/" + e.node.Name + ",netns=" + e.Netns }

// benched runs culvert bench run on this host.
func benched(t *testing.T, args ...string) (r bench.Result, said string, failed error) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "result.json")
	args = append([]string{"bench", "run", "--out", file}, args...)
	out, failed := exec.CommandContext(t.Context(), os.Getenv("CULVERT"), args...).CombinedOutput()
	t.Logf("culvert %s\n%s", strings.Join(args, " "), out)
	if _, err := os.Stat(file); errors.Is(err, fs.ErrNotExist) && failed != nil {
		return r, string(out), failed
	}
	return read(t, file), string(out), failed
}

func read(t *testing.T, file string) bench.Result {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	r, err := bench.Read(f)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// counted returns the number of an arm's runs that are neither void nor for warming up.
func counted(r bench.Result, arm int) (n int) {
	for _, run := range r.Runs {
		if run.Arm == arm && !run.Discard && run.Void == "" {
			n++
		}
	}
	return n
}

// traces lists the files, netns and processes that a measurement could leave on a node. It leaves
// out the folders of systemd's services, which come and go.
func traces(t *testing.T, n node.Node) string {
	t.Helper()
	out, err := n.Script(t.Context(), "look for what is left", `ls -A -I "systemd-private-*" /tmp; ls -A /run/netns || true; ls -d /run/culvert-bench* || true; pgrep -ax 'iperf|iperf3|ping|culvert|culvert-bench' || true`)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}
