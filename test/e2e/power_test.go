//go:build lab

package e2e

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/culvert-net/culvert/lab/demo/node"
	"github.com/culvert-net/culvert/test/soak"
)

// churn attaches and detaches pods on a node until the test ends it.
type churn struct {
	n       node.Node
	pods    []node.Attachment
	stop    context.CancelFunc
	all     sync.WaitGroup
	adds    atomic.Int32
	refused atomic.Int32 // calls that failed, as they may while culvertd is down
}

// begin starts to attach and detach that many pods. Each has its own netns, all have
// one network.
func begin(t *testing.T, n node.Node, pods int) *churn {
	t.Helper()
	c := &churn{n: n}
	base := network(t, n, "churn", "1.1.0", pool+`, "vlan": 9, "ipam": {"type": "host-local", "subnet": "10.84.0.0/24"}`)
	for i := range pods {
		a := base
		a.Netns = fmt.Sprintf("churn%d", i)
		netns(t, n, a.Netns)
		c.pods = append(c.pods, a)
	}
	ctx, stop := context.WithCancel(t.Context())
	c.stop = stop
	for _, a := range c.pods {
		c.all.Add(1)
		go func() {
			defer c.all.Done()
			c.comeAndGo(ctx, a)
		}()
	}
	t.Cleanup(c.end)
	return c
}

func (c *churn) comeAndGo(ctx context.Context, a node.Attachment) {
	for ctx.Err() == nil {
		if _, err := c.n.CNI(ctx, "add", a); err == nil {
			c.adds.Add(1)
		} else {
			c.refused.Add(1)
		}
		if _, err := c.n.CNI(ctx, "del", a); err != nil {
			c.refused.Add(1)
		}
	}
}

// end stops all pods, and waits until their last calls have ended.
func (c *churn) end() {
	c.stop()
	c.all.Wait()
}

// progress waits until some more pods have come.
func (c *churn) progress(t *testing.T, more int32) {
	t.Helper()
	want := c.adds.Load() + more
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(bound); c.adds.Load() < want; <-tick.C {
		if time.Now().After(deadline) {
			t.Fatalf("only %d attachments in %s, %d calls failed", more-want+c.adds.Load(), bound, c.refused.Load())
		}
	}
}

// I1 I2 I4: the power goes while pods come and go. The ledger opens, the VFs are made
// again with the same MACs, no owner of the old boot holds anything, and pods get VFs.
func TestI2PowerCutUnderLoad(t *testing.T) {
	soak.Only(t, "nodes that boot again and again")
	n := nodes[1]
	leavesNothing(t, n)
	before := macs(t, n)
	c := begin(t, n, 6)
	c.progress(t, 8)
	if err := n.Lab.Kill(n.Name); err != nil {
		t.Fatal(err)
	}
	c.end()
	cut := time.Now()
	if err := n.Lab.Start(t.Context(), n.Name); err != nil {
		t.Fatal(err)
	}
	must(t, n, "systemctl", "start", "culvertd") // it was enabled: this waits until it is ready
	t.Logf("%s from power-on until culvertd was ready, after %d attachments", time.Since(cut).Round(time.Second), c.adds.Load())
	if diff := cmp.Diff(before, macs(t, n)); diff != "" {
		t.Errorf("-before +after the power cut:\n%s", diff)
	}
	st := status(t, n)
	if !st.Ready || len(st.Problems) > 0 {
		t.Errorf("ready %t, problems %v", st.Ready, st.Problems)
	}
	for _, v := range st.VFs {
		if v.Phase != "free" || len(v.Addresses) > 0 {
			t.Errorf("VF %s is %s with addresses %v after the power cut", v.Name, v.Phase, v.Addresses)
		}
	}
	a := network(t, n, "churn", "1.1.0", pool+`, "ipam": {"type": "host-local", "subnet": "10.84.0.0/24"}`)
	netns(t, n, a.Netns)
	add(t, n, a)
	if _, err := n.CNI(t.Context(), "check", a); err != nil {
		t.Error(err)
	}
}

// I2 I8: systemd restarts culvertd while pods come and go, in order and after a
// kill -9.
func TestI8RestartsUnderLoad(t *testing.T) {
	soak.Only(t, "restarts of culvertd under load")
	n := nodes[0]
	leavesNothing(t, n)
	c := begin(t, n, 6)
	for range 2 {
		c.progress(t, 3)
		must(t, n, "systemctl", "restart", "culvertd")
		c.progress(t, 3)
		must(t, n, "systemctl", "kill", "--signal=KILL", "culvertd") // the unit says Restart=always
		waitRestarted(t, n)
	}
	c.progress(t, 1)
	c.end()
	t.Logf("%d attachments, %d calls refused", c.adds.Load(), c.refused.Load())
	for _, a := range c.pods {
		del(t, n, a)
	}
}

// waitRestarted waits until systemd has started a killed culvertd again by itself, and
// culvertd is ready. An attachment that succeeds after a kill proves neither: its
// answer may have been on the way.
func waitRestarted(t *testing.T, n node.Node) {
	t.Helper()
	const want = "NRestarts=1\nActiveState=active"
	var state string
	for deadline := time.Now().Add(bound); state != want; time.Sleep(200 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("culvertd was killed %s ago, and systemd says %q", bound, state)
		}
		state = strings.TrimSpace(string(must(t, n, "systemctl", "show", "--property=NRestarts,ActiveState", "culvertd")))
	}
}
