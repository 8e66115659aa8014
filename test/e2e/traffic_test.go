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

// A list of sriov and tuning gets the MAC address that a pod asks for as Multus passes it: in CNI_ARGS to
// both plugins, and in runtimeConfig to tuning, which declares it. The PF has the address before tuning
// sets it inside, so the NIC lets the pods' frames pass.
func TestTuningGetsTheMACOfThePF(t *testing.T) {
	leavesNothing(t, nodes...)
	var ends []end
	for i, n := range nodes {
		name, mac := fmt.Sprintf("tuned%d", i), fmt.Sprintf("ca:fe:c0:ff:ee:%02x", i)
		body := fmt.Sprintf(`{"cniVersion": "0.4.0", "name": %q, "plugins": [{"type": "sriov", %s, "vlan": 5, "ipam": {"type": "static"}}, {"type": "tuning", "capabilities": {"mac": true}}]}`, name, pool)
		if err := n.WriteFile(t.Context(), confDir+"/"+name+".conflist", []byte(body)); err != nil {
			t.Fatal(err)
		}
		a := node.Attachment{
			Network: name, Dir: confDir, Netns: name, Interface: "net1", Abilities: fmt.Sprintf(`{"mac": %q}`, mac),
			Args: fmt.Sprintf("IgnoreUnknown=1;K8S_POD_NAMESPACE=d;K8S_POD_NAME=%s;MAC=%s;IP=10.85.0.%d/24", name, mac, i+1),
		}
		netns(t, n, name)
		r := add(t, n, a)
		link := jq(t, n, `.[0].address`, "ip -n "+name+" -j link show dev net1")
		admin := jq(t, n, fmt.Sprintf(`.[0].vfinfo_list[] | select(.vf == %d) | (.address // .mac)`, holder(t, n, name).Index), "ip -d -j link show dev enp1s0")
		if link != mac || admin != mac || len(r.Interfaces) != 1 || r.Interfaces[0].MAC != mac || len(r.IPs) != 1 {
			t.Errorf("on %s the interface has %s, the PF %s, the result %+v; want %s", n.Name, link, admin, r, mac)
		}
		ends = append(ends, end{a, n, fmt.Sprintf("10.85.0.%d", i+1)})
	}
	if got := ends[0].reaches(t, ends[1], true); got == 0 {
		t.Error("no ping comes back")
	}
	if _, err := nodes[0].CNI(t.Context(), "check", ends[0].Attachment); err != nil {
		t.Error(err)
	}
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
