package torture

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/culvert-net/culvert/internal/admin/page"
	"github.com/culvert-net/culvert/internal/admin/page/source"
	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/vf"
)

// The page of a host shows the VF that a pod has, what it sends, and that it comes back.
func TestPageOfAHost(t *testing.T) {
	inNode(t)
	run(t, "ip", "link", "set", "lo", "up")
	d := newDaemon(t, hostYAML)
	events := openPage(t, d.socket)
	node := readNode(t, events, func(n api.NodeStatus) bool { return len(n.VFs) == 14 })
	if slices.ContainsFunc(node.VFs, func(v api.VF) bool { return v.Owner != nil }) {
		t.Fatalf("%+v", node.VFs)
	}
	p := newPod(t, "page", vf.PCIAddr{}, "")
	r, err := d.cni(t.Context(), "ADD", p)
	if err != nil {
		t.Fatal(err)
	}
	node = readNode(t, events, func(n api.NodeStatus) bool { return ownedBy(n, p.id) != nil })
	t.Logf("the page shows that %s has %s", ownedBy(node, p.id).Owner, ownedBy(node, p.id).Name)
	mac, own := r.Interfaces[0].MAC, r.IPs[0].Address.Addr()
	for done := false; !done; {
		for range 10 {
			sendFrames(t, p.netns, iface, newARP(mac, mac, own, netip.AddrFrom4([4]byte{10, 9, 1, 1})))
		}
		var flows []api.VFFlow
		readEvent(t, events, "rates", &flows)
		i := slices.IndexFunc(flows, func(f api.VFFlow) bool { return f.Owner != nil && f.Owner.UID == p.id })
		if done = i >= 0 && flows[i].Tx != nil && flows[i].Tx.Packets > 0; done {
			t.Logf("it sends %.1f packets a second", flows[i].Tx.Packets)
		}
	}
	if _, err := d.cni(t.Context(), "DEL", p); err != nil {
		t.Fatal(err)
	}
	readNode(t, events, func(n api.NodeStatus) bool { return ownedBy(n, p.id) == nil })
}

// ownedBy returns the VF that a container has.
func ownedBy(n api.NodeStatus, id string) *api.VF {
	for i, v := range n.VFs {
		if v.Owner != nil && v.Owner.UID == id {
			return &n.VFs[i]
		}
	}
	return nil
}

// openPage serves the page of a culvertd, enters by its URL, and opens a stream of the node.
func openPage(t *testing.T, socket string) *bufio.Reader {
	t.Helper()
	l, err := page.Listen(0)
	if err != nil {
		t.Fatal(err)
	}
	s := page.NewServer(source.NewHost(socket, nil), l)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	browser := &http.Client{Jar: jar}
	get := func(u string) io.Reader {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, u, nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := browser.Do(req)
		if err != nil || resp.StatusCode != http.StatusOK {
			t.Fatal(resp, err)
		}
		t.Cleanup(func() { _ = resp.Body.Close() })
		return resp.Body
	}
	get(s.NewURL())
	base := "http://" + l.Addr().String()
	var o page.Overview
	if err := json.NewDecoder(get(base + "/data/overview")).Decode(&o); err != nil || len(o.Nodes) != 1 || o.Nodes[0].PFs != 2 || !o.HasRates {
		t.Fatalf("%v %+v", err, o)
	}
	return bufio.NewReader(get(base + "/stream?node=" + o.Nodes[0].Name))
}

// readNode reads events until the node is as wanted.
func readNode(t *testing.T, events *bufio.Reader, ok func(api.NodeStatus) bool) api.NodeStatus {
	t.Helper()
	for {
		var n api.NodeStatus
		if readEvent(t, events, "node", &n); ok(n) {
			return n
		}
	}
}

// readEvent reads events until one has the name.
func readEvent(t *testing.T, events *bufio.Reader, name string, into any) {
	t.Helper()
	for {
		event, err := events.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		data, _ := events.ReadString('\n')
		_, _ = events.ReadString('\n')
		switch event {
		case "event: failure\n":
			t.Fatal(data)
		case "event: " + name + "\n":
			if err := json.Unmarshal([]byte(strings.TrimPrefix(data, "data: ")), into); err != nil {
				t.Fatal(err)
			}
			return
		}
	}
}
