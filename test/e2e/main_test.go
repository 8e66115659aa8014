//go:build lab

// Package e2e has the tests of whole nodes: culvertd under systemd, its plugin called by runtimes,
// real containers, real traffic, on two lab nodes that are booted once. After every test the VFs
// of both nodes must be as they were before it (I2), by the kernel and by Culvert.
//
//	make build && CULVERT=build/bin/culvert go test -tags lab ./test/e2e
//
// With -lab NAME they run in a lab that is up, and leave it up; -lab NAME
// -install installs Culvert's programs there anew.
package e2e

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/vf"
	"github.com/culvert-net/culvert/lab"
	"github.com/culvert-net/culvert/lab/demo"
	"github.com/culvert-net/culvert/lab/demo/node"
	"github.com/culvert-net/culvert/test/labs"
)

// hostYAML has all kinds of pools. The pool rest has all VFs of the second PF but the last two.
const hostYAML = `pfs:
- name: enp1s0
  vfs: 7
- name: enp2s0
  vfs: 7
pools:
- name: intel_sriov_netdevice
  prefix: intel.com
  selectors:
    pfNames: [enp1s0]
- name: vms
  deviceType: vfio-pci
  selectors:
    pfNames: ["enp2s0#5-6"]
- name: rest
  selectors:
    pfNames: [enp2s0]
`

var (
	useLab  = flag.String("lab", "", "run in the lab of this `name`, which is up")
	install = flag.Bool("install", false, "with -lab: install Culvert's programs anew")
)

// nodes are worker01 and worker02.
var nodes []node.Node

func TestMain(m *testing.M) {
	lab.Reexec()
	flag.Parse()
	os.Exit(run(m))
}

func run(m *testing.M) int {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Minute) // the image of guests may have to be built first
	defer cancel()
	l, fresh, err := bringUp(ctx)
	if err == nil {
		nodes = node.Of(l, 2)
		if *useLab == "" {
			defer l.Down(context.Background())
		}
		if fresh || *install {
			err = setUp(ctx, fresh)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "set the nodes up:", err)
		return 1
	}
	return m.Run()
}

// labName begins the name of a run's lab.
const labName = "e2e"

func bringUp(ctx context.Context) (l *lab.Lab, fresh bool, err error) {
	if *useLab != "" {
		l, err = lab.Open(*useLab)
		return l, false, err
	}
	l, err = lab.Up(ctx, lab.Options{
		Name: labs.Name(labName), Nodes: 2, Addition: lab.Guests, Progress: os.Stderr, Bound: true,
		Prepare: func(context.Context, func(string, ...any)) (lab.Software, error) {
			return lab.Software{Setup: demo.GuestSetup()}, nil
		},
	})
	if err != nil {
		return nil, false, err
	}
	return l, true, labs.ClearDead(ctx, l, labName)
}

// setUp installs Culvert on both nodes and prepares for containers.
func setUp(ctx context.Context, fresh bool) error {
	parts, err := node.FindParts(ctx, "../..", func(s string) { fmt.Fprintln(os.Stderr, s) })
	if err != nil {
		return err
	}
	stage, err := os.MkdirTemp("", "culvert-e2e-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(stage)
	if err := os.MkdirAll(filepath.Join(stage, "etc/libvirt"), 0o755); err != nil { // the nodes have it
		return err
	}
	if err := parts.Stage(ctx, stage, hostYAML); err != nil {
		return err
	}
	done := make(chan error, len(nodes))
	for _, n := range nodes {
		go func() {
			err := n.Install(ctx, stage)
			if err == nil && !fresh {
				_, err = n.Run(ctx, "systemctl", "restart", "culvertd")
			}
			if err == nil {
				err = n.Prepare(ctx)
			}
			done <- err
		}()
	}
	for range nodes {
		if failed := <-done; failed != nil {
			err = failed
		}
	}
	return err
}

// status asks a node's culvertd.
func status(t *testing.T, n node.Node) api.NodeStatus {
	t.Helper()
	var st api.NodeStatus
	if err := json.Unmarshal(must(t, n, "culvert", "status", "-o", "json"), &st); err != nil {
		t.Fatal(err)
	}
	return st
}

// must runs a command that has to succeed.
func must(t *testing.T, n node.Node, argv ...string) []byte {
	t.Helper()
	out, err := n.Run(t.Context(), argv...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// leavesNothing checks that after the test every VF of the nodes is as it was before (I2), and
// that no VF has an owner.
func leavesNothing(t *testing.T, on ...node.Node) {
	t.Helper()
	for _, n := range on {
		before, err := n.VFs(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { checkNothingLeft(t, n, before) })
	}
}

// bound is the time that an action may take on emulated nodes that other work keeps busy.
const bound = 10 * time.Minute

// checkNothingLeft waits until no VF is being reset, and then compares the VFs.
func checkNothingLeft(t *testing.T, n node.Node, before node.VFs) {
	ctx, cancel := context.WithTimeout(context.Background(), bound)
	defer cancel()
	if err := awaitReset(ctx, n); err != nil {
		t.Error(err)
	}
	after, err := n.VFs(ctx)
	if err != nil {
		t.Error(err)
		return
	}
	for name, change := range before.Changes(after) {
		t.Errorf("I2: %s: the kernel says of VF %s: %s", n.Name, name, change)
	}
	out, err := n.Run(ctx, "culvert", "status", "-o", "json")
	if err != nil {
		t.Error(err)
		return
	}
	var st api.NodeStatus
	if err := json.Unmarshal(out, &st); err != nil {
		t.Error(err)
	}
	for _, v := range st.VFs {
		if v.Phase != "free" || len(v.Differences) > 0 {
			t.Errorf("I2: %s: culvertd says of VF %s: %s, %s, differences %v", n.Name, v.Name, v.Phase, v.Reason, v.Differences)
		}
	}
}

// awaitReset waits until culvertd resets no VF of a node. It quarantines a VF that a process still
// has open, and resets it when that has closed it: a QEMU that was killed frees its memory first.
func awaitReset(ctx context.Context, n node.Node) error {
	for {
		out, err := n.Run(ctx, "culvert", "status", "-o", "json")
		if err != nil {
			return err
		}
		var st api.NodeStatus
		if err := json.Unmarshal(out, &st); err != nil {
			return err
		}
		i := slices.IndexFunc(st.VFs, isBeingReset)
		if i < 0 {
			return nil
		}
		select {
		case <-time.After(200 * time.Millisecond):
		case <-ctx.Done():
			return fmt.Errorf("%s: VF %s is still %s %s", n.Name, st.VFs[i].Name, st.VFs[i].Phase, st.VFs[i].Reason)
		}
	}
}

func isBeingReset(v api.VF) bool {
	return v.Phase == "releasing" || v.Phase == "quarantined" && strings.Contains(v.Reason, vf.ErrHeld.Error()+" open by ")
}

// confDir is where the tests' network configurations are.
const confDir = "/run/culvert-e2e/net.d"

// network writes a network's configuration, JSON with name and type left out,
// and returns an attachment to it: interface net1 of a netns of the same name.
func network(t *testing.T, n node.Node, name, version, config string) node.Attachment {
	t.Helper()
	body := fmt.Sprintf(`{"cniVersion": %q, "name": %q, "plugins": [{"type": "culvert", %s}]}`, version, name, config)
	if !json.Valid([]byte(body)) {
		t.Fatalf("not JSON: %s", body)
	}
	if err := n.WriteFile(t.Context(), confDir+"/"+name+".conflist", []byte(body)); err != nil {
		t.Fatal(err)
	}
	return node.Attachment{Network: name, Dir: confDir, Netns: name, Interface: "net1"}
}

// netns makes the attachment's netns for the time of the test.
func netns(t *testing.T, n node.Node, name string) {
	t.Helper()
	if err := n.AddNetns(t.Context(), name); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_, _ = n.Run(context.Background(), "ip", "netns", "delete", name) // the test may have done so
	})
}

// result is the part of a CNI result, of any version, that the tests look at.
type result struct {
	CNIVersion string `json:"cniVersion"`
	Interfaces []struct {
		Name    string `json:"name"`
		MAC     string `json:"mac"`
		MTU     int    `json:"mtu"`
		Sandbox string `json:"sandbox"`
		PCI     string `json:"pciID"`
	} `json:"interfaces"`
	IPs []struct {
		Address netip.Prefix `json:"address"`
		Gateway string       `json:"gateway"`
	} `json:"ips"`
	Routes []struct {
		Dst netip.Prefix `json:"dst"`
	} `json:"routes"`
}

// add attaches a VF, and sends a DEL for it when the test is over.
func add(t *testing.T, n node.Node, a node.Attachment) result {
	t.Helper()
	out, err := n.CNI(t.Context(), "add", a)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if _, err := n.CNI(context.Background(), "del", a); err != nil {
			t.Error(err)
		}
	})
	var r result
	if err := json.Unmarshal(out, &r); err != nil {
		t.Fatalf("%v in %s", err, out)
	}
	return r
}

// del detaches.
func del(t *testing.T, n node.Node, a node.Attachment) {
	t.Helper()
	if _, err := n.CNI(t.Context(), "del", a); err != nil {
		t.Fatal(err)
	}
}

// refused checks that a command of a CNI runtime fails, and that the message has all the words.
func refused(t *testing.T, n node.Node, command string, a node.Attachment, words ...string) {
	t.Helper()
	out, err := n.CNI(t.Context(), command, a)
	if err == nil {
		t.Fatalf("%s of %s succeeded: %s", command, a.Network, out)
	}
	mentions(t, err.Error(), words...)
}

// mentions checks that a text has all words.
func mentions(t *testing.T, text string, words ...string) {
	t.Helper()
	for _, w := range words {
		if !strings.Contains(text, w) {
			t.Errorf("%q is not in:\n%s", w, text)
		}
	}
}

// holder returns the VF that is attached to a network.
func holder(t *testing.T, n node.Node, network string) api.VF {
	t.Helper()
	for _, v := range status(t, n).VFs {
		if v.Owner != nil && v.Network == network {
			return v
		}
	}
	t.Fatalf("nobody on %s has a VF of network %s", n.Name, network)
	return api.VF{}
}

// jq runs a jq filter over what a command of the node prints, and returns the
// text.
func jq(t *testing.T, n node.Node, filter, command string) string {
	t.Helper()
	out, err := n.Script(t.Context(), "jq", command+` | jq -r "$1"`, filter)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}
