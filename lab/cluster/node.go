package cluster

import (
	"bytes"
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"text/template"
)

// nodeFiles are laid over the root of each node, as templates of nodeFacts: files/node, and the
// folder of the runtime's unit. The folder flannel-node is for nodes whose pods have Flannel.
//
//go:embed all:files/node all:files/containerd all:files/crio all:files/flannel-node
var nodeFiles embed.FS

// nodeFacts holds the values that differ between nodes, and those that several templates use.
type nodeFacts struct {
	Node          string
	Address       string // on the management network
	Uplink        string // the interface that the tunnel of the pod network takes
	UplinkAddress string // its address, with the prefix's length
	Pods          string
	DNS           string
	Unit          string // the runtime's systemd unit, without its suffix
	Socket        string // the runtime's
	Cgroup        string // the folder of all containers
	Gates         string // the kubelet's feature gates, as JSON
}

// uplink is the first PF: the overlay and the VFs share a wire, as on hosts
// with one NIC.
const uplink = "enp1s0"

func (p *plan) factsOf(number int) nodeFacts {
	n := p.nodes[number-1]
	return nodeFacts{
		Node: n.Name, Address: n.Address, Uplink: uplink, UplinkAddress: fmt.Sprintf("172.31.0.%d/24", number),
		Pods: podNetwork, DNS: serviceDNS,
		Unit: p.Parts.Runtime.unit(), Socket: p.Parts.Runtime.socketPath(), Cgroup: p.Parts.Runtime.cgroup(),
		Gates: p.Parts.Version.kubeletGates(),
	}
}

// joinNode makes a node of the lab join the cluster: it lays the node's files over the root,
// and starts its services. It does not wait until it is Ready.
func (p *plan) joinNode(ctx context.Context, number int) error {
	n, facts := p.nodes[number-1], p.factsOf(number)
	stage := filepath.Join(p.dir, "stage", n.Name)
	trees, services := []string{"files/node", "files/" + facts.Unit}, "lab-uplink kubelet kube-proxy"
	if !p.CNI.isCalico() { // Calico runs in pods
		trees, services = append(trees, "files/flannel-node"), services+" flanneld"
	}
	err := writeTemplates(stage, facts, trees...)
	if err == nil {
		err = p.writeIdentity(filepath.Join(stage, "etc/kubernetes"), facts)
	}
	if err == nil {
		err = p.Lab.LayOver(ctx, n.Name, stage)
	}
	if err = errors.Join(err, os.RemoveAll(stage)); err != nil {
		return fmt.Errorf("configure Kubernetes on %s: %w", n.Name, err)
	}
	if err := runScript(ctx, p.Lab, n.Name, `
		systemctl daemon-reload
		udevadm control --reload
		systemctl enable --quiet `+facts.Unit+` `+services+`
		systemctl restart `+facts.Unit+`
		systemctl start --no-block `+services); err != nil {
		return fmt.Errorf("start the kubelet on %s: %w", n.Name, err)
	}
	return nil
}

// writeIdentity writes a node's certificates and kubeconfigs.
func (p *plan) writeIdentity(dir string, facts nodeFacts) error {
	if err := os.MkdirAll(filepath.Join(dir, "pki"), 0o755); err != nil {
		return err
	}
	kubelet, err := p.ca.issuePair("system:node:"+facts.Node, "system:nodes", facts.Node, facts.Address)
	if err != nil {
		return err
	}
	err = errors.Join(kubelet.writeFiles(filepath.Join(dir, "pki"), "kubelet"), os.WriteFile(filepath.Join(dir, "pki/ca.crt"), p.ca.pem, 0o644),
		os.WriteFile(filepath.Join(dir, "kubelet.conf"), p.ca.writeKubeconfig("kubelet", p.serverURL(), kubelet), 0o600))
	if err != nil {
		return err
	}
	return p.writeClients(dir)
}

// writeClients writes the kubeconfigs of the programs of a node's network.
func (p *plan) writeClients(dir string) error {
	users := map[string]string{"kube-proxy.conf": "system:kube-proxy"}
	if !p.CNI.isCalico() {
		users["flannel.conf"] = "flannel"
	}
	for file, user := range users {
		client, err := p.ca.issuePair(user, "")
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, file), p.ca.writeKubeconfig(user, p.serverURL(), client), 0o600); err != nil {
			return err
		}
	}
	return nil
}

// writeTemplates writes trees of nodeFiles to a folder, one over the other.
func writeTemplates(dir string, facts nodeFacts, trees ...string) error {
	for _, root := range trees {
		err := fs.WalkDir(nodeFiles, root, func(name string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			to := filepath.Join(dir, filepath.FromSlash(strings.TrimPrefix(name, root)))
			if d.IsDir() {
				return os.MkdirAll(to, 0o755)
			}
			return writeTemplate(to, name, facts)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func writeTemplate(to, name string, facts nodeFacts) error {
	text, err := nodeFiles.ReadFile(name)
	if err != nil {
		return err
	}
	t, err := template.New(path.Base(name)).Option("missingkey=error").Parse(string(text))
	if err != nil {
		return err
	}
	var out bytes.Buffer
	if err := t.Execute(&out, facts); err != nil {
		return err
	}
	return os.WriteFile(to, out.Bytes(), 0o644)
}
