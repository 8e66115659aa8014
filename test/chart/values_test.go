//go:build lab

package chart

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
)

// Helm refuses each of these values, and its error names the value.
func TestMistakesAreRefused(t *testing.T) {
	for _, mistake := range []struct{ set, names string }{
		// names that the chart does not know, on each level
		{"imagee.name=x", "imagee"},
		{"image.nmae=x", "nmae"},
		{"image.tag=v1", "tag"},
		{"podNetworks=always", "podNetworks"},
		{"node.podNetwork=always", "podNetwork"},
		{"node.devicePlugin.configmap=a/b", "configmap"},
		{"node.metrics.adress=:9810", "adress"},
		{"node.resources.limit.memory=1Gi", "limit"},
		{"node.tolerations[0].efect=NoExecute", "efect"},
		{"node.affinity.node={}", "node.affinity: Additional property node"},
		{"imagePullSecrets[0].nam=registry", "nam"},
		{"controller.replica=3", "replica"},
		{"controller.metrics.enable=false", "enable"},
		{"controller.issuer.nam=x", "nam"},
		{"monitoring.enable=true", "enable"},
		{"monitoring.label.release=x", "label"},
		{"networkPolicies.enable=false", "enable"},
		{"networkPolicy.enabled=false", "networkPolicy"},
		// words of which there is another
		{"node.podNetworks=nevr", "node.podNetworks"},
		{"node.whereabouts=none", "node.whereabouts"},
		{"node.namespaceIsolation=no", "node.namespaceIsolation"},
		{"node.namespaceIsolation=auto", "culvert doctor"},
		{"node.logLevel=trace", "node.logLevel"},
		{"controller.logLevel=5", "controller.logLevel"},
		{"controller.certificates=certmanager", "controller.certificates"},
		{"controller.releaseServices=maybe", "controller.releaseServices"},
		{"networkAttachmentDefinitions=never", "networkAttachmentDefinitions"},
		{"deviceClasses=never", "deviceClasses"},
		{"image.pullPolicy=Sometimes", "image.pullPolicy"},
		{"image.pullPolicy=always", "image.pullPolicy"},
		{"node.tolerations[0].effect=NoRun", "effect"},
		// other types
		{"node.segmentDiscovery=off", "node.segmentDiscovery"},
		{"controller.services=no", "controller.services"},
		{"createNamespace=yes", "createNamespace"},
		{"monitoring.enabled=yes", "monitoring.enabled"},
		{"monitoring.labels.release=true", "monitoring.labels.release"},
		{"networkPolicies.enabled=1", "networkPolicies.enabled"},
		{"controller.metrics.enabled=off", "controller.metrics.enabled"},
		{"controller.replicas=two", "controller.replicas"},
		{"image=registry.example.org/culvert:v1", "- image: "},
		{"node=all", "- node: "},
		{"node.ipamTypes=calico-ipam", "node.ipamTypes"},
		{"node.extraArgs=--debug", "node.extraArgs"},
		{"node.nodeSelector.sriov=true", "node.nodeSelector.sriov"},
		{"imagePullSecrets={registry}", "imagePullSecrets"},
		{"networkPolicies.apiServerPorts={https}", "networkPolicies.apiServerPorts"},
		// numbers and texts that are no such thing
		{"controller.replicas=-1", "controller.replicas"},
		{"controller.drainNodes=-2", "controller.drainNodes"},
		{"controller.releaseTimeoutSeconds=0", "controller.releaseTimeoutSeconds"},
		{"node.maxUnavailable=0", "node.maxUnavailable"},
		{"node.maxUnavailable=120%", "node.maxUnavailable"},
		{"networkPolicies.apiServerPorts={70000}", "networkPolicies.apiServerPorts"},
		{"node.resources.limits.memory=-1", "node.resources.limits.memory"},
		{"node.resources.limits.memory=128MB", "node.resources.limits.memory"},
		{"image.name=registry.example.org/culvert@sha256:feed", "image.name"},
		{"image.name=", "image.name"},
		{"node.kubelet=var/lib/kubelet", "node.kubelet"},
		{"node.devicePlugin.configMap=sriovdp-config", "node.devicePlugin.configMap"},
		{"node.globalNamespaces={Default}", "node.globalNamespaces"},
		{"node.defaultNetworks={a/b/c}", "node.defaultNetworks"},
		{"controller.serviceNetworks={fast}", "controller.serviceNetworks"},
		{"node.metrics.address=9810", "node.metrics.address"},
		{"controller.extraArgs={debug}", "controller.extraArgs"},
	} {
		_, err := tryTemplate(t, chart, "--set", mistake.set)
		if err == nil || !strings.Contains(err.Error(), mistake.names) {
			t.Errorf("--set %s: the error does not name %s: %v", mistake.set, mistake.names, err)
		}
	}
}

// Helm takes each of these values, and the chart has the text.
func TestRightValuesAreTaken(t *testing.T) {
	for set, want := range map[string]string{
		"image.name=registry.example.org:5000/culvert@sha256:" + strings.Repeat("0a", 32): "image: registry.example.org:5000/culvert@sha256:0a0a",
		"image.pullPolicy=Always":                       "imagePullPolicy: Always\n",
		"node.podNetworks=never":                        "- --pod-networks=never\n",
		"node.whereabouts=pools":                        "- --whereabouts=pools\n",
		"node.ipamTypes={calico-ipam,ovn-k8s}":          "- --ipam-types=calico-ipam,ovn-k8s\n",
		"node.segmentDiscovery=false":                   "- --segment-discovery=false\n",
		"node.namespaceIsolation=false":                 "- --namespace-isolation=false\n",
		"node.defaultNetworks={storage,infra/fast}":     "- --default-networks=storage,infra/fast\n",
		"node.maxUnavailable=3":                         "maxUnavailable: 3}",
		"node.maxUnavailable=100%":                      "maxUnavailable: 100%}",
		"node.resources.limits.cpu=1":                   "cpu: 1\n",
		"node.resources.limits.memory=0.5Gi":            "memory: 0.5Gi\n",
		"node.metrics.address=:9810":                    "- --metrics=:9810\n",
		"node.metrics.address=[$(NODE_ADDRESS)]:9811":   "- {name: metrics, containerPort: 9811}\n",
		"node.logLevel=debug":                           "- --debug\n",
		"controller.logLevel=debug":                     "- --debug\n",
		"controller.metrics.enabled=false":              "- --metrics=0\n",
		"controller.replicas=0":                         "replicas: 0\n",
		"controller.drainNodes=0":                       "- --drain-nodes=0\n",
		"controller.services=false":                     "- --services=false\n",
		"controller.releaseServices=true":               "activeDeadlineSeconds: 180\n",
		"controller.certificates=cert-manager":          "kind: Certificate\n",
		"controller.clientCA=apiserver":                 "name: apiserver\n",
		"networkPolicies.apiServerPorts={443,7443}":     "port: 7443\n",
		"networkAttachmentDefinitions=true":             "name: network-attachment-definitions.k8s.cni.cncf.io\n",
		"deviceClasses=true":                            "metadata: {name: netdevice.culvert.dev}\n",
		"createNamespace=true":                          "pod-security.kubernetes.io/enforce: privileged\n",
		"global.registry=x":                             "kind: DaemonSet\n", // of a chart that has this one as a part
		"node.tolerations[0].key=a,node.affinity=null":  "- key: a\n",
		"node.extraArgs={--debug},node.nodeSelector.a=": "a: \"\"\n",
	} {
		if text := template(t, "--set", set); !strings.Contains(text, want) {
			t.Errorf("--set %s: the chart lacks %q", set, want)
		}
	}
	if text := template(t, "--set", "controller.metrics.enabled=false"); strings.Contains(text, "port: metrics") || strings.Contains(text, "containerPort: 8080") {
		t.Error("a controller without metrics has a port for them")
	}
}

// The values of the pods' places, images and rights reach the pods of culvertd, of the controller and of
// the Job, and only those that they are for.
func TestValuesOfPods(t *testing.T) {
	const values = `
imagePullSecrets: [{name: registry}]
node:
  nodeSelector: {sriov: "true"}
  selector: {old: name}
  tolerations: [{key: sriov, operator: Equal, value: "yes", effect: NoSchedule}]
  affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: a, operator: Exists}]}]}}}
  priorityClassName: nodes
  resources: {limits: {memory: 64Mi}}
  extraArgs: [--node-name=x]
controller:
  releaseServices: true
  nodeSelector: {control: plane}
  tolerations: [{operator: Exists, effect: NoExecute, tolerationSeconds: 60}]
  affinity: {podAffinity: {}}
  priorityClassName: controllers
  resources: {limits: {cpu: 2}}
  extraArgs: [--leader-elect=false]
`
	file := writeFile(t, "values.yaml", values)
	w := findWorkloads(t, template(t, "--values", file))
	node, controller, release := w.node.Spec.Template.Spec, w.controller.Spec.Template.Spec, w.release.Spec.Template.Spec
	secrets := []corev1.LocalObjectReference{{Name: "registry"}}
	seconds := int64(60)
	stays := []corev1.Toleration{{Operator: "Exists", Effect: "NoExecute", TolerationSeconds: &seconds}}
	for name, one := range map[string]struct{ want, got any }{
		"secrets of culvertd":         {secrets, node.ImagePullSecrets},
		"secrets of the controller":   {secrets, controller.ImagePullSecrets},
		"secrets of the Job":          {secrets, release.ImagePullSecrets},
		"labels of culvertd":          {map[string]string{"kubernetes.io/os": "linux", "sriov": "true", "old": "name"}, node.NodeSelector},
		"labels of the controller":    {map[string]string{"control": "plane"}, controller.NodeSelector},
		"labels of the Job":           {map[string]string{"control": "plane"}, release.NodeSelector},
		"taints of culvertd":          {[]corev1.Toleration{{Key: "sriov", Operator: "Equal", Value: "yes", Effect: "NoSchedule"}}, node.Tolerations},
		"taints of the controller":    {stays, controller.Tolerations},
		"taints of the Job":           {stays, release.Tolerations},
		"affinity of the controller":  {&corev1.Affinity{PodAffinity: &corev1.PodAffinity{}}, controller.Affinity},
		"priority of culvertd":        {"nodes", node.PriorityClassName},
		"priority of the controller":  {"controllers", controller.PriorityClassName},
		"memory of culvertd":          {"64Mi", node.Containers[0].Resources.Limits.Memory().String()},
		"cores of the controller":     {"2", controller.Containers[0].Resources.Limits.Cpu().String()},
		"last flag of culvertd":       {"--node-name=x", lastOf(node.Containers[0].Args)},
		"last flag of the controller": {"--leader-elect=false", lastOf(controller.Containers[0].Args)},
		"time of the Job's command":   {"--timeout=135s", lastOf(release.Containers[0].Args)},
		"time of the Job":             {int64(180), *w.release.Spec.ActiveDeadlineSeconds},
	} {
		if diff := cmp.Diff(one.want, one.got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	if node.Affinity == nil || node.Affinity.NodeAffinity == nil {
		t.Errorf("culvertd has the affinity %v", node.Affinity)
	}
	for _, args := range [][]string{node.Containers[0].Args, controller.Containers[0].Args} {
		if slices.Contains(args, "--debug") || slices.ContainsFunc(args, func(arg string) bool { return strings.HasPrefix(arg, "--metrics") }) {
			t.Errorf("flags of values that are not set: %q", args)
		}
	}
}

func lastOf(args []string) string {
	if len(args) == 0 {
		return ""
	}
	return args[len(args)-1]
}

// Without values the pods are as they were before the chart had values for them.
func TestDefaultsOfPods(t *testing.T) {
	w := findWorkloads(t, template(t))
	node, controller := w.node.Spec.Template.Spec, w.controller.Spec.Template.Spec
	if node.ImagePullSecrets != nil || controller.ImagePullSecrets != nil || node.Affinity != nil || controller.NodeSelector != nil || controller.Tolerations != nil {
		t.Errorf("culvertd: %+v\nthe controller: %+v", node, controller)
	}
	if a := controller.Affinity; a == nil || a.PodAntiAffinity == nil || node.PriorityClassName != "system-node-critical" || controller.PriorityClassName != "system-cluster-critical" {
		t.Errorf("affinity %v, priority %s and %s", a, node.PriorityClassName, controller.PriorityClassName)
	}
	if diff := cmp.Diff([]corev1.Toleration{{Operator: "Exists"}}, node.Tolerations); diff != "" || len(node.NodeSelector) != 1 {
		t.Errorf("labels %v; taints (-want +got):\n%s", node.NodeSelector, diff)
	}
}

// requireNotes checks that helm install prints the next three commands, and names the image.
func requireNotes(t *testing.T, kubeconfig string) {
	t.Helper()
	for args, want := range map[string]string{
		"createNamespace=false": "kubectl label namespace elsewhere pod-security.kubernetes.io/enforce=privileged --overwrite\n",
		"createNamespace=true":  "The namespace admits culvertd's pods already.\n",
	} {
		out, err := helm(t, kubeconfig, "install", "culvert", chart, "--dry-run=client", "--namespace", "elsewhere", "--set", args+",image.name=registry.example.org/culvert:v9,node.nodeSelector.sriov=yes")
		if err != nil {
			t.Fatal(err)
		}
		_, notes, has := strings.Cut(out, "\nNOTES:\n")
		for _, line := range []string{
			want, "with image registry.example.org/culvert:v9:\n", "kubernetes.io/os=linux sriov=yes and 2 of culvert-controller",
			"kubectl --namespace elsewhere rollout status daemonset/culvertd --timeout=5m\n", "kubectl apply -f examples/policy.yaml\n", "kubectl get nodestates",
		} {
			if !has || !strings.Contains(notes, line) {
				t.Errorf("the notes lack %q:\n%s", line, notes)
			}
		}
		if lines := strings.Count(notes, "\n"); lines > 20 {
			t.Errorf("the notes have %d lines", lines)
		}
	}
}
