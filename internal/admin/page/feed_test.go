package page

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/vf"
)

func makeNodes(n, vfs int) (out []api.NodeStatus) {
	for i := range n {
		node := api.NodeStatus{Node: fmt.Sprintf("node%d", i), Version: "v1"}
		for j := range vfs {
			node.VFs = append(node.VFs, api.VF{Name: fmt.Sprintf("eth0#%d", j), ID: vf.ID{Index: j}, Owner: &vf.Owner{Kind: "pod", Name: fmt.Sprintf("ns/pod-%d-%d", i, j)}, Traffic: &vf.Traffic{}})
		}
		out = append(out, node)
	}
	return out
}

// A stream sends the whole overview, and then only what changed of it.
func TestStreamSendsDifferences(t *testing.T) {
	f := &fake{nodes: makeNodes(3, 1)}
	e := serve(t, f).enter(t).open(t, "/stream")
	var o Overview
	if e.next("overview", &o); len(o.Nodes) != 3 {
		t.Fatal(o)
	}
	var since alive
	for range 2 { // nothing changes, and the page sees that the picture is new
		before := since
		if e.nextOf("alive", &since); !since.Time.After(before.Time) {
			t.Errorf("alive at %s and %s", before.Time, since.Time)
		}
	}
	f.change(func() { f.nodes[1].Version = "v2" })
	var rows []NodeRow
	if e.next("rows", &rows); len(rows) != 1 || rows[0].Name != "node1" || rows[0].Version != "v2" {
		t.Error(rows)
	}
	f.change(func() { f.pools = []PoolRow{{Name: "culvert.dev/a"}} })
	o = Overview{}
	if e.next("summary", &o); o.Nodes != nil || len(o.Pools) != 1 {
		t.Error(o)
	}
	f.change(func() { f.nodes = f.nodes[:2] })
	if e.next("overview", &o); len(o.Nodes) != 2 {
		t.Error(o)
	}
	f.change(func() { f.err = errors.New("it is away") })
	var failed failure
	if e.next("failure", &failed); failed.Error != "it is away" {
		t.Error(failed)
	}
	f.change(func() { f.err = nil })
	e.next("overview", &o)
}

// A node is sent when it changes, and not since its counters do; these become rates.
func TestStreamOfANode(t *testing.T) {
	f := &fake{nodes: makeNodes(2, 1)}
	b := serve(t, f).enter(t)
	e := b.open(t, "/stream?node=node1")
	e.next("overview", &Overview{})
	var n api.NodeStatus
	if e.next("node", &n); n.Node != "node1" || n.VFs[0].Traffic == nil {
		t.Error(n)
	}
	f.change(func() { f.nodes[1].VFs[0].Traffic = &vf.Traffic{RxBytes: 1 << 20} })
	var flows []api.VFFlow
	if e.next("rates", &flows); len(flows) != 1 || flows[0].Rx == nil || flows[0].Rx.Bits < 1<<20 {
		t.Errorf("rates %+v", flows)
	}
	f.change(func() { f.nodes[1].Ready = true })
	if e.next("node", &n); !n.Ready {
		t.Error(n)
	}
	var failed failure
	e = b.open(t, "/stream?node=node9")
	e.next("overview", &Overview{})
	if e.next("failure", &failed); !strings.Contains(failed.Error, "not found") {
		t.Error(failed)
	}
}

// Pages share one reader. Without a page nothing is read.
func TestOneReader(t *testing.T) {
	f := &fake{nodes: makeNodes(1, 1)}
	b := serve(t, f, func(s *Server) {
		s.feed.pace.tick = time.Hour
		s.feed.pace.linger = 200 * time.Millisecond
	}).enter(t)
	if n := f.get(func() int { return f.reads + f.followers }); n != 0 {
		t.Errorf("the source was read %d times without a page", n)
	}
	all := []*events{b.open(t, "/stream"), b.open(t, "/stream"), b.open(t, "/stream")}
	for _, e := range all {
		e.next("overview", &Overview{})
	}
	for i := range 5 {
		f.change(func() { f.nodes[0].Version = fmt.Sprint(i) })
		for _, e := range all {
			e.next("rows", &[]NodeRow{})
		}
	}
	if reads, followers := f.get(func() int { return f.reads }), f.get(func() int { return f.followers }); reads != 6 || followers != 1 {
		t.Errorf("%d reads by %d readers for 3 pages and 5 changes, want 6 by 1", reads, followers)
	}
	for _, e := range all {
		e.end()
	}
	wait(t, "the end of the reader", func() bool { return f.get(func() int { return f.followers }) == 0 })
	f.change(func() { f.nodes[0].Version = "later" })
	var o Overview
	if b.open(t, "/stream").next("overview", &o); o.Nodes[0].Version != "later" {
		t.Errorf("a page that is opened again shows an old picture: %v", o.Nodes)
	}
}

// Requests for data follow the source for a while.
func TestDataFollowsTheSource(t *testing.T) {
	f := &fake{nodes: makeNodes(2, 60)}
	b := serve(t, f, func(s *Server) { s.feed.pace.linger = time.Minute }).enter(t)
	for path, want := range map[string]string{
		"/data/overview": `"name":"node1"`, "/data/node?name=node1": `"node":"node1"`, "/data/events?node=node1&limit=7": `"seq":7`, "/data/events?limit=100000": `"seq":100`,
		"/data/history?node=a&vf=b": `"command":"a b"`, "/data/find?q=": "[]\n", "/data/find?q=POD-1-59+eth0%2359": `[{"node":"node1","vf":{"name":"eth0#59"`, "/data/find?q=pod-1-59+none": "[]\n",
	} {
		if code, text := b.get(t, path); code != http.StatusOK || !strings.Contains(text, want) {
			t.Errorf("%s: %d %.300s", path, code, text)
		}
	}
	if _, text := b.get(t, "/data/find?q=ns/"); strings.Count(text, `"node":`) != mostFound {
		t.Errorf("%d found", strings.Count(text, `"node":`))
	}
	for path, want := range map[string]int{"/favicon.ico": 204, "/data/plans": 502, "/data/node?name=none": 404, "/data/node": 404, "/data/none": 404} {
		if code, text := b.get(t, path); code != want {
			t.Errorf("%s: %d %s", path, code, text)
		}
	}
	if n := f.get(func() int { return f.followers }); n != 1 {
		t.Errorf("%d followers", n)
	}
}
