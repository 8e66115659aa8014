package source

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/culvert-net/culvert/internal/admin/clusterview"
	"github.com/culvert-net/culvert/internal/admin/page"
	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/change"
	"github.com/culvert-net/culvert/test/fakecluster"
)

const (
	policies = "/apis/culvert.dev/v1alpha1/nodepolicies"
	pods     = "/api/v1/pods"
	nodes    = "/api/v1/nodes"
)

// openCluster returns a server of some nodes, and the source that reads it.
func openCluster(t *testing.T, count, vfs int, plans ...string) (*fakecluster.Server, *Cluster) {
	t.Helper()
	s := fakecluster.New(t)
	for i := range count {
		s.Put(fakecluster.MakeNode(i, vfs))
	}
	s.Set(policies, `{"metadata": {"name": "all"}, "spec": {"priority": 0, "pfs": [{"name": "enp1s0f*", "vfs": 4}], "pools": [{"name": "a"}]}, "status": {"nodes": 2, "appliedNodes": 2}}`)
	s.Set(nodes, `{"metadata": {"name": "node0000", "labels": {"rack": "1"}}}, {"metadata": {"name": "node0001", "labels": {"rack": "2"}}}`)
	c, err := clusterview.Open(s.Kubeconfig(t), "", "test")
	if err != nil {
		t.Fatal(err)
	}
	return s, NewCluster(c, plans)
}

// follow follows a source until the returned function is called.
func follow(t *testing.T, source page.Source) (changed change.Wake, stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	changed = change.NewWake()
	done := make(chan error)
	go func() { done <- source.Follow(ctx, changed.Notify) }()
	return changed, func() {
		cancel()
		<-done
	}
}

// await reads the overview until ok.
func await(t *testing.T, source page.Source, changed change.Wake, ok func(page.Overview) bool) page.Overview {
	t.Helper()
	for {
		o, err := source.ReadOverview(t.Context())
		if err == nil && ok(o) {
			return o
		}
		select {
		case <-changed:
		case <-time.After(20 * time.Second):
			t.Fatalf("%v: %+v", err, o)
		}
	}
}

// The overview of a cluster follows one list by a watch. It does not list again when a page is closed and
// opened.
func TestClusterFollowsAWatch(t *testing.T) {
	s, c := openCluster(t, 250, 8)
	s.Set(pods, `{"metadata": {"namespace": "culvert-system", "name": "culvertd-x"}, "spec": {"nodeName": "node0000"}, "status": {"phase": "Pending"}},
		{"metadata": {"namespace": "culvert-system", "name": "culvertd-y"}, "spec": {"nodeName": "node0001"}, "status": {"conditions": [{"type": "Ready", "status": "True"}]}}`)
	changed, stop := follow(t, c)
	o := await(t, c, changed, func(o page.Overview) bool { return len(o.Nodes) == 250 })
	if !o.Cluster || o.Name != "prod" || o.Nodes[1].VFs != (api.Counts{Total: 8, Used: 4, Free: 4}) || !o.Nodes[1].Ready || o.Nodes[0].Ready || o.Nodes[0].Problems != 1 || o.Nodes[1].PFs != 2 {
		t.Errorf("%+v", o.Nodes[:2])
	}
	if len(o.Pools) != 1 || o.Pools[0].Nodes != 250 || o.Pools[0].VFs.Total != 2000 || len(o.Segments) != 1 || len(o.Segments[0].PFs) != 200 || o.Segments[0].More != 300 {
		t.Errorf("%+v %d", o.Pools, o.Segments[0].More)
	}
	if n := o.Networks[0]; n.VFs != 1000 || len(n.Nodes) != 20 || n.MoreNodes != 230 || len(n.Owners) != 20 || n.MoreOwners != 980 {
		t.Errorf("%+v", n)
	}
	if len(o.Problems) != 200 || o.MoreProblems != 49 || len(o.Policies) != 1 { // 249 nodes without a ready culvertd
		t.Errorf("%d problems and %d more", len(o.Problems), o.MoreProblems)
	}
	s.AwaitWatch(t, 1)
	next := fakecluster.MakeNode(7, 8)
	next.Status.VFs[1].Phase = "quarantined"
	s.Put(next)
	await(t, c, changed, func(o page.Overview) bool { return o.Nodes[7].VFs.Quarantined == 1 })
	s.Delete("node0008")
	await(t, c, changed, func(o page.Overview) bool { return len(o.Nodes) == 249 })
	stop()
	changed, stop = follow(t, c)
	defer stop()
	next.Status.VFs[1].Phase = "free"
	s.AwaitWatch(t, 2)
	s.Put(next)
	await(t, c, changed, func(o page.Overview) bool { return o.Nodes[7].VFs.Quarantined == 0 })
	if lists, watches := s.Asked(fakecluster.States), s.Asked("watch"); lists != 3 || watches != 2 {
		t.Errorf("%d pages of lists and %d watches, want 3 and 2", lists, watches)
	}
	// A change is read alone.
	var seen []string
	if err := c.ReadNodes(t.Context(), "node0007", func(n api.NodeStatus) bool { seen = append(seen, n.Node); return true }); err != nil || len(seen) != 1 {
		t.Error(seen, err)
	}
	if err := c.ReadNodes(t.Context(), "", func(n api.NodeStatus) bool { seen = append(seen, n.Node); return len(seen) < 3 }); err != nil || slices.Compare(seen, []string{"node0007", "node0000", "node0001"}) != 0 {
		t.Error(seen, err)
	}
	if err := c.ReadNodes(t.Context(), "none", nil); err == nil || !strings.Contains(err.Error(), "no NodeState of that name") {
		t.Error(err)
	}
}

// The size of an overview does not depend on the number of VFs.
func TestOverviewIsBounded(t *testing.T) {
	var sizes []int
	for _, vfs := range []int{64, 256} {
		_, c := openCluster(t, 10, vfs)
		changed, stop := follow(t, c)
		o := await(t, c, changed, func(o page.Overview) bool { return len(o.Nodes) == 10 })
		stop()
		text, err := json.Marshal(o)
		if err != nil {
			t.Fatal(err)
		}
		sizes = append(sizes, len(text))
	}
	if sizes[1] > sizes[0]+500 { // longer numbers, and some owners have longer names
		t.Errorf("%d bytes with 64 VFs a node, %d with 256", sizes[0], sizes[1])
	}
}

// An error of the API server is the source's error, until a later try succeeds. A right that is missing
// is named.
func TestClusterErrors(t *testing.T) {
	s, c := openCluster(t, 1, 2)
	s.Forbid(fakecluster.States)
	s.Forbid("/api/v1/events")
	changed, stop := follow(t, c)
	defer stop()
	<-changed
	for {
		_, err := c.ReadOverview(t.Context())
		if err != nil && strings.Contains(err.Error(), "--clusterrole=culvert-view") {
			break
		}
		<-changed
	}
	if _, err := c.ReadEvents(t.Context(), "", 10); err == nil || !strings.Contains(err.Error(), "--clusterrole=view ") {
		t.Error(err)
	}
}

// A cluster's objects have no history. The answer is the command that shows it.
func TestClusterHistory(t *testing.T) {
	s, c := openCluster(t, 2, 2)
	s.Set(pods, `{"metadata": {"namespace": "culvert-system", "name": "culvertd-y"}, "spec": {"nodeName": "node0001"}, "status": {"conditions": [{"type": "Ready", "status": "True"}]}}`)
	_, stop := follow(t, c)
	defer stop()
	for _, tc := range [][3]string{
		{"node0001", "enp1s0f0#1", "kubectl -n culvert-system exec culvertd-y -- culvert vf history enp1s0f0#1"},
		{"node0001", "a'; reboot", `kubectl -n culvert-system exec culvertd-y -- culvert vf history 'a'\''; reboot'`},
		{"node0000", "enp1s0f0#1", "culvert vf history enp1s0f0#1    # on node node0000"},
	} {
		if h, err := c.ReadHistory(t.Context(), tc[0], tc[1]); err != nil || h.Command != tc[2] || h.Spans == nil || h.Events == nil {
			t.Errorf("%v: %v %q", tc, err, h.Command)
		}
	}
}

// A plan has the nodes that the file's policies select, or did before.
func TestClusterPlans(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	policy := func(name, spec string) string {
		return fmt.Sprintf("apiVersion: culvert.dev/v1alpha1\nkind: NodePolicy\nmetadata: {name: %s}\nspec: %s\n", name, spec)
	}
	fewer := write("fewer.yaml", policy("all", "{nodeSelector: {rack: '1'}, pfs: [{name: 'enp1s0f*', vfs: 2}], pools: [{name: a}]}"))
	added := write("added.yaml", policy("b", "{priority: 5, pfs: [{name: enp1s0f1, vfs: 4, mtu: 9000}]}")+"---\n"+policy("c", "{nodeSelector: {rack: '9'}}"))
	same := write("same.yaml", policy("d", "{nodeSelector: {rack: '2'}, pfs: [{name: 'enp1s0f*', vfs: 4}]}"))
	none := write("none.yaml", policy("e", "{nodeSelector: {rack: '9'}}"))
	s, c := openCluster(t, 2, 8, fewer, added, same, none, write("bad.yaml", policy("f", "{pfs: [{nam: x}]}")), write("pod.yaml", "kind: Pod\nmetadata: {name: a}\n"), write("empty.yaml", ""), filepath.Join(dir, "gone.yaml"))
	_, stop := follow(t, c)
	defer stop()
	plans, err := c.ReadPlans(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, p := range plans {
		hurts, refused := 0, ""
		for _, pf := range p.Plan.PFs {
			hurts, refused = hurts+len(pf.Hurts), refused+pf.Refused
		}
		got = append(got, strings.TrimSpace(fmt.Sprintf("%s %s %d PFs %d owners %s", filepath.Base(p.File), p.Node, len(p.Plan.PFs), hurts, refused+p.Error)))
	}
	want := []string{
		"fewer.yaml node0000 2 PFs 4 owners", // and node0001 loses its policy
		"fewer.yaml node0001 2 PFs 0 owners",
		"added.yaml node0000 1 PFs 0 owners",
		"added.yaml node0001 1 PFs 0 owners",
		"same.yaml node0001 0 PFs 0 owners",
		"none.yaml  0 PFs 0 owners",
		"bad.yaml  0 PFs 0 owners NodePolicy f: pfs[0].nam",
		"pod.yaml  0 PFs 0 owners " + filepath.Join(dir, "pod.yaml") + ":1 has a Pod",
		"empty.yaml  0 PFs 0 owners " + filepath.Join(dir, "empty.yaml") + " has no NodePolicy",
		"gone.yaml  0 PFs 0 owners " + filepath.Join(dir, "gone.yaml"),
	}
	for i := range max(len(got), len(want)) {
		if i >= len(got) || i >= len(want) || !strings.HasPrefix(got[i], want[i]) {
			t.Fatalf("plan %d:\n%s\nwant\n%s", i, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
	s.Forbid(nodes)
	if plans, err = c.ReadPlans(t.Context()); err != nil || !strings.Contains(plans[0].Error, "--resource=nodes") || plans[1].Node != "" {
		t.Errorf("%v %+v", err, plans[:2])
	}
	o := await(t, c, change.NewWake(), func(o page.Overview) bool { return true })
	if !o.Plans {
		t.Error("the overview does not say that there are plans")
	}
}

// Plans of many nodes are cut, and those that take VFs from owners come first.
func TestPlansAreBounded(t *testing.T) {
	file := filepath.Join(t.TempDir(), "p.yaml")
	if err := os.WriteFile(file, []byte("kind: NodePolicy\nmetadata: {name: all}\nspec: {pfs: [{name: 'enp1s0f*', vfs: 2}], pools: [{name: a}]}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s, c := openCluster(t, mostPlans+10, 8, file)
	for i := range mostPlans {
		n := fakecluster.MakeNode(i, 8)
		for j := range n.Status.VFs {
			n.Status.VFs[j].Owner, n.Status.VFs[j].Phase = nil, "free"
		}
		s.Put(n)
	}
	_, stop := follow(t, c)
	defer stop()
	plans, err := c.ReadPlans(t.Context())
	if err != nil || len(plans) != mostPlans+1 || plans[0].Node != fmt.Sprintf("node%04d", mostPlans) || !strings.Contains(plans[mostPlans].Plan.Notes[0], "10 more nodes") {
		t.Errorf("%v %d plans, the first of %s", err, len(plans), plans[0].Node)
	}
}
