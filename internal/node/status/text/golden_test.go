package text

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/excerpt"
	"github.com/culvert-net/culvert/internal/screen"
	"github.com/culvert-net/culvert/internal/vf"
)

var update = flag.Bool("update", false, "write the golden files")

// read reads a golden file of package status, where our values come from.
func read[T any](t *testing.T, name string) T {
	t.Helper()
	var v T
	raw, err := os.ReadFile("../testdata/" + name)
	if err == nil {
		err = json.Unmarshal(raw, &v)
	}
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := "testdata/" + name
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", name, diff)
	}
}

var (
	events = []api.Event{
		{Seq: 1, Time: time.Date(2026, 11, 21, 20, 41, 0, 0, time.UTC), Type: "Normal", Reason: "Attached", Object: "VF 0000:01:10.0", Text: "vf 0 of enp1s0f0 to pod default/a, network default/sriov-net1"},
		{Seq: 112, Time: time.Date(2026, 11, 21, 20, 42, 11, 0, time.UTC), Type: "Warning", Reason: "Quarantined", Object: "VF 0000:01:10.3", Text: "last held by pod default/b, tried again in 30s: reset: set vf 3 vlan none on PF 0000:01:00.0: invalid argument"},
	}
	doctor = api.DoctorReport{
		Node: "worker01", Version: "v0.1.0", Summary: api.Summary{OK: 1, Notes: 1, Warnings: 3, Errors: 1},
		Findings: []api.Finding{
			{Check: "claims", Severity: api.SeverityError, Object: "PF enp1s0f0", What: "NetworkManager manages vf 0-6 (no file leaves it alone, so it gets a profile of its own), /etc/NetworkManager", Why: "it brings free VFs up and gives them addresses, and Culvert must reset them before they get an owner",
				Mend: []string{`printf '[keyfile]\nunmanaged-devices+=driver:igbvf\n' >/etc/NetworkManager/conf.d/90-culvert-igbvf.conf`, "systemctl reload NetworkManager"}},
			{Check: "link", Severity: api.SeverityOK, Object: "PF enp1s0f0", What: "up, 10000 Mb/s"},
			{Check: "modules", Severity: api.SeverityNote, Object: "host", What: "vfio-pci is not loaded yet", Mend: []string{"modprobe vfio-pci"}, Fixable: true},
			{Check: "mtu", Severity: api.SeverityWarning, Object: "PF enp1s0f0", What: "its VFs have different MTUs (1500: pod default/a-pod-with-a-name-that-is-far-too-long-6d5f8c7b9-x2x4z; 9000: pod default/a)", Why: "those of one network need one MTU; UDP between them is lost otherwise, and nobody says so at all, which takes long to find",
				Mend: []string{"compare the key mtu in the networks of all of them, and make them what the switch and the slowest of the peers can do"}},
			{Check: "kubernetes", Severity: api.SeverityWarning, Object: "host", What: "swap is on: /dev/sda2", Mend: []string{"swapoff -a"}},
			{Check: "isolation", Severity: api.SeverityWarning, Object: "network infra/storage", What: "namespace isolation refuses it to 1 pod at the next start: team-a/db",
				Mend: []string{"kubectl annotate --overwrite network-attachment-definition -n infra storage culvert.dev/namespaces=team-a,team-b"}},
		},
	}
	doctorFix = api.DoctorReport{Node: "worker01", Findings: []api.Finding{}, Repairs: []api.Repair{
		{What: "set net.bridge.bridge-nf-call-ip6tables to 1", Done: true, Found: "it reads 1 (it was 0), and /etc/sysctl.d/90-culvert-net.bridge.bridge-nf-call-ip6tables.conf sets it at boot",
			Undo: "rm /etc/sysctl.d/90-culvert-net.bridge.bridge-nf-call-ip6tables.conf && sysctl -w net.bridge.bridge-nf-call-ip6tables=0"},
		{What: "load module overlay", Error: "modprobe overlay: exit status 1: modprobe: FATAL: Module overlay not found in directory /lib/modules/6.12.9"},
	}}
	plainText = Options{Look: screen.Look{Width: 100}}
	blocks    = Options{Look: screen.Look{Width: 100, Unicode: true}}
	colour    = Options{Look: screen.Look{Width: 100, Unicode: true, Color: true}}
	wide      = Options{Look: screen.Look{Wide: true}}
	narrow    = Options{Look: screen.Look{Width: 60}}
)

func screens(t *testing.T) map[string]func(Options) string {
	st, plan := read[api.NodeStatus](t, "node.json"), read[api.Plan](t, "plan.json")
	cluster := read[api.ClusterStatus](t, "cluster.json")
	node, vfs := cluster.Nodes[0], slices.Concat(cluster.Nodes[0].VFs, cluster.Nodes[1].VFs)
	quiet := api.ClusterStatus{Cluster: "test", Nodes: []api.NodeStatus{{Node: "worker01", Ready: true}}}
	empty := api.NodeStatus{Node: "worker02", Version: "v0.1.0"}
	show := func(name string) func(Options) string {
		for _, v := range st.VFs {
			if v.Name == name {
				return func(o Options) string { return VF(v, st, o) }
			}
		}
		t.Fatalf("no VF %s", name)
		return nil
	}
	refused := api.Plan{PFs: []api.PFPlan{{PF: "enp1s0f0", PCI: st.PFs[0].PCI, Refused: "8 VFs wanted (host.yaml:1), it can have 7: write vfs: 7 or vfs: max: invalid"}}}
	flows := []api.VFFlow{
		{Name: "enp1s0f0#1", Owner: &vf.Owner{Kind: vf.OwnerPod, Name: "default/loud"}, Network: "default/sriov-net1", Rx: &api.Flow{Bits: 1.234e9, Packets: 102345}, Tx: &api.Flow{Bits: 9.87e6, Packets: 51000, Dropped: 12, Errors: 0.5}},
		{Name: "enp1s0f0#0", Owner: &vf.Owner{Kind: vf.OwnerPod, Name: "a-namespace-with-a-long-name/a-pod-with-a-name-that-is-far-too-long-6d5f8c7b9-x2x4z"}, Network: "default/sriov-net1", Rx: &api.Flow{Bits: 512, Packets: 1}, Tx: &api.Flow{}},
		{Name: "enp1s0f0#5", Owner: &vf.Owner{Kind: vf.OwnerGuest, Name: "db1"}},
	}
	return map[string]func(Options) string{
		"vf-top":         func(o Options) string { return Flows(flows, o) },
		"vf-top-empty":   func(o Options) string { return Flows(nil, o) },
		"doctor":         func(o Options) string { return Doctor(doctor, o) },
		"doctor-fix":     func(o Options) string { return Doctor(doctorFix, o) },
		"plan-refused":   func(o Options) string { return Plan(refused, o) },
		"status":         func(o Options) string { return Node(st, o) },
		"status-empty":   func(o Options) string { return Node(empty, o) },
		"vf-list":        func(o Options) string { return VFs(st.VFs, st.Time, o) },
		"vf-list-empty":  func(o Options) string { return VFs(nil, st.Time, o) },
		"vf-attached":    show("enp1s0f0#0"),
		"vf-odd":         show("enp1s0f0#1"),
		"vf-quarantined": show("enp1s0f0#3"),
		"vf-making":      show("enp1s0f0#5"),
		"vf-unmanaged":   show("enp1s0f1#5"),
		"vf-missing":     show("enp1s0f1#6"),
		"pool-list":      func(o Options) string { return Pools(st.Pools, o) },
		"cluster":        func(o Options) string { return Cluster(cluster, o) },
		"cluster-node":   func(o Options) string { return Node(node, o) },
		"cluster-vfs":    func(o Options) string { return VFs(vfs, cluster.Time, o) },
		"cluster-vf":     func(o Options) string { return VF(node.VFs[3], node, o) },
		"cluster-pools":  func(o Options) string { return Pools(node.Pools, o) },
		"cluster-quiet":  func(o Options) string { return Cluster(quiet, o) },
		"cluster-empty":  func(o Options) string { return Cluster(api.ClusterStatus{Cluster: "test"}, o) },
		"events":         func(o Options) string { return Events(events, o) },
		"ledger":         func(o Options) string { return Ledger(ledger, o) },
		"ledger-check":   func(o Options) string { return LedgerCheck(ledger, o) },
		"ledger-right":   func(o Options) string { return LedgerCheck(api.Ledger{File: "/var/lib/culvert/ledger.db"}, o) },
		"ledger-repair":  func(o Options) string { return LedgerRepair(repaired, o) },
		"plan":           func(o Options) string { return Plan(plan, o) },
		"plan-empty":     func(o Options) string { return Plan(api.Plan{}, o) },
	}
}

func TestScreens(t *testing.T) {
	for name, draw := range screens(t) {
		golden(t, name+".txt", draw(plainText))
	}
	all := screens(t)
	for _, name := range []string{"status", "vf-list", "plan", "doctor", "cluster"} {
		golden(t, name+"-color.txt", all[name](colour))
	}
	for _, name := range []string{"vf-list", "pool-list", "cluster", "cluster-vfs"} {
		golden(t, name+"-wide.txt", all[name](wide))
	}
	golden(t, "status-unicode.txt", all["status"](blocks))
}

// TestScreensFit: no line is wider than asked, ends in a space, or carries a
// control character unless colours were asked for.
func TestScreensFit(t *testing.T) {
	for name, draw := range screens(t) {
		for _, o := range []Options{plainText, blocks} {
			for _, line := range strings.Split(draw(o), "\n") {
				if screen.Columns(line) > o.Width || strings.TrimRight(line, " ") != line || excerpt.Clean(line) != line {
					t.Errorf("%s: %d columns: %q", name, screen.Columns(line), line)
				}
			}
		}
		for _, line := range strings.Split(draw(colour), "\n") {
			if strings.TrimRight(line, " ") != line {
				t.Errorf("%s in colour ends in spaces: %q", name, line)
			}
		}
		draw(narrow) // must not fail where nothing fits
		draw(Options{})
	}
}

// makeWorst gives texts of JSON the greatest lengths that the kernel (IFNAMSIZ) and Kubernetes allow.
func makeWorst(v any) any {
	long := strings.Repeat("n", 63) + "/" + strings.Repeat("o", 253)
	switch v := v.(type) {
	case map[string]any:
		for key, value := range v {
			_, isText := value.(string)
			switch {
			case isText && key == "network", isText && key == "name" && v["kind"] != nil, isText && key == "pool":
				v[key] = long
			case isText && (key == "node" || key == "version" || key == "driver" || key == "cluster"):
				v[key] = strings.Repeat("d", 253)
			case isText && (key == "pf" || key == "netdevice"):
				v[key] = "enp129s0f0np123"
			case key == "addresses" && areTexts(value):
				v[key] = []any{"fd00:1111:2222:3333:4444:5555:6666:7777/128", "fd00:1111:2222:3333:4444:5555:6666:8888/128"}
			default:
				v[key] = makeWorst(value)
			}
		}
	case []any:
		for i := range v {
			v[i] = makeWorst(v[i])
		}
	}
	return v
}

func areTexts(v any) bool {
	list, ok := v.([]any)
	if !ok || len(list) == 0 {
		return false
	}
	_, ok = list[0].(string)
	return ok
}

// readWorst reads a golden file with the longest texts that may be in it.
func readWorst[T any](t *testing.T, name string) (out T) {
	t.Helper()
	text, err := os.ReadFile("../testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	var content any
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	if err := dec.Decode(&content); err != nil {
		t.Fatal(err)
	}
	raw, err := json.Marshal(makeWorst(content))
	if err == nil {
		err = json.Unmarshal(raw, &out)
	}
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// No line of any screen exceeds a terminal, however long the names are, and each name is there as a
// whole in one of the columns or below each other.
func TestWorstScreensFit(t *testing.T) {
	st, plan, cluster := readWorst[api.NodeStatus](t, "node.json"), readWorst[api.Plan](t, "plan.json"), readWorst[api.ClusterStatus](t, "cluster.json")
	var changes []api.VFChange
	for _, v := range st.VFs {
		c := api.Change{Op: api.Modify, Attribute: "addresses", From: strings.Repeat("fd00:1111:2222:3333:4444:5555:6666:7777/128 ", 3), To: v.Network}
		changes = append(changes, api.VFChange{Time: st.Time, Op: api.Modify, Node: v.Node, VF: v.Name, Changes: []api.Change{c}})
	}
	held := slices.DeleteFunc(slices.Clone(st.VFs), func(v api.VF) bool { return v.Owner == nil })
	draws := map[string]func(Options) string{
		"status": func(o Options) string { return Node(st, o) }, "vf list": func(o Options) string { return VFs(st.VFs, st.Time, o) },
		"pool list": func(o Options) string { return Pools(st.Pools, o) }, "cluster": func(o Options) string { return Cluster(cluster, o) },
		"cluster vfs": func(o Options) string { return VFs(cluster.Nodes[0].VFs, cluster.Time, o) }, "plan": func(o Options) string { return Plan(plan, o) },
		"vm list": func(o Options) string { return Guests(held, o) }, "ledger": func(o Options) string { return Ledger(ledger, o) },
		"watch":  func(o Options) string { return Watched(st.VFs, changes, st.Time, time.Second, o) },
		"doctor": func(o Options) string { return Doctor(doctor, o) },
	}
	for i, v := range st.VFs {
		draws["vf show "+strconv.Itoa(i)] = func(o Options) string { return VF(v, st, o) }
	}
	for name, draw := range draws {
		for _, width := range []int{100, 60} {
			o := Options{Look: screen.Look{Width: width}}
			for line := range strings.Lines(o.Fit(draw(o))) {
				if n := screen.Columns(strings.TrimRight(line, "\n")); n > width {
					t.Errorf("%s in %d columns has %d: %s", name, width, n, line)
				}
			}
		}
	}
}

// TestColourChangesNothingElse: without its colours, a coloured screen is the
// plain one.
func TestColourChangesNothingElse(t *testing.T) {
	for name, draw := range screens(t) {
		bare := draw(colour)
		for _, st := range []screen.Style{screen.Bold, screen.Dim, screen.Red, screen.Green, screen.Yellow, screen.Cyan} {
			bare = strings.ReplaceAll(bare, "\x1b["+string(st)+"m", "")
		}
		bare = strings.ReplaceAll(bare, "\x1b[0m", "")
		if diff := cmp.Diff(draw(blocks), bare); diff != "" {
			t.Errorf("%s (-plain +coloured):\n%s", name, diff)
		}
	}
}

func TestHurtAndRefused(t *testing.T) {
	p := read[api.Plan](t, "plan.json")
	if got, want := Hurt(p), "pod default/a (enp1s0f0#0), pod default/a-pod-with-a-name-that-is-far-too-long-6d5f8c7b9-x2x4z (enp1s0f0#1)"; got != want {
		t.Errorf("Hurt = %q, want %q", got, want)
	}
	p.PFs[1].Refused = "8 VFs wanted"
	if got, want := Refused(p), "PF enp1s0f1: 8 VFs wanted"; got != want {
		t.Errorf("Refused = %q, want %q", got, want)
	}
}

// TestHostileText: text from other programs cannot break a line or control the terminal.
func TestHostileText(t *testing.T) {
	st := read[api.NodeStatus](t, "node.json")
	st.Node = "a\x1b[2Jb\nc"
	st.Problems = []api.Problem{{Object: "x\ty", Reason: "z\x1b]0;t\x07\r\n" + strings.Repeat("w", 300)}}
	for i := range st.VFs {
		st.VFs[i].Network = "n\n\x1b[31m\xff"
	}
	sick := api.DoctorReport{Node: st.Node, Findings: []api.Finding{{Check: "cni", Object: "x\x1b[1m", What: "y\r", Why: "z\a", Mend: []string{"a\x1b[2Jb"}}},
		Repairs: []api.Repair{{What: "\x1b", Undo: "\r\x1b"}}}
	for _, s := range []string{Doctor(sick, plainText), Node(st, plainText), VFs(st.VFs, st.Time, plainText), VF(st.VFs[0], st, plainText)} {
		if strings.ContainsAny(s, "\x1b\x07\r\t") || !utf8.ValidString(s) {
			t.Errorf("control characters in %q", s)
		}
	}
}
