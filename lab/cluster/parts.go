package cluster

import (
	"context"

	"github.com/culvert-net/culvert/lab/parts"
)

// Parts are folders of this host with the programs of a cluster.
type Parts struct {
	Runtime    Runtime `json:"runtime"`
	Version    Version `json:"version"`    // of Kubernetes
	Kubernetes string  `json:"kubernetes"` // kube-apiserver and its like, kubelet, kubectl
	Etcd       string  `json:"etcd"`
	Flannel    string  `json:"flannel,omitempty"`    // flannel, the daemon
	FlannelCNI string  `json:"flannelCNI,omitempty"` // flannel, the CNI plugin
	Calico     string  `json:"calico,omitempty"`     // calico, calico-node, and the manifest calico-vxlan.yaml
	CNI        string  `json:"cni"`                  // bridge, host-local, loopback and more
	CoreDNS    string  `json:"coreDNS"`
	CRIO       string  `json:"crio,omitempty"` // crio and pinns; empty for another runtime
}

// FindParts finds the programs of a cluster with o's runtime, default network and version of Kubernetes,
// for the source tree o.Source. It builds the programs that are not in the cache, and reports each
// build to step: Kubernetes takes ten minutes on two cores.
func FindParts(ctx context.Context, o Options, step func(format string, args ...any)) (Parts, error) {
	o, err := o.complete()
	p := Parts{Runtime: o.Runtime, Version: o.Version}
	if err != nil {
		return p, err
	}
	type part struct {
		name  string
		place *string
	}
	all := []part{{p.Version.part(), &p.Kubernetes}, {"etcd", &p.Etcd}, {"cni", &p.CNI}, {"coredns", &p.CoreDNS}}
	if o.CNI.isCalico() {
		all = append(all, part{"calico", &p.Calico})
	} else {
		all = append(all, part{"flannel", &p.Flannel}, part{"flannel-cni", &p.FlannelCNI})
	}
	if p.Runtime == CRIO {
		all = append(all, part{"cri-o", &p.CRIO})
	}
	for _, one := range all {
		if *one.place, err = parts.Find(ctx, o.Source, one.name, step); err != nil {
			return p, err
		}
	}
	return p, nil
}
