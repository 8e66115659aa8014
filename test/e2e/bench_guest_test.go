//go:build lab

package e2e

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/culvert-net/culvert/bench"
	"github.com/culvert-net/culvert/lab/demo/node"
)

// benchGuest measures M10's packets from a container of the other node to a guest. culvert bench
// puts the agent into the guest by its channel, finds the guest's VF by the address that the PF
// holds, and leaves nothing. On an emulated host the guest is mostly too slow for a run to count.
// Runs that count have the processor time of QEMU on the host.
func benchGuest(t *testing.T, g node.Guest) {
	n := nodes[1]
	a := network(t, n, "benched", "1.1.0", `"pool": "culvert.dev/rest", "vlan": 90, "ipam": {"type": "static", "addresses": [{"address": "10.90.0.101/24"}]}`)
	netns(t, n, a.Netns)
	add(t, n, a)
	before := traces(t, g.Node)
	r, out, err := benched(t, "m10", "--quick", "--repeats", "1", "--path", "VM", "--from", place(end{Attachment: a, node: n}), "--to", g.Place())
	mentions(t, out, "pod-VM, VF, other node")
	if len(r.Arms) != 1 {
		t.Fatalf("%d arms, %v", len(r.Arms), err)
	}
	if p := r.Arms[0].Path; p.To.Machine != g.Node.Name || p.To.Name != g.Name || p.To.Interface != "eth0" || p.To.PF == "" || p.To.VF == nil {
		t.Errorf("%+v", p.To)
	}
	asOfAGuest(t, g, r)
	if after := traces(t, g.Node); after != before {
		t.Errorf("%s has\n%s\nand had\n%s", g.Node.Name, after, before)
	}
	for _, signal := range []os.Signal{os.Interrupt, os.Kill} {
		sidesInAGuest(t, g, end{Attachment: a, node: n}, signal)
	}
}

// sidesInAGuest ends an A/B measurement whose commands run in a guest. The guest then has the state that
// the last command made. The program has the guest's one shell until it has ended.
func sidesInAGuest(t *testing.T, g node.Guest, from end, signal os.Signal) {
	t.Helper()
	const file = "/tmp/sides"
	note := "echo $CULVERT_SIDE >>" + file
	cmd := exec.CommandContext(t.Context(), os.Getenv("CULVERT"), "bench", "run", "--rough", "--quick", "--out", filepath.Join(t.TempDir(), "r.json"),
		"--path", "VM", "--from", place(from), "--to", g.Place(), "--ab-on", "to", "--ab", note, note, "--ab-undo", "echo undone >>"+file)
	said, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	for lines := bufio.NewScanner(said); lines.Scan(); {
		fmt.Fprintln(&all, lines.Text())
		if strings.Contains(lines.Text(), "side B, when it was set up first") {
			if err := cmd.Process.Signal(signal); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := cmd.Wait(); err == nil {
		t.Error("the exit status is 0")
	}
	t.Logf("%s", all.String())
	var wrote string
	for range 30 {
		out, err := g.Exec(t.Context(), "cat "+file)
		if wrote = strings.Join(strings.Fields(string(out)), " "); err == nil && strings.HasSuffix(wrote, "undone") {
			break
		}
		time.Sleep(time.Second)
	}
	if !strings.HasPrefix(wrote, "A B ") || strings.Count(wrote, "undone") != 1 || !strings.HasSuffix(wrote, " undone") {
		t.Errorf("%s: the commands wrote %q", signal, wrote)
	}
	if _, err := g.Exec(t.Context(), "rm "+file); err != nil {
		t.Error(err)
	}
}

// asOfAGuest checks that runs which count have QEMU's processor time and the guest's own figures at
// the guest's end, and only there.
func asOfAGuest(t *testing.T, g node.Guest, r bench.Result) {
	t.Helper()
	for _, run := range r.Runs {
		if run.Void != "" {
			continue
		}
		p := r.Arms[run.Arm].Path
		for _, e := range []struct {
			end  bench.End
			seen bench.Evidence
		}{{p.From, run.From}, {p.To, run.To}} {
			qemu := e.seen.CPU.Tasks["qemu-system-x86 of "+g.Name]
			if guest := e.end.Name == g.Name; (qemu > 0) != guest || (e.seen.Guest != nil) != guest {
				t.Errorf("%s: QEMU took %g s, the guest saw %+v", e.end.Name, qemu, e.seen.Guest)
			}
		}
	}
}
