//go:build kubernetes

package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/culvert-net/culvert/lab"
	"github.com/culvert-net/culvert/lab/cluster"
	"github.com/culvert-net/culvert/lab/parts"
)

// besideMultus is R1's node with Multus as its meta plugin, and Culvert by its
// Helm chart.
var besideMultus = &site{names: []string{"worker1"}, install: func(ctx context.Context, c *cluster.Cluster) error {
	if err := installMultus(ctx, c, "worker1"); err != nil {
		return err
	}
	if err := installOperatorCRDs(ctx, c); err != nil {
		return err
	}
	err := helm(ctx, c, "install", "culvert", top+"/dist/kubernetes/chart", "--namespace", cluster.Namespace, "--create-namespace", "--set", "controller.replicas=1,monitoring.enabled=true")
	if err == nil {
		_, err = c.Kubectl(ctx, "label", "namespace", cluster.Namespace, "pod-security.kubernetes.io/enforce=privileged")
	}
	if err != nil {
		return err
	}
	return c.AwaitCulvert(ctx)
}, policy: labPolicy}

func quiet(string, ...any) {}

// helm runs Helm against the cluster.
func helm(ctx context.Context, c *cluster.Cluster, args ...string) error {
	dir, err := parts.Find(ctx, top, "helm", quiet)
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, filepath.Join(dir, "helm"), args...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+c.Kubeconfig)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("helm %s: %w\n%s", strings.Join(args, " "), err, out)
	}
	return nil
}

// installMultus installs Multus on a node as its own DaemonSet does. Multus uses the kubelet's
// account at the API server, which may read networks here.
func installMultus(ctx context.Context, c *cluster.Cluster, node string) error {
	dir, err := parts.Find(ctx, top, "multus", quiet)
	if err != nil {
		return err
	}
	if err := c.Lab.Copy(ctx, node, filepath.Join(dir, "multus"), "/opt/cni/bin/multus"); err != nil {
		return err
	}
	const rights = `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: multus}
rules: [{apiGroups: [k8s.cni.cncf.io], resources: [network-attachment-definitions], verbs: [get, list, watch]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: multus}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: multus}
subjects: [{kind: Group, apiGroup: rbac.authorization.k8s.io, name: "system:nodes"}]
`
	if _, err := c.KubectlIn(ctx, strings.NewReader(rights), "apply", "-f", "-"); err != nil {
		return err
	}
	const config = `{"cniVersion": "0.3.1", "name": "multus-cni-network", "type": "multus", "capabilities": {"portMappings": true},
 "kubeconfig": "/etc/kubernetes/kubelet.conf", "clusterNetwork": "/etc/cni/net.d/10-flannel.conflist"}`
	exit, err := c.Lab.Exec(ctx, node, lab.Cmd{Argv: []string{"sh", "-c", "cat >/etc/cni/net.d/00-multus.conf"}, Stdin: strings.NewReader(config)})
	if err == nil && exit != 0 {
		err = errors.New("write Multus' configuration")
	}
	return err
}

// R1's objects apply as they stand, with Multus calling Culvert: the pod has its VF and address.
// The device plugin's ConfigMap selects a NIC that the node does not have; culvertd uses the
// policy's pool of that name.
func TestChelsioAsItStandsBesideMultus(t *testing.T) {
	need(t, besideMultus)
	offered(t, chelsio, "7")
	const file = "testdata/r1-chelsio.yaml"
	kubectl(t, "apply", "-f", file)
	pods := running(t, 1)
	a := distinct(t, pods)["testpod1"]
	if subnet := netip.MustParsePrefix("102.100.2.0/24"); !subnet.Contains(a) || kernelAddress(t, "testpod1") != a {
		t.Errorf("testpod1 has %s by the kernel, and %s by its network-status, of %s", kernelAddress(t, "testpod1"), a, subnet)
	}
	if env := kubectl(t, "exec", "testpod1", "--", "env"); !strings.Contains(env, "PCIDEVICE_INTEL_COM_CHELSIO_SRIOV_NETDEVICE=0000:") {
		t.Errorf("testpod1 has no PCIDEVICE_ variable:\n%s", env)
	}
	if files := on(t, "worker1", "ls /etc/cni/net.d"); strings.Contains(files, "culvert") {
		t.Errorf("Multus is there, and Culvert has its own configuration: %s", files)
	}
	if owner := on(t, "worker1", "culvert vf list"); !strings.Contains(owner, "default/testpod1") {
		t.Errorf("culvert vf list does not name testpod1:\n%s", owner)
	}
	kubectl(t, "delete", "-f", file, "--grace-period=1", "--wait")
	allFree(t, allVFs/2)
}

// I9: as TestI9PodsChooseTheirAddresses, with Multus, which copies what the pod asks for into
// CNI_ARGS.
func TestI9PodsChooseTheirAddressesBesideMultus(t *testing.T) {
	need(t, besideMultus)
	chooseAddresses(t, "worker1")
}

// helm upgrade keeps the installation and its values. helm uninstall leaves the node as it was before: it has no
// plugin and no configuration, and pods still get their default network. Services are as their
// owners wrote them.
func TestHelmUninstall(t *testing.T) {
	need(t, besideMultus)
	if err := helm(t.Context(), k8s, "upgrade", "culvert", top+"/dist/kubernetes/chart", "--namespace", cluster.Namespace, "--reset-then-reuse-values"); err != nil {
		t.Fatal(err)
	}
	if err := k8s.AwaitCulvert(t.Context()); err != nil {
		t.Fatal(err)
	}
	serveWeb(t)
	if err := helm(t.Context(), k8s, "uninstall", "culvert", "--namespace", cluster.Namespace, "--wait"); err != nil {
		t.Fatal(err)
	}
	wantReleased(t)
	gone(t, "worker1")
}

// gone waits until a node has no file of Culvert where container runtimes look, and no eBPF
// program of Services. Then it checks that pods start there.
func gone(t *testing.T, node string) {
	t.Helper()
	eventually(t, node+" has no plugin, no configuration and no eBPF program of Culvert", func() error {
		if left := on(t, node, "ls -d /opt/cni/bin/culvert /opt/cni/bin/sriov /etc/cni/net.d/*culvert* /sys/fs/bpf/culvert 2>/dev/null || true"); left != "" {
			return errors.New(left)
		}
		return nil
	})
	plain := pod("plain", node, "")
	feed(t, plain, "apply", "-f", "-")
	ready(t, "pod/plain")
	feed(t, plain, "delete", "-f", "-")
	there = nil // it is of no use to other tests
}
