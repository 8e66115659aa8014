package cluster

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/culvert-net/culvert/lab"
	"github.com/culvert-net/culvert/lab/parts"
)

// A Joining has what kubeadm join asks for.
type Joining struct {
	Server  string // the API server, HOST:PORT
	Token   string // a bootstrap token
	CAHash  string // of the cluster's CA
	Kubeadm string // the folder of kubeadm
}

// joinToken is the bootstrap token of a lab: it is worth nothing outside of it.
const joinToken = "abcdef.0123456789abcdef"

// kubeadmConfig is what kubeadm uploads into the cluster for the nodes that join.
const kubeadmConfig = `apiVersion: kubeadm.k8s.io/v1beta4
kind: InitConfiguration
bootstrapTokens: [{token: ` + joinToken + `, ttl: 24h0m0s, usages: [signing, authentication], groups: [system:bootstrappers:kubeadm:default-node-token]}]
localAPIEndpoint: {advertiseAddress: ` + controlAddress + `}
nodeRegistration: {name: control, criSocket: unix:///run/containerd/containerd.sock}
---
apiVersion: kubeadm.k8s.io/v1beta4
kind: ClusterConfiguration
kubernetesVersion: %s
controlPlaneEndpoint: ` + controlAddress + ":" + apiPort + `
networking: {podSubnet: ` + podNetwork + `, serviceSubnet: ` + serviceNetwork + `}
---
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
`

// AllowJoin makes a bare cluster one that kubeadm join takes nodes into: kubeadm itself uploads its
// configuration and creates the token.
func (c *Cluster) AllowJoin(ctx context.Context, top string, step func(string, ...any)) (j Joining, err error) {
	if j.Kubeadm, err = parts.Find(ctx, top, "kubeadm", step); err != nil {
		return j, err
	}
	dir := filepath.Dir(c.Kubeconfig)
	program, config := filepath.Join(j.Kubeadm, "kubeadm"), filepath.Join(dir, "kubeadm.yaml")
	version, err := exec.CommandContext(ctx, program, "version", "--output", "short").Output()
	if err != nil {
		return j, fmt.Errorf("ask kubeadm for its version: %w", err)
	}
	if err := os.WriteFile(config, fmt.Appendf(nil, kubeadmConfig, strings.TrimSpace(string(version))), 0o600); err != nil {
		return j, err
	}
	for _, phase := range [][]string{{"upload-config", "all"}, {"bootstrap-token"}} {
		args := append([]string{"init", "phase"}, phase...)
		cmd := exec.CommandContext(ctx, program, append(args, "--config", config, "--kubeconfig", c.Kubeconfig)...)
		if out, err := cmd.CombinedOutput(); err != nil {
			return j, fmt.Errorf("kubeadm %s: %w\n%s", strings.Join(args, " "), err, out)
		}
	}
	ca, err := os.ReadFile(filepath.Join(dir, "pki/ca.crt"))
	if err != nil {
		return j, err
	}
	if j.CAHash, err = hashKey(ca); err != nil {
		return j, err
	}
	j.Server, j.Token = controlAddress+":"+apiPort, joinToken
	return j, c.publishServer(ctx, ca)
}

// publishServer puts the API server's address within the lab into the object that nodes read before
// they trust the cluster. kubeadm has put the address of this host's client there.
func (c *Cluster) publishServer(ctx context.Context, ca []byte) error {
	info := fmt.Sprintf(`{"apiVersion":"v1","kind":"Config","clusters":[{"name":"","cluster":{"server":"https://%s:%s","certificate-authority-data":%q}}]}`,
		controlAddress, apiPort, base64.StdEncoding.EncodeToString(ca))
	_, err := c.Kubectl(ctx, "--namespace", "kube-public", "patch", "configmap", "cluster-info", "--patch", fmt.Sprintf(`{"data":{"kubeconfig":%q}}`, info))
	return err
}

// kubeadmOwns are the files of a node that kubeadm and its caller make.
var kubeadmOwns = []string{"etc/systemd/system/kubelet.service", "etc/kubernetes/kubelet.yaml", "etc/containerd", "etc/systemd/system/containerd.service.d"}

// StartNetwork gives a node that has joined by kubeadm the default network of the lab: kube-proxy,
// Flannel and the CNI project's plugins.
func (c *Cluster) StartNetwork(ctx context.Context, number int) error {
	nodes, err := c.Lab.Nodes()
	if err != nil {
		return err
	}
	p, err := openPlan(c, nodes)
	if err != nil {
		return err
	}
	if _, err := p.KubectlIn(ctx, strings.NewReader(flannelManifest+"---\n"+coreDNSManifest), "apply", "-f", "-"); err != nil {
		return err
	}
	n := nodes[number-1]
	if err := p.layNetwork(ctx, n, p.factsOf(number)); err != nil {
		return fmt.Errorf("start the network of %s: %w", n.Name, err)
	}
	if err := runScript(ctx, c.Lab, n.Name, `
		systemctl daemon-reload
		udevadm control --reload
		systemctl enable --quiet --now lab-uplink flanneld kube-proxy`); err != nil {
		return fmt.Errorf("start the network of %s: %w", n.Name, err)
	}
	if err := p.awaitNode(ctx, n.Name); err != nil {
		return err
	}
	return p.routePods(ctx)
}

// layNetwork lays the files and programs of the network over a node's root.
func (p *plan) layNetwork(ctx context.Context, n lab.Node, facts nodeFacts) (err error) {
	places, err := nodePrograms(p.Parts, p.CNI)
	if err != nil {
		return err
	}
	delete(places, filepath.Join(p.Parts.Kubernetes, "kubelet"))
	if err := installPrograms(ctx, p.Lab, n.Name, places); err != nil {
		return err
	}
	stage := filepath.Join(p.dir, "stage", n.Name)
	defer func() { err = errors.Join(err, os.RemoveAll(stage)) }()
	if err := writeTemplates(stage, facts, "files/node", "files/"+facts.Unit, "files/flannel-node"); err != nil {
		return err
	}
	for _, file := range kubeadmOwns {
		if err := os.RemoveAll(filepath.Join(stage, file)); err != nil {
			return err
		}
	}
	if err := p.writeClients(filepath.Join(stage, "etc/kubernetes")); err != nil {
		return err
	}
	return p.Lab.LayOver(ctx, n.Name, stage)
}

// WriteSandboxImage writes an archive with the image of sandboxes, the only one that a kubelet needs
// by itself.
func (c *Cluster) WriteSandboxImage(archive string) (err error) {
	root, err := c.Lab.ContainerRoot()
	if err != nil {
		return err
	}
	f, err := os.Create(archive)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	return WriteImages(f, builtImages(root)[0])
}
