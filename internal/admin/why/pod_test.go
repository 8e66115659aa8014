package why

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/culvert-net/culvert/api/v1alpha1"
	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/network/netannotation"
	"github.com/culvert-net/culvert/internal/reasons"
	"github.com/culvert-net/culvert/internal/vf"
)

const fast = "culvert.dev/fast"

var now = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

// waitingPod is a pod of namespace default that requests a VF of a pool and asks for a network of it.
func waitingPod(t *testing.T, change func(*Pod)) Pod {
	t.Helper()
	var p Pod
	text := `{"metadata": {"namespace": "default", "name": "db-0", "uid": "u1", "creationTimestamp": "2026-11-30T11:50:00Z",
		"annotations": {"k8s.v1.cni.cncf.io/networks": "fast"}},
		"spec": {"containers": [{"name": "db", "resources": {"requests": {"cpu": "1", "culvert.dev/fast": "1"}, "limits": {"culvert.dev/fast": "1"}}}]},
		"status": {"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "lastTransitionTime": "2026-11-30T11:51:00Z"}]}}`
	if err := json.Unmarshal([]byte(text), &p); err != nil {
		t.Fatal(err)
	}
	if change != nil {
		change(&p)
	}
	return p
}

// putOnNode puts the pod on worker01, whose kubelet starts it.
func putOnNode(p *Pod) {
	p.Spec.NodeName = "worker01"
	p.Status.Conditions[0].Status = "True"
	if err := json.Unmarshal([]byte(`[{"name": "db", "state": {"waiting": {"reason": "ContainerCreating"}}}]`), &p.Status.ContainerStatuses); err != nil {
		panic(err)
	}
}

// runOnNode has the pod's container run.
func runOnNode(p *Pod) {
	putOnNode(p)
	if err := json.Unmarshal([]byte(`[{"name": "db", "ready": true, "state": {"running": {"startedAt": "2026-11-30T11:55:00Z"}}}]`), &p.Status.ContainerStatuses); err != nil {
		panic(err)
	}
}

// eventOf returns an event of the pod, two minutes old.
func eventOf(reporter, reason, message string) Event {
	at := now.Add(-2 * time.Minute)
	return Event{Type: "Warning", Reason: reason, Message: message, FirstTimestamp: &at, LastTimestamp: &at, ReportingComponent: reporter}
}

func heldVF(vfName, owner string) api.VF {
	return api.VF{Name: vfName, PF: strings.Split(vfName, "#")[0], Pool: fast, Phase: "attached", Owner: &vf.Owner{Kind: vf.OwnerPod, Name: owner}}
}

// nodeWith returns a node with a pool of VFs on one PF with a link.
func nodeWith(name string, vfs ...api.VF) api.NodeStatus {
	n := api.NodeStatus{Node: name, Ready: true, VFs: vfs, Pools: []api.Pool{{Name: fast, PFs: []string{"enp1s0"}}}}
	n.PFs = []api.PF{{PF: vf.PF{Name: "enp1s0", Carrier: true, TotalVFs: len(vfs)}, VFs: api.Counts{Total: len(vfs)}}}
	for _, v := range vfs {
		n.Pools[0].VFs.Total++
		if v.Phase == "free" {
			n.Pools[0].VFs.Free++
		}
	}
	return n
}

func freeVF(name string) api.VF { return api.VF{Name: name, PF: "enp1s0", Pool: fast, Phase: "free"} }

func changeNode(n api.NodeStatus, change func(*api.NodeStatus)) api.NodeStatus {
	change(&n)
	return n
}

// kubeNode is a Node that offers so many VFs.
func kubeNode(name, offered string, cordoned bool) Node {
	var n Node
	n.Metadata.Name, n.Spec.Unschedulable = name, cordoned
	n.Status.Allocatable = map[string]string{fast: offered}
	return n
}

// fastNetwork is the network that the pod asks for.
var fastNetwork = map[string]map[string]string{"default/fast": {netannotation.ResourceName: fast}}

// claimOnly is a pod without resources and networks in its annotations.
func claimOnly(p *Pod) {
	p.Metadata.Annotations = nil
	p.Spec.Containers[0].Resources.Requests, p.Spec.Containers[0].Resources.Limits = nil, nil
}

// noDevices is what the scheduler of Kubernetes 1.37 says of a pod whose claims find no device.
var noDevices = eventOf("default-scheduler", "FailedScheduling", "0/2 nodes are available: 2 cannot allocate all claims. still not schedulable, preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling.")

// offersClaims returns a node that offers its pool to claims.
func offersClaims(n api.NodeStatus) api.NodeStatus {
	n.Pools = slices.Clone(n.Pools)
	n.Pools[0].Offer = "claims"
	return n
}

// Pods that are stuck for different reasons: the first cause names the reason, who has what the pod waits
// for, and the next step.
func TestStuckPods(t *testing.T) {
	insufficient := eventOf("default-scheduler", "FailedScheduling", "0/2 nodes are available: 2 Insufficient culvert.dev/fast. no new claims to deallocate, preemption: 0/2 nodes are available: 2 No preemption victims found for incoming pod.")
	full := []api.NodeStatus{nodeWith("worker01", heldVF("enp1s0#0", "default/a"), heldVF("enp1s0#1", "prod/b"))}
	policy := func(change func(*v1alpha1.NodePolicy)) []v1alpha1.NodePolicy {
		p := v1alpha1.NodePolicy{}
		p.Name, p.Spec.Pools, p.Status.Nodes = "nics", []v1alpha1.Pool{{Name: "fast"}}, 1
		change(&p)
		return []v1alpha1.NodePolicy{p}
	}
	for name, c := range map[string]struct {
		pod      func(*Pod)
		events   []Event
		nodes    []api.NodeStatus
		kube     []Node
		problems []api.Problem
		policies []v1alpha1.NodePolicy
		networks map[string]map[string]string
		isolated bool
		state    string
		want     []string // all in the first cause
		absent   string   // in no cause
	}{
		"all VFs are held": {events: []Event{insufficient}, nodes: full, state: "waits",
			want: []string{"no node has a VF of culvert.dev/fast free", "worker01: 0 of 2 VFs free; held by pod default/a, pod prod/b", "end an owner"}, absent: "Insufficient"},
		"the NodeState is older than the scheduler": {events: []Event{insufficient}, nodes: []api.NodeStatus{nodeWith("worker01", freeVF("enp1s0#0"), heldVF("enp1s0#1", "prod/b"))},
			want: []string{"no node has a VF", "worker01: 1 of 2 VFs free by its NodeState, and requested by other pods; held by pod prod/b"}, absent: "Insufficient"},
		"the PF could have more": {events: []Event{insufficient}, nodes: []api.NodeStatus{changeNode(full[0], func(n *api.NodeStatus) {
			n.PFs = []api.PF{{PF: vf.PF{Name: "enp1s0", Carrier: true, TotalVFs: 7}, VFs: api.Counts{Total: 2}}}
		})},
			want: []string{"has 2 VFs and can have 7: raise vfs in its NodePolicy"}},
		"two VFs are wanted, one is free": {pod: func(p *Pod) {
			p.Spec.Containers[0].Resources.Requests[fast], p.Spec.Containers[0].Resources.Limits[fast] = "2", "2"
		},
			nodes: []api.NodeStatus{nodeWith("worker01", freeVF("enp1s0#0"), heldVF("enp1s0#1", "prod/b"))}, want: []string{"no node has 2 VFs of", "1 of 2 VFs free; held by pod prod/b"}},
		"quarantine": {nodes: []api.NodeStatus{nodeWith("worker01", api.VF{Name: "enp1s0#0", PF: "enp1s0", Pool: fast, Phase: "quarantined", Reason: "a step timed out"})},
			want: []string{"VF enp1s0#0 is in quarantine: a step timed out", "on node worker01: culvert vf show 'enp1s0#0'"}},
		"used outside": {nodes: []api.NodeStatus{nodeWith("worker01", api.VF{Name: "enp1s0#0", PF: "enp1s0", Pool: fast, Phase: api.PhaseOutside, UsedBy: "process 12 (testpmd)"})},
			want: []string{"VF enp1s0#0 is used outside Culvert: process 12 (testpmd)"}},
		"no link": {nodes: []api.NodeStatus{changeNode(nodeWith("worker01", freeVF("enp1s0#0")), func(n *api.NodeStatus) { n.PFs = []api.PF{{PF: vf.PF{Name: "enp1s0"}}} })},
			want: []string{"PF enp1s0 has no link, so its VFs are not offered"}},
		"flapping": {nodes: []api.NodeStatus{changeNode(nodeWith("worker01", freeVF("enp1s0#0")), func(n *api.NodeStatus) {
			n.PFs = []api.PF{{PF: vf.PF{Name: "enp1s0", Carrier: true, Flapping: true}}}
		})}, want: []string{"the link of PF enp1s0 is flapping"}},
		"no VFs were made": {nodes: []api.NodeStatus{changeNode(nodeWith("worker01"), func(n *api.NodeStatus) {
			n.Problems = []api.Problem{{Object: "PF enp1s0", Reason: "no carrier; 7 VFs wanted (host.yaml:2), it has 0"}}
		})}, want: []string{"the pool has no VF: PF enp1s0: no carrier; 7 VFs wanted"}},
		"the pool is not served": {nodes: []api.NodeStatus{changeNode(nodeWith("worker01", freeVF("enp1s0#0")), func(n *api.NodeStatus) { n.Pools[0].Unserved = "it has VFs on two segments" })},
			want: []string{"worker01: it has VFs on two segments"}},
		"culvertd is away": {nodes: []api.NodeStatus{changeNode(nodeWith("worker01", freeVF("enp1s0#0")), func(n *api.NodeStatus) {
			n.Ready, n.Problems = false, []api.Problem{{Object: "culvertd", Reason: "its pod culvert-system/culvertd-x is not ready"}}
		})}, want: []string{"worker01: culvertd: its pod culvert-system/culvertd-x is not ready"}},
		"cordoned": {nodes: []api.NodeStatus{nodeWith("worker01", freeVF("enp1s0#0"))}, kube: []Node{kubeNode("worker01", "1", true)}, want: []string{"worker01: the node is cordoned"}},
		"the kubelet offers none": {nodes: []api.NodeStatus{nodeWith("worker01", freeVF("enp1s0#0"))}, kube: []Node{kubeNode("worker01", "0", false)},
			want: []string{"worker01: the kubelet offers none"}},
		"no such pool": {pod: func(p *Pod) {
			p.Spec.Containers[0].Resources.Requests = map[string]string{"culvert.dev/fats": "1"}
			p.Spec.Containers[0].Resources.Limits = nil
		}, nodes: full, networks: map[string]map[string]string{"default/fast": {}}, want: []string{"no node has a pool culvert.dev/fats: did you mean culvert.dev/fast?"}},
		"the policy selects no node": {policies: policy(func(p *v1alpha1.NodePolicy) { p.Status.Nodes = 0 }), want: []string{"NodePolicy nics", "selects no node", "label a node"}},
		"the policy is not applied": {policies: policy(func(p *v1alpha1.NodePolicy) {
			p.Status.Pending = []v1alpha1.PendingNode{{Node: "worker01", Reason: "a drain is going on"}}
		}), want: []string{"no node has it yet", "worker01: a drain is going on"}},
		"no processor is free": {events: []Event{eventOf("default-scheduler", "FailedScheduling", "0/1 nodes are available: 1 Insufficient cpu. preemption: none.")},
			nodes: []api.NodeStatus{nodeWith("worker01", freeVF("enp1s0#0"))}, want: []string{"scheduler", "0/1 nodes are available: 1 Insufficient cpu"}, absent: "no node has"},
		"both": {events: []Event{eventOf("default-scheduler", "FailedScheduling", "0/2 nodes are available: 1 Insufficient culvert.dev/fast, 1 node(s) had untolerated taint {gpu: }. preemption: x")},
			nodes: full, want: []string{"no node has a VF"}, absent: "Insufficient"},
		"a scheduling gate": {pod: func(p *Pod) {
			p.Spec.SchedulingGates = []struct {
				Name string `json:"name"`
			}{{"example.org/quota"}}
		}, nodes: []api.NodeStatus{nodeWith("worker01", freeVF("enp1s0#0"))}, want: []string{"scheduling gates: example.org/quota"}},
		"no scheduler": {nodes: []api.NodeStatus{nodeWith("worker01", freeVF("enp1s0#0"))}, pod: func(p *Pod) { p.Status.Conditions = nil }, want: []string{"has not reported anything", "default-scheduler"}},
		"the webhook did not see it": {pod: func(p *Pod) {
			putOnNode(p)
			p.Spec.Containers[0].Resources.Requests, p.Spec.Containers[0].Resources.Limits = nil, nil
		},
			want: []string{"its networks need 1 of culvert.dev/fast, and it requests 0", "delete the pod"}},
		"no such network": {pod: putOnNode, networks: map[string]map[string]string{}, want: []string{"there is no NetworkAttachmentDefinition default/fast"}},
		"a network of others": {pod: func(p *Pod) { putOnNode(p); p.Metadata.Annotations[netannotation.Networks] = "secret/net" }, isolated: true,
			networks: map[string]map[string]string{}, want: []string{"network secret/net", "may use networks of their own namespace"}, absent: "there is no NetworkAttachmentDefinition"},
		"a wrong annotation": {pod: func(p *Pod) { putOnNode(p); p.Metadata.Annotations[netannotation.Networks] = "[{" }, want: []string{"annotation k8s.v1.cni.cncf.io/networks", "correct the annotation"}},
		"the attach fails": {pod: putOnNode, events: []Event{
			eventOf("kubelet", "FailedCreatePodSandBox", "rpc error: long text of containerd"), eventOf("culvertd", reasons.NetworkFailed, "network default/fast: held by pod default/old, wanted for pod default/db-0: the kubelet tries again")},
			want: []string{"culvertd", "held by pod default/old"}, absent: "rpc error"},
		"another plugin fails": {pod: putOnNode, events: []Event{eventOf("kubelet", "FailedCreatePodSandBox", "plugin type=\"flannel\" failed (add)")}, want: []string{"kubelet", "flannel"}},
		"no address is left": {pod: putOnNode, problems: []api.Problem{{Object: "network default/fast", Reason: "node worker01 needs addresses, and none are left", Since: now.Add(-time.Hour)}},
			want: []string{"AddressPool", "none are left"}},
		"no culvertd on its node": {pod: putOnNode, nodes: []api.NodeStatus{changeNode(nodeWith("worker01"), func(n *api.NodeStatus) {
			n.Ready, n.Problems = false, []api.Problem{{Object: "culvertd", Reason: "it does not run on this node: this is its last report"}}
		})}, want: []string{"NodeState worker01", "it does not run on this node"}},
		"an image": {pod: func(p *Pod) {
			putOnNode(p)
			p.Status.ContainerStatuses[0].State.Waiting.Reason, p.Status.ContainerStatuses[0].State.Waiting.Message = "ImagePullBackOff", "Back-off pulling image"
		}, want: []string{"container db: ImagePullBackOff: Back-off pulling image"}},
		"a volume":         {pod: putOnNode, events: []Event{eventOf("kubelet", "FailedMount", "MountVolume.SetUp failed for volume \"x\"")}, want: []string{"MountVolume.SetUp failed"}},
		"nothing yet":      {pod: putOnNode, want: []string{"has not reported a problem"}},
		"refused for good": {pod: func(p *Pod) { p.Status.Phase, p.Status.Reason = "Failed", "UnexpectedAdmissionError" }, state: "ended", want: []string{"UnexpectedAdmissionError", "does not try such a pod again"}},
		"it does not end": {pod: func(p *Pod) {
			putOnNode(p)
			p.Metadata.DeletionTimestamp, p.Metadata.Finalizers = &now, []string{"example.org/keep"}
		}, state: "ends", want: []string{"finalizers: example.org/keep"}},
		"no carrier": {pod: runOnNode, state: "runs", nodes: []api.NodeStatus{nodeWith("worker01", func() api.VF {
			v := heldVF("enp1s0#0", "default/db-0")
			v.NoCarrier = true
			return v
		}())}, want: []string{"VF enp1s0#0 has no carrier", "delete the pod"}},
		"a probe fails": {pod: func(p *Pod) { runOnNode(p); p.Status.ContainerStatuses[0].Ready = false }, state: "runs", want: []string{"readiness probe fails"}},
		"all VFs for claims are held": {pod: claimOnly, events: []Event{noDevices}, nodes: []api.NodeStatus{offersClaims(full[0])},
			want: []string{"of the VFs that claims can have, none is free", "worker01, pool culvert.dev/fast: 0 of 2 VFs free; held by pod default/a, pod prod/b", "offer another pool"}},
		"the VFs for claims have no link": {pod: claimOnly, events: []Event{noDevices}, nodes: []api.NodeStatus{changeNode(offersClaims(nodeWith("worker01", freeVF("enp1s0#0"))), func(n *api.NodeStatus) { n.PFs[0].Carrier = false })},
			want: []string{"none is free", "1 of 1 VF free; PF enp1s0 has no link"}},
		"the VFs for claims had errors": {pod: claimOnly, events: []Event{noDevices}, nodes: []api.NodeStatus{changeNode(offersClaims(nodeWith("worker01", freeVF("enp1s0#0"))), func(n *api.NodeStatus) { n.PFs[0].Faults = []vf.Fault{vf.FaultPCIe} })},
			want: []string{"none is free", "PF enp1s0 had PCIe errors, so its VFs have a taint"}},
		"free VFs do not fit the claim": {pod: claimOnly, events: []Event{noDevices}, nodes: []api.NodeStatus{offersClaims(nodeWith("worker01", freeVF("enp1s0#0")))},
			want: []string{"are free, and do not fit the claim", "kubectl get resourceslices"}},
		"a maintenance keeps VFs from claims": {pod: claimOnly, events: []Event{noDevices}, nodes: []api.NodeStatus{offersClaims(nodeWith("worker01", freeVF("enp1s0#0")))},
			policies: policy(func(p *v1alpha1.NodePolicy) {
				p.Spec = v1alpha1.NodePolicySpec{Maintenance: &v1alpha1.Maintenance{PFs: []string{"enp1s0"}, Effect: "NoSchedule"}}
			}),
			want: []string{"NodePolicy nics", "its maintenance gives no claim a VF of PFs enp1s0 of 1 node", "kubectl delete nodepolicy nics"}, absent: "free, and do not fit"},
		"claims of another driver": {pod: claimOnly, events: []Event{noDevices}, nodes: full, want: []string{"cannot allocate all claims"}, absent: "NodeStates"},
	} {
		f := Facts{Pod: waitingPod(t, c.pod), Events: c.events, Nodes: c.kube, Policies: c.policies, Networks: c.networks, Isolation: netannotation.Isolation{On: c.isolated}}
		if f.Networks == nil {
			f.Networks = fastNetwork
		}
		f.Cluster = api.ClusterStatus{Time: now, Nodes: c.nodes, Problems: c.problems}
		got := OfPod(f)
		if state := c.state; got.State != state && (state != "" || got.State != "waits") {
			t.Errorf("%s: it %s", name, got.State)
		}
		if len(got.Causes) == 0 {
			t.Errorf("%s: no cause", name)
			continue
		}
		first := fmt.Sprint(got.Causes[0])
		for _, want := range c.want {
			if !strings.Contains(first, want) {
				t.Errorf("%s: the first cause is\n%s\nwant %q in it", name, first, want)
			}
		}
		if all := fmt.Sprint(got.Causes); c.absent != "" && strings.Contains(all, c.absent) {
			t.Errorf("%s: %q is in\n%s", name, c.absent, all)
		}
	}
}

// A pod that runs with healthy VFs has no cause, also beside a pod whose name begins alike and has a
// problem.
func TestNothingIsWrong(t *testing.T) {
	n := nodeWith("worker01", heldVF("enp1s0#0", "default/db-0"), heldVF("enp1s0#1", "default/db-01"))
	n.Problems = []api.Problem{{Object: "VF 0000:01:10.1", Reason: "vf 1 of enp1s0, which pod default/db-01 has: spoofchk is no, not yes"}}
	f := Facts{Pod: waitingPod(t, runOnNode), Networks: fastNetwork, Cluster: api.ClusterStatus{Time: now, Nodes: []api.NodeStatus{n}}}
	if got := OfPod(f); len(got.Causes) > 0 || got.State != api.WhyRuns || got.Node != "worker01" {
		t.Errorf("%+v", got)
	}
	n.Problems[0].Reason = "vf 0 of enp1s0, which pod default/db-0 has: spoofchk is no, not yes"
	if got := OfPod(f); len(got.Causes) != 1 {
		t.Errorf("its own problem: %+v", got)
	}
}

// A resource of another device plugin, and a pod without devices, are left to the scheduler.
func TestOthersResources(t *testing.T) {
	gpu := kubeNode("worker01", "1", false)
	gpu.Status.Allocatable["nvidia.com/gpu"] = "0"
	f := Facts{Pod: waitingPod(t, func(p *Pod) {
		p.Metadata.Annotations = nil
		p.Spec.Containers[0].Resources.Requests, p.Spec.Containers[0].Resources.Limits = map[string]string{"nvidia.com/gpu": "1"}, nil
	}), Nodes: []Node{gpu}, Events: []Event{eventOf("default-scheduler", "FailedScheduling", "0/1 nodes are available: 1 Insufficient nvidia.com/gpu.")},
		Cluster: api.ClusterStatus{Time: now, Nodes: []api.NodeStatus{nodeWith("worker01", freeVF("enp1s0#0"))}}}
	got := OfPod(f)
	if len(got.Causes) != 1 || got.Causes[0].Source != "scheduler" || !strings.Contains(got.Causes[0].Text, "Insufficient nvidia.com/gpu") {
		t.Errorf("%+v", got.Causes)
	}
}
