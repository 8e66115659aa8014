// Package cluster makes a lab a Kubernetes cluster. In go a lab that comes up
// and the programs of Kubernetes, etcd, Flannel and CoreDNS; out come a
// kubeconfig for the host's clients and ready nodes.
//
// The control plane (etcd, kube-apiserver, kube-scheduler,
// kube-controller-manager) runs natively beside the nodes, in the lab's network
// namespace, and ends with the lab. The host reaches the API server through a
// port of its loopback that the lab's supervisor relays. On each node systemd
// runs containerd or CRI-O, kubelet, kube-proxy and flanneld, so that they come back
// after a reboot; a node that goes down ends its containers before its drivers
// are shut down. Flannel's VXLAN is the default network, over the first PF.
// CoreDNS runs beside the control plane, behind the Service kube-dns.
//
// The control plane reaches pods (webhooks, exec and logs), since each node's
// part of the pod network is routed to it.
//
// The CLI (culvert lab up --kubernetes) and tests with the tag "lab" call it.
package cluster
