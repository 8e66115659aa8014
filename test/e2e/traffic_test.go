//go:build lab

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/culvert-net/culvert/bench"
	"github.com/culvert-net/culvert/lab/demo/node"
)

// end is a VF in a netns on a node.
type end struct {
	node.Attachment
	node node.Node
	ip   string
}

// plug attaches a VF of the first wire to a netns, on a VLAN.
func plug(t *testing.T, n node.Node, vlan, last int) end {
	t.Helper()
	name := fmt.Sprintf("wire%d", last)
	a := network(t, n, name, "1.1.0", fmt.Sprintf(`%s, "vlan": %d, "ipam": {"type": "static", "addresses": [{"address": "10.84.0.%d/24"}]}`, pool, vlan, last))
	netns(t, n, a.Netns)
	return end{a, n, add(t, n, a).IPs[0].Address.Addr().String()}
}

// reaches counts the pings that come back. If it expects some, it waits longer for the first one,
// since the link of a VF comes up some time after the attach.
func (e end) reaches(t *testing.T, other end, expected bool) int {
	t.Helper()
	wait := "-W 2"
	if expected {
		wait = "-w 120"
	}
	out, err := e.node.Script(t.Context(), "ping", `ip netns exec "$1" ping -c 4 -i 0.3 $3 "$2" || true`, e.Netns, other.ip, wait)
	if err != nil {
		t.Fatal(err)
	}
	p, err := bench.ParsePing(out)
	if err != nil {
		t.Fatal(err)
	}
	return p.Received
}

// VFs of two nodes on one VLAN reach each other over the wire, and VFs of
// different VLANs do not, be they on two nodes or on one NIC.
func TestVLANsAreApart(t *testing.T) {
	leavesNothing(t, nodes...)
	red, far := plug(t, nodes[0], 100, 11), plug(t, nodes[1], 100, 12)
	blue, blueFar := plug(t, nodes[0], 200, 13), plug(t, nodes[1], 200, 14)
	for _, c := range []struct {
		from, to end
		want     bool
	}{
		{red, far, true}, {blue, blueFar, true},
		{red, blue, false}, {red, blueFar, false}, {blue, far, false},
	} {
		if got := c.from.reaches(t, c.to, c.want); (got > 0) != c.want {
			t.Errorf("from %s on %s to %s on %s: %d pings came back; reachable should be %t",
				c.from.Netns, c.from.node.Name, c.to.Netns, c.to.node.Name, got, c.want)
		}
	}
}

// I2: a container that a runtime starts by itself, with Culvert's configuration in
// /etc/cni/net.d, has a VF as its eth0. It reaches a container on the other node.
func TestI2ContainerdStartsAContainer(t *testing.T) {
	leavesNothing(t, nodes...)
	far := plug(t, nodes[1], 0, 15)
	n := nodes[0]
	config := fmt.Sprintf(`{"cniVersion": "1.0.0", "name": "default", "plugins": [{"type": "culvert", %s,
		"ipam": {"type": "host-local", "subnet": "10.84.0.0/24", "rangeStart": "10.84.0.100", "routes": [{"dst": "0.0.0.0/0"}]}}]}`, pool)
	if !json.Valid([]byte(config)) {
		t.Fatal(config)
	}
	if err := n.WriteFile(t.Context(), "/etc/cni/net.d/10-culvert.conflist", []byte(config)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = n.Run(context.Background(), "rm", "-f", "/etc/cni/net.d/10-culvert.conflist") })
	out, err := n.Script(t.Context(), "ctr run", `
		ctr run --rm --cni --rootfs --env PATH=/usr/sbin:/usr/bin "$1" e2e sh -c "
			ip -4 -oneline address show dev eth0
			ip route show default
			ping -c 3 -i 0.3 -w 120 $2"`, node.Rootfs, far.ip)
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	mentions(t, string(out), "10.84.0.10", "default via 10.84.0.1", " 3 received")
	for _, v := range status(t, n).VFs {
		if v.Owner != nil {
			t.Errorf("the container has ended, and %s has %s", v.Owner, v.Name)
		}
	}
	if events := string(must(t, n, "culvert", "events")); !strings.Contains(events, "network default") {
		t.Errorf("no event tells of the container:\n%s", events)
	}
}
