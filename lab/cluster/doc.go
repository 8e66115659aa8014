// Package cluster makes a lab a Kubernetes cluster. In go a lab that comes up
// and the programs of Kubernetes, etcd, CoreDNS and Flannel or Calico; out come a
// kubeconfig for the host's clients and ready nodes.
//
// The control plane (etcd, kube-apiserver, kube-scheduler,
// kube-controller-manager) runs natively beside the nodes, in the lab's network
// namespace, and ends with the lab. The host reaches the API server through a
// port of its loopback that the lab's supervisor relays. On each node systemd
// runs containerd or CRI-O, kubelet and kube-proxy, so that they come back after a
// reboot; a node that goes down ends its containers before its drivers are shut
// down. The default network is VXLAN over the first PF: Flannel's, whose
// flanneld systemd runs, or Calico's, by its own manifest and with images that
// the lab makes ([CNI]). CoreDNS runs beside the control plane, behind the Service kube-dns.
//
// The control plane reaches pods (webhooks, exec and logs), since each node's
// part of the pod network is routed to it: its pod CIDR, or its block of
// Calico's addresses.
//
// The CLI (culvert lab up --kubernetes) and tests with the tag "lab" call it.
package cluster
