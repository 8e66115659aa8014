package verdict

import "testing"

// A key that is given twice is named with both lines. The last one counts, as it does for kubectl.
func TestRepeatedKeys(t *testing.T) {
	const tail = ": kubectl applies the last one, and other programs refuse the file\n"
	checkVerdicts(t, map[string]verdictCase{
		"in a network": {
			"kind: NetworkAttachmentDefinition\nmetadata:\n  name: n\n  name: m\nspec:\n  config: '{\"type\":\"sriov\"}'\n",
			"NetworkAttachmentDefinition m: works, with warnings\n  warning: line 4: metadata.name is given twice, first on line 3" + tail,
		},
		"the last one is judged": {
			"kind: NetworkAttachmentDefinition\nmetadata: {name: n}\nspec:\n  config: '{\"type\":\"sriov\"}'\n  config: '{\"type\":\"sriov\",\"vlan\":5000}'\n",
			"NetworkAttachmentDefinition n: refused\n  refused: spec.config: vlan 5000: want a number between 0 and 4094\n  warning: line 5: spec.config is given twice, first on line 4" + tail,
		},
		"labels, which nothing reads": {
			"kind: Pod\nmetadata:\n  name: p\n  labels:\n    a: b\n    a: c\n",
			"Pod p: works, with warnings\n  warning: line 6: metadata.labels.a is given twice, first on line 5" + tail,
		},
		"in a later document, in a list": {
			"kind: Service\n---\nkind: Pod\nspec:\n  containers:\n  - name: a\n    image: x\n    image: y\n",
			"Pod: works, with warnings\n  warning: line 8: spec.containers[0].image is given twice, first on line 7" + tail,
		},
		"of a list's item": {
			"kind: List\nitems:\n- kind: Service\n- kind: Pod\n  spec:\n    a: b\n    a: b\n",
			"Pod: works, with warnings\n  warning: line 7: spec.a is given twice, first on line 6" + tail,
		},
		"JSON": {"{\"kind\": \"Pod\",\n\"spec\": {},\n\"spec\": {}}\n", "Pod: works, with warnings\n  warning: line 3: spec is given twice, first on line 2" + tail},
		"two objects": {
			podYAML("n")[:len(podYAML("n"))-4] + podYAML("m") + network("m", `{"type":"bridge"}`),
			"Pod p: refused\n  refused: line 3: kind is given twice, first on line 1: only the last object counts: write a line --- between two objects\nNetworkAttachmentDefinition m: works\n",
		},
		"an anchor": {
			"kind: Pod\nx: &x\n  a: b\n  a: c\nspec: *x\n",
			"Pod: works, with warnings\n  warning: line 4: x.a is given twice, first on line 3" + tail,
		},
		"many": {
			"kind: Pod\nspec: {a: 1, a: 1, a: 1, a: 1, a: 1, a: 1, a: 1, a: 1, a: 1, a: 1, a: 1, a: 1}\n",
			"Pod: works, with warnings\n  warning: 3 more keys are given twice\n",
		},
	})
}

// Keys that a network's configuration has twice.
func TestRepeatedInConfig(t *testing.T) {
	checkVerdicts(t, map[string]verdictCase{
		"of Culvert's plugin":    {network("n", `{"type":"sriov","vlan":5,"vlan":6}`), "NetworkAttachmentDefinition n: works, with warnings\n  warning: spec.config: vlan 5: given twice; the last one counts\n"},
		"of another plugin":      {network("n", `{"type":"bridge","mtu":5,"mtu":6}`), "NetworkAttachmentDefinition n: works, with warnings\n  warning: spec.config: mtu: given twice; the last one counts\n"},
		"in an object of it":     {network("n", `{"cniVersion":"1.0.0","plugins":[{"type":"sriov"},{"type":"tuning","sysctl":{"a":"1","a":"2"}}]}`), "NetworkAttachmentDefinition n: works, with warnings\n  warning: spec.config: plugins[1].sysctl.a: given twice; the last one counts\n"},
		"two plugins":            {network("n", "{\"cniVersion\":\"1.0.0\",\n\t\"plugins\":[{\"type\":\"sriov\",\"type\":\"tuning\"}]}"), "NetworkAttachmentDefinition n: refused\n  refused: spec.config: invalid: plugins[0].type is given twice: two plugins are two objects of plugins, with a comma between them\n"},
		"with tabs":              {"kind: NetworkAttachmentDefinition\nmetadata: {name: n}\nspec:\n  config: |\n    {\n    \t\"type\":\t\"bridge\",\n    \t\"mtu\":\t5,\n    \t\"mtu\" :6\n    \t}\n", "NetworkAttachmentDefinition n: works, with warnings\n  warning: spec.config: mtu: given twice; the last one counts\n"},
		"two plugins, no list":   {network("n", `{"type":"sriov","type":"bridge"}`), "NetworkAttachmentDefinition n: refused\n  refused: spec.config: invalid: type is given twice: two plugins are two objects of plugins, with a comma between them\n"},
		"one type twice":         {network("n", `{"type":"bridge","type":"bridge"}`), "NetworkAttachmentDefinition n: refused\n  refused: spec.config: invalid: type is given twice: two plugins are two objects of plugins, with a comma between them\n"},
		"two lists":              {network("n", `{"cniVersion":"1.0.0","plugins":[{"type":"tuning"}],"plugins":[{"type":"sriov"}]}`), "NetworkAttachmentDefinition n: refused\n  refused: spec.config: invalid: plugins is given twice"},
		"types of other objects": {network("n", `{"type":"bridge","ipam":{"type":"static","type":"dhcp"}}`), "NetworkAttachmentDefinition n: works, with warnings\n  warning: spec.config: ipam.type: given twice; the last one counts\n"},
		"of the operator": {
			"kind: SriovNetwork\nmetadata: {name: n}\nspec: {resourceName: r, metaPlugins: '{\"type\":\"tuning\",\"mtu\":1,\"mtu\":2}'}\n",
			"SriovNetwork n: refused\n  refused: not converted: spec.metaPlugins: [0].mtu is given twice, and one value would be lost: take one out; two plugins are two objects, with a comma between them\n",
		},
	})
}
