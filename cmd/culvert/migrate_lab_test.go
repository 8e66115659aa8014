//go:build lab

package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/culvert-net/culvert/test/apiserver"
	"github.com/culvert-net/culvert/test/promises"
)

// migrationPage runs the commands of docs/migrate.md in a shell.
type migrationPage struct {
	*testing.T
	s        *apiserver.Server
	dir      string
	sections map[string]string
}

// newPage starts an API server, with the programs that the page uses in PATH.
func newPage(t *testing.T) *migrationPage {
	t.Helper()
	text, err := os.ReadFile("../../docs/migrate.md")
	if err != nil {
		t.Fatal(err)
	}
	p := &migrationPage{T: t, s: apiserver.New(t), dir: t.TempDir(), sections: map[string]string{}}
	for _, section := range strings.Split(string(text), "\n## ") {
		title, rest, _ := strings.Cut(section, "\n")
		p.sections[title] = rest
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	top, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	for name, target := range map[string]string{"culvert": self, "kubectl": apiserver.Program(t, "kubernetes", "kubectl"), "dist": top + "/dist"} {
		if err := os.Symlink(target, filepath.Join(p.dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	kubeconfig, err := os.ReadFile(p.s.Kubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	p.file("kubeconfig", strings.ReplaceAll(string(kubeconfig), `"token": "viewer"`, `"token": "admin"`))
	return p
}

func (p *migrationPage) file(name, text string) {
	p.Helper()
	if err := os.WriteFile(filepath.Join(p.dir, name), []byte(text), 0o600); err != nil {
		p.Fatal(err)
	}
}

// sh runs a command as a reader types it.
func (p *migrationPage) sh(command string) (string, error) {
	cmd := exec.CommandContext(p.Context(), "sh", "-c", command)
	cmd.Dir = p.dir
	cmd.Env = append(os.Environ(), "PATH="+p.dir+":"+os.Getenv("PATH"), "KUBECONFIG="+filepath.Join(p.dir, "kubeconfig"), "KUBECACHEDIR="+p.dir)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func (p *migrationPage) must(command string) string {
	p.Helper()
	out, err := p.sh(command)
	if err != nil {
		p.Fatalf("%s: %v\n%s", command, err, out)
	}
	return out
}

// apply makes the objects that the installation of a peer would make.
func (p *migrationPage) apply(text string) {
	p.Helper()
	p.file("peers.yaml", text)
	apiserver.Eventually(p.T, "the peers' objects", func() error {
		if out, err := p.sh("kubectl apply -f peers.yaml"); err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		return nil
	})
}

// files writes the files that the page shows: each block of YAML has documents whose first line
// names the file.
func (p *migrationPage) files(section string) {
	p.Helper()
	for _, m := range regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllStringSubmatch(p.sections[section], -1) {
		for _, doc := range regexp.MustCompile(`(?m)^ *---\n`).Split(m[1], -1) {
			name := regexp.MustCompile(`# (\S+\.yaml)`).FindStringSubmatch(doc)
			if name == nil {
				p.Fatalf("section %s: a file without a name:\n%s", section, doc)
			}
			p.file(name[1], strings.ReplaceAll(doc, "\n   ", "\n"))
		}
	}
}

// elsewhere has parts of commands that need nodes; follow leaves these commands out.
var elsewhere = []string{"delete -f dist", "rollout status", "/etc/cni/net.d", "kubectl delete pods ...", "systemctl", "exec -n culvert-system", "clusterserviceversions"}

// follow runs the commands of a section, unchanged, and returns the output of each. Before the
// check it brings the nodes to the state that culvertd would report.
func (p *migrationPage) follow(section string) map[string]string {
	p.Helper()
	p.files(section)
	out := map[string]string{}
	for _, command := range promises.Commands(p.sections[section]) {
		switch {
		case slices.ContainsFunc(elsewhere, func(part string) bool { return strings.Contains(command, part) }):
			continue
		case command == "culvert migrate check": // only a sentence names it
			continue
		case strings.Contains(command, "culvert migrate check;"):
			p.requireLeft("no culvertd runs")
			p.nodesCatchUp()
		}
		out[command] = p.must(command)
		if strings.Contains(command, "culvert.yaml") {
			// No controller runs here that answers webhooks, and each request would wait for one.
			p.must("kubectl delete mutatingwebhookconfigurations,validatingwebhookconfigurations --all")
			p.typesServed()
		}
	}
	return out
}

// typesServed waits until the API server serves Culvert's types. A reader, who types more slowly,
// need not wait.
func (p *migrationPage) typesServed() {
	p.Helper()
	apiserver.Eventually(p.T, "Culvert's types", func() error {
		if out, err := p.sh("kubectl get nodepolicies,nodestates,addresspools,network-attachment-definitions"); err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		return nil
	})
}

// requireLeft runs culvert migrate check, which must fail with that text.
func (p *migrationPage) requireLeft(text string) {
	p.Helper()
	if said, err := p.sh("culvert migrate check"); err == nil || !strings.Contains(said, text) {
		p.Errorf("culvert migrate check: %v: there is no %q in:\n%s", err, text, said)
	}
}

// nodeState is the NodeState that a culvertd writes for a node with one VF.
const nodeState = `{apiVersion: culvert.dev/v1alpha1, kind: NodeState, metadata: {name: worker01}, status: {
  pfs: [{name: ens1f0, id: "02:00:00:00:00:01", pciAddress: "0000:01:00.0", vendor: "8086", device: "1572", driver: i40e, numaNode: 0, carrier: true, speedMbps: 10000, mtu: 1500, maxMTU: 9702, totalVFs: 64, numVFs: 1, wantedVFs: 1}],
  vfs: [{name: "ens1f0#0", pciAddress: "0000:01:02.0", phase: %s}],
  conditions: [{type: Ready, status: "True", reason: Serving, message: "", lastTransitionTime: "2026-01-01T00:00:00Z"}]}}`

// nodesCatchUp simulates a culvertd that becomes ready, takes over the VFs and then applies the
// policies. It runs the check at each step.
func (p *migrationPage) nodesCatchUp() {
	p.Helper()
	p.makeReady()
	p.requireLeft("node worker01: its culvertd has not reported its VFs yet")
	p.apply(fmt.Sprintf(nodeState, "making"))
	p.requireLeft("node worker01: culvertd is taking over ens1f0#0")
	p.apply(fmt.Sprintf(nodeState, "free"))
	for _, policy := range strings.Fields(p.must("kubectl get nodepolicies -o name")) {
		p.requireLeft("NodePolicy " + strings.TrimPrefix(policy, "nodepolicy.culvert.dev/") + ": it is not applied: the controller has not looked at it yet")
		generation := p.must("kubectl get " + policy + " -o jsonpath={.metadata.generation}")
		p.must(fmt.Sprintf(`kubectl patch %s --subresource status --type merge -p '{"status":{"nodes":1,"appliedNodes":1,"observedGeneration":%[2]s,"conditions":[{"type":"Applied","status":"True","reason":"Applied","message":"","observedGeneration":%[2]s,"lastTransitionTime":"2026-01-01T00:00:00Z"}]}}'`, policy, generation))
	}
}

// makeReady makes a node with a pod of culvertd that is ready.
func (p *migrationPage) makeReady() {
	p.Helper()
	p.apply(`{apiVersion: v1, kind: Node, metadata: {name: worker01, labels: {kubernetes.io/os: linux}}}`)
	p.apply(`{apiVersion: v1, kind: Pod, metadata: {name: culvertd-x, namespace: culvert-system, labels: {app.kubernetes.io/name: culvertd}}, spec: {nodeName: worker01, containers: [{name: c, image: i}]}}`)
	p.ready("culvert-system", "culvertd-x")
}

// ready sets the status of a pod to ready, as a kubelet does.
func (p *migrationPage) ready(namespace, name string) {
	p.Helper()
	p.must(fmt.Sprintf(`kubectl -n %s patch pod %s --subresource status --type merge -p '{"status":{"phase":"Running","conditions":[{"type":"Ready","status":"True"}]}}'`, namespace, name))
}

// workload returns a DaemonSet or a Deployment.
func workload(kind, namespace, name, image string) string {
	return fmt.Sprintf("---\n{apiVersion: apps/v1, kind: %s, metadata: {name: %s, namespace: %s}, spec: {selector: {matchLabels: {app: %[2]s}}, template: {metadata: {labels: {app: %[2]s}}, spec: {containers: [{name: c, image: %s}]}}}}\n",
		kind, name, namespace, image)
}

// operatorCRDs returns the CRDs of the operator's objects, without their schemas.
func operatorCRDs() string {
	var b strings.Builder
	for plural, kind := range map[string]string{"sriovnetworknodepolicies": "SriovNetworkNodePolicy", "sriovnetworks": "SriovNetwork", "sriovibnetworks": "SriovIBNetwork", "ovsnetworks": "OVSNetwork", "sriovnetworkpoolconfigs": "SriovNetworkPoolConfig", "sriovoperatorconfigs": "SriovOperatorConfig"} {
		fmt.Fprintf(&b, "---\n{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: %s.sriovnetwork.openshift.io}, spec: {group: sriovnetwork.openshift.io, scope: Namespaced, names: {plural: %[1]s, singular: %s, kind: %s}, versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}]}}\n",
			plural, strings.ToLower(kind), kind)
	}
	return b.String()
}

const clientPod = `---
{apiVersion: v1, kind: Pod, metadata: {name: client, namespace: default, annotations: {k8s.v1.cni.cncf.io/networks: storage}}, spec: {containers: [{name: c, image: i}]}}
`

const storageNetwork = `---
apiVersion: k8s.cni.cncf.io/v1
kind: NetworkAttachmentDefinition
metadata: {name: storage, namespace: default, annotations: {k8s.v1.cni.cncf.io/resourceName: %s}}
spec: {config: '{"cniVersion": "1.0.0", "name": "storage", "type": "sriov", "vlan": 30, "vlanQoS": 0, "ipam": {}}'}
`

// TestMigrationPage runs the commands of docs/migrate.md for each starting point, against a real
// API server with the peers' objects. Every command works unchanged, running pods and networks
// still exist afterwards, and the check finds no remaining work.
func TestMigrationPage(t *testing.T) {
	t.Run("by hand", func(t *testing.T) {
		p := newPage(t)
		p.apply(manifestObject(t, "CustomResourceDefinition", "network-attachment-definitions.k8s.cni.cncf.io"))
		p.apply(fmt.Sprintf(storageNetwork, "intel.com/storage") + clientPod +
			workload("DaemonSet", "kube-system", "kube-sriov-device-plugin", "example.org/sriov-network-device-plugin:v3") +
			workload("DaemonSet", "kube-system", "kube-sriov-cni-ds", "example.org/sriov-cni:v2") +
			workload("DaemonSet", "kube-system", "kube-multus-ds", "example.org/multus-cni:v4") +
			workload("DaemonSet", "kube-system", "whereabouts", "example.org/whereabouts:v0.9") +
			"---\n{apiVersion: v1, kind: ConfigMap, metadata: {name: sriovdp-config, namespace: kube-system}, data: {config.json: '{\"resourceList\": [{\"resourceName\": \"storage\", \"selectors\": {\"vendors\": [\"8086\"]}}]}'}}\n")
		p.ready("default", "client")
		plan := p.must("culvert migrate plan")
		requireInOrder(t, plan, "SR-IOV device plugin (DaemonSet kube-system/kube-sriov-device-plugin) goes", "Multus (DaemonSet kube-system/kube-multus-ds) stays", "whereabouts",
			"ConfigMap kube-system/sriovdp-config: data.config.json: becomes NodePolicy", "NetworkAttachmentDefinition default/storage: works as it is", "1 pods: ask for networks",
			"delete daemonset kube-sriov-device-plugin", "delete daemonset kube-sriov-cni-ds", "kubectl apply --server-side", "culvert migrate check", "delete daemonset kube-multus-ds")
		p.follow("From Multus and the plugins, by hand")
		p.must("kubectl -n kube-system get daemonset kube-sriov-device-plugin kube-sriov-cni-ds kube-multus-ds") // made again
		p.must("kubectl get pod client && kubectl get nodepolicy uplinks && kubectl get network-attachment-definitions storage")
	})
	t.Run("the operator", func(t *testing.T) {
		p := newPage(t)
		p.apply(manifestObject(t, "CustomResourceDefinition", "network-attachment-definitions.k8s.cni.cncf.io"))
		p.apply(operatorCRDs())
		p.apply("{apiVersion: v1, kind: Namespace, metadata: {name: sriov-network-operator}}\n" + fmt.Sprintf(storageNetwork, "openshift.io/storage") + clientPod +
			workload("Deployment", "sriov-network-operator", "sriov-network-operator", "example.org/sriov-network-operator:v1.6") +
			workload("DaemonSet", "sriov-network-operator", "sriov-network-config-daemon", "example.org/sriov-network-config-daemon:v1.6") +
			workload("DaemonSet", "sriov-network-operator", "sriov-device-plugin", "example.org/sriov-network-device-plugin:v3") +
			workload("DaemonSet", "sriov-network-operator", "network-resources-injector", "example.org/network-resources-injector:v1") +
			`---
{apiVersion: sriovnetwork.openshift.io/v1, kind: SriovNetworkNodePolicy, metadata: {name: storage, namespace: sriov-network-operator}, spec: {resourceName: storage, numVfs: 7, priority: 10, mtu: 9000, nicSelector: {pfNames: [ens1f0]}, nodeSelector: {rack: "7"}}}
---
{apiVersion: sriovnetwork.openshift.io/v1, kind: SriovNetwork, metadata: {name: storage, namespace: sriov-network-operator, finalizers: [netattdef.finalizers.sriovnetwork.openshift.io]}, spec: {resourceName: storage, networkNamespace: default, vlan: 30, ipam: "{}"}}
---
{apiVersion: admissionregistration.k8s.io/v1, kind: MutatingWebhookConfiguration, metadata: {name: network-resources-injector-config}, webhooks: []}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: device-plugin-config, namespace: sriov-network-operator}, data: {worker01: '{"resourceList": [{"resourceName": "storage", "selectors": {"pfNames": ["ens1f0"]}}]}'}}
`)
		p.ready("default", "client")
		plan := p.must("culvert migrate plan")
		requireInOrder(t, plan, "SR-IOV operator (Deployment", "config daemon", "injector", "device plugin", "becomes NodePolicy storage", "becomes NetworkAttachmentDefinition default/storage",
			"kubectl get sriovnetworknodepolicies", "scale deployment sriov-network-operator --replicas=0", "delete mutatingwebhookconfigurations network-resources-injector-config",
			"delete daemonset sriov-network-config-daemon", "kubectl apply --server-side", "kubectl apply -f culvert-objects.yaml", "culvert migrate check", "patch sriovnetwork storage", "kubectl delete crd")
		if strings.Contains(plan, "device-plugin-config") {
			t.Errorf("the operator's own ConfigMap is converted beside its policies:\n%s", plan)
		}
		p.follow("From the SR-IOV operator")
		p.must("kubectl get pod client")
		if got := p.must("kubectl get nodepolicy storage -o yaml; kubectl get network-attachment-definitions storage -o yaml"); !strings.Contains(got, "priority: 89") || !strings.Contains(got, "mtu: 9000") || !strings.Contains(got, `"vlan": 30`) {
			t.Error(got)
		}
	})
	t.Run("nothing", func(t *testing.T) {
		p := newPage(t)
		if plan := p.must("culvert migrate plan"); strings.Contains(plan, "There is\n") || !strings.Contains(plan, "kubectl apply --server-side") {
			t.Error(plan)
		}
		for command, out := range p.follow("From nothing") {
			if strings.HasPrefix(command, "kubectl apply -f policy") && strings.Count(out, "created") != 3 {
				t.Errorf("%s: %s", command, out)
			}
		}
	})
}

// requireInOrder checks that a text has all words, in this order.
func requireInOrder(t *testing.T, text string, words ...string) {
	t.Helper()
	rest := text
	for _, w := range words {
		_, after, ok := strings.Cut(rest, w)
		if !ok {
			t.Errorf("%q is missing, or before the words that it should follow, in:\n%s", w, text)
			return
		}
		rest = after
	}
}
