package migrate

import (
	"cmp"
	"fmt"
	"strings"
)

// Names of the operator's webhook configurations.
var operatorWebhooks = []string{"sriov-operator-webhook-config", "network-resources-injector-config"}

// saveCommand writes the objects of the operator into a file.
const saveCommand = "kubectl get sriovnetworknodepolicies,sriovnetworks,sriovibnetworks,ovsnetworks,sriovnetworkpoolconfigs,sriovoperatorconfigs -A -o yaml > operator.yaml"

// steps returns the commands that change the cluster to Culvert, in order.
func (c Cluster) steps(parts []Part, converts bool, options Options, s settings) []Step {
	var out []Step
	add := func(why, format string, args ...any) { out = append(out, Step{fmt.Sprintf(format, args...), why}) }
	operator := c.hasOperatorObjects()
	if operator {
		add("what is wanted, for the next step and for the way back", saveCommand)
		add("the NodePolicies and networks that say the same; read its notes", "culvert migrate convert operator.yaml%s > culvert-objects.yaml", options.flags())
	} else {
		out = append(out, saveDaemonSets(parts)...)
	}
	for _, p := range parts {
		w := p.workload
		if !p.Goes || w.Kind != "Deployment" || w.Replicas == 0 {
			continue
		}
		if w.OLM != "" {
			add("OLM would scale its Deployment up again; delete its Subscription first, by which OLM would install it again; its objects stay",
				"kubectl -n %s delete clusterserviceversions.operators.coreos.com %s", w.Namespace, w.OLM)
			continue
		}
		add(p.Why+"; stop it before anything of it is deleted: while it runs, a SriovNetwork that goes takes its NetworkAttachmentDefinition along, and a SriovNetworkNodePolicy that goes resets its PFs",
			"kubectl -n %s scale deployment %s --replicas=0", w.Namespace, w.Name)
	}
	for _, w := range c.Webhooks {
		kind, name, _ := strings.Cut(w, "/")
		for _, known := range operatorWebhooks {
			if name == known {
				add("no program answers it any more", "kubectl delete %s %s", kind, name)
			}
		}
	}
	for _, p := range parts {
		if w := p.workload; p.Goes && w.Kind == "DaemonSet" {
			add(p.Why+"; pods keep their VFs", "kubectl -n %s delete daemonset %s", w.Namespace, w.Name)
		}
	}
	if !c.HasNetworks {
		add("the kind of networks, which Multus brings elsewhere", "kubectl create -f dist/kubernetes/network-attachment-definitions.yaml")
	}
	edits := append(s.settingSteps(c.installed()), c.drainSteps()...)
	out = append(out, edits...)
	if !c.Installed || len(edits) > 0 {
		add("VFs that are there are taken over, and those that pods have stay theirs", "kubectl apply --server-side -f %s", manifest)
		add("it runs on all nodes", "kubectl -n culvert-system rollout status daemonset/culvertd")
		add("it checks what is applied, and adds resources to pods", "kubectl -n culvert-system rollout status deployment/culvert-controller")
	}
	switch {
	case operator && converts:
		add("which PFs, how many VFs, which pools, which networks", "kubectl apply -f culvert-objects.yaml")
	case !c.Installed:
		add("which PFs have how many VFs; the device plugin's ConfigMap says only which pools there are", "kubectl apply -f policy.yaml")
	}
	add("that the old parts are gone, every pod runs and every network is served", "culvert migrate check")
	return append(out, c.lastSteps(operator, parts, s)...)
}

// saveDaemonSets returns the steps that save the DaemonSets which will be deleted, in a file for
// each namespace, for the way back. The operator makes its own again.
func saveDaemonSets(parts []Part) (out []Step) {
	var namespaces []string
	names := map[string][]string{}
	for _, p := range parts {
		w := p.workload
		if w.Kind != "DaemonSet" || !p.Goes && p.Name != partMultus {
			continue
		}
		if names[w.Namespace] == nil {
			namespaces = append(namespaces, w.Namespace)
		}
		names[w.Namespace] = append(names[w.Namespace], w.Name)
	}
	for i, n := range namespaces {
		file := "daemonsets.yaml"
		if i > 0 {
			file = "daemonsets-" + n + ".yaml"
		}
		out = append(out, Step{fmt.Sprintf(`kubectl -n %s get daemonset %s -o yaml | sed '/^ *\(uid\|resourceVersion\):/d' > %s`, n, strings.Join(names[n], " "), file),
			"for the way back, without what only the API server may write"})
	}
	return out
}

// flags returns the options as flags of culvert migrate convert.
func (o Options) flags() string {
	if o.operatorPrefix() == operatorPrefix {
		return ""
	}
	return " --resource-prefix " + o.ResourcePrefix
}

// installed has Culvert's workloads in a cluster; the zero values where there are none.
type installed struct{ daemon, controller Workload }

// installed finds Culvert's workloads.
func (c Cluster) installed() (out installed) {
	for _, w := range c.Workloads {
		switch {
		case w.Kind == "DaemonSet" && w.Name == "culvertd":
			out.daemon = w
		case w.Kind == "Deployment" && w.Name == "culvert-controller":
			out.controller = w
		}
	}
	return out
}

// lastSteps returns the steps that wait until everything works.
func (c Cluster) lastSteps(operator bool, parts []Part, s settings) []Step {
	folder := cmp.Or(s.cniConf, defaultCNIConf)
	var out []Step
	if operator {
		for _, o := range c.Objects {
			if o.Kind == KindNetwork {
				out = append(out, Step{fmt.Sprintf("kubectl -n %s patch sriovnetwork %s --type merge -p '{\"metadata\":{\"finalizers\":null}}'", o.Namespace, o.Name),
					"the operator that would take its finalizer away is gone"})
			}
		}
		out = append(out, Step{"kubectl delete crd sriovnetworks.sriovnetwork.openshift.io sriovnetworknodepolicies.sriovnetwork.openshift.io",
			"last, when all works: until then the way back is to start the operator again"})
	}
	for _, p := range parts {
		if p.Name != partMultus || p.workload.Kind != "DaemonSet" {
			continue
		}
		out = append(out, Step{fmt.Sprintf("kubectl -n %s delete daemonset %s", p.workload.Namespace, p.workload.Name),
			"only where Multus is to go; then remove its configuration (00-multus.conf) from " + folder + " of each node, and Culvert attaches the networks of pods itself"})
	}
	return out
}
