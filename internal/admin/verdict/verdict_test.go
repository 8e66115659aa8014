package verdict

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// network is a NetworkAttachmentDefinition of a configuration.
func network(name, config string) string {
	return "apiVersion: k8s.cni.cncf.io/v1\nkind: NetworkAttachmentDefinition\nmetadata: {name: " + name + "}\nspec:\n  config: '" + config + "'\n---\n"
}

func podYAML(annotation string) string {
	return "kind: Pod\nmetadata: {name: p, annotations: {k8s.v1.cni.cncf.io/networks: '" + annotation + "'}}\n---\n"
}

// pooled is a network n of a pool.
func pooled(pool string) string {
	return "kind: NetworkAttachmentDefinition\nmetadata: {name: n, annotations: {k8s.v1.cni.cncf.io/resourceName: " + pool + "}}\nspec: {config: '{\"type\":\"sriov\"}'}\n---\n"
}

// isolating is a DaemonSet with arguments.
func isolating(args string) string {
	return "kind: DaemonSet\nmetadata: {name: culvertd}\nspec: {template: {spec: {containers: [{name: c, args: [" + args + "]}]}}}\n---\n"
}

// foreignPod is a network n of a namespace, and a pod of another that asks for it.
func foreignPod(namespace string) string {
	return "kind: Pod\nmetadata: {name: p, namespace: other, annotations: {k8s.v1.cni.cncf.io/networks: " + namespace + "/n}}\n---\n" +
		"kind: NetworkAttachmentDefinition\nmetadata: {name: n, namespace: " + namespace + "}\nspec: {config: '{\"type\":\"bridge\"}'}\n---\n"
}

// describe returns a line for each verdict and each reason.
func describe(all []Verdict) string {
	var b strings.Builder
	for _, v := range all {
		b.WriteString(v.Object + ": " + string(v.Outcome) + "\n")
		for _, r := range v.Refusals {
			b.WriteString("  refused: " + r + "\n")
		}
		for _, w := range v.Warnings {
			b.WriteString("  warning: " + w + "\n")
		}
	}
	return b.String()
}

func TestVerdicts(t *testing.T) {
	checkVerdicts(t, map[string]verdictCase{
		"a network": {network("n", `{"type":"sriov","vlan":7}`), "NetworkAttachmentDefinition n: works\n"},
		"warnings": {
			network("n", `{"type":"sriov","max-tx-rate":5}`),
			"NetworkAttachmentDefinition n: works, with warnings\n  warning: spec.config: max-tx-rate 5: unknown key, ignored: did you mean max_tx_rate?\n",
		},
		"refused": {network("n", `{"type":"culvert","max-tx-rate":5}`), "NetworkAttachmentDefinition n: refused\n  refused: spec.config: max-tx-rate: did you mean max_tx_rate? (unknown key, value 5)\n"},
		"a policy with a misspelt selector": {
			"kind: SriovNetworkNodePolicy\nmetadata: {name: p}\nspec: {resourceName: r, numVfs: 1, nicSelector: {vendor: '15b3', pfName: [enp3s0f0]}}\n",
			"SriovNetworkNodePolicy p: refused\n  refused: spec.nicSelector.pfName: not converted: unknown field: did you mean pfNames?\n",
		},
		"a setting of the operator": {
			"kind: SriovOperatorConfig\nmetadata: {name: default}\nspec: {enableOvsOffload: true}\n",
			"SriovOperatorConfig default: works, with warnings\n  warning: spec.enableOvsOffload: no equivalent: Culvert does not switch NICs to switchdev mode\n",
		},
		"two types in a plugin": {
			network("n", `{"cniVersion":"1.0.0","plugins":[{"type":"sriov","vlan":5},{"type":"rdma","type":"sbr"}]}`),
			"NetworkAttachmentDefinition n: refused\n  refused: spec.config: invalid: plugins[1].type is given twice: two plugins are two objects of plugins, with a comma between them\n",
		},
		"a key twice": {
			network("n", `{"cniVersion":"1.0.0","plugins":[{"type":"sriov","vlan":5,"vlan":6},{"type":"sbr"}]}`),
			"NetworkAttachmentDefinition n: works, with warnings\n  warning: spec.config: plugins[0]: vlan 5: given twice; the last one counts\n",
		},
		"of others":   {network("n", `{"type":"bridge","nonsense":1}`), "NetworkAttachmentDefinition n: works\n"},
		"not JSON":    {network("n", `{"type":`), "NetworkAttachmentDefinition n: refused\n  refused: spec.config: invalid: not a JSON object: unexpected end of JSON input\n"},
		"on the node": {network("n", ``), "NetworkAttachmentDefinition n: works, with warnings\n  warning: its configuration is a file on the nodes, which cannot be judged here\n"},
		"a pod": {
			network("n", `{"type":"sriov","capabilities":{"mac":true}}`) + podYAML(`[{"name":"n","mac":"02:00:00:00:00:01"}]`),
			"NetworkAttachmentDefinition n: works\nPod p: works\n",
		},
		"a pod with warnings": {
			network("n", `{"type":"sriov","spoofChk":"on"}`) + podYAML(`[{"name":"n","mac":"02:00:00:00:00:01","bandwidth":{"ingressRate":5}},{"name":"x"}]`),
			`NetworkAttachmentDefinition n: works, with warnings
  warning: spec.config: spoofChk on: read as spoofchk: write it so
Pod p: works, with warnings
  warning: network default/n: runtimeConfig.bandwidth {"ingressRate":5}: not served; max_tx_rate limits what a VF sends
  warning: network default/x has no configuration in these files, and was not judged
`,
		},
		"a pod that is refused": {
			network("n", `{"type":"sriov","capabilities":{"mac":true}}`) + podYAML(`[{"name":"n","mac":"01:00:00:00:00:01"},{"name":"n","interface":"net1"}]`),
			`NetworkAttachmentDefinition n: works
Pod p: refused
  refused: network default/n (net1): runtimeConfig.mac: MAC address "01:00:00:00:00:01": want a unicast address: not zero, and the first byte even; network default/n (net1): interface net1: invalid: network default/n has that name; ask for another with @name
`,
		},
		"a template": {
			"kind: CronJob\nmetadata: {name: c, namespace: a}\nspec: {jobTemplate: {spec: {template: {metadata: {annotations: {k8s.v1.cni.cncf.io/networks: 'b//c'}}}}}}\n",
			"CronJob a/c: refused\n  refused: annotation k8s.v1.cni.cncf.io/networks: ",
		},
		"others":            {"kind: Service\nmetadata: {name: s}\n---\nkind: Pod\nmetadata: {name: p}\n---\nkind: ConfigMap\nmetadata: {name: c}\ndata: {a: b}\n", ""},
		"a device plugin's": {"kind: ConfigMap\nmetadata: {name: c}\ndata: {config.json: '{\"resourceList\": [{\"resourceName\": \"a\", \"selectors\": {\"vendors\": [\"8086\"]}}]}'}\n", "ConfigMap c: works\n"},
		"config.json":       {`{"resourceList": [{"resourceName": "a", "selectors": {"vendors": ["8086"]}}]}`, "ConfigMap file: works\n"},
		"its mistake":       {`{"resourceList": 5}`, "ConfigMap file: refused\n  refused: config.json:1: "},
		"a pool that is not served": {
			`{"resourceList": [{"resourceName": "a", "selectors": {"vendors": ["8086"]}}, {"resourceName": "b", "deviceType": "accelerator"}]}`,
			"ConfigMap file: works, with warnings\n  warning: pool intel.com/b is not served: config.json:1: ",
		},
		"names of PFs": {
			`{"resourceList": [{"resourceName": "ports", "selectors": {"pfNames": ["^ens1f[01]$"]}}]}`,
			"ConfigMap file: works, with warnings\n  warning: config.json:1: resourceList[0].selectors.pfNames \"^ens1f[01]$\" matches no PF, since whole names are compared: ",
		},
		"an entry with a bad prefix": {
			`{"resourceList":[{"resourceName":"x","resourcePrefix":"Intel.com","selectors":{"vendors":["15b3"]}},{"resourceName":"k","selectors":{"drivers":["iavf"]}}]}`,
			"ConfigMap file: works, with warnings\n  warning: an entry is refused, and the others are served: config.json:1: resourceList[0].resourcePrefix \"Intel.com\": want a domain name in lower case such as intel.com\n",
		},
		"no selectors": {
			`{"resourceList":[{"resourceName":"r"}]}`,
			"ConfigMap file: works, with warnings\n  warning: pool intel.com/r is not served: config.json:1: resourceList[0]: selectors are missing, so it has no VF: ",
		},
		"a pool of PFs": {
			`{"resourceList":[{"resourceName":"pf","selectors":{"vendors":["15b3"],"devices":["1017"]}}]}`,
			"ConfigMap file: works, with warnings\n  warning: config.json:1: resourceList[0]: pool intel.com/pf is of PFs (vendors 15b3; devices 1017), which the device plugin gives out while they have no VFs; Culvert gives out VFs only, so the pool stays empty\n",
		},
		"IDs without quotes": {
			"kind: SriovNetworkNodePolicy\nmetadata: {name: unq}\nspec: {numVfs: 8, resourceName: unq, nicSelector: {vendor: 8086, deviceID: 1572, rootDevices: [0000:65:00.0]}}\n---\n" +
				"kind: NodePolicy\nmetadata: {name: p}\nspec: {pfs: [{vendor: 8086, vfs: 7}]}\n---\n" +
				"kind: NodePolicy\nmetadata: {name: q}\nspec: {pools: [{name: a, selectors: [{devices: [1572]}]}]}\n",
			"SriovNetworkNodePolicy unq: refused\n  refused: spec.nicSelector.deviceID: not converted: it is a number, want a text: write it in quotes: \"1572\"\n  refused: spec.nicSelector.vendor: not converted: it is a number, want a text: write it in quotes: \"8086\"\n" +
				"NodePolicy p: refused\n  refused: spec: pfs.vendor is a number: write it as a text, in quotes, such as \"8086\"\n" +
				"NodePolicy q: refused\n  refused: spec: pools.selectors.devices is a number: write it as a text, in quotes, such as \"8086\"\n",
		},
		"IDs without quotes in files of which the text counts": {"pfs: [{vendor: 8086, device: 0572, vfs: 7}]\npools: [{name: a, selectors: {vendors: [8086], devices: [1e10]}}]\n", "host.yaml file: works\n"},
		"a CNI file":          {`{"cniVersion":"1.0.0","plugins":[{"type":"sriov"},{"type":"culvert","x":1}]}`, "NetworkAttachmentDefinition file: refused\n  refused: spec.config: plugins[1]: x: unknown key"},
		"a NodePolicy":        {"kind: NodePolicy\nmetadata: {name: p}\nspec: {pfs: [{name: 'enp*', vfs: 7}], pools: [{name: a, prefix: x.io}]}\n", "NodePolicy p: works\n"},
		"a NodePolicy, wrong": {"kind: NodePolicy\nmetadata: {name: p}\nspec: {pfs: [{name: 'enp*', vfs: -1}]}\n", "NodePolicy p: refused\n  refused: NodePolicy p: pfs[0].vfs"},
		"a key that NodePolicies do not have": {"kind: NodePolicy\nmetadata: {name: p}\nspec: {pfs: [{name: 'enp*', vfs: 1, colour: red}]}\n", `NodePolicy p: refused
  refused: spec: json: unknown field "colour"
`},
		"a host.yaml":        {"pfs: [{name: enp1s0, vfs: 7}]\npools: [{name: a}]\n", "host.yaml file: works\n"},
		"a host.yaml, wrong": {"pools: [{name: a b}]\n", "host.yaml file: refused\n  refused: file:1"},
		"a pool that nothing makes": {
			"kind: NodePolicy\nmetadata: {name: p}\nspec: {pools: [{name: a, prefix: x.io}, {name: b, prefix: x.io}]}\n---\n" + pooled("x.io/a") + pooled("x.io/c"),
			`NodePolicy p: works
NetworkAttachmentDefinition n: works
NetworkAttachmentDefinition n: works, with warnings
  warning: no NodePolicy, host.yaml or configuration of the device plugin in these files makes its pool x.io/c; they make x.io/a, x.io/b
`,
		},
		"a pool without any in the files": {pooled("x.io/c"), "NetworkAttachmentDefinition n: works\n"},
		"a pool of the operator's": {
			"kind: SriovNetworkNodePolicy\nmetadata: {name: p}\nspec: {resourceName: r, numVfs: 1, nicSelector: {pfNames: [ens1]}}\n---\n" + pooled("openshift.io/r"),
			"SriovNetworkNodePolicy p: works\nNetworkAttachmentDefinition n: works\n",
		},
		"a pool of the device plugin's": {
			"kind: ConfigMap\nmetadata: {name: c}\ndata: {config.json: '{\"resourceList\": [{\"resourceName\": \"a\", \"selectors\": {\"vendors\": [\"8086\"]}}]}'}\n---\n" + pooled("intel.com/a"),
			"ConfigMap c: works\nNetworkAttachmentDefinition n: works\n",
		},
		"isolation": {
			isolating("--namespace-isolation") + foreignPod("team"), `Pod other/p: refused
  refused: network team/n (net1): invalid: pods of namespace other may use networks of their own namespace and of default, kube-system, culvert-system only: to admit them, set the annotation culvert.dev/namespaces of NetworkAttachmentDefinition team/n to other
NetworkAttachmentDefinition team/n: works
`,
		},
		"isolation, a global namespace": {isolating("--namespace-isolation=true, '--global-namespaces=a,team'") + foreignPod("team"), "Pod other/p: works\nNetworkAttachmentDefinition team/n: works\n"},
		"no isolation":                  {isolating("--namespace-isolation=false") + foreignPod("team"), "Pod other/p: works\nNetworkAttachmentDefinition team/n: works\n"},
		"isolation of Multus":           {"kind: ConfigMap\nmetadata: {name: multus}\ndata: {daemon-config.json: '{\"namespaceIsolation\": true}'}\n---\n" + foreignPod("team"), "Pod other/p: refused\n  refused: network team/n (net1): invalid: pods of namespace other"},

		"a document that is none": {
			network("n", `{"type":"sriov"}`) + "kind: Pod\nmetadata: {name: p\n---\n" + network("m", `{"type":"sriov"}`) + "- a\n---\nname: x\n",
			"NetworkAttachmentDefinition n: works\ndocument: refused\n  refused: file: invalid: neither YAML nor JSON: line 7: did not find expected ',' or '}': check the indentation, the colons and the quotes up to there, or name another file\n" +
				"NetworkAttachmentDefinition m: works\ndocument: refused\n  refused: file:16: invalid: line 16: a list: want an object of Kubernetes\n" +
				"document: refused\n  refused: file:18: invalid: kind is missing: want objects of Kubernetes\n",
		},
		"an object of which a part cannot be read": {
			"kind: List\nitems:\n- kind: NetworkAttachmentDefinition\n  metadata: {name: n, annotations: [a]}\n  spec: {config: '{\"type\":\"sriov\"}'}\n- kind: NetworkAttachmentDefinition\n  metadata: {name: m}\n  spec: {config: '{\"type\":\"sriov\"}'}\n",
			"NetworkAttachmentDefinition n: refused\n  refused: file:3: invalid: line 4: a list: want a map of texts\nNetworkAttachmentDefinition m: works\n",
		},
		"JSON that ends early":    {`{"type": "sriov", `, "document: refused\n  refused: file: invalid: neither YAML nor JSON: line 1: "},
		"a configuration in YAML": {"kind: NetworkAttachmentDefinition\nmetadata: {name: n}\nspec: {config: {type: sriov}}\n", "NetworkAttachmentDefinition n: refused\n  refused: spec.config: want a text that has JSON: write config: '{...}'\n"},
		"a directive":             {"%YAML 1.1\n# a comment\n---\n" + network("n", `{"type":"sriov"}`) + "...\n---\n" + network("m", `{"type":"sriov"}`), "NetworkAttachmentDefinition n: works\nNetworkAttachmentDefinition m: works\n"},
		"another line end":        {strings.ReplaceAll(network("n", `{"type":"sriov"}`)+"a: [\n---\n"+network("m", `{"type":"sriov"}`), "\n", "\r\n"), "NetworkAttachmentDefinition n: works\ndocument: refused\n  refused: file: invalid: neither YAML nor JSON: line "},
		"documents of JSON": {
			"{\n  \"kind\": \"NetworkAttachmentDefinition\",\n  \"metadata\": {\"name\": \"n\"}, \"spec\": {\"config\": \"{\\\"type\\\":\\\"sriov\\\"}\"}\n}\n{\"kind\": \"Pod\", \"metadata\": {\"name\": \"p\", \"annotations\": {\"k8s.v1.cni.cncf.io/networks\": \"n\"}}}\n{\"kind\": 5\n",
			"NetworkAttachmentDefinition n: works\nPod p: works\ndocument: refused\n  refused: file: invalid: neither YAML nor JSON: line 6: ",
		},
		"another apiVersion of a network": {
			strings.ReplaceAll(network("n", `{"type":"sriov"}`), "/v1", "/v1beta1"),
			"NetworkAttachmentDefinition n: refused\n  refused: apiVersion \"k8s.cni.cncf.io/v1beta1\": the API server has no NetworkAttachmentDefinition of that version: write k8s.cni.cncf.io/v1\n",
		},
		"another apiVersion of a NodePolicy": {
			"apiVersion: culvert.dev/v1\nkind: NodePolicy\nmetadata: {name: p}\nspec: {pools: [{name: a}]}\n",
			"NodePolicy p: refused\n  refused: apiVersion \"culvert.dev/v1\": the API server has no NodePolicy of that version: write culvert.dev/v1alpha1\n",
		},
		"another apiVersion of a pod":        {"apiVersion: core/v1\n" + podYAML("n") + network("n", `{"type":"sriov"}`), "Pod p: refused\n  refused: apiVersion \"core/v1\": the API server has no Pod of that version: write v1\nNetworkAttachmentDefinition n: works\n"},
		"another apiVersion of the operator": {"apiVersion: sriovnetwork.openshift.io/v2\nkind: SriovNetwork\nmetadata: {name: n}\nspec: {resourceName: r}\n", "SriovNetwork n: refused\n  refused: apiVersion \"sriovnetwork.openshift.io/v2\": "},
		"a policy of another project": {
			"apiVersion: k8s.cni.cncf.io/v1beta1\nkind: MultiNetworkPolicy\nmetadata: {name: m}\n---\n" + network("n", `{"type":"sriov"}`),
			"NetworkAttachmentDefinition n: works\n",
		},
		"an unknown kind": {
			"apiVersion: culvert.dev/v1alpha1\nkind: NodePolicies\nmetadata: {name: p}\n---\napiVersion: culvert.dev/v1alpha1\nkind: AddressPool\nmetadata: {name: a}\nspec: {network: a/b}\n---\napiVersion: k8s.cni.cncf.io/v1\nkind: NetworkAttachmentDefinitions\nmetadata: {name: n}\n",
			"NodePolicies p: refused\n  refused: kind \"NodePolicies\": invalid: culvert.dev has NodePolicy, NodeState, AddressPool: did you mean NodePolicy?\n" +
				"NetworkAttachmentDefinitions n: refused\n  refused: kind \"NetworkAttachmentDefinitions\": invalid: k8s.cni.cncf.io has NetworkAttachmentDefinition, MultiNetworkPolicy, IPAMClaim: did you mean NetworkAttachmentDefinition?\n",
		},
		"the operator's":        {"kind: SriovNetwork\nmetadata: {name: n}\nspec: {resourceName: r, vlan: 7}\n", "SriovNetwork n: works\n"},
		"the operator's, wrong": {"kind: SriovNetwork\nmetadata: {name: n}\nspec: {resourceName: r, vlan: 4095}\n", "SriovNetwork n: refused\n  refused: "},
	})
}

// verdictCase is a file, and the verdicts on its objects. A text that ends without a line break is
// their beginning.
type verdictCase struct{ file, want string }

func checkVerdicts(t *testing.T, cases map[string]verdictCase) {
	t.Helper()
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := describe(Of(Read("file", []byte(tc.file))))
			if !strings.HasSuffix(tc.want, "\n") && tc.want != "" {
				got = got[:min(len(got), len(tc.want))]
			}
			if d := cmp.Diff(tc.want, got); d != "" {
				t.Errorf("-want +got\n%s", d)
			}
		})
	}
}

// The manifests of the field reports work as they stand.
func TestReportsManifests(t *testing.T) {
	for file, want := range map[string]int{
		"lab/demo/testdata/r0-xl710.yaml": 5, "test/kubernetes/testdata/r0-more.yaml": 2, "test/kubernetes/testdata/r1-chelsio.yaml": 3,
	} {
		text, err := os.ReadFile(filepath.Join("../../..", file))
		if err != nil {
			t.Fatal(err)
		}
		all := Of(Read(file, text))
		if got := describe(all); len(all) != want || strings.Count(got, ": works\n") != want {
			t.Errorf("%s: want %d objects that work:\n%s", file, want, got)
		}
	}
}

// In a file of any text, each object that is judged has an outcome, and a reason unless it works.
func FuzzVerdicts(f *testing.F) {
	f.Add(network("n", `{"type":"sriov","VLAN":7}`) + podYAML(`[{"name":"n","ips":["10.0.0.1"]}]`))
	f.Add(`{"resourceList":[{"selectors":[]}]}`)
	f.Add(sharing + "kind: Deployment\nmetadata: {name: d}\nspec: {replicas: 2, replicas: 3, template: " + template(`[{"name":"n","ips":["10.0.0.5/24"],"mac":"02:00:00:00:00:01"}]`) + "}\n")
	f.Add(sharing + "kind: VirtualMachine\nspec: {template: {spec: " + interfaces("{name: a, sriov: {}}", "{name: a, multus: {networkName: n}}") + "}}\n")
	f.Add("kind: Pod\nx: &x {a: *x, a: b}\nspec: *x\n")
	f.Add("kind: SriovNetworkNodePolicy\nspec: {nicSelector: {vendor: 5}}\n")
	if text, err := os.ReadFile(filepath.Join("..", "migrate", "testdata", "operator.yaml")); err == nil {
		f.Add(string(text))
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, v := range Of(Read("file", []byte(text))) {
			if v.Outcome == "" || (v.Outcome == Works) != (len(v.Warnings)+len(v.Refusals) == 0) {
				t.Errorf("%q: %+v", text, v)
			}
			for _, reason := range append(v.Warnings, v.Refusals...) {
				if reason == "" || strings.ContainsAny(reason, "\n\x1b") {
					t.Errorf("%q: reason %q", text, reason)
				}
			}
		}
	})
}
