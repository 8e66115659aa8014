package migrate

import (
	"slices"
	"strings"
	"testing"

	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/vf"
)

// stack is a cluster of the operator, with one network and one pod on it.
func stack() Cluster {
	return Cluster{
		HasNetworks: true,
		Workloads: []Workload{
			{"DaemonSet", "op", "sriov-device-plugin", []string{"x/dp"}, 1, "", nil, nil, nil},
			{"DaemonSet", "op", "sriov-network-config-daemon", []string{"x/sriov-network-operator", "x/sriov-cni"}, 1, "", nil, nil, nil},
			{"Deployment", "op", "sriov-network-operator", []string{"x/o"}, 1, "", nil, nil, nil},
			{"DaemonSet", "kube-system", "agents", []string{"x/multus-cni:v4"}, 1, "", nil, nil, nil},
			{"DaemonSet", "kube-system", "proxy", []string{"x/kube-proxy"}, 1, "", nil, nil, nil},
		},
		Objects: []Object{
			{Kind: KindNetwork, Namespace: "op", Name: "storage", Spec: map[string]any{"resourceName": "storage"}},
			{Kind: KindConfigMap, Namespace: "op", Name: operatorConfigMap, Data: map[string]string{"n1": `{"resourceList": []}`}},
			{Kind: KindConfigMap, Namespace: "kube-system", Name: "other", Data: map[string]string{"a": "b"}},
		},
		Networks: []Network{{Namespace: "default", Name: "storage"}},
		Webhooks: []string{"mutatingwebhookconfigurations/network-resources-injector-config", "mutatingwebhookconfigurations/others"},
		Pods:     []Pod{{Namespace: "default", Name: "a", Ready: true}, {Namespace: "default", Name: "b", Ready: true}},
		Judged:   []Note{{Object: "NetworkAttachmentDefinition default/storage", Text: "works as it is"}},
	}
}

// commands returns the commands of a plan.
func commands(p Plan) string {
	var out []string
	for _, s := range p.Steps {
		out = append(out, s.Command)
	}
	return strings.Join(out, "\n")
}

// The operator is stopped before anything of it is deleted; its objects go last.
func TestPlanOrder(t *testing.T) {
	p := MakePlan(stack(), Options{})
	want := []string{"kubectl get sriovnetworknodepolicies", "culvert migrate convert", "-n op scale deployment sriov-network-operator --replicas=0",
		"delete mutatingwebhookconfigurations network-resources-injector-config", "-n op delete daemonset sriov-network-config-daemon", "-n op delete daemonset sriov-device-plugin",
		"kubectl apply --server-side", "apply -f culvert-objects.yaml", "culvert migrate check", "patch sriovnetwork storage", "kubectl delete crd", "-n kube-system delete daemonset agents"}
	rest := commands(p)
	for _, w := range want {
		_, after, ok := strings.Cut(rest, w)
		if !ok {
			t.Fatalf("%s is missing or in the wrong place:\n%s", w, commands(p))
		}
		rest = after
	}
	if strings.Contains(commands(p), "others") || len(p.Problems) > 0 || len(p.Found) != 4 {
		t.Errorf("%+v", p)
	}
}

// The plan for a cluster with Culvert does not install Culvert, and the plan for a cluster without
// the operator does not convert.
func TestPlanWithoutOperator(t *testing.T) {
	c := Cluster{HasNetworks: true}
	const install = "kubectl apply --server-side -f dist/kubernetes/culvert.yaml\nkubectl -n culvert-system rollout status daemonset/culvertd\n" +
		"kubectl -n culvert-system rollout status deployment/culvert-controller\nkubectl apply -f policy.yaml\nculvert migrate check"
	if got := commands(MakePlan(c, Options{})); got != install {
		t.Error(got)
	}
	c.Workloads = []Workload{
		{"DaemonSet", "kube-system", "kube-multus-ds", nil, 1, "", nil, nil, nil}, {"DaemonSet", "kube-system", "kube-sriov-cni-ds", nil, 1, "", nil, nil, nil},
		{"DaemonSet", "other", "sriov-device-plugin", nil, 1, "", nil, nil, nil}, {"DaemonSet", "kube-system", "whereabouts", nil, 1, "", nil, nil, nil},
	}
	const save = `kubectl -n other get daemonset sriov-device-plugin -o yaml | sed '/^ *\(uid\|resourceVersion\):/d' > daemonsets.yaml
kubectl -n kube-system get daemonset kube-sriov-cni-ds kube-multus-ds -o yaml | sed '/^ *\(uid\|resourceVersion\):/d' > daemonsets-kube-system.yaml
kubectl -n other delete`
	if got := commands(MakePlan(c, Options{})); !strings.HasPrefix(got, save) {
		t.Error(got)
	}
	c.Workloads = nil
	c.HasNetworks = false
	if got := commands(MakePlan(c, Options{})); !strings.HasPrefix(got, "kubectl create -f dist/kubernetes/network-attachment-definitions.yaml\nkubectl apply --server-side") {
		t.Error(got)
	}
	c.Installed, c.HasNetworks = true, true
	if got := commands(MakePlan(c, Options{})); got != "culvert migrate check" {
		t.Error(got)
	}
}

// OLM would scale its Deployment up again, so its ClusterServiceVersion goes.
func TestPlanWithOLM(t *testing.T) {
	c := stack()
	c.Workloads[2].OLM = "sriov-network-operator.v4.19"
	got := commands(MakePlan(c, Options{}))
	if !strings.Contains(got, "kubectl -n op delete clusterserviceversions.operators.coreos.com sriov-network-operator.v4.19\n") || strings.Contains(got, "scale deployment") {
		t.Error(got)
	}
}

// An action of a webhook, culvertd or the garbage collector that would break a migration is a
// problem of the plan and of the check.
func TestPlanProblems(t *testing.T) {
	for want, change := range map[string]func(*Cluster){
		"NetworkAttachmentDefinition default/storage: its owner is a SriovNetwork": func(c *Cluster) { c.Networks[0].Owners = []string{KindNetwork} },
		"Pod default/a: would be refused: why": func(c *Cluster) {
			c.Judged = append(c.Judged, Note{Object: "Pod default/a", Text: "would be refused: why", Lost: true})
		},
		"SriovIBNetwork op/storage: not converted": func(c *Cluster) { c.Objects[0].Kind = KindIBNetwork },
	} {
		c := stack()
		change(&c)
		is := func(n Note) bool { return strings.HasPrefix(n.String(), want) }
		if p := MakePlan(c, Options{}); !slices.ContainsFunc(p.Problems, is) {
			t.Errorf("the plan has %v, want %s", p.Problems, want)
		}
		if left := Check(c); slices.ContainsFunc(left, is) == strings.HasPrefix(want, "Sriov") {
			t.Errorf("the check has %v, want %s", left, want)
		}
	}
}

// Pods without findings are only counted.
func TestPlanCountsPods(t *testing.T) {
	c := stack()
	c.Judged = append(c.Judged, Note{Object: "Pod default/a", Text: "x", Lost: true})
	if got := MakePlan(c, Options{}).Becomes; !slices.ContainsFunc(got, func(n Note) bool { return strings.HasPrefix(n.String(), "1 pods: ask for networks") }) {
		t.Error(got)
	}
}

// The check finds each thing that is left to do, and nothing when all is done.
func TestCheck(t *testing.T) {
	done := stack()
	done.Workloads = []Workload{{"DaemonSet", "kube-system", "kube-multus-ds", nil, 1, "", nil, nil, nil}, {"Deployment", "op", "sriov-network-operator", nil, 0, "", nil, nil, nil}}
	done.Installed, done.Daemons = true, []api.DaemonPod{{Name: "culvertd-x", Node: "n1", Ready: true}}
	wanted := 3
	done.Nodes = []api.NodeStatus{{
		Node: "n1", Ready: true, PFs: []api.PF{{PF: vf.PF{Name: "enp1s0"}, WantedVFs: &wanted}, {PF: vf.PF{Name: "enp2s0"}}},
		VFs: []api.VF{
			{Name: "enp1s0#0", PF: "enp1s0", Phase: "free"}, {Name: "enp1s0#1", PF: "enp1s0", Phase: "attached"}, {Name: "enp1s0#2", PF: "enp1s0", Phase: api.PhaseGiven},
			{Name: "enp2s0#0", PF: "enp2s0", Phase: api.PhaseUnmanaged, PCI: vf.PCIAddr{Bus: 2, Device: 16}},
		},
	}}
	vfOf := func(c *Cluster, i int) *api.VF {
		c.Nodes = slices.Clone(c.Nodes)
		c.Nodes[0].VFs = slices.Clone(c.Nodes[0].VFs)
		return &c.Nodes[0].VFs[i]
	}
	if left := Check(done); len(left) > 0 {
		t.Errorf("all is done, and it finds %v", left)
	}
	for want, change := range map[string]func(*Cluster){
		"Deployment op/sriov-network-operator: the SR-IOV operator is still there": func(c *Cluster) { c.Workloads[1].Replicas = 1 },
		"Culvert: it is not installed":                                             func(c *Cluster) { c.Installed, c.Daemons = false, nil },
		"Culvert: no culvertd runs":                                                func(c *Cluster) { c.Daemons = nil },
		"culvertd culvertd-x: it is not ready on node n1: Pulling":                 func(c *Cluster) { c.Daemons[0].Ready, c.Daemons[0].Reason = false, "Pulling" },
		"node n1: its culvertd has not reported its VFs yet":                       func(c *Cluster) { c.Nodes = nil },
		"node n1: its culvertd has not made its VFs yet": func(c *Cluster) {
			vfOf(c, 0)
			c.Nodes[0].Ready = false
		},
		"node n1: culvertd is taking over enp1s0#0, enp1s0#1": func(c *Cluster) {
			vfOf(c, 0).Phase = "making"
			vfOf(c, 1).Phase = "making"
		},
		"VF enp1s0#2 of node n1: it is not taken over: culvertd has not come to it yet": func(c *Cluster) { vfOf(c, 2).Phase = api.PhaseUnmanaged },
		"PF enp1s0 of node n1: culvertd cannot read it, so it may have VFs that are not taken over: no answer": func(c *Cluster) {
			vfOf(c, 0)
			seven := 7
			c.Nodes[0].PFs = slices.Clone(c.Nodes[0].PFs)
			c.Nodes[0].PFs[0].Err, c.Nodes[0].PFs[0].WantedVFs = "no answer", &seven
		},
		"VF enp2s0#0 of node n1: it is not taken over: open by qemu: end that first": func(c *Cluster) {
			v := vfOf(c, 3)
			v.Pool = "x/a"
			c.Nodes[0].Problems = []api.Problem{{Object: "VF " + v.PCI.String(), Reason: "open by qemu: end that first"}}
		},
		"NodePolicy p: it is not applied": func(c *Cluster) {
			c.Unapplied = []Note{{Object: "NodePolicy p", Text: "it is not applied", Lost: true}}
		},
		"Pod default/a: it is not ready: Pending": func(c *Cluster) { c.Pods[0].Ready, c.Pods[0].Reason = false, "Pending" },
	} {
		c := done
		c.Workloads, c.Daemons, c.Pods = slices.Clone(c.Workloads), slices.Clone(c.Daemons), slices.Clone(c.Pods)
		change(&c)
		if left := Check(c); len(left) != 1 || !strings.HasPrefix(left[0].String(), want) {
			t.Errorf("%v, want %s", left, want)
		}
	}
}
