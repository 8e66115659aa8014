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

// nodeFiles are laid over the root of each node, as templates of nodeFacts.
//
//go:embed all:files/node
var nodeFiles embed.FS

// nodeFacts holds the values that differ between nodes, and those that several templates use.
type nodeFacts struct {
	Node          string
	Address       string // on the management network
	Uplink        string // the interface that Flannel's tunnel takes
	UplinkAddress string // its address, with the prefix's length
	Pods          string
	DNS           string
}

// uplink is the first PF: the overlay and the VFs share a wire, as on hosts
// with one NIC.
const uplink = "enp1s0"

func (p *plan) factsOf(number int) nodeFacts {
	n := p.nodes[number-1]
	return nodeFacts{
		Node: n.Name, Address: n.Address, Uplink: uplink, UplinkAddress: fmt.Sprintf("172.31.0.%d/24", number),
		Pods: podNetwork, DNS: serviceDNS,
	}
}

// joinNode makes a node of the lab join the cluster: it lays the node's files over the root,
// and starts its services. It does not wait until it is Ready.
func (p *plan) joinNode(ctx context.Context, number int) error {
	n, facts := p.nodes[number-1], p.factsOf(number)
	stage := filepath.Join(p.dir, "stage", n.Name)
	err := writeTemplates(stage, facts)
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
		systemctl enable --quiet containerd lab-uplink flanneld kubelet kube-proxy
		systemctl restart containerd
		systemctl start --no-block lab-uplink kubelet kube-proxy flanneld`); err != nil {
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
	for file, user := range map[string]string{"kube-proxy.conf": "system:kube-proxy", "flannel.conf": "flannel"} {
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

func writeTemplates(dir string, facts nodeFacts) error {
	const root = "files/node"
	return fs.WalkDir(nodeFiles, root, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		to := filepath.Join(dir, filepath.FromSlash(strings.TrimPrefix(name, root)))
		if d.IsDir() {
			return os.MkdirAll(to, 0o755)
		}
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
	})
}
