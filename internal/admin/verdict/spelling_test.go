package verdict

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A misspelled word is named with the nearest one.
func TestMisspelled(t *testing.T) {
	const warned = "NetworkAttachmentDefinition n: works, with warnings\n  warning: "
	checkVerdicts(t, map[string]verdictCase{
		"a plugin":             {network("n", `{"type":"srivo"}`), warned + "spec.config: type \"srivo\": nodes execute a plugin of that name: did you mean sriov?\n"},
		"a plugin of a list":   {network("n", `{"cniVersion":"1.0.0","plugins":[{"type":"sriov"},{"type":"tunning"}]}`), warned + "spec.config: plugins[1].type \"tunning\": nodes execute a plugin of that name: did you mean tuning?\n"},
		"an unknown plugin":    {network("n", `{"type":"hyperplane"}`), "NetworkAttachmentDefinition n: works\n"},
		"an IPAM plugin":       {network("n", `{"type":"sriov","ipam":{"type":"whereabout"}}`), warned + "spec.config: ipam.type whereabout: only nodes whose culvertd --ipam-types has it (chart: node.ipamTypes) execute that plugin: did you mean whereabouts?\n"},
		"another IPAM plugin":  {network("n", `{"type":"bridge","ipam":{"type":"nv-ipam"}}`), warned + "spec.config: ipam.type nv-ipam: only nodes whose culvertd --ipam-types has it (chart: node.ipamTypes) execute that plugin\n"},
		"an annotation":        {"kind: NetworkAttachmentDefinition\nmetadata: {name: n, annotations: {k8s.v1.cni.cncf.io/resourcename: a/b}}\nspec: {config: '{\"type\":\"sriov\"}'}\n", warned + "metadata.annotations: unknown annotation \"k8s.v1.cni.cncf.io/resourcename\", which has no effect: did you mean k8s.v1.cni.cncf.io/resourceName?\n"},
		"a node selector":      {"kind: NetworkAttachmentDefinition\nmetadata: {name: n, annotations: {k8s.v1.cni.cncf.io/nodeSelectr: a=b}}\nspec: {config: '{\"type\":\"sriov\"}'}\n", warned + "metadata.annotations: unknown annotation \"k8s.v1.cni.cncf.io/nodeSelectr\", which has no effect: did you mean k8s.v1.cni.cncf.io/nodeSelector?\n"},
		"a key of a network":   {"kind: NetworkAttachmentDefinition\nmetadata: {name: n}\nspec: {confg: '{\"type\":\"sriov\"}'}\n", warned + "its configuration is a file on the nodes, which cannot be judged here\n  warning: spec: unknown key \"confg\": did you mean config?\n"},
		"a key of the object":  {"kind: Pod\nmetadta: {a: b}\nmetadata: {name: p, annotations: {k8s.v1.cni.cncf.io/networks: n}}\n---\n" + network("n", `{"type":"bridge"}`), "Pod p: works, with warnings\n  warning: object: unknown key \"metadta\": did you mean metadata?\nNetworkAttachmentDefinition n: works\n"},
		"annotations of a pod": {"kind: Pod\nmetadata: {name: p, annotations: {k8s.v1.cni.cncf.io/network: n}}\n", "Pod p: works, with warnings\n  warning: metadata.annotations: unknown annotation \"k8s.v1.cni.cncf.io/network\", which has no effect: did you mean k8s.v1.cni.cncf.io/networks?\n"},
		"annotations of a template": {"kind: Rollout\nmetadata: {name: r}\nspec: {template: {metadata: {annotations: {k8s.v1.cni.cnfc.io/networks: n}}}}\n",
			"Rollout r: works, with warnings\n  warning: spec.template.metadata.annotations: unknown annotation \"k8s.v1.cni.cnfc.io/networks\", which has no effect: did you mean k8s.v1.cni.cncf.io/networks?\n"},
		"the default network":        {"kind: Pod\nmetadata: {name: p, annotations: {v1.multus-cni.io/default-networks: n}}\n", "Pod p: works, with warnings\n  warning: metadata.annotations: unknown annotation \"v1.multus-cni.io/default-networks\", which has no effect: did you mean v1.multus-cni.io/default-network?\n"},
		"annotations of others":      {"kind: Pod\nmetadata: {name: p, annotations: {k8s.v1.cni.cncf.io/networks-status: x, k8s.ovn.org/pod-networks: y, k8s.v1.cni.cncf.io/other: z, cni.projectcalico.org/podIP: a}}\n", ""},
		"the key of the annotations": {"kind: Deployment\nmetadata: {name: d}\nspec: {template: {metadata: {annotatons: {k8s.v1.cni.cncf.io/networks: n}}, spec: {containers: []}}}\n---\n" + network("n", `{"type":"bridge"}`), "Deployment d: works, with warnings\n  warning: spec.template.metadata: unknown key \"annotatons\": did you mean annotations?\nNetworkAttachmentDefinition n: works\n"},
		"keys of a pod": {
			"kind: Pod\nmetadata: {name: p, annotations: {k8s.v1.cni.cncf.io/networks: n}}\nspec: {nodeSelectr: {a: b}, containers: [{name: c, resource: {}, resources: {limit: {}}}]}\n---\n" + network("n", `{"type":"bridge"}`),
			"Pod p: works, with warnings\n  warning: spec: unknown key \"nodeSelectr\": did you mean nodeSelector?\n  warning: spec.containers[0]: unknown key \"resource\": did you mean resources?\n  warning: spec.containers[0].resources: unknown key \"limit\": did you mean limits?\nNetworkAttachmentDefinition n: works\n",
		},
		"a key of a workload": {
			"kind: StatefulSet\nmetadata: {name: s}\nspec: {replica: 2, template: " + template("n") + "}\n---\n" + network("n", `{"type":"bridge"}`),
			"StatefulSet s: works, with warnings\n  warning: spec: unknown key \"replica\": did you mean replicas?\nNetworkAttachmentDefinition n: works\n",
		},
		"the type":                  {network("n", `{"cniVersion":"1.0.0","tpye":"sriov"}`), "NetworkAttachmentDefinition n: refused\n  refused: spec.config: network n: type \"\": invalid: want the name of a CNI plugin\n  warning: spec.config: unknown key \"tpye\": did you mean type?\n"},
		"the plugins":               {network("n", `{"cniVersion":"1.0.0","plguins":[{"type":"sriov"}]}`), "NetworkAttachmentDefinition n: refused\n  refused: spec.config: network n: type \"\": invalid: want the name of a CNI plugin\n  warning: spec.config: unknown key \"plguins\": did you mean plugins?\n"},
		"ipam of another plugin":    {network("n", `{"cniVersion":"1.0.0","plugins":[{"type":"bridge","ipma":{"type":"dhcp"},"IPAM":{}}]}`), warned + "spec.config: plugins[0]: unknown key \"ipma\": did you mean ipam?\n"},
		"keys of another plugin":    {network("n", `{"type":"macvlan","master":"eth1","mode":"bridge","mtu":1500,"Ipam":{"type":"dhcp"}}`), "NetworkAttachmentDefinition n: works\n"},
		"pools":                     {"kind: ConfigMap\nmetadata: {name: c}\ndata: {config.json: '{\"resourceLst\": [{\"resourceName\": \"a\"}]}', x: 'resourceName'}\n", "ConfigMap c: works, with warnings\n  warning: config.json: unknown key \"resourceLst\": did you mean resourceList?\n"},
		"the name in an annotation": {podYAML(`[{"nmae":"n"}]`), "Pod p: refused\n  refused: annotation k8s.v1.cni.cncf.io/networks: networks[0].name: the network's name is missing: want [namespace/]name[@interface]: did you mean name by \"nmae\"?\n"},
		"a pod without networks":    {"kind: Pod\nmetadata: {name: p}\nspec: {nodeSelectr: {a: b}, containers: []}\n", ""},
		"a key of a NodePolicy":     {"kind: NodePolicy\nmetadata: {name: p}\nspec: {nodeSelectr: {a: b}, pfs: [{name: a, vfs: 1}]}\n", "NodePolicy p: refused\n  refused: spec: json: unknown field \"nodeSelectr\": did you mean nodeSelector?\n"},
		"a key of a pool":           {"kind: AddressPool\nmetadata: {name: p}\nspec: {subnets: [{cdir: 10.0.0.0/24}]}\n", "AddressPool p: refused\n  refused: spec: json: unknown field \"cdir\": did you mean cidr?\n"},
		"a subnet of a pool":        {"kind: AddressPool\nmetadata: {name: p}\nspec: {subnets: [{cidr: 10.0.0.0/33}]}\n", "AddressPool p: refused\n  refused: spec: invalid: subnets[0].cidr"},
		"a kind":                    {"apiVersion: v1\nkind: Pdo\nmetadata: {name: p}\n", "Pdo p: refused\n  refused: kind \"Pdo\": invalid: the API server has no such kind: did you mean Pod?\n"},
		"a kind of a workload":      {"apiVersion: apps/v1\nkind: Deploymnt\nmetadata: {name: p}\n", "Deploymnt p: refused\n  refused: kind \"Deploymnt\": invalid: the API server has no such kind: did you mean Deployment?\n"},
		"a kind of the operator":    {"apiVersion: sriovnetwork.openshift.io/v1\nkind: SriovNetworks\nmetadata: {name: p}\n", "SriovNetworks p: refused\n  refused: kind \"SriovNetworks\": invalid: the API server has no such kind: did you mean SriovNetwork?\n"},
		"a kind of KubeVirt":        {"apiVersion: kubevirt.io/v1\nkind: VirtualMachin\nmetadata: {name: p}\n", "VirtualMachin p: refused\n  refused: kind \"VirtualMachin\": invalid: the API server has no such kind: did you mean VirtualMachine?\n"},
		"a kind without group":      {"kind: NetworkAttachmentDefinitin\nmetadata: {name: p}\n", "NetworkAttachmentDefinitin p: refused\n  refused: kind \"NetworkAttachmentDefinitin\": invalid: the API server has no such kind: did you mean NetworkAttachmentDefinition?\n"},
		"other kinds":               {"apiVersion: v1\nkind: NodeList\n---\napiVersion: rbac.authorization.k8s.io/v1\nkind: Role\n---\napiVersion: kubevirt.io/v1\nkind: Other\n---\nkind: Ingress\n---\napiVersion: k8s.cni.cncf.io/v1alpha1\nkind: IPAMClaim\n", ""},
		"a group": {"apiVersion: kubvirt.io/v1\nkind: VirtualMachine\nmetadata: {name: v}\nspec: {template: " + template("n") + "}\n---\n" + network("n", `{"type":"bridge"}`),
			"VirtualMachine v: works, with warnings\n  warning: apiVersion \"kubvirt.io/v1\": unknown group: did you mean kubevirt.io?\nNetworkAttachmentDefinition n: works\n"},
	})
}

// A misspelled key of the operator's objects is named with the nearest one, whatever becomes of the
// object.
func TestMisspelledOfOperator(t *testing.T) {
	for text, want := range map[string]string{
		"kind: SriovNetwork\nmetadata: {name: n}\nspec: {resourceName: r, spoofChck: 'off'}\n":                                                        `spec: unknown key "spoofChck": did you mean spoofChk?`,
		"kind: SriovNetworkNodePolicy\nmetadata: {name: n}\nspec: {resourceName: r, numVfs: 1, nodeSelectr: {a: b}, nicSelector: {vendor: '8086'}}\n": `spec: unknown key "nodeSelectr": did you mean nodeSelector?`,
	} {
		if got := describe(Of(Read("file", []byte(text)))); !strings.Contains(got, want) {
			t.Errorf("%s\n got %s\nwant %s", text, got, want)
		}
	}
}

// The lists of keys have every key of the API.
func TestKeysAreComplete(t *testing.T) {
	for name, tc := range map[string]struct {
		of    any
		known []string
	}{
		"metadata": {metav1.ObjectMeta{}, metadataKeys}, "pod": {corev1.PodSpec{}, podSpecKeys}, "container": {corev1.Container{}, containerKeys}, "resources": {corev1.ResourceRequirements{}, resourceKeys},
		"Deployment": {appsv1.DeploymentSpec{}, specKeys["Deployment"]}, "DaemonSet": {appsv1.DaemonSetSpec{}, specKeys["DaemonSet"]},
		"ReplicaSet": {appsv1.ReplicaSetSpec{}, specKeys["ReplicaSet"]}, "StatefulSet": {appsv1.StatefulSetSpec{}, specKeys["StatefulSet"]},
		"Job": {batchv1.JobSpec{}, specKeys["Job"]}, "CronJob": {batchv1.CronJobSpec{}, specKeys["CronJob"]},
	} {
		fields := reflect.TypeOf(tc.of)
		for i := range fields.NumField() {
			if key, _, _ := strings.Cut(fields.Field(i).Tag.Get("json"), ","); !slices.Contains(tc.known, key) {
				t.Errorf("%s: key %s is missing", name, key)
			}
		}
	}
}
