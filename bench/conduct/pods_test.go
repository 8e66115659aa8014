package conduct

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/culvert-net/culvert/bench"
	"github.com/culvert-net/culvert/bench/place"
	"github.com/culvert-net/culvert/internal/vf"
)

// Two ends that do not know each other's subnet, and a third that does not forward and drops sources
// that it has no route back to, become a path through a router: many sources pass it.
func TestSteerThrough(t *testing.T) {
	w := newNamespaces(t)
	w.netns = append(w.netns, fmt.Sprintf("cvconduct%d-2", os.Getpid()))
	const r = 2
	run(t, "ip", "netns", "add", w.netns[r])
	t.Cleanup(func() { run(t, "ip", "netns", "del", w.netns[r]) })
	for i, port := range []string{place.ViaIn, place.ViaOut} {
		w.runIn(t, i, "link", "add", "name", "net1", "type", "veth", "peer", "name", port, "netns", w.netns[r])
		w.runIn(t, i, "link", "set", "net1", "up")
		w.runIn(t, r, "link", "set", port, "up")
		w.runIn(t, i, "addr", "add", fmt.Sprintf("10.95.%d.1/24", i), "dev", "net1")
		w.runIn(t, r, "addr", "add", fmt.Sprintf("10.95.%d.254/24", i), "dev", port)
	}
	run(t, "ip", "netns", "exec", w.netns[r], "sysctl", "-qw", "net.ipv4.ip_forward=0", "net.ipv4.conf.all.rp_filter=1", "net.ipv4.conf.net1.rp_filter=1")
	w.openAll(t)
	from, to, via := w.stations[0], w.stations[1], w.stations[r]
	between := func() []bench.Path { return Between(w.stations[:1], w.stations[1:r]) }
	if paths := between(); len(paths) != 0 {
		t.Fatalf("there is a path already: %+v", paths)
	}
	for range 2 { // a second time changes nothing
		if err := steerThrough(t.Context(), ends{from, "net1"}, ends{to, "net1"}, ends{via, place.ViaIn}, ends{via, place.ViaOut}); err != nil {
			t.Fatal(err)
		}
	}
	if err := DescribeStations(t.Context(), w.stations); err != nil {
		t.Fatal(err)
	}
	paths, err := Through(via, w.stations, between())
	if err != nil || len(paths) != 1 || paths[0].Via.How != bench.Routes || paths[0].Via.In != place.ViaIn || paths[0].Via.Out != place.ViaOut {
		t.Fatalf("%+v, %v", paths, err)
	}
	w.exchange.Arms = []bench.Arm{{Path: paths[0], Workload: bench.Workload{Kind: bench.Packets, Engine: "culvert", Size: 64, Seconds: 1, Sources: 4096}}}
	if got := w.goodRun(t, 0); got.PPS <= 0 || got.Via == nil {
		t.Errorf("%+v", got)
	}
	if err := steerThrough(t.Context(), ends{from, "net7"}, ends{to, "net1"}, ends{via, place.ViaIn}, ends{via, place.ViaOut}); err == nil || !strings.Contains(err.Error(), "has no IPv4 address at net7") {
		t.Errorf("an end without an address: %v", err)
	}
}

// A pod of a cluster names the VF of another pod. The culvertd of its node, which an agent in culvertd's
// own pod asks, lends that VF no rate, and the pod's own one.
func TestRateOfAnotherPodsVF(t *testing.T) {
	pci := parsePCI(t, "0000:01:10.2")
	l := &lender{}
	l.serve(t, pci)
	dir := t.TempDir()
	// This kubectl finds culvertd's pod on n1 alone, and runs commands there without a kubelet.
	script := fmt.Sprintf("#!/bin/sh\ncase \" $* \" in *spec.nodeName=n1,*) echo culvertd-x;; *\" exec --stdin --quiet culvertd-x -- culvert-bench agent --expendable\"*) exec %s agent;; esac\n", os.Args[0])
	if err := os.WriteFile(filepath.Join(dir, "kubectl"), []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	pod := tellingStation(t, "n1", `"error":"a pod has no socket of culvertd"`)
	pod.Cluster, pod.Pod, pod.namespace = true, true, "default"
	c := &Session{Stations: []*Station{pod}, cluster: &place.Cluster{Kubectl: []string{filepath.Join(dir, "kubectl")}, System: "culvert-system"}}
	path := bench.Path{From: bench.End{Machine: "n1", Name: "s", Interface: "net1"}}
	for owner, mayLend := range map[vf.Owner]bool{
		{Kind: vf.OwnerPod, UID: "u", Name: "default/victim"}: false, {Kind: vf.OwnerPod, UID: "u", Name: "victim/s"}: false,
		{Kind: vf.OwnerGuest, UID: "u", Name: "default/s"}: false, {Kind: vf.OwnerPod, UID: "u", Name: "default/s"}: true,
	} {
		l.begin(owner)
		_, _, err := c.Rates(t.Context(), path)
		if (err == nil) != mayLend || !mayLend && !strings.Contains(err.Error(), "belongs to "+owner.String()) {
			t.Errorf("a VF of %s: the rates that can be lent: %v", owner, err)
		}
		_, err = pod.lender.Agent.Lend(t.Context(), pod.pciAddress(path.From), pod.ownerOfVF(), 100, 5)
		if back := pod.lender.Agent.GiveBack(t.Context()); (err == nil) != mayLend || back != nil {
			t.Errorf("a VF of %s: a rate is lent: %v, %v", owner, err, back)
		}
		if did := l.done(); len(did) > 0 != mayLend {
			t.Errorf("a VF of %s: culvertd did %q", owner, did)
		}
	}
	if len(c.Stations) != 1 {
		t.Error("the agent beside culvertd takes part in runs")
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	elsewhere := &Session{Stations: c.Stations, cluster: c.cluster}
	pod.Machine.Name, path.From.Machine = "n2", "n2"
	if _, _, err := elsewhere.Rates(t.Context(), path); err == nil || !strings.Contains(err.Error(), "no pod of culvertd runs on n2") {
		t.Errorf("a node without culvertd: %v", err)
	}
}

// Networks whose VFs do not reach each other are named with what they lack.
func TestNetworksThatAreApart(t *testing.T) {
	index := 1
	overlay, both := bench.Path{Network: "overlay"}, bench.Path{Network: "VF", From: bench.End{VF: &index}, To: bench.End{VF: &index}}
	a, b := place.Seat{Node: "n1", Namespace: "d", Network: "a"}, place.Seat{Node: "n2", Namespace: "d", Network: "b"}
	for name, tc := range map[string]struct {
		cluster *place.Cluster
		paths   []bench.Path
		said    bool
	}{
		"no cluster":              {nil, nil, false},
		"one network":             {&place.Cluster{From: a, To: place.Seat{Node: "n2", Namespace: "d", Network: "a"}}, []bench.Path{overlay}, false},
		"two that reach":          {&place.Cluster{From: a, To: b}, []bench.Path{overlay, both}, false},
		"two that do not":         {&place.Cluster{From: a, To: b}, []bench.Path{overlay}, true},
		"of the same name":        {&place.Cluster{From: a, To: place.Seat{Node: "n2", Namespace: "e", Network: "a"}}, []bench.Path{overlay}, true},
		"with a pod between them": {&place.Cluster{From: a, To: b, Via: "n3"}, []bench.Path{overlay}, false},
	} {
		said := Order{Cluster: tc.cluster}.noteNetworks(tc.paths)
		if (said != "") != tc.said || tc.said && !strings.Contains(said, "on one segment") {
			t.Errorf("%s: %q", name, said)
		}
	}
}
