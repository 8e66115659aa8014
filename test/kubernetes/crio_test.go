//go:build kubernetes

package kubernetes

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/culvert-net/culvert/lab/cluster"
	"github.com/culvert-net/culvert/test/soak"
)

var crio = flag.Bool("crio", false, "run TestCRIO, on a cluster of its own whose nodes run CRI-O")

// onCRIO is R1's node, with CRI-O and Flannel. TestCRIO installs Culvert on it.
var onCRIO = &site{names: []string{"worker1"}, runtime: cluster.CRIO}

// TestCRIO goes through the life of a cluster whose node runs CRI-O: pods of before, the
// installation, R1's objects, restarts, a reboot, and the uninstallation with pods that run. The
// steps build on each other.
func TestCRIO(t *testing.T) {
	soak.Only(t, "a cluster of its own, and CRI-O, which takes ten minutes to compile")
	if !*crio {
		t.Skip("a job of its own runs it, with -args -crio")
	}
	need(t, onCRIO)
	for _, step := range []struct {
		name string
		run  func(t *testing.T)
	}{
		{"PodsOfBefore", crioPodsOfBefore},
		{"I4ChelsioAsItStands", crioChelsio},
		{"P1Restarts", crioRestarts},
		{"P1Reboot", crioReboot},
		{"Uninstall", crioUninstall},
	} {
		if !t.Run(step.name, step.run) {
			return
		}
	}
}

// crioPodsOfBefore installs Culvert as docs/kubernetes.md does. Pods that ran before keep their
// network when CRI-O starts again: it calls GC of each network then.
func crioPodsOfBefore(t *testing.T) {
	feed(t, pod("before", "worker1", "")+pod("peer", "worker1", ""), "apply", "-f", "-")
	ready(t, "pod/before", "pod/peer")
	archive := filepath.Join(t.TempDir(), "culvert.tar")
	build := exec.CommandContext(t.Context(), "tools/go", "run", "./tools/image", "-arch", "amd64", "-go", "any", "-out", archive)
	build.Dir = top
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, node := range onCRIO.names {
		err := errors.Join(k8s.Lab.Copy(t.Context(), node, archive, "/root/culvert.tar"), k8s.Lab.Copy(t.Context(), node, top+"/build/bin/culvert", "/usr/local/bin/culvert"))
		if err != nil {
			t.Fatal(err)
		}
		on(t, node, "cd /root && podman load -i culvert.tar && rm culvert.tar")
	}
	if err := k8s.InstallCulvert(t.Context(), top); err != nil {
		t.Log(state())
		t.Fatal(err)
	}
	kubectl(t, "apply", "-f", labPolicy)
	offered(t, chelsio, "7")
	awaitFirst(t, "culvert")
	was := sandboxesOf(t, "worker1", "before")
	restartCRIO(t, "worker1")
	eventually(t, "pod before reaches its peer", func() error { return reachOverlay("before", "peer") })
	if is := sandboxesOf(t, "worker1", "before"); is != was {
		t.Errorf("pod before had the sandbox %s, and has %s", was, is)
	}
	feed(t, "", "delete", "pod", "before", "peer", "--wait")
}

// awaitFirst waits until the first network in the runtime's folder of each node has a plugin of that
// type.
func awaitFirst(t *testing.T, plugin string) {
	t.Helper()
	for _, node := range onCRIO.names {
		eventually(t, "the network of pods on "+node+" is by "+plugin, func() error {
			first, err := tryOn(node, "jq -r .plugins[0].type $(ls /etc/cni/net.d/*.conflist | head -1)")
			if err == nil && first != plugin+"\n" {
				err = fmt.Errorf("it is by %s", first)
			}
			return err
		})
	}
}

// restartCRIO restarts CRI-O, and waits until the network of pods is ready, after which CRI-O has
// collected garbage.
func restartCRIO(t *testing.T, node string) {
	t.Helper()
	on(t, node, "systemctl restart crio")
	eventually(t, "CRI-O of "+node+" is ready", func() error {
		_, err := k8s.Kubectl(t.Context(), "wait", "--for=condition=Ready", "node/"+node, "--timeout=1s")
		if err == nil {
			_, err = tryOn(node, `curl -sS --fail --unix-socket /run/crio/crio.sock http://crio/info >/dev/null`)
		}
		return err
	})
}

// sandboxesOf returns the IDs of the sandboxes of a pod.
func sandboxesOf(t *testing.T, node, pod string) string {
	t.Helper()
	return on(t, node, `podman ps --all --external --format '{{.ID}} {{.Names}}' | grep k8s_POD_`+pod+`_ | sort || true`)
}

// reachOverlay pings from one pod to another over the default network.
func reachOverlay(from, to string) error {
	ip, err := k8s.Kubectl(context.Background(), "get", "pod", to, "-o", "jsonpath={.status.podIP}")
	if err == nil {
		_, err = k8s.Kubectl(context.Background(), "exec", from, "--", "ping", "-c", "1", "-w", "20", string(ip))
	}
	return err
}

// crioChelsio applies R1's objects as they stand, and pings between two such pods over their VFs. The
// device plugin's ConfigMap selects a NIC that the nodes do not have; culvertd uses the policy's pool
// of that name.
func crioChelsio(t *testing.T) {
	const file = "testdata/r1-chelsio.yaml"
	kubectl(t, "apply", "-f", file)
	apply(t, pod("other", "worker1", "sriov-net1"))
	has := distinct(t, running(t, 2))
	if subnet := netip.MustParsePrefix("102.100.2.0/24"); !subnet.Contains(has["testpod1"]) || kernelAddress(t, "testpod1") != has["testpod1"] {
		t.Errorf("testpod1 has %s by the kernel, and %s by its network-status, of %s", kernelAddress(t, "testpod1"), has["testpod1"], subnet)
	}
	if env := kubectl(t, "exec", "testpod1", "--", "env"); !strings.Contains(env, "PCIDEVICE_INTEL_COM_CHELSIO_SRIOV_NETDEVICE=0000:") {
		t.Errorf("testpod1 has no PCIDEVICE_ variable:\n%s", env)
	}
	kubectl(t, "exec", "testpod1", "--", "ping", "-c", "3", "-w", "300", has["other"].String())
	kubectl(t, "delete", "-f", file, "--grace-period=1", "--wait")
	feed(t, "", "delete", "pod", "other", "--wait")
	allFree(t, allVFs/2)
}

// crioRestarts restarts CRI-O under traffic. Then it does so once more while culvertd is away, with
// the kubelet, which must not cost a pod its sandbox. The DEL of each pod comes after the restarts.
func crioRestarts(t *testing.T) {
	apply(t, readFile(t, "testdata/networks.yaml"))
	apply(t, pod("from", "worker1", "first")+pod("to", "worker1", "first"))
	has := distinct(t, running(t, 2))
	was := sandboxesOf(t, "worker1", "from")
	before, err := vfs()
	if err != nil {
		t.Fatal(err)
	}
	stream(t, "from", has["to"], func() {
		restartCRIO(t, "worker1")
		on(t, "worker1", "systemctl stop kubelet; pkill -KILL -x culvertd; systemctl restart crio; systemctl start kubelet")
		if err := k8s.AwaitCulvert(t.Context()); err != nil {
			t.Fatal(err)
		}
	})
	if is := sandboxesOf(t, "worker1", "from"); is != was {
		t.Errorf("pod from had the sandbox %s, and has %s", was, is)
	}
	after, err := vfs()
	if err != nil {
		t.Fatal(err)
	}
	sameVFs(t, before, after)
	feed(t, "", "delete", "pod", "from", "to", "--wait")
	allFree(t, allVFs/2)
}

// crioReboot reboots a node: it has the same VFs again (P1), and the pods of a Deployment come back
// with VFs. CRI-O wipes its containers then (internal_wipe), with a DEL for each sandbox.
func crioReboot(t *testing.T) {
	apply(t, readFile(t, "testdata/networks.yaml"))
	apply(t, deployment("web", "worker1", "first", 2))
	distinct(t, running(t, 2))
	was := sandboxesOf(t, "worker1", "web")
	before, err := vfs()
	if err != nil {
		t.Fatal(err)
	}
	if err := k8s.Lab.Reboot(context.Background(), "worker1"); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the sandboxes of before are gone", func() error {
		is, err := tryOn("worker1", "podman ps --all --external --format '{{.ID}} {{.Names}}'")
		for id := range strings.FieldsSeq(was) {
			if strings.Contains(is, id) {
				err = errors.Join(err, fmt.Errorf("%s is there", id))
			}
		}
		return err
	})
	awaitOwnAddresses(t, 2)
	after, err := vfs()
	if err != nil {
		t.Fatal(err)
	}
	sameVFs(t, before, after)
}

// crioUninstall uninstalls Culvert while a pod without a VF runs: the pod keeps its network, and can
// be deleted.
func crioUninstall(t *testing.T) {
	feed(t, pod("stays", "worker1", "")+pod("peer", "worker1", ""), "apply", "-f", "-")
	ready(t, "pod/stays", "pod/peer")
	kubectl(t, "delete", "-f", top+"/dist/kubernetes/culvert.yaml", "--ignore-not-found", "--wait")
	awaitFirst(t, "flannel")
	restartCRIO(t, "worker1")
	if err := reachOverlay("stays", "peer"); err != nil {
		t.Error(err)
	}
	kubectl(t, "delete", "pod", "stays", "peer", "--wait", "--timeout=3m")
	for _, node := range onCRIO.names {
		gone(t, node)
	}
}

func readFile(t *testing.T, name string) string {
	t.Helper()
	body, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}
