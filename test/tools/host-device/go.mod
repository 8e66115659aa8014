// The CNI project's host-device plugin, which moves an interface of the host into a pod. A pod of
// the cluster tests uses a VF by it, and not by Culvert, which imports none of it. It is not in
// ../cni, whose programs are a part of the nodes' snapshots.
//
//	go build -o DIR tool
module github.com/culvert-net/culvert/test/tools/host-device

go 1.24.2

tool github.com/containernetworking/plugins/plugins/main/host-device

require (
	github.com/containernetworking/cni v1.3.0 // indirect
	github.com/containernetworking/plugins v1.9.1 // indirect
	github.com/coreos/go-iptables v0.8.0 // indirect
	github.com/pkg/errors v0.9.1 // indirect
	github.com/safchain/ethtool v0.6.2 // indirect
	github.com/vishvananda/netlink v1.3.1 // indirect
	github.com/vishvananda/netns v0.0.5 // indirect
	golang.org/x/sys v0.35.0 // indirect
	sigs.k8s.io/knftables v0.0.18 // indirect
)
