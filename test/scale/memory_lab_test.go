//go:build lab

package scale

import (
	"flag"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/culvert-net/culvert/api/v1alpha1"
	"github.com/culvert-net/culvert/internal/cluster/controller"
	"github.com/culvert-net/culvert/internal/network/ipam"
	"github.com/culvert-net/culvert/internal/network/ipam/blocks"
	"github.com/culvert-net/culvert/test/apiserver"
	"github.com/culvert-net/culvert/test/child"
	"github.com/culvert-net/culvert/test/soak"
)

var (
	memoryNodes     = flag.Int("memory-nodes", 20, "nodes whose states the controller holds")
	memoryAddresses = flag.Int("memory-addresses", 400, "addresses that their pods hold")
)

// The controller grants blocks to many nodes with large states, and the test prints its resident
// memory. The pool has no two blocks that overlap (I4), and each node has the addresses that it
// uses.
//
// The long form, which tools/bench addresses runs:
// tools/go test -tags lab -run TestControllerMemory ./test/scale -args -memory-nodes 5000 -memory-addresses 100000
func TestControllerMemory(t *testing.T) {
	soak.Only(t, "the states of many nodes")
	server := apiserver.New(t)
	server.CRDs()
	c, err := client.New(server.Config(), client.Options{Scheme: controller.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	perNode := *memoryAddresses / *memoryNodes
	makeStates(t, c, perNode)
	pid := runController(t, server)
	begin := time.Now()
	object := &v1alpha1.AddressPool{}
	apiserver.Eventually(t, "the pool", func() error { return c.Get(t.Context(), client.ObjectKey{Name: "memory"}, object) })
	wait := 5*time.Minute + time.Duration(*memoryNodes/20)*time.Second
	for end := begin.Add(wait); object.Status.Granted < int64(*memoryAddresses); {
		if time.Now().After(end) {
			t.Fatalf("after %s %d of %d addresses are granted", wait, object.Status.Granted, *memoryAddresses)
		}
		time.Sleep(time.Second)
		if err := c.Get(t.Context(), client.ObjectKey{Name: "memory"}, object); err != nil {
			t.Fatal(err)
		}
	}
	took := time.Since(begin)
	pool, err := blocks.FromObject(object)
	if err != nil {
		t.Fatalf("I4: %v", err)
	}
	has := map[string]int64{}
	for _, b := range pool.Blocks {
		has[b.Node] += blocks.Count(b.Run)
	}
	for node, n := range has {
		if n < int64(perNode) {
			t.Errorf("node %s uses %d addresses and has %d", node, perNode, n)
		}
	}
	if len(has) != *memoryNodes || len(object.Status.Starved) > 0 {
		t.Errorf("%d of %d nodes have blocks; starved %v", len(has), *memoryNodes, object.Status.Starved)
	}
	now, peak := memoryOf(t, pid)
	fmt.Printf("BenchmarkControllerMemory/nodes=%d/addresses=%d 1 %d resident-MiB %d peak-MiB %d pool-KiB %.0f seconds\n",
		*memoryNodes, *memoryAddresses, now>>10, peak>>10, pool.Bytes()>>10, took.Seconds())
}

// makeStates makes the nodes with their states. Each state has perNode VFs with a pod and an
// address.
func makeStates(t *testing.T, c client.Client, perNode int) {
	t.Helper()
	section, err := ipam.Parse([]byte(`{"type": "host-local", "subnet": "10.0.0.0/12"}`))
	if err != nil {
		t.Fatal(err)
	}
	ranges := section.Usable()[0]
	var g errgroup.Group
	g.SetLimit(16)
	for i := range *memoryNodes {
		g.Go(func() error {
			n := &corev1.Node{}
			n.Name = fmt.Sprintf("node-%04d.example.com", i)
			if err := c.Create(t.Context(), n); err != nil {
				return err
			}
			s := &v1alpha1.NodeState{}
			s.Name, s.Status.NodeUID = n.Name, string(n.UID)
			s.Status.AddressRequests = blocks.ToObject([]blocks.Request{{Network: "memory", Ranges: ranges, Used: int64(perNode), Grant: fmt.Sprintf("%016x", i)}})
			for k := range perNode {
				a := netip.AddrFrom4([4]byte{10, byte(i >> 8), byte(i), byte(k)})
				s.Status.VFs = append(s.Status.VFs, v1alpha1.VFState{
					Name: fmt.Sprintf("enp1s0#%d", k), PCI: fmt.Sprintf("0000:3b:%02x.%d", k/8, k%8), Phase: "attached", Pool: "intel.com/sriov", Network: "memory", Addresses: []string{a.String() + "/12"},
					Owner: &v1alpha1.Owner{Kind: "pod", Name: fmt.Sprintf("default/pod-%d-%d", i, k), UID: strings.Repeat("0123456789abcdef", 4), Interface: "net1"},
				})
			}
			return c.Create(t.Context(), s)
		})
	}
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
}

// runController builds the controller and runs it until the test ends.
func runController(t *testing.T, server *apiserver.Server) (pid int) {
	t.Helper()
	dir := t.TempDir()
	build := exec.Command(filepath.Join("..", "..", "tools", "go"), "build", "-o", dir, "./cmd/culvert-controller")
	build.Dir = filepath.Join("..", "..")
	build.Path, _ = filepath.Abs(build.Path)
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	cmd := exec.CommandContext(t.Context(), filepath.Join(dir, "culvert-controller"),
		"--kubeconfig", server.AdminKubeconfig(), "--webhooks=", "--leader-elect=false", "--metrics", "0", "--health", "0", "--namespace", "default")
	if err := child.Start(cmd); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	return cmd.Process.Pid
}

// memoryOf returns the resident memory of a process and its peak, in KiB.
func memoryOf(t *testing.T, pid int) (now, peak int) {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		f := strings.Fields(line)
		if len(f) < 2 {
			continue
		}
		n, _ := strconv.Atoi(f[1])
		switch f[0] {
		case "VmRSS:":
			now = n
		case "VmHWM:":
			peak = n
		}
	}
	return now, peak
}
