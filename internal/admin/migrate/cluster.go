package migrate

import (
	"slices"
	"strings"

	"github.com/culvert-net/culvert/internal/api"
)

// Cluster has the objects in a cluster of the projects that Culvert replaces.
type Cluster struct {
	Workloads []Workload
	// Objects are the operator's, and ConfigMaps of DaemonSets.
	Objects  []Object
	Networks []Network
	// HasNetworks is whether the API server knows NetworkAttachmentDefinitions.
	HasNetworks bool
	// Webhooks are kind/name of webhook configurations.
	Webhooks []string
	Pods     []Pod
	// Judged has the verdict on each network, and on the pods with findings.
	Judged []Note
	// Daemons are the pods of culvertd, and Installed is whether the API server knows Culvert.
	Daemons   []api.DaemonPod
	Installed bool
	// Nodes has the reports of the culvertds about their nodes.
	Nodes []api.NodeStatus
	// Unapplied are NodePolicies that a node does not follow, with the reason.
	Unapplied []Note
}

// Workload is a DaemonSet or Deployment.
type Workload struct {
	Kind, Namespace, Name string
	Images                []string
	Replicas              int
	// OLM names the ClusterServiceVersion by which OLM made it; empty where OLM did not.
	OLM string
	// Args are the commands and arguments of its containers, and ConfigMaps those that it mounts.
	Args, ConfigMaps []string
	// Mounts are the host's folders by their paths in its containers.
	Mounts map[string]string
}

// String is kind namespace/name.
func (w Workload) String() string {
	return Object{Kind: w.Kind, Namespace: w.Namespace, Name: w.Name}.String()
}

// Network is a NetworkAttachmentDefinition.
type Network struct {
	Namespace, Name string
	// Owners are the kinds of its owner references.
	Owners []string
	// IPAM are the IPAM plugins that it names.
	IPAM []string
}

// String is kind namespace/name.
func (n Network) String() string {
	return Object{Kind: KindDefinition, Namespace: n.Namespace, Name: n.Name}.String()
}

// Pod is a pod that asks for networks.
type Pod struct {
	Namespace, Name string
	Ready           bool
	Reason          string
}

// String is kind namespace/name.
func (p Pod) String() string {
	return Object{Kind: "Pod", Namespace: p.Namespace, Name: p.Name}.String()
}

// Part is a part of another stack, by its workload.
type Part struct {
	Name     string `json:"part"`
	Workload string `json:"workload"`
	// Goes is whether Culvert takes its place.
	Goes bool   `json:"goes"`
	Why  string `json:"why"`

	workload Workload
}

// kind says how a part is recognized: by a word in the name of its workload, or in an image.
type kind struct {
	name, word string
	goes       bool
	why        string
}

// kinds are in the order in which parts go. Words of names are looked for before those of images,
// and the first that matches counts.
var kinds = []kind{
	{"SR-IOV operator", "sriov-network-operator", true, "NodePolicies take its place; while it runs it makes the other parts again"},
	{"operator's webhook", "operator-webhook", true, "it refuses changes of the operator's objects while the operator is away"},
	{"config daemon of the operator", "sriov-network-config-daemon", true, "culvertd makes the VFs; two that write sriov_numvfs undo each other"},
	{partInjector, "network-resources-injector", true, "Culvert's webhook adds to pods what their networks need: resources, node labels and /etc/podnetinfo"},
	{partDevicePlugin, "sriov-device-plugin", true, "two plugins of one resource keep replacing each other at the kubelet"},
	{partDevicePlugin, "sriov-network-device-plugin", true, "two plugins of one resource keep replacing each other at the kubelet"},
	{"InfiniBand SR-IOV CNI plugin", "ib-sriov-cni", false, "Culvert attaches Ethernet VFs"},
	{"SR-IOV CNI plugin", "sriov-cni", true, "it would put its program over Culvert's /opt/cni/bin/sriov"},
	{partMultus, "multus", false, "it may stay: Culvert is what it calls for VFs; without it Culvert attaches the networks itself"},
	{"whereabouts", "whereabouts", false, "it may stay: networks with its ipam go on calling it"},
	{"Open vSwitch CNI plugin", "ovs-cni", false, "Culvert attaches VFs, and no ports of a switch"},
	{"RDMA CNI plugin", "rdma-cni", false, "it stays: it is called after Culvert in a network's list"},
}

// Parts finds the parts of other stacks.
func (c Cluster) Parts() []Part {
	var out []Part
	for _, w := range c.Workloads {
		if k, ok := kindOf(w); ok {
			out = append(out, Part{Name: k.name, Workload: w.String(), Goes: k.goes, Why: k.why, workload: w})
		}
	}
	slices.SortStableFunc(out, func(a, b Part) int { return rank(a) - rank(b) })
	return out
}

func rank(p Part) int {
	return slices.IndexFunc(kinds, func(k kind) bool { return k.name == p.Name })
}

func kindOf(w Workload) (kind, bool) {
	for _, k := range kinds {
		if strings.Contains(w.Name, k.word) {
			return k, true
		}
	}
	for _, k := range kinds {
		if slices.ContainsFunc(w.Images, func(image string) bool { return strings.Contains(image, k.word) }) {
			return k, true
		}
	}
	return kind{}, false
}
