package migrate

import (
	"slices"
	"strings"
	"testing"

	"github.com/culvert-net/culvert/api"
)

// stack is a cluster of the operator, with one network and one pod on it.
func stack() Cluster {
	return Cluster{
		HasNetworks: true,
		Workloads: []Workload{
			{"DaemonSet", "op", "sriov-device-plugin", []string{"x/dp"}, 1},
			{"DaemonSet", "op", "sriov-network-config-daemon", []string{"x/sriov-network-operator", "x/sriov-cni"}, 1},
			{"Deployment", "op", "sriov-network-operator", []string{"x/o"}, 1},
			{"DaemonSet", "kube-system", "agents", []string{"x/multus-cni:v4"}, 1},
			{"DaemonSet", "kube-system", "proxy", []string{"x/kube-proxy"}, 1},
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

// commands are those of a plan.
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

// A cluster with Culvert is not told to install it, one without the operator not to convert.
func TestPlanWithoutOperator(t *testing.T) {
	c := Cluster{HasNetworks: true}
	if got := commands(MakePlan(c, Options{})); got != "kubectl apply --server-side -f dist/kubernetes/culvert.yaml\nkubectl apply -f policy.yaml\nculvert migrate check" {
		t.Error(got)
	}
	c.HasNetworks = false
	if got := commands(MakePlan(c, Options{})); !strings.HasPrefix(got, "kubectl create -f dist/kubernetes/network-attachment-definitions.yaml\nkubectl apply --server-side") {
		t.Error(got)
	}
	c.Installed, c.HasNetworks = true, true
	if got := commands(MakePlan(c, Options{})); got != "culvert migrate check" {
		t.Error(got)
	}
}

// What a webhook, culvertd or the garbage collector would do against a migration is a problem, for
// the plan and for the check.
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

// Pods of which there is nothing to say are counted.
func TestPlanCountsPods(t *testing.T) {
	c := stack()
	c.Judged = append(c.Judged, Note{Object: "Pod default/a", Text: "x", Lost: true})
	if got := MakePlan(c, Options{}).Becomes; !slices.ContainsFunc(got, func(n Note) bool { return strings.HasPrefix(n.String(), "1 pods: ask for networks") }) {
		t.Error(got)
	}
}

// The check finds what is left, and nothing when all is done.
func TestCheck(t *testing.T) {
	done := stack()
	done.Workloads = []Workload{{"DaemonSet", "kube-system", "kube-multus-ds", nil, 1}, {"Deployment", "op", "sriov-network-operator", nil, 0}}
	done.Installed, done.Daemons = true, []api.DaemonPod{{Name: "culvertd-x", Node: "n1", Ready: true}}
	if left := Check(done); len(left) > 0 {
		t.Errorf("all is done, and it finds %v", left)
	}
	for want, change := range map[string]func(*Cluster){
		"Deployment op/sriov-network-operator: the SR-IOV operator is still there": func(c *Cluster) { c.Workloads[1].Replicas = 1 },
		"Culvert: it is not installed":                                             func(c *Cluster) { c.Installed, c.Daemons = false, nil },
		"Culvert: no culvertd runs":                                                func(c *Cluster) { c.Daemons = nil },
		"culvertd culvertd-x: it is not ready on node n1: Pulling":                 func(c *Cluster) { c.Daemons[0].Ready, c.Daemons[0].Reason = false, "Pulling" },
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
