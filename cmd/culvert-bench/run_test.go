package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/culvert-net/culvert/bench"
	"github.com/culvert-net/culvert/bench/place"
	"github.com/culvert-net/culvert/bench/preset"
	"github.com/culvert-net/culvert/internal/admin/cli"
)

func TestRunSaysWhatIsWrong(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	build(t, dir, "culvert-lab")
	t.Chdir(t.TempDir())
	for line, want := range map[string]string{
		"":                             "--cluster",
		"m44 --from host --to netns:a": "did you mean m4?",
		"--from host --to host":        "takes no path",
		"--from host --to nets:a":      "did you mean netns?",
		"--from netns:a --from netns:b --from netns:a --to host": "--from is host,netns=a twice",
		"--from host --to netns:a --to netns:a":                  "--to is host,netns=a twice",
		"--from host --to netns:no-such-one":                     "ip netns list",
		"--cluster":                                              "kubectl get nodes",
		"--cluster --from host":                                  "take --nodes",
		"--cluster --to host --via n3":                           "take --nodes",
		"m12 --nodes n1 --via n3 --network a":                    "name both, --network A --network B",
		"m12 --nodes n1 --via n3":                                "name both, --network A --network B",
		"--nodes n1 --network a,b --network c":                   "take one network for both pods, or two",
		"m12 m13 --nodes n1 --via n3 --network a --network b":    "cannot bridge",
		"--lab --via host":                                       "leave out --from, --via",
		"--from host --to netns:a --via nets:r":                  "did you mean netns?",
		"--from host --to netns:a --via netns:a":                 "--via is host,netns=a, which is an end as well",
		"--lab --from host":                                      "leave out --from",
		"--lab --senders 8":                                      "want a whole number from 1 to 7",
		"m4 m8 --lab":                                            "--lab measures m8 alone",
		"m8 --lab --senders 2":                                   "leave out the other presets and --senders",
		"--lab --burst 65":                                       "want a whole number from 1 to 64",
		"--lab --seconds -1":                                     "want seconds from 0.1 to 86400",
		"--from host --to netns:a --service web":                 "such as 10.96.0.10",
		"--from host --to netns:a --to netns:b --service ::1":    "one --to",
		"--cluster --service 10.96.0.1":                          "--service",
		"--senders 3 --from host --to netns:a":                   "--senders goes with --lab",
		"--from host --to netns:a --ab x":                        "--ab takes two commands, and here are 1",
		"m4 x --from host --to netns:a --ab y --ab-on there":     "take here, from, to, ends, nodes",
		"--from host --to netns:a --fail-if throughput<-5%":      "--fail-if goes with --ab",
		"--from host --to netns:a -o junit":                      "go with --ab",
		"--nodes a,b x --ab y --ab-on nodes":                     "--ab-on nodes with --cluster: the image of the pods has no shell: take --ab-on here",
		"--nodes a,b,c":                                          "kubectl get nodes",
	} {
		out, err := execute(t, append([]string{"run"}, strings.Fields(line)...)...)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("run %s: %v; want %q: %s", line, err, want, out)
		}
	}
	if left, err := os.ReadDir("."); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func TestClusterFlags(t *testing.T) {
	c := clusterFlags{kubeconfig: "k", kcontext: "c"}
	for _, tc := range []struct {
		nodes, networks string
		via             string
		from, to        place.Seat
	}{
		{"n1", "ns/net", "", place.Seat{Node: "n1", Namespace: "ns", Network: "net"}, place.Seat{Node: "n1", Namespace: "ns", Network: "net"}},
		{"n1 n2", "net", "", place.Seat{Node: "n1", Namespace: "default", Network: "net"}, place.Seat{Node: "n2", Namespace: "default", Network: "net"}},
		{"n1 n2", "", "", place.Seat{Node: "n1", Namespace: "default"}, place.Seat{Node: "n2", Namespace: "default"}},
		{"n1", "ns/a b", "n3", place.Seat{Node: "n1", Namespace: "ns", Network: "a"}, place.Seat{Node: "n1", Namespace: "default", Network: "b"}},
	} {
		c.nodes, c.networks = strings.Fields(tc.nodes), strings.Fields(tc.networks)
		got, err := c.checkFlags(tc.via)
		want := place.Cluster{Kubectl: strings.Fields("kubectl --kubeconfig k --context c"), From: tc.from, To: tc.to, Via: tc.via}
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("%v: -want +got:\n%s", err, diff)
		}
	}
}

func TestPresets(t *testing.T) {
	out, err := execute(t, "presets", "-o", "json")
	var all []preset.Preset
	if err != nil || json.Unmarshal([]byte(out), &all) != nil || len(all) != 18 || all[3].Name != "m4" || all[3].Printed[0].Value != 9.42 {
		t.Errorf("%v: %s", err, out)
	}
	out, err = execute(t, "presets")
	if err != nil {
		t.Error(err)
	}
	for line := range strings.Lines(out) {
		if len(line) > 101 {
			t.Errorf("a long line: %s", line)
		}
	}
	for _, want := range []string{"m1   R3", "m18  R4", "R0 VF 9.42 Gb/s", "three VFs that are bound to vfio-pci"} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is not in it", want)
		}
	}
}

func TestCompletion(t *testing.T) {
	for line, want := range map[string]string{
		"run m":        "m4\tR0: iperf3",
		"run --path ":  "same PF",
		"run --from ":  "netns:",
		"run m4 --to ": "ssh:",
	} {
		out, err := execute(t, append([]string{"__complete"}, strings.Split(line, " ")...)...)
		if err != nil || !strings.Contains(out, want) {
			t.Errorf("%q: %v: %s", line, err, out)
		}
	}
}

// TestRun runs the whole program, from network namespaces of the test to another one, whose bridge
// joins them. The program writes and shows a result, and leaves nothing. Three namespaces send at
// once for m11, and for m13 one sends to another through the bridge.
func TestRun(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("making network namespaces needs root")
	}
	if _, err := exec.LookPath("iperf3"); err != nil {
		t.Skip("iperf3 is not installed")
	}
	ip := func(argv string) {
		t.Helper()
		if out, err := exec.Command("ip", strings.Fields(argv)...).CombinedOutput(); err != nil {
			t.Fatalf("ip %s: %v: %s", argv, err, out)
		}
	}
	var ns [4]string // the last one receives
	for i := range ns {
		ns[i] = fmt.Sprintf("cvrun%d-%d", os.Getpid(), i)
		ip("netns add " + ns[i])
		t.Cleanup(func() { ip("netns del " + ns[i]) })
	}
	ip("-n " + ns[3] + " link add br0 type bridge")
	ip("-n " + ns[3] + " addr add 10.96.0.9/24 dev br0")
	ip("-n " + ns[3] + " link set br0 up")
	for i := range ns[:3] {
		ip(fmt.Sprintf("-n %s link add name v0 type veth peer name p%d netns %s", ns[i], i, ns[3]))
		ip(fmt.Sprintf("-n %s addr add 10.96.0.%d/24 dev v0", ns[i], i+1))
		ip(fmt.Sprintf("-n %s link set v0 up", ns[i]))
		ip(fmt.Sprintf("-n %s link set p%d master br0 up", ns[3], i))
	}
	dir := t.TempDir()
	program := build(t, dir, "culvert-bench")
	for _, c := range []struct {
		preset, arm string
		from, more  []string
		shows       string
	}{
		{"m1", "veth", ns[:1], []string{"--to", "netns:" + ns[3]}, "veth"},
		{"m11", "veth 3 senders", ns[:3], []string{"--to", "netns:" + ns[3]}, "least : most"},
		{"m13", "veth", ns[:1], []string{"--to", "netns:" + ns[1], "--via", "netns:" + ns[3]}, "bridges"},
	} {
		file := filepath.Join(dir, c.preset+".json")
		args := []string{"run", c.preset, "--quick", "--repeats", "1", "--seed", "7", "--out", file}
		args = append(args, c.more...)
		for _, f := range c.from {
			args = append(args, "--from", "netns:"+f)
		}
		r, shown, said, err := measure(t, program, file, args)
		if r.Preset != c.preset || r.Seed != 7 || len(r.Arms) != 1 || r.Arms[0].Name != c.arm || len(r.Arms[0].Paths()) != len(c.from) || len(r.Printed) == 0 {
			t.Fatalf("%+v", r)
		}
		// On a busy machine all runs may be void: then the program reports that.
		if (err == nil) != (r.Unfinished == "") || !strings.Contains(said, "1 arms, 1 runs of each") || !strings.Contains(strings.ReplaceAll(shown, ",", ""), c.arm) {
			t.Errorf("%v, unfinished %q: %s%s", err, r.Unfinished, shown, said)
		}
		for _, run := range r.Counted(0) {
			if n := len(run.Each()); n != len(c.from) || !strings.Contains(shown, c.shows) {
				t.Errorf("%d shares: %s", n, shown)
			}
		}
		t.Logf("%s", shown)
	}
}

// measure runs the program, and returns the result that it wrote to file, its two outputs and its error.
func measure(t *testing.T, program, file string, args []string) (r bench.Result, shown, said string, err error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), program, args...)
	var messages strings.Builder
	cmd.Stderr = &messages
	out, err := cmd.Output()
	f, openErr := os.Open(file)
	if openErr != nil {
		t.Fatalf("%v, %v: %s", openErr, err, messages.String())
	}
	defer f.Close()
	r, readErr := bench.Read(f)
	if readErr != nil {
		t.Fatal(readErr)
	}
	return r, string(out), messages.String(), err
}

// startSides starts a measurement of two sides between two network namespaces, whose commands write to
// a file. It returns when side B has been set up.
func startSides(t *testing.T, more ...string) (cmd *exec.Cmd, log string) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("making network namespaces needs root")
	}
	ip := func(words string) {
		t.Helper()
		if out, err := exec.CommandContext(context.WithoutCancel(t.Context()), "ip", strings.Fields(words)...).CombinedOutput(); err != nil {
			t.Fatalf("ip %s: %v: %s", words, err, out)
		}
	}
	ns := [2]string{fmt.Sprintf("cvside%d-a", os.Getpid()), fmt.Sprintf("cvside%d-b", os.Getpid())}
	for _, n := range ns {
		ip("netns add " + n)
		t.Cleanup(func() { ip("netns del " + n) })
		ip("-n " + n + " link set lo up")
	}
	ip("-n " + ns[0] + " link add e0 type veth peer name e0 netns " + ns[1])
	for i, n := range ns {
		ip(fmt.Sprintf("-n %s addr add 10.94.0.%d/24 dev e0", n, i+1))
		ip("-n " + n + " link set e0 up")
	}
	dir := t.TempDir()
	log = filepath.Join(dir, "log")
	args := []string{"run", "--quick", "--rough", "--from", "netns:" + ns[0], "--to", "netns:" + ns[1], "--out", filepath.Join(dir, "ab.json"),
		"--ab", "echo $CULVERT_SIDE >>" + log, "echo $CULVERT_SIDE >>" + log, "--ab-undo", "echo undone >>" + log}
	cmd = exec.CommandContext(t.Context(), build(t, dir, "culvert-bench"), append(args, more...)...)
	return cmd, log
}

// awaitLog waits until the commands of the sides have written a word.
func awaitLog(t *testing.T, log, word string) {
	t.Helper()
	for t.Context().Err() == nil {
		if text, err := os.ReadFile(log); err == nil && strings.Contains(string(text), word) {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
	t.Fatalf("the commands did not write %q", word)
}

// TestSidesAreUndone: the sides are undone after Ctrl-C, and when the program is killed.
func TestSidesAreUndone(t *testing.T) {
	for name, signal := range map[string]os.Signal{"Ctrl-C": os.Interrupt, "killed": os.Kill} {
		t.Run(name, func(t *testing.T) {
			cmd, log := startSides(t)
			var said strings.Builder
			cmd.Stderr = &said
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			awaitLog(t, log, "B")
			if err := cmd.Process.Signal(signal); err != nil {
				t.Fatal(err)
			}
			err := cmd.Wait()
			awaitLog(t, log, "undone")
			if err == nil || !strings.Contains(said.String(), "and the death of this program, it runs there: echo undone") {
				t.Errorf("%v: %s", err, said.String())
			}
		})
	}
}

// TestRunJudges: a run of two sides says how many rounds there are, and writes JUnit alone on standard
// output. Its exit status is that of the rule.
func TestRunJudges(t *testing.T) {
	cmd, log := startSides(t, "--seconds", "1", "--fail-if", "throughput<-99.9%", "-o", "junit")
	var said strings.Builder
	cmd.Stderr = &said
	out, err := cmd.Output()
	if !strings.HasPrefix(string(out), "<?xml") || !strings.Contains(said.String(), "figures that are judged as one family: 1; fewer than 6 rounds") || !strings.Contains(said.String(), "veth A") {
		t.Errorf("%s%s", out, said.String())
	}
	if strings.Contains(said.String(), "the result is not whole") { // on a busy machine all runs may be void
		t.Log(said.String())
	} else if err != nil || !strings.Contains(string(out), `tests="1" failures="0" skipped="0"`) {
		t.Errorf("%v: %s%s", err, out, said.String())
	}
	awaitLog(t, log, "undone")
}

// If a result cannot be written, an earlier file of that name stays as it was, and the result is
// still shown.
func TestEarlierResultStays(t *testing.T) {
	name := changedResult(t, func(*bench.Result) {})
	before, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	r, err := bench.Read(bytes.NewReader(before))
	if err != nil {
		t.Fatal(err)
	}
	r.Schema = "none" // Write refuses it
	var out bytes.Buffer
	cmd := newRunCommand()
	cmd.SetOut(&out)
	if err := (&run{out: name, judge: judge{format: &cli.Format{}}}).writeResult(cmd, r); err == nil || !strings.Contains(err.Error(), name) {
		t.Errorf("written: %v", err)
	}
	if after, err := os.ReadFile(name); err != nil || !bytes.Equal(before, after) {
		t.Errorf("the earlier result has %d bytes, had %d: %v", len(after), len(before), err)
	}
	if out.Len() == 0 {
		t.Error("what was measured is not shown")
	}
}
