package migrate

import (
	"slices"
	"strings"
	"testing"

	"github.com/culvert-net/culvert/api"
)

// stack is a cluster of the operator, with one network and one pod on it.
func stack() Cluster {
	nad := Network{NetworkDefinition: api.NetworkDefinition{Namespace: "default", Name: "storage", Config: `{"type": "sriov", "vlan": 30}`}}
	return Cluster{
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
		Networks: []Network{nad},
		Webhooks: []string{"mutatingwebhookconfigurations/network-resources-injector-config", "mutatingwebhookconfigurations/others"},
		Pods:     []Pod{{Namespace: "default", Name: "a", Annotations: map[string]string{"k8s.v1.cni.cncf.io/networks": "storage"}, Ready: true}},
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
	c := Cluster{}
	if got := commands(MakePlan(c, Options{})); got != "kubectl apply --server-side -f dist/kubernetes/culvert.yaml\nkubectl apply -f policy.yaml\nculvert migrate check" {
		t.Error(got)
	}
	c.Installed = true
	if got := commands(MakePlan(c, Options{})); got != "culvert migrate check" {
		t.Error(got)
	}
}

// What a webhook, culvertd or the garbage collector would do against a migration is a problem.
func TestPlanProblems(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*Cluster)
		want   string
	}{
		"a network that is refused":      {func(c *Cluster) { c.Networks[0].Config = `{"type": "sriov", "vlan": 5000}` }, "NetworkAttachmentDefinition default/storage: would be refused: vlan 5000"},
		"a network that is no JSON":      {func(c *Cluster) { c.Networks[0].Config = `{"plugins": [{"type": "sriov"}, 5]}` }, "NetworkAttachmentDefinition default/storage: would be refused: "},
		"a network that its owner takes": {func(c *Cluster) { c.Networks[0].Owners = []string{KindNetwork} }, "its owner is a SriovNetwork"},
		"a network that is not there":    {func(c *Cluster) { c.Networks = nil }, "Pod default/a: would be refused: there is no network default/storage"},
		"an annotation":                  {func(c *Cluster) { c.Pods[0].Annotations["k8s.v1.cni.cncf.io/networks"] = "A" }, "Pod default/a: would be refused: annotation"},
		"a MAC address": {func(c *Cluster) {
			c.Pods[0].Annotations["k8s.v1.cni.cncf.io/networks"] = `[{"name": "storage", "mac": "02:00:00:00:00:01"}]`
		}, "none of its plugins has that capability"},
		"an object": {func(c *Cluster) { c.Objects[0].Kind = KindIBNetwork }, "SriovIBNetwork op/storage: not converted"},
	} {
		c := stack()
		tc.change(&c)
		p := MakePlan(c, Options{})
		if !slices.ContainsFunc(p.Problems, func(n Note) bool { return strings.Contains(n.String(), tc.want) }) {
			t.Errorf("%s: %v", name, p.Problems)
		}
		if !slices.ContainsFunc(Check(c), func(n Note) bool { return strings.Contains(n.String(), tc.want) }) && name != "an object" {
			t.Errorf("%s: the check does not name it: %v", name, Check(c))
		}
	}
}

// Networks of others stay, and a warning of ours is shown.
func TestPlanNetworks(t *testing.T) {
	for config, want := range map[string]string{
		`{"type": "sriov"}`:                   "works as it is",
		`{"type": "sriov", "master": "eth1"}`: "works as it is, with the warning: ",
		`{"type": "macvlan"}`:                 "stays: its plugins macvlan are run as they are",
		``:                                    "stays: a file on the nodes has its configuration",
	} {
		text, lost := judgeNetwork(Network{NetworkDefinition: api.NetworkDefinition{Namespace: "d", Name: "n", Config: config}})
		if lost || !strings.HasPrefix(text, want) {
			t.Errorf("%s: %s, %t", config, text, lost)
		}
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
