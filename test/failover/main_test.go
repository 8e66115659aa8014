//go:build lab

package failover

import (
	"context"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/culvert-net/culvert/lab"
	"github.com/culvert-net/culvert/lab/demo/node"
	"github.com/culvert-net/culvert/test/labs"
)

var (
	pulls  = flag.Int("pulls", 1, "how often each way loses the wire that it sends over")
	events = flag.Bool("events", false, "also both wires, a PF that is rebound or down, a member that is unplugged, a dead culvertd, a wire that flaps")
)

const (
	hostYAML = "pfs:\n- {name: enp1s0, vfs: 7}\n- {name: enp2s0, vfs: 7}\npools:\n- name: pair\n  selectors: {pfNames: [enp1s0, enp2s0]}\n"
	confDir  = "/run/culvert-failover"
	vfCount  = 14
)

// Bonds of the tests, as the key of a network.
const (
	plainBond = `{"links": 2}`
	arpBond   = `{"links": 2, "arpInterval": 100, "arpIPTargets": ["10.85.0.2"]}`
)

func TestMain(m *testing.M) {
	lab.Reexec()
	flag.Parse()
	os.Exit(m.Run())
}

// world is a lab with a bond of the first node and a VF of the second one.
type world struct {
	nodes     []node.Node
	near, far node.End
	before    []node.VFs // of each node, when all its VFs were free
}

// bringUp starts two nodes with Culvert and joined wires, and attaches a VF of the second one.
func bringUp(t *testing.T) *world {
	t.Helper()
	ctx := t.Context()
	l, err := lab.Up(ctx, lab.Options{Name: labs.Name("failover"), Nodes: 2, JoinWires: true, Progress: os.Stderr, Bound: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Down(context.Background()); err != nil {
			t.Error(err)
		}
	})
	parts, err := node.FindParts(ctx, "../..", func(s string) { t.Log(s) })
	if err != nil {
		t.Fatal(err)
	}
	stage := t.TempDir()
	if err := parts.Stage(ctx, stage, hostYAML); err != nil {
		t.Fatal(err)
	}
	w := &world{nodes: node.Of(l, 2)}
	for _, n := range w.nodes {
		if err := n.Install(ctx, stage); err != nil {
			t.Fatal(err)
		}
		w.before = append(w.before, listVFs(t, n))
	}
	w.near = node.End{Node: w.nodes[0], Netns: "near", Dir: confDir, Peer: "10.85.0.2"}
	w.far = node.End{Node: w.nodes[1], Netns: "far", Dir: confDir, Peer: "10.85.0.1"}
	vf := strings.TrimSpace(runScript(t, w.far.Node, "find a VF", `culvert vf list -o json | jq -r '[.[] | select(.pf == "enp1s0")][0].pci'`))
	w.attachInterface(t, w.far, 2, `"deviceID": "`+vf+`"`)
	return w
}

func (w *world) traffic() node.Traffic { return node.Traffic{From: w.near, To: w.far} }

// wires are the PFs of a node.
func wires() []string { return []string{"enp1s0", "enp2s0"} }

// otherPF returns the PF that is not pf.
func otherPF(pf string) string {
	if all := wires(); pf == all[0] {
		return all[1]
	}
	return wires()[0]
}

// setWire pulls a wire of the first node, or plugs it in.
func (w *world) setWire(t *testing.T, pf string, up bool) {
	t.Helper()
	if err := w.near.Lab.Link(w.near.Name, pf, up); err != nil {
		t.Fatal(err)
	}
}

func runScript(t *testing.T, n node.Node, what, script string, args ...string) string {
	t.Helper()
	out, err := n.Script(t.Context(), what, script, args...)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

func listVFs(t *testing.T, n node.Node) node.VFs {
	t.Helper()
	seen, err := n.VFs(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(seen) != vfCount {
		t.Fatalf("%s has %d VFs, want %d", n.Name, len(seen), vfCount)
	}
	return seen
}

func attachmentOf(e node.End) node.Attachment {
	return node.Attachment{Network: e.Netns, Dir: confDir, Netns: e.Netns, Interface: "net1"}
}

// attachInterface gives an end its interface, with the address 10.85.0.host. The returned function
// detaches it.
func (w *world) attachInterface(t *testing.T, e node.End, host int, keys string) (detach func()) {
	t.Helper()
	ctx, a := t.Context(), attachmentOf(e)
	config := fmt.Sprintf(`{"cniVersion": "1.1.0", "name": %q, "plugins": [{"type": "culvert", %s, "ipam": {"type": "static", "addresses": [{"address": "10.85.0.%d/24"}]}}]}`, e.Netns, keys, host)
	if err := e.WriteFile(ctx, confDir+"/"+e.Netns+".conflist", []byte(config)); err != nil {
		t.Fatal(err)
	}
	if err := e.AddNetns(ctx, e.Netns); err != nil {
		t.Fatal(err)
	}
	if _, err := e.CNI(ctx, "add", a); err != nil {
		t.Fatal(err)
	}
	return func() {
		if _, err := e.CNI(ctx, "del", a); err != nil {
			t.Error(err)
		}
		if err := e.DelNetns(ctx, e.Netns); err != nil {
			t.Error(err)
		}
	}
}

// attachBond gives the near end a bond. The returned function detaches it, and expects each VF at
// its baseline.
func (w *world) attachBond(t *testing.T, bond string) (detach func()) {
	t.Helper()
	takeBack := w.attachInterface(t, w.near, 1, `"pool": "pair", "bond": `+bond)
	return func() {
		takeBack()
		w.expectBaseline(t)
	}
}

// attachNeighbour gives another network namespace of the second node a bond, whose ARP requests all
// members on the segment hear. The returned function detaches it.
func (w *world) attachNeighbour(t *testing.T) (detach func()) {
	t.Helper()
	e := node.End{Node: w.nodes[1], Netns: "neighbour", Dir: confDir}
	return w.attachInterface(t, e, 3, `"pool": "pair", "bond": `+arpBond)
}

// expectBaseline expects each VF of the first node as it was before.
func (w *world) expectBaseline(t *testing.T) {
	t.Helper()
	for name, change := range w.before[0].Changes(listVFs(t, w.near.Node)) {
		t.Errorf("VF %s is not at its baseline: %s", name, change)
	}
}

// expectWhole expects that CHECK accepts the bond.
func (w *world) expectWhole(t *testing.T) {
	t.Helper()
	if _, err := w.near.CNI(t.Context(), "check", attachmentOf(w.near)); err != nil {
		t.Error(err)
	}
}

// printLoad prints the load of the machine, since the figures depend on it.
func printLoad() {
	if load, err := os.ReadFile("/proc/loadavg"); err == nil {
		fmt.Printf("load of the machine: %s", load)
	}
}
