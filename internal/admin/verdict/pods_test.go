package verdict

import (
	"fmt"
	"strings"
	"testing"
)

// plain is a network n of VFs without addresses.
const plain = "kind: NetworkAttachmentDefinition\nmetadata: {name: n}\nspec: {config: '{\"type\":\"sriov\",\"capabilities\":{\"mac\":true}}'}\n---\n"

// sharing is a network n whose addresses and MAC addresses pods choose.
const sharing = "kind: NetworkAttachmentDefinition\nmetadata: {name: n}\nspec: {config: '{\"type\":\"sriov\",\"capabilities\":{\"ips\":true,\"mac\":true},\"ipam\":{\"type\":\"static\"}}'}\n---\n"

// template is a pod's template whose annotation asks for networks.
func template(annotation string) string {
	return "{metadata: {annotations: {k8s.v1.cni.cncf.io/networks: '" + annotation + "'}}, spec: {containers: [{name: c}]}}"
}

// The pods in an object are judged, whichever kind it has and wherever they are.
func TestPodsInObjects(t *testing.T) {
	const wrong = "b//c"
	for kind, spec := range map[string]string{
		"Deployment":       "{template: " + template(wrong) + "}",
		"Job":              "{template: " + template(wrong) + "}",
		"CronJob":          "{jobTemplate: {spec: {template: " + template(wrong) + "}}}",
		"JobSet":           "{replicatedJobs: [{name: a, template: {spec: {template: " + template(wrong) + "}}}]}",
		"MPIJob":           "{mpiReplicaSpecs: {Worker: {replicas: 2, template: " + template(wrong) + "}}}",
		"PyTorchJob":       "{pytorchReplicaSpecs: {Master: {template: " + template(wrong) + "}}}",
		"Rollout":          "{template: " + template(wrong) + "}",
		"LeaderWorkerSet":  "{leaderWorkerTemplate: {size: 2, workerTemplate: " + template(wrong) + "}}",
		"RayCluster":       "{workerGroupSpecs: [{replicas: 1, template: " + template(wrong) + "}]}",
		"AppWrapper":       "{components: [{template: {kind: Pod, metadata: {annotations: {k8s.v1.cni.cncf.io/networks: '" + wrong + "'}}}}]}",
		"Prometheus":       "{podMetadata: {annotations: {k8s.v1.cni.cncf.io/networks: '" + wrong + "'}}}",
		"SparkApplication": "{executor: {annotations: {k8s.v1.cni.cncf.io/networks: '" + wrong + "'}}}",
		"Anything":         "{podAnnotations: {v1.multus-cni.io/default-network: '" + wrong + "'}}",
	} {
		got := describe(Of(Read("file", []byte("kind: "+kind+"\nmetadata: {name: x, namespace: a}\nspec: "+spec+"\n"))))
		if !strings.HasPrefix(got, kind+" a/x: refused\n  refused: annotation ") {
			t.Errorf("%s: %s", kind, got)
		}
	}
}

func TestPods(t *testing.T) {
	checkVerdicts(t, map[string]verdictCase{
		"two templates": {
			plain + "kind: MPIJob\nmetadata: {name: m}\nspec: {mpiReplicaSpecs: {Launcher: {template: " + template("n") + "}, Worker: {template: " + template("b//c") + "}}}\n",
			"NetworkAttachmentDefinition n: works\nMPIJob m: refused\n  refused: spec.mpiReplicaSpecs.Worker.template: annotation k8s.v1.cni.cncf.io/networks: element 1",
		},
		"a PodTemplate":     {"kind: PodTemplate\nmetadata: {name: p}\ntemplate: " + template("b//c") + "\n", "PodTemplate p: refused\n  refused: annotation k8s.v1.cni.cncf.io/networks: "},
		"a list, no text":   {"kind: DaemonSet\nmetadata: {name: d}\nspec: {template: {metadata: {annotations: {k8s.v1.cni.cncf.io/networks: [{name: n}]}}}}\n", "DaemonSet d: refused\n  refused: annotation k8s.v1.cni.cncf.io/networks: want a text: put the list in quotes\n"},
		"a placeholder":     {"kind: Workflow\nmetadata: {name: w}\nspec: {podMetadata: {annotations: {k8s.v1.cni.cncf.io/networks: '{{inputs.net}}'}}}\n", "Workflow w: works, with warnings\n  warning: annotation k8s.v1.cni.cncf.io/networks \"{{inputs.net}}\" has a placeholder, and was not judged\n"},
		"of another object": {"kind: Rollout\nmetadata: {name: r, annotations: {k8s.v1.cni.cncf.io/networks: 'b//c'}}\nspec: {}\nstatus: {template: " + template("b//c") + "}\n", ""},
		"of the workload itself": {
			"kind: Deployment\nmetadata: {name: d, annotations: {k8s.v1.cni.cncf.io/networks: n}}\nspec: {template: {spec: {containers: []}}}\n",
			"Deployment d: works, with warnings\n  warning: metadata.annotations asks for networks, and its pods do not have that annotation: write it into spec.template.metadata.annotations\n",
		},
		"of the CronJob itself": {
			"kind: CronJob\nmetadata: {name: d, annotations: {k8s.v1.cni.cncf.io/networks: n}}\n",
			"CronJob d: works, with warnings\n  warning: metadata.annotations asks for networks, and its pods do not have that annotation: write it into spec.jobTemplate.spec.template.metadata.annotations\n",
		},
		"of a SriovNetwork": {
			"kind: Pod\nmetadata: {name: p, namespace: a, annotations: {k8s.v1.cni.cncf.io/networks: '[{\"name\":\"s\",\"mac\":\"01:00:00:00:00:01\"}]'}}\n---\nkind: SriovNetwork\nmetadata: {name: s, namespace: op}\nspec: {resourceName: r, networkNamespace: a, capabilities: '{\"mac\": true}'}\n",
			"Pod a/p: refused\n  refused: network a/s (net1): runtimeConfig.mac: MAC address \"01:00:00:00:00:01\": want a unicast address",
		},
		"of an OVSNetwork": {
			"kind: Pod\nmetadata: {name: p, namespace: a, annotations: {k8s.v1.cni.cncf.io/networks: s}}\n---\nkind: OVSNetwork\nmetadata: {name: s, namespace: op}\nspec: {resourceName: r, networkNamespace: a}\n",
			"Pod a/p: works, with warnings\n  warning: network a/s is that of OVSNetwork op/s in these files, which makes no network of Culvert, and was not judged\nOVSNetwork op/s: refused\n  refused: ",
		},
		"of a SriovIBNetwork, without a namespace": {
			"kind: Pod\nmetadata: {name: p, annotations: {k8s.v1.cni.cncf.io/networks: s}}\n---\nkind: SriovIBNetwork\nmetadata: {name: s}\nspec: {resourceName: r}\n",
			"Pod p: works, with warnings\n  warning: network default/s is that of SriovIBNetwork s in these files, ",
		},
		"a definition counts before a SriovNetwork": {
			"kind: SriovNetwork\nmetadata: {name: n}\nspec: {resourceName: r}\n---\n" + sharing + "kind: Pod\nmetadata: {name: p, annotations: {k8s.v1.cni.cncf.io/networks: '[{\"name\":\"n\",\"ips\":[\"10.0.0.5/24\"]}]'}}\n",
			"SriovNetwork n: works\nNetworkAttachmentDefinition n: works\nPod p: works\n",
		},
	})
}

// An object of many levels is read up to a bound.
func TestDeepObjects(t *testing.T) {
	for levels, want := range map[int]int{5: 1, 100: 0, 10_000: 0} {
		text := "kind: X\nmetadata: {name: x}\nspec: " + strings.Repeat("{a: ", levels) + template("b//c") + strings.Repeat("}", levels) + "\n"
		var found []string
		for _, v := range Of(Read("file", []byte(text))) {
			if v.Object == "X x" {
				found = append(found, v.Object)
			}
		}
		if len(found) != want {
			t.Errorf("%d levels: %d verdicts, want %d", levels, len(found), want)
		}
	}
}

// interfaces is the spec of a guest of KubeVirt.
func interfaces(list, networks string) string {
	return fmt.Sprintf("{domain: {devices: {interfaces: [%s]}}, networks: [%s]}", list, networks)
}

func TestGuests(t *testing.T) {
	const def = "{name: d, pod: {}}, {name: a, multus: {networkName: n}}"
	bridge := network("b", `{"type":"bridge"}`)
	for name, tc := range map[string]struct{ spec, want string }{
		"works":                                {interfaces("{name: d, masquerade: {}}, {name: a, sriov: {}, macAddress: '02:00:00:00:00:01'}", def), "works\n"},
		"a MAC of a group":                     {interfaces("{name: d, masquerade: {}}, {name: a, sriov: {}, macAddress: '01:00:00:00:00:01'}", def), "refused\n  refused: network default/n (net1): runtimeConfig.mac: "},
		"another namespace":                    {interfaces("{name: a, sriov: {}}", "{name: a, multus: {networkName: o/n}}"), "works, with warnings\n  warning: network o/n has no configuration in these files"},
		"as the default":                       {interfaces("{name: a, sriov: {}}", "{name: a, multus: {networkName: default/n, default: true}}"), "works\n"},
		"as the default, in Multus' namespace": {interfaces("{name: a, sriov: {}}", "{name: a, multus: {networkName: n, default: true}}"), "works, with warnings\n  warning: network kube-system/n has no configuration in these files"},
		"no interface":                         {interfaces("{name: d, masquerade: {}}", def), "refused\n  refused: network \"a\" of the guest has no interface of that name, and KubeVirt refuses it\n"},
		"no network":                           {interfaces("{name: d, masquerade: {}}, {name: a, sriov: {}}, {name: aa, sriov: {}}", def), "refused\n  refused: interface \"aa\" of the guest has no network of that name, and KubeVirt refuses it: did you mean a?\n"},
		"no VF":                                {interfaces("{name: a, sriov: {}}", "{name: a, multus: {networkName: b}}"), "works, with warnings\n  warning: interface \"a\" is sriov, and network default/b gives no VF\n"},
		"the pod's network":                    {interfaces("{name: d, sriov: {}}, {name: a, sriov: {}}", def), "works, with warnings\n  warning: interface \"d\" is sriov, and its network has no key multus that names one with VFs\n"},
		"a misspelled key":                     {interfaces("{name: d, masquerade: {}}, {name: a, sroiv: {}}", def), "works, with warnings\n  warning: interface \"a\": unknown key \"sroiv\": did you mean sriov?\n"},
	} {
		for kind, spec := range map[string]string{"VirtualMachineInstance": tc.spec, "VirtualMachine": "{template: {spec: " + tc.spec + "}}", "VirtualMachinePool": "{virtualMachineTemplate: {spec: {template: {spec: " + tc.spec + "}}}}"} {
			got := describe(Of(Read("file", []byte(plain+bridge+"kind: "+kind+"\nmetadata: {name: g}\nspec: "+spec+"\n"))))
			_, got, _ = strings.Cut(got, kind+" g: ")
			if !strings.HasPrefix(got, tc.want) {
				t.Errorf("%s, %s:\n got %s\nwant %s", name, kind, got, tc.want)
			}
		}
	}
}

// The node labels of a pod's networks are compared with one another and with the pod's nodeSelector.
func TestNodesOfNetworks(t *testing.T) {
	on := func(name, label string) string {
		return "kind: NetworkAttachmentDefinition\nmetadata: {name: " + name + ", annotations: {k8s.v1.cni.cncf.io/nodeSelector: '" + label + "'}}\nspec: {config: '{\"type\":\"sriov\"}'}\n---\n"
	}
	pod := func(selector string) string {
		return "kind: Pod\nmetadata: {name: p, annotations: {k8s.v1.cni.cncf.io/networks: 'a,b'}}\nspec: {nodeSelector: {" + selector + "}, containers: []}\n"
	}
	const works = "NetworkAttachmentDefinition a: works\nNetworkAttachmentDefinition b: works\nPod p: "
	checkVerdicts(t, map[string]verdictCase{
		"one label":     {on("a", "rack=7") + on("b", "rack=7") + pod(""), works + "works\n"},
		"the pod's own": {on("a", "rack=7") + on("b", "fast") + pod("rack: '7', fast: ''"), works + "works\n"},
		"another of the pod": {
			on("a", "rack=7") + on("b", "rack=7") + pod("rack: '8'"),
			works + "works, with warnings\n  warning: network default/a is on nodes with the label rack=7, and the pod's nodeSelector says rack=8, which stays\n  warning: network default/b is",
		},
		"two networks": {
			on("a", "rack=7") + on("b", "rack=8") + pod(""),
			works + "works, with warnings\n  warning: network default/b is on nodes with the label rack=8, and network default/a on nodes with rack=7: no node has both\n",
		},
		"of a template": {
			on("a", "rack=7") + "kind: Deployment\nmetadata: {name: d}\nspec: {template: {metadata: {annotations: {k8s.v1.cni.cncf.io/networks: a}}, spec: {nodeSelector: {rack: '8'}}}}\n",
			"NetworkAttachmentDefinition a: works\nDeployment d: works, with warnings\n  warning: network default/a is on nodes",
		},
		"no label": {on("a", "a b=c"), "NetworkAttachmentDefinition a: works, with warnings\n  warning: annotation k8s.v1.cni.cncf.io/nodeSelector: invalid: \"a b=c\" is no label of a node: want one key="},
	})
}

// Networks of every pod come before those that a pod asks for.
func TestNetworksOfEveryPod(t *testing.T) {
	const (
		networks = "kind: NetworkAttachmentDefinition\nmetadata: {name: n, namespace: kube-system}\nspec: {config: '{\"type\":\"sriov\"}'}\n---\n" + plain
		works    = "NetworkAttachmentDefinition kube-system/n: works\nNetworkAttachmentDefinition n: works\n"
		culvertd = "kind: DaemonSet\nmetadata: {name: culvertd}\nspec: {template: {spec: {containers: [{name: c, args: [--default-networks=n, --system-namespaces=quiet]}]}}}\n---\n"
		multus   = "kind: ConfigMap\nmetadata: {name: multus}\ndata: {daemon-config.json: '{\"defaultNetworks\":[\"n\"],\"systemNamespaces\":[\"quiet\"]}'}\n---\n"
		pod      = "kind: Pod\nmetadata: {name: p, namespace: NAMESPACE, annotations: {k8s.v1.cni.cncf.io/networks: default/n@net1}}\nspec: {containers: []}\n"
		twice    = "refused\n  refused: network default/n (net1): interface net1: "
	)
	in := func(namespace string) string { return strings.ReplaceAll(pod, "NAMESPACE", namespace) }
	checkVerdicts(t, map[string]verdictCase{
		"none":                {networks + in("a"), works + "Pod a/p: works\n"},
		"culvertd's":          {networks + culvertd + in("a"), works + "Pod a/p: " + twice},
		"Multus'":             {networks + multus + in("a"), works + "Pod a/p: " + twice},
		"a system namespace":  {networks + culvertd + in("quiet"), works + "Pod quiet/p: works\n"},
		"Multus' own":         {networks + multus + in("quiet"), works + "Pod quiet/p: works\n"},
		"with delegates":      {networks + strings.Replace(multus, "{\"default", "{\"delegates\":[{}],\"default", 1) + in("a"), works + "Pod a/p: works\n"},
		"a network elsewhere": {networks + strings.Replace(culvertd, "networks=n", "networks=m", 1) + in("a"), works + "Pod a/p: "},
	})
}

// Objects of other projects without a template give their pods their own annotations. Kubernetes'
// own kinds do not.
func TestOwnAnnotations(t *testing.T) {
	const asks = "metadata: {name: x, annotations: {k8s.v1.cni.cncf.io/networks: 'b//c'}}\n"
	checkVerdicts(t, map[string]verdictCase{
		"an InferenceService": {"apiVersion: serving.kserve.io/v1beta1\nkind: InferenceService\n" + asks + "spec: {predictor: {model: {}}}\n", "InferenceService x: refused\n  refused: annotation k8s.v1.cni.cncf.io/networks: "},
		"with a template":     {"apiVersion: argoproj.io/v1alpha1\nkind: Rollout\n" + asks + "spec: {template: {spec: {containers: []}}}\n", ""},
		"a Namespace":         {"apiVersion: v1\nkind: Namespace\n" + asks, "Namespace x: works, with warnings\n  warning: metadata.annotations asks for networks, which has no effect on a Namespace: write it into the annotations of pods\n"},
	})
}
