package cluster

import (
	"context"

	"github.com/culvert-net/culvert/lab/parts"
)

// Parts are folders of this host with the programs of a cluster.
type Parts struct {
	Kubernetes string `json:"kubernetes"` // kube-apiserver and its like, kubelet, kubectl
	Etcd       string `json:"etcd"`
	Flannel    string `json:"flannel"`    // flannel, the daemon
	FlannelCNI string `json:"flannelCNI"` // flannel, the CNI plugin
	CNI        string `json:"cni"`        // bridge, host-local, loopback and more
	CoreDNS    string `json:"coreDNS"`
}

// FindParts finds the programs of a cluster, in the versions of the source tree at top. It
// builds the programs that are not in the cache, and reports each build to step: Kubernetes
// takes ten minutes on two cores.
func FindParts(ctx context.Context, top string, step func(format string, args ...any)) (Parts, error) {
	var p Parts
	for _, part := range []struct {
		name  string
		place *string
	}{
		{"kubernetes", &p.Kubernetes}, {"etcd", &p.Etcd}, {"flannel", &p.Flannel},
		{"flannel-cni", &p.FlannelCNI}, {"cni", &p.CNI}, {"coredns", &p.CoreDNS},
	} {
		var err error
		if *part.place, err = parts.Find(ctx, top, part.name, step); err != nil {
			return p, err
		}
	}
	return p, nil
}
