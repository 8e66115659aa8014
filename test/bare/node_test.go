//go:build lab

package bare

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/culvert-net/culvert/lab"
	"github.com/culvert-net/culvert/lab/cluster"
	"github.com/culvert-net/culvert/lab/parts"
	"github.com/culvert-net/culvert/test/labs"
	"github.com/culvert-net/culvert/test/soak"
)

// P20, R1, R3: the playbook makes a bare root a Ready node with Culvert's VFs. A second run changes
// nothing. The control plane is that of the lab; kubeadm join is the real one.
func TestBareNode(t *testing.T) {
	soak.Only(t, "it installs packages and Kubernetes on an emulated processor")
	c, h := bareCluster(t)
	a := newAnsible(t, h)
	joining, err := c.AllowJoin(t.Context(), top, func(format string, args ...any) { t.Logf(format, args...) })
	if err != nil {
		t.Fatal(err)
	}
	h.giveApt(t)
	h.sh(t, "dpkg --purge --force-depends containerd runc crun conntrack socat; rm -rf /etc/containerd /opt/cni /etc/cni")
	vars := []string{"--extra-vars", "@" + writeVars(t, c, joining)}
	_, out := a.play(t, "node", append(vars, "--tags", "prepare,runtime,kubeadm")...)
	mentions(t, out, "Run kubeadm join")
	if err := c.StartNetwork(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	h.sh(t, "ctr -n k8s.io images ls -q | grep localhost/pause >/dev/null") // the role has imported it
	a.play(t, "node", append(vars, "--tags", "culvert")...)
	for _, one := range []string{"condition=Ready node/", "condition=Ready nodestate/", "condition=PoliciesApplied nodestate/", "jsonpath={.status.allocatable.culvert\\.dev/fast}=4 node/"} {
		what, object, _ := strings.Cut(one, " ")
		if _, err := c.Kubectl(t.Context(), "wait", "--for="+what, object+h.name, "--timeout=15m"); err != nil {
			t.Fatal(err)
		}
	}
	if again, out := a.play(t, "node", vars...); again.changed > 0 {
		t.Errorf("a second run changes %d things:\n%s", again.changed, out)
	}
	if check, out := a.play(t, "node", append(vars, "--check")...); check.changed > 0 {
		t.Errorf("a check of a node that is prepared would change %d things:\n%s", check.changed, out)
	}
}

// bareCluster brings up a control plane and one bare node.
func bareCluster(t *testing.T) (*cluster.Cluster, host) {
	t.Helper()
	debian := fetchDebian(t)
	c, err := cluster.Up(t.Context(), cluster.Options{Source: absolute(t, top), Bare: true, Lab: lab.Options{
		Name: labs.Name("bare-node"), Nodes: 1, NoSnapshot: true, Bound: true, Progress: os.Stderr,
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { takeDown(t, c.Lab) })
	return c, host{c.Lab, "worker01", debian}
}

// writeVars writes the variables of the playbook: Kubernetes and images of this machine, since the
// lab has no repository and no registry.
func writeVars(t *testing.T, c *cluster.Cluster, j cluster.Joining) string {
	t.Helper()
	dir := t.TempDir()
	programs := filepath.Join(dir, "kubernetes")
	for name, from := range map[string]string{"kubeadm": j.Kubeadm, "kubelet": c.Parts.Kubernetes, "kubectl": c.Parts.Kubernetes} {
		if err := parts.Copy(filepath.Join(from, name), filepath.Join(programs, name)); err != nil {
			t.Fatal(err)
		}
	}
	images := filepath.Join(dir, "images.tar")
	if err := c.WriteSandboxImage(images); err != nil {
		t.Fatal(err)
	}
	culvert := filepath.Join(dir, "culvert.tar")
	if err := cluster.BuildCulvert(t.Context(), top, culvert); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "vars.yml")
	text := strings.NewReplacer("PROGRAMS", programs, "IMAGES", images, "SERVER", j.Server, "TOKEN", j.Token, "HASH", j.CAHash,
		"IMAGE", culvert, "KUBECONFIG", c.Kubeconfig, "KUBECTL", filepath.Join(c.Parts.Kubernetes, "kubectl"),
		"MANIFESTS", filepath.Join(absolute(t, top), "dist/kubernetes"), "ADDRESS", address(t, c)).Replace(nodeVars)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

const nodeVars = `culvert_runtime_pause: localhost/pause:1
culvert_kubeadm_folder: PROGRAMS
culvert_kubeadm_images: [IMAGES]
culvert_kubeadm_action: join
culvert_kubeadm_server: SERVER
culvert_kubeadm_token: TOKEN
culvert_kubeadm_ca_hashes: ["HASH"]
culvert_kubeadm_node_name: worker01
culvert_kubeadm_node_ip: ADDRESS
culvert_cluster_image: IMAGE
culvert_cluster_manifests: MANIFESTS
culvert_cluster_kubeconfig: KUBECONFIG
culvert_cluster_kubectl: KUBECTL
culvert_cluster_patience: 30m
culvert_kubeadm_patience: 30m0s
culvert_cluster_objects:
- apiVersion: culvert.dev/v1alpha1
  kind: NodePolicy
  metadata: {name: lab}
  spec: {pfs: [{name: enp1s0, vfs: 4}], pools: [{name: fast}]}
`

func address(t *testing.T, c *cluster.Cluster) string {
	t.Helper()
	nodes, err := c.Lab.Nodes()
	if err != nil {
		t.Fatal(err)
	}
	return nodes[0].Address
}
