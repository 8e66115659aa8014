package cluster

import (
	"context"

	"github.com/culvert-net/culvert/lab/parts"
)

// Parts are folders of this host with the programs of a cluster.
type Parts struct {
	Runtime    Runtime `json:"runtime"`
	Kubernetes string  `json:"kubernetes"` // kube-apiserver and its like, kubelet, kubectl
	Etcd       string  `json:"etcd"`
	Flannel    string  `json:"flannel"`    // flannel, the daemon
	FlannelCNI string  `json:"flannelCNI"` // flannel, the CNI plugin
	CNI        string  `json:"cni"`        // bridge, host-local, loopback and more
	CoreDNS    string  `json:"coreDNS"`
	CRIO       string  `json:"crio,omitempty"` // crio and pinns; empty for another runtime
}

// FindParts finds the programs of a cluster whose nodes have a runtime, in the versions of the
// source tree at top. It builds the programs that are not in the cache, and reports each build to
// step: Kubernetes takes ten minutes on two cores.
func FindParts(ctx context.Context, top string, runtime Runtime, step func(format string, args ...any)) (Parts, error) {
	p := Parts{Runtime: runtime}
	type part struct {
		name  string
		place *string
	}
	all := []part{
		{"kubernetes", &p.Kubernetes}, {"etcd", &p.Etcd}, {"flannel", &p.Flannel},
		{"flannel-cni", &p.FlannelCNI}, {"cni", &p.CNI}, {"coredns", &p.CoreDNS},
	}
	if runtime == CRIO {
		all = append(all, part{"cri-o", &p.CRIO})
	}
	for _, part := range all {
		var err error
		if *part.place, err = parts.Find(ctx, top, part.name, step); err != nil {
			return p, err
		}
	}
	return p, nil
}
