//go:build lab

package e2e

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/culvert-net/culvert/bench"
	"github.com/culvert-net/culvert/lab/demo/node"
	"github.com/culvert-net/culvert/test/patience"
	"github.com/culvert-net/culvert/test/soak"
)

// sidesLog is the file of a node to which the commands of an A/B measurement write, and sideNotes is such
// a command. Each writes its side and whether it ran in the node's own network or in a container's.
const (
	sidesLog  = "/run/culvert-e2e/sides"
	sideNotes = `at=container; [ /proc/1/ns/net -ef /proc/self/ns/net ] && at=node; echo "$CULVERT_SIDE-$at" >>` + sidesLog
	undoNotes = "echo undone >>" + sidesLog
)

// noteSides gives the nodes an empty sidesLog until the test ends.
func noteSides(t *testing.T) {
	t.Helper()
	for _, n := range nodes {
		must(t, n, "sh", "-c", "mkdir -p /run/culvert-e2e; : >"+sidesLog)
		t.Cleanup(func() {
			if _, err := n.Run(context.Background(), "rm", "-f", sidesLog); err != nil {
				t.Error(err)
			}
		})
	}
}

// readSides returns what the commands wrote on a node, in one line.
func readSides(t *testing.T, n node.Node) string {
	t.Helper()
	return strings.Join(strings.Fields(string(must(t, n, "cat", sidesLog))), " ")
}

// awaitSides waits until the commands wrote a word on each of some nodes. If stopped closes before, it
// reads once more.
func awaitSides(t *testing.T, word string, stopped <-chan struct{}, on ...node.Node) {
	t.Helper()
	for _, n := range on {
		for last := false; !strings.Contains(readSides(t, n), word); {
			if last || t.Context().Err() != nil {
				t.Fatalf("%s: the commands wrote %q, and not %q", n.Name, readSides(t, n), word)
			}
			select {
			case <-stopped:
				last = true
			case <-time.After(200 * time.Millisecond):
			}
		}
	}
}

// TestBenchSides compares a VF path of the lab with itself in one run: the same command sets up both
// sides on both nodes, in each round. No difference of the sides is seen, and no loss of 60 % is found,
// which an unchanged path would show in fewer than one of 10,000 runs of the test. Everything is undone.
func TestBenchSides(t *testing.T) {
	soak.Only(t, "a minute of rounds; TestBenchSidesBySSH and TestBenchSidesAreUndone have a round")
	leavesNothing(t, nodes...)
	noteSides(t)
	from, to := plug(t, nodes[0], 0, 51), plug(t, nodes[1], 0, 52)
	before := [2]string{traces(t, nodes[0]), traces(t, nodes[1])}
	r, said, err := tryToMeasure(t, []end{from}, to, "m4", "--rough", "--seconds", "1", "--ab-on", "nodes", "--ab", sideNotes, sideNotes, "--ab-undo", undoNotes,
		"--fail-if", "throughput<-60%", "--allow-unclear")
	if r.Unfinished == "" && err != nil || r.Unfinished != "" && !patience.OnlyBusyIsMissing(r) {
		t.Error(err)
	}
	mentions(t, said, "No agent sees a difference between side A and side B", "figures that are judged as one family: 1; fewer than 6 rounds")
	if len(r.Sides) != 2 || len(r.Arms) != 2 || r.Arms[0].Path.Network != "VF" || r.Arms[1].Path.Network != "VF" || len(r.Sides[0].At) != 2 {
		t.Fatalf("%d arms, sides %+v", len(r.Arms), r.Sides)
	}
	if got := r.UnlikeSides(); len(got) > 0 {
		t.Errorf("the same sides differ in %q", got)
	}
	if got := bench.CompareSides(r, []bench.Rule{{Metric: "throughput", Below: true, Part: -0.6}}); len(got.Broken) > 0 {
		t.Errorf("the same path is worse by 60 %%: %q", got.Broken)
	}
	for _, m := range r.Sides[0].Machines {
		if slices.ContainsFunc(m.Interfaces, func(i bench.Interface) bool { return i.Driver == "igbvf" && i.Name != "net1" }) {
			t.Errorf("%s has VFs that no path uses: %+v", m.Name, m.Interfaces)
		}
	}
	for i, n := range nodes {
		wrote := readSides(t, n)
		if a, b := strings.Count(wrote, "A-node"), strings.Count(wrote, "B-node"); a < 7 || a != b || strings.Contains(wrote, "container") || !strings.HasSuffix(wrote, " undone") || strings.Count(wrote, "undone") != 1 {
			t.Errorf("%s: the commands wrote %q", n.Name, wrote)
		}
		if after := traces(t, n); after != before[i] {
			t.Errorf("%s has\n%s\nand had\n%s", n.Name, after, before[i])
		}
	}
}

// TestBenchSidesAreUndone: in the lab, the sides of an A/B measurement are undone where they were set up
// when the program is interrupted, when it is killed, and when a command fails.
func TestBenchSidesAreUndone(t *testing.T) {
	leavesNothing(t, nodes...)
	from, to := plug(t, nodes[0], 0, 53), plug(t, nodes[1], 0, 54)
	for _, c := range []struct {
		how, on, at string
		ran         []node.Node
		signal      os.Signal
	}{
		{"Ctrl-C", "nodes", "node", nodes, os.Interrupt},
		{"killed", "ends", "container", nodes, syscall.SIGKILL},
		{"a command fails", "to", "container", nodes[1:], nil},
	} {
		t.Run(c.how+", "+c.on, func(t *testing.T) {
			noteSides(t)
			before := [2]string{traces(t, nodes[0]), traces(t, nodes[1])}
			b := sideNotes
			if c.signal == nil {
				b += "; echo no such build >&2; exit 3"
			}
			args := []string{
				"bench", "run", "--rough", "--quick", "--from", place(from), "--to", place(to), "--out", filepath.Join(t.TempDir(), "r.json"),
				"--ab-on", c.on, "--ab", sideNotes, b, "--ab-undo", undoNotes,
			}
			cmd := exec.CommandContext(t.Context(), os.Getenv("CULVERT"), args...)
			var said bytes.Buffer
			cmd.Stdout, cmd.Stderr = &said, &said
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			ended := make(chan struct{})
			var failed error
			go func() {
				defer close(ended)
				failed = cmd.Wait()
			}()
			awaitSides(t, "B-"+c.at, ended, c.ran...)
			if c.signal != nil {
				if err := cmd.Process.Signal(c.signal); err != nil {
					t.Fatal(err)
				}
			}
			<-ended
			awaitSides(t, "undone", nil, c.ran...)
			if failed == nil || c.signal == nil && !strings.Contains(said.String(), "no such build") {
				t.Errorf("%v: %s", failed, said.String())
			}
			checkUndone(t, before, c.ran)
		})
	}
}

// checkUndone checks that each node undid once what it had set up, the others nothing, and that no agent
// is left.
func checkUndone(t *testing.T, before [2]string, ran []node.Node) {
	t.Helper()
	for i, n := range nodes {
		want := 0
		for _, r := range ran {
			if r.Name == n.Name {
				want = 1
			}
		}
		if wrote := readSides(t, n); strings.Count(wrote, "undone") != want {
			t.Errorf("%s: the commands wrote %q", n.Name, wrote)
		}
		var after string
		for range 50 { // an agent that was left alone leaves when it has undone
			if after = traces(t, n); after == before[i] {
				break
			}
			time.Sleep(200 * time.Millisecond)
		}
		if after != before[i] {
			t.Errorf("%s has\n%s\nand had\n%s", n.Name, after, before[i])
		}
	}
}

// TestBenchSidesBySSH: over a real sshd, commands run on both machines, and in the network namespace of
// an end. They are undone when the program is killed, and at the end of a whole run, which make soak
// makes. The program runs on the first node, whose sshd the lab itself uses.
func TestBenchSidesBySSH(t *testing.T) {
	leavesNothing(t, nodes...)
	from, to := plug(t, nodes[0], 0, 55), plug(t, nodes[1], 0, 56)
	letIn(t)
	t.Run("killed", func(t *testing.T) {
		noteSides(t)
		before := [2]string{traces(t, nodes[0]), traces(t, nodes[1])}
		pid := strings.TrimSpace(string(must(t, nodes[0], "sh", "-c", "exec "+sidesBySSH(from, to, "nodes")+` >/dev/null 2>&1 </dev/null & echo $!`)))
		awaitSides(t, "B-node", nil, nodes...)
		must(t, nodes[0], "kill", "-KILL", pid)
		awaitSides(t, "undone", nil, nodes...)
		checkUndone(t, before, nodes)
	})
	t.Run("whole", func(t *testing.T) {
		soak.Only(t, "a measurement")
		noteSides(t)
		before := [2]string{traces(t, nodes[0]), traces(t, nodes[1])}
		out, err := nodes[0].Script(t.Context(), "measure", sidesBySSH(from, to, "to")+" >&2; cat /tmp/bench.json")
		if err != nil {
			t.Fatal(err)
		}
		r, err := bench.Read(bytes.NewReader(out))
		if err != nil {
			t.Fatal(err)
		}
		if len(r.Sides) != 2 || len(r.UnlikeSides()) > 0 || !patience.HasRun(r, 0) || !patience.HasRun(r, 1) {
			t.Errorf("%d sides, %q, %d runs", len(r.Sides), r.UnlikeSides(), len(r.Runs))
		}
		if wrote := readSides(t, nodes[1]); strings.Count(wrote, "B-container") < 7 || !strings.HasSuffix(wrote, " undone") {
			t.Errorf("%s: the commands wrote %q", nodes[1].Name, wrote)
		}
		checkUndone(t, before, nodes[1:])
	})
}

// sidesBySSH returns the command of an A/B measurement from a container of the first node to one of the
// second, both over SSH.
func sidesBySSH(from, to end, on string) string {
	quote := func(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }
	return fmt.Sprintf("culvert bench run m4 --rough --quick --seconds 1 --from ssh:near,netns=%s --to ssh:far,netns=%s --out /tmp/bench.json --ab-on %s --ab %s %s --ab-undo %s",
		from.Netns, to.Netns, on, quote(sideNotes), quote(sideNotes), quote(undoNotes))
}

// letIn lets root of the first node into both nodes by SSH, under the names near and far. The second
// node has no culvert-bench, so that the program is sent there.
func letIn(t *testing.T) {
	t.Helper()
	key, err := nodes[0].Script(t.Context(), "make a key", `
		: >/tmp/bench.json
		ssh-keygen -q -t ed25519 -N '' -f /tmp/bench-key <<<y >&2
		cat /tmp/bench-key.pub`)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if _, err := nodes[0].Script(context.Background(), "clean up", "rm -f /tmp/bench-key* /tmp/bench.json /root/.ssh/config /root/.ssh/known_hosts"); err != nil {
			t.Error(err)
		}
	})
	for i, n := range nodes {
		address, err := n.Script(t.Context(), "let it in", `
			cp /root/.ssh/authorized_keys /root/.ssh/authorized_keys.before
			echo "$1" >>/root/.ssh/authorized_keys
			ip -json -4 address show dev mgmt0 | jq -r '.[0].addr_info[0].local'`, strings.TrimSpace(string(key)))
		t.Cleanup(func() {
			if _, err := n.Run(context.Background(), "mv", "/root/.ssh/authorized_keys.before", "/root/.ssh/authorized_keys"); err != nil {
				t.Error(err)
			}
		})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := nodes[0].Script(t.Context(), "name it", `
			printf 'Host %s\n HostName %s\n User root\n IdentityFile /tmp/bench-key\n StrictHostKeyChecking accept-new\n' "$1" "$2" >>/root/.ssh/config`,
			[]string{"near", "far"}[i], strings.TrimSpace(string(address))); err != nil {
			t.Fatal(err)
		}
	}
	must(t, nodes[1], "sh", "-c", `mv "$(command -v culvert-bench)" /root/culvert-bench.away`)
	t.Cleanup(func() {
		if _, err := nodes[1].Run(context.Background(), "mv", "/root/culvert-bench.away", "/usr/local/bin/culvert-bench"); err != nil {
			t.Error(err)
		}
	})
}
