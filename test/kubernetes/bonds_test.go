//go:build kubernetes

package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/culvert-net/culvert/api/v1alpha1"
	"github.com/culvert-net/culvert/test/soak"
)

// I2: a pod with a bond of VFs of both PFs reaches the other pod while the switch of either PF
// fails. The pod requests nothing but the network. A NodeState shows which VFs form one bond, and
// the VFs come back clean.
func TestI2BondOutlivesAPulledWire(t *testing.T) {
	soak.Only(t, "a cluster of its own, and bonds that search for each other")
	networks(t)
	objects, err := os.ReadFile("testdata/bonds.yaml")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { offered(t, intel, "7") }) // after the policy is deleted
	apply(t, string(objects))
	offered(t, "culvert.dev/pair", "2")
	pods := pod("near", "worker01", "near") + pod("far", "worker02", "far")
	apply(t, pods)
	distinct(t, running(t, 2))
	if got := kubectl(t, "get", "pod", "near", "-o", `jsonpath={.spec.containers[0].resources.limits.culvert\.dev/pair}`); got != "2" {
		t.Errorf("pod near requests %q VFs, want 2", got)
	}
	t.Cleanup(func() { logBonds(t, "near", "far") })
	eventually(t, "each NodeState shows two VFs of two PFs as one bond", bondsAreShown)

	// The kernel of each node tries one member after the other until it has an answer. Until then
	// the pod knows that the other one cannot be reached, and ping ends.
	pings := func() string {
		return kubectl(t, "exec", "near", "--", "timeout", "120", "bash", "-c", "until ping -q -c 3 -W 2 10.97.60.2; do sleep 1; done")
	}
	t.Log(pings())
	for _, pf := range []struct{ id, name string }{{"pf1", "enp1s0"}, {"pf2", "enp2s0"}} {
		member := strings.TrimSpace(on(t, "worker01", `culvert vf list -o json | jq -r '.[] | select(.bond and .pf == "`+pf.name+`") | .netdevice'`))
		if !strings.HasPrefix(member, "net1") {
			t.Fatalf("the member of the bond on %s is %q", pf.name, member)
		}
		endPull := pullWires(t, pf.id)
		t.Logf("without the wire of %s:\n%s", pf.name, pings())
		if bond := kubectl(t, "exec", "near", "--", "cat", "/proc/net/bonding/net1"); strings.Contains(bond, "Currently Active Slave: "+member+"\n") {
			t.Errorf("without the wire of %s the bond sends by %s:\n%s", pf.name, member, bond)
		}
		endPull()
	}
	checkSandbox(t, "worker01", "near")
	feed(t, pods, "delete", "--wait", "-f", "-")
	allFree(t, allVFs)
}

// logBonds logs the members of each pod's bond and their counters, if the test has failed.
func logBonds(t *testing.T, pods ...string) {
	if !t.Failed() {
		return
	}
	for _, pod := range pods {
		out, err := k8s.Kubectl(context.Background(), "exec", pod, "--", "sh", "-c", "cat /proc/net/bonding/net1; ip -s -d link; ip neigh")
		t.Logf("pod %s: %s %v", pod, out, err)
	}
}

// pullWires pulls the wires of one PF of both nodes, as a switch that fails does, until the returned
// function is called or the test ends. The kernel counts a member as up while it gets any frames, so
// the bond of a node whose own wire is in does not notice that the other node has lost its wire.
func pullWires(t *testing.T, pf string) (end func()) {
	t.Helper()
	set := func(up bool) error {
		return errors.Join(k8s.Lab.Link("worker01", pf, up), k8s.Lab.Link("worker02", pf, up))
	}
	t.Cleanup(func() {
		if err := set(true); err != nil {
			t.Error(err)
		}
	})
	if err := set(false); err != nil {
		t.Fatal(err)
	}
	return func() {
		t.Helper()
		if err := set(true); err != nil {
			t.Fatal(err)
		}
	}
}

// bondsAreShown returns an error unless the NodeState of each node has one bond of two VFs, of
// different PFs and one owner.
func bondsAreShown() error {
	all, err := vfs()
	if err != nil {
		return err
	}
	for node, of := range all {
		var members []v1alpha1.VFState
		for _, v := range of {
			if v.Bond != nil {
				members = append(members, v)
			}
		}
		if len(members) != 2 {
			return fmt.Errorf("node %s has %d members: %+v", node, len(members), members)
		}
		a, b := members[0], members[1]
		pfA, _, _ := strings.Cut(a.Name, "#")
		pfB, _, _ := strings.Cut(b.Name, "#")
		if *a.Bond != *b.Bond || a.Bond.Links != 2 || a.Owner == nil || b.Owner == nil || *a.Owner != *b.Owner || a.Owner.Interface != "net1" || pfA == pfB {
			return fmt.Errorf("node %s: VFs %s and %s: %+v %+v", node, a.Name, b.Name, a, b)
		}
	}
	if len(all) == 0 {
		return errors.New("there is no NodeState")
	}
	return nil
}
