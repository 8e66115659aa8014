//go:build kubernetes

package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"path/filepath"
	"strings"
	"testing"

	"github.com/culvert-net/culvert/lab/cluster"
	"github.com/culvert-net/culvert/test/soak"
)

// onCRIO is R1's node, with CRI-O and Flannel, and the Kubernetes that CRI-O 1.34 is for. TestCRIO
// installs Culvert on it.
var onCRIO = &site{names: []string{crioNode}, runtime: cluster.CRIO, version: cluster.Earlier}

const crioNode = "worker1"

// TestCRIO goes through the life of a node that runs CRI-O: pods of before, the installation, R1's
// objects, restarts, garbage, a reboot, and the uninstallation with pods that run. The steps build on
// each other.
func TestCRIO(t *testing.T) {
	soak.Only(t, "a cluster of its own, and CRI-O, which takes ten minutes to compile")
	need(t, onCRIO)
	for _, step := range []struct {
		name string
		run  func(t *testing.T)
	}{
		{"PodsOfBefore", crioPodsOfBefore},
		{"I4ChelsioAsItStands", crioChelsio},
		{"P1Restarts", crioRestarts},
		{"Garbage", crioGarbage},
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
	feed(t, pod("before", crioNode, "")+pod("peer", crioNode, ""), "apply", "-f", "-")
	ready(t, "pod/before", "pod/peer")
	archive := filepath.Join(t.TempDir(), "culvert.tar")
	if err := cluster.BuildCulvert(t.Context(), top, archive); err != nil {
		t.Fatal(err)
	}
	err := errors.Join(k8s.Lab.Copy(t.Context(), crioNode, archive, "/root/culvert.tar"), k8s.Lab.Copy(t.Context(), crioNode, top+"/build/bin/culvert", "/usr/local/bin/culvert"))
	if err != nil {
		t.Fatal(err)
	}
	on(t, crioNode, "cd /root; podman load -i culvert.tar; rm culvert.tar")
	if err := k8s.InstallCulvert(t.Context(), top); err != nil {
		t.Log(state())
		t.Fatal(err)
	}
	kubectl(t, "apply", "-f", labPolicy)
	offered(t, chelsio, "7")
	awaitPlugin(t, "culvert")
	// Debian's containerd is there, with a configuration, and does not run.
	if found := on(t, crioNode, "culvert doctor || true"); !strings.Contains(found, "ok       /opt/cni/bin: the CNI plugin culvert is there") {
		t.Errorf("culvert doctor does not find the plugin:\n%s", found)
	}
	was := sandboxOf(t, "before")
	restartCRIO(t)
	reachOverlay(t, "before", "peer")
	if is := sandboxOf(t, "before"); is != was {
		t.Errorf("pod before had the sandbox %s, and has %s", was, is)
	}
	kubectl(t, "delete", "pod", "before", "peer", "--grace-period=1", "--wait", "--timeout=3m")
}

// awaitPlugin waits until the configuration of the default network, by name the first, has that plugin.
func awaitPlugin(t *testing.T, plugin string) {
	t.Helper()
	eventually(t, "the network of pods is by "+plugin, func() error {
		first, err := tryOn(crioNode, "jq -r .plugins[0].type $(ls /etc/cni/net.d/*.conflist | head -1)")
		if err == nil && first != plugin+"\n" {
			err = fmt.Errorf("it is by %s", first)
		}
		return err
	})
}

// restartCRIO restarts CRI-O.
func restartCRIO(t *testing.T) {
	t.Helper()
	on(t, crioNode, "systemctl restart crio")
	awaitCRIO(t)
}

// awaitCRIO waits until CRI-O has started a pod, which it does only after it has collected garbage.
func awaitCRIO(t *testing.T) {
	t.Helper()
	next := pod("next", crioNode, "")
	feed(t, next, "apply", "-f", "-")
	ready(t, "pod/next")
	feed(t, next, "delete", "--grace-period=1", "--wait", "-f", "-")
}

// sandboxOf returns the IDs of the sandboxes of a pod.
func sandboxOf(t *testing.T, pod string) string {
	t.Helper()
	return on(t, crioNode, `podman ps --all --external --format '{{.ID}} {{.Names}}' | grep k8s_POD_`+pod+` | cut -d ' ' -f 1 | sort`)
}

// reachOverlay pings from one pod to another over the default network.
func reachOverlay(t *testing.T, from, to string) {
	t.Helper()
	address := kubectl(t, "get", "pod", to, "-o", "jsonpath={.status.podIP}")
	kubectl(t, "exec", from, "--", "ping", "-c", "3", "-w", "20", address)
}

// crioChelsio applies R1's objects as they stand, and pings between two such pods over their VFs. The
// device plugin's ConfigMap selects a NIC that the node does not have; culvertd uses the policy's pool
// of that name.
func crioChelsio(t *testing.T) {
	const file = "testdata/r1-chelsio.yaml"
	kubectl(t, "apply", "-f", file)
	apply(t, pod("other", crioNode, "sriov-net1"))
	has := distinct(t, running(t, 2))
	if subnet := netip.MustParsePrefix("102.100.2.0/24"); !subnet.Contains(has["testpod1"]) || kernelAddress(t, "testpod1") != has["testpod1"] {
		t.Errorf("testpod1 has %s by the kernel, and %s by its network-status, of %s", kernelAddress(t, "testpod1"), has["testpod1"], subnet)
	}
	if env := kubectl(t, "exec", "testpod1", "--", "env"); !strings.Contains(env, "PCIDEVICE_INTEL_COM_CHELSIO_SRIOV_NETDEVICE=0000:") {
		t.Errorf("testpod1 has no PCIDEVICE_ variable:\n%s", env)
	}
	kubectl(t, "exec", "testpod1", "--", "ping", "-c", "3", "-w", "300", has["other"].String())
	kubectl(t, "delete", "-f", file, "--grace-period=1", "--wait")
	kubectl(t, "delete", "pod", "other", "--grace-period=1", "--wait")
	allFree(t, allVFs/2)
}

// crioRestarts restarts CRI-O, then the kubelet, then both while culvertd is away. No pod loses its
// sandbox or a packet. The DEL of each pod comes after the restarts.
func crioRestarts(t *testing.T) {
	applyNetworks(t)
	apply(t, pod("from", crioNode, "first")+pod("to", crioNode, "first"))
	has := distinct(t, running(t, 2))
	was := sandboxOf(t, "from") + sandboxOf(t, "to")
	before, err := vfs()
	if err != nil {
		t.Fatal(err)
	}
	// CRI-O and the kubelet serve exec themselves, so ping has to outlive it.
	kubectl(t, "exec", "from", "--", "bash", "-c", fmt.Sprintf("ping -c 1 -w 300 %[1]s; ping -D -i 0.5 %[1]s >/tmp/pings 2>&1 & echo $! >/tmp/ping", has["to"]))
	restartCRIO(t)
	on(t, crioNode, "systemctl restart kubelet")
	awaitCRIO(t)
	on(t, crioNode, "systemctl stop kubelet; pkill -KILL -x culvertd; systemctl restart crio; systemctl start kubelet")
	awaitCRIO(t)
	if err := k8s.AwaitCulvert(t.Context()); err != nil {
		t.Fatal(err)
	}
	if is := sandboxOf(t, "from") + sandboxOf(t, "to"); is != was {
		t.Fatalf("the pods had the sandboxes %s, and have %s", was, is)
	}
	pings := kubectl(t, "exec", "from", "--", "bash", "-c", "kill -INT $(cat /tmp/ping); for _ in $(seq 100); do ! grep -q transmitted /tmp/pings || break; sleep 0.1; done; cat /tmp/pings")
	summary := pings[max(0, len(pings)-200):]
	if lost := findLost(pings, parseAnswers(t, pings)); lost != "" {
		t.Errorf("%s: ... %s", lost, summary)
	}
	t.Log(summary)
	after, err := vfs()
	if err != nil {
		t.Fatal(err)
	}
	sameVFs(t, before, after)
	kubectl(t, "delete", "pod", "from", "to", "--grace-period=1", "--wait")
	allFree(t, allVFs/2)
}

// crioGarbage has CRI-O lose a sandbox. When CRI-O starts, its GC gives the VF back, and takes none from
// another pod. The pod of the lost sandbox is a Deployment's, since a kubelet that was just started may
// end it for good.
func crioGarbage(t *testing.T) {
	applyNetworks(t)
	apply(t, deployment("lost", crioNode, "first", 1)+pod("kept", crioNode, "first"))
	distinct(t, running(t, 2))
	was := sandboxOf(t, "kept")
	on(t, crioNode, `systemctl stop kubelet crio
		podman ps --all --external --format '{{.ID}} {{.Names}}' | grep _lost- | cut -d ' ' -f 1 | xargs podman rm --force
		systemctl start crio`)
	eventually(t, "the VF of pod lost is free, and that of pod kept is not", func() error {
		out, err := tryOn(crioNode, "culvert vf list")
		if err == nil && (strings.Contains(out, "default/lost") || !strings.Contains(out, "default/kept")) {
			err = errors.New(out)
		}
		return err
	})
	on(t, crioNode, "systemctl start kubelet")
	eventually(t, "a pod lost has a VF again", func() error {
		_, err := tryOn(crioNode, "culvert vf list | grep default/lost")
		return err
	})
	awaitOwnAddresses(t, 2)
	for name, address := range distinct(t, running(t, 2)) {
		if name != "kept" {
			kubectl(t, "exec", "kept", "--", "ping", "-c", "3", "-w", "300", address.String())
		}
	}
	if is := sandboxOf(t, "kept"); is != was {
		t.Errorf("pod kept had the sandbox %s, and has %s", was, is)
	}
	kubectl(t, "delete", "deployment/lost", "pod/kept", "--wait")
	allFree(t, allVFs/2)
}

// crioReboot reboots the node: it has the same VFs again (P1), and the pods of a Deployment come back
// with VFs. CRI-O deletes its containers then, and calls DEL for each sandbox until culvertd answers.
// The pods name their resource, as R1's do. The webhook would add it, but on the only node the
// controller starts after they are made.
func crioReboot(t *testing.T) {
	applyNetworks(t)
	const sleeps = "command: [sleep, infinity]"
	apply(t, strings.Replace(deployment("web", crioNode, "first", 2), sleeps, sleeps+", resources: {limits: {"+intel+": 1}}", 1))
	distinct(t, running(t, 2))
	was := strings.Fields(sandboxOf(t, "web"))
	before, err := vfs()
	if err != nil {
		t.Fatal(err)
	}
	reboot(t, crioNode)
	eventually(t, "nothing is left of the sandboxes of before", func() error {
		is, err := tryOn(crioNode, "podman ps --all --external; ls /var/lib/cni/results; cat /var/lib/cni/networks/cbr0/10.*")
		for _, id := range was {
			if strings.Contains(is, id) {
				err = errors.Join(err, fmt.Errorf("%s is in\n%s", id, is))
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

// crioUninstall uninstalls Culvert as docs/kubernetes.md does, while pods without VFs run. They keep
// their network, also when CRI-O starts again, and can be deleted. If culvertd could not remove what
// CRI-O keeps of their networks, that takes the command of docs/cri-o.md.
func crioUninstall(t *testing.T) {
	allFree(t, allVFs/2)
	feed(t, pod("stays", crioNode, "")+pod("peer", crioNode, ""), "apply", "-f", "-")
	ready(t, "pod/stays", "pod/peer")
	on(t, crioNode, "cp -r /var/lib/cni/results /root")
	kubectl(t, "apply", "-f", top+"/dist/kubernetes/release-services.yaml")
	kubectl(t, "--namespace", cluster.Namespace, "wait", "--for=condition=Complete", "--timeout=5m", "job/culvert-release-services")
	kubectl(t, "delete", "-f", top+"/dist/kubernetes/culvert.yaml", "--ignore-not-found", "--wait")
	awaitPlugin(t, "flannel")
	restartCRIO(t)
	reachOverlay(t, "stays", "peer")
	kubectl(t, "delete", "pod", "stays", "--grace-period=1", "--wait", "--timeout=3m")

	id := strings.TrimSpace(sandboxOf(t, "peer"))
	on(t, crioNode, "cp /root/results/cbr0-"+id+"* /var/lib/cni/results")
	kubectl(t, "delete", "pod", "peer", "--grace-period=1", "--wait=false")
	eventually(t, "pod peer cannot be deleted", func() error {
		events, err := k8s.Kubectl(context.Background(), "get", "events", "--field-selector", "involvedObject.name=peer")
		if err == nil && !strings.Contains(string(events), "failed to find plugin") {
			err = fmt.Errorf("its events are %s", events)
		}
		return err
	})
	on(t, crioNode, "culvert host uninstall --parts cni")
	kubectl(t, "wait", "--for=delete", "pod/peer", "--timeout=5m")
	gone(t, crioNode)
}
