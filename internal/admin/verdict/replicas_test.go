package verdict

import (
	"strings"
	"testing"
)

// TestReplicas: net check says how many replicas start if all of them ask for one address.
func TestReplicas(t *testing.T) {
	const address, mac = `[{"name":"n","ips":["10.0.0.5/24"]}]`, `[{"name":"n","mac":"02:00:00:00:00:01"}]`
	const never = "works\nW: refused\n  refused: network default/n: "
	const warned = "works\nW: works, with warnings\n  warning: network default/n: "
	static := func(more string) string {
		return network("n", `{"type":"sriov","capabilities":{"ips":true,"mac":true},"ipam":{"type":"static"`+more+`}}`)
	}
	replicas := func(n, annotation string) string {
		return "{replicas: " + n + ", template: " + template(annotation) + "}"
	}
	for name, tc := range map[string]struct{ network, kind, spec, want string }{
		"three":                {sharing, "StatefulSet", replicas("3", address), never + "3 pods at a time ask for 10.0.0.5: one of them has it, and the other 2 never start: "},
		"two":                  {sharing, "ReplicaSet", replicas("2", address), never + "2 pods at a time ask for 10.0.0.5: one of them has it, and the other one never starts: "},
		"one":                  {sharing, "StatefulSet", replicas("1", address), "works\nW: works\n"},
		"none":                 {sharing, "StatefulSet", replicas("0", address), "works\nW: works\n"},
		"the default":          {sharing, "ReplicaSet", "{template: " + template(address) + "}", "works\nW: works\n"},
		"no address":           {plain, "Deployment", replicas("3", `[{"name":"n","mac":null}]`), "works\nW: works\n"},
		"in cni-args":          {sharing, "Rollout", replicas("3", `[{"name":"n","cni-args":{"ips":["10.0.0.5/24"]}}]`), never + "3 pods at a time ask for 10.0.0.5: "},
		"two addresses":        {sharing, "ReplicaSet", replicas("2", `[{"name":"n","ips":["10.0.0.5/24","fd00::5/64"]}]`), never + "2 pods at a time ask for 10.0.0.5, fd00::5: "},
		"a MAC address":        {plain, "Deployment", replicas("3", mac), warned + "3 pods at a time ask for MAC address 02:00:00:00:00:01: on one node only one of them starts"},
		"a MAC in cni-args":    {plain, "ReplicaSet", replicas("3", `[{"name":"n","cni-args":{"mac":"02:00:00:00:00:01"}}]`), warned + "3 pods at a time ask for MAC address 02:00:00:00:00:01: "},
		"shared":               {static(`,"shared":true`), "Deployment", replicas("3", address), "works\nW: works\n"},
		"of the node":          {static(`,"scope":"node"`), "Deployment", replicas("3", address), warned + "3 pods at a time ask for 10.0.0.5: either only one of them starts"},
		"of the network":       {static(`,"addresses":[{"address":"10.0.0.7/24"}]`), "Deployment", replicas("3", "n"), never + "3 pods at a time ask for 10.0.0.7: "},
		"MAC of the network":   {network("n", `{"type":"sriov","mac":"02:00:00:00:00:02"}`), "Deployment", replicas("3", "n"), warned + "3 pods at a time ask for MAC address 02:00:00:00:00:02: "},
		"of one plugin of two": {network("n", `{"cniVersion":"1.0.0","plugins":[{"type":"sriov","ipam":{"type":"static","addresses":[{"address":"10.0.0.7/24"}]}},{"type":"culvert"}]}`), "Deployment", replicas("3", "n"), never + "3 pods at a time ask for 10.0.0.7: "},
		"of another plugin":    {network("n", `{"type":"macvlan","capabilities":{"ips":true},"ipam":{"type":"static"}}`), "Deployment", replicas("3", address), warned + "3 pods at a time ask for 10.0.0.5: either only one of them starts, or they have one address\n"},
		"a network elsewhere":  {network("m", `{"type":"bridge"}`), "Deployment", replicas("3", address), warned[:strings.LastIndex(warned, "network")] + "network default/n has no configuration in these files, and was not judged\n  warning: network default/n: 3 pods at a time ask for 10.0.0.5: either "},
		"nodes":                {sharing, "DaemonSet", "{template: " + template(address) + "}", warned + "the pod of each node asks for 10.0.0.5: on a second node"},
		"nodes, a MAC":         {plain, "DaemonSet", "{template: " + template(mac) + "}", warned + "the pod of each node asks for MAC address 02:00:00:00:00:01: with several nodes"},
		"a Job":                {sharing, "Job", "{parallelism: 4, template: " + template(address) + "}", warned + "4 pods at a time ask for 10.0.0.5: only one of them runs, and the others wait until it ends\n"},
		"one of a Job":         {sharing, "Job", "{parallelism: 4, completions: 1, template: " + template(address) + "}", "works\nW: works\n"},
		"a JobSet":             {sharing, "JobSet", "{replicatedJobs: [{replicas: 2, template: {spec: {template: " + template(address) + "}}}]}", never + "2 pods at a time"},
		"an MPIJob":            {sharing, "MPIJob", "{mpiReplicaSpecs: {Worker: " + replicas("4", address) + "}}", never + "4 pods at a time"},
		"groups":               {sharing, "LeaderWorkerSet", "{replicas: 2, leaderWorkerTemplate: {size: 3, workerTemplate: " + template(address) + "}}", never + "6 pods at a time"},
		"groups with leaders":  {sharing, "LeaderWorkerSet", "{replicas: 2, leaderWorkerTemplate: {size: 3, leaderTemplate: {spec: {}}, workerTemplate: " + template(address) + "}}", never + "4 pods at a time"},
		"guests": {plain, "VirtualMachineInstanceReplicaSet", "{replicas: 2, template: {spec: " + interfaces("{name: a, sriov: {}, macAddress: '02:00:00:00:00:01'}", "{name: a, multus: {networkName: n}}") + "}}",
			warned + "2 pods at a time ask for MAC address 02:00:00:00:00:01: "},
		"an update":              {sharing, "Deployment", "{template: " + template(address) + "}", warned + "an update does not end: the new pod waits for 10.0.0.5, which the old pod has until the new one runs: write strategy: {type: Recreate}\n"},
		"an update, a MAC":       {plain, "Deployment", "{template: " + template(mac) + "}", warned + "an update does not end: the new pod waits on the same node for MAC address 02:00:00:00:00:01, "},
		"an update that ends":    {sharing, "Deployment", "{strategy: {type: Recreate}, template: " + template(address) + "}", "works\nW: works\n"},
		"an update without more": {sharing, "Deployment", "{strategy: {rollingUpdate: {maxSurge: 0}}, template: " + template(address) + "}", "works\nW: works\n"},
	} {
		got := describe(Of(Read("file", []byte(tc.network+"kind: "+tc.kind+"\nmetadata: {name: w}\nspec: "+tc.spec+"\n"))))
		_, got, _ = strings.Cut(strings.Replace(got, tc.kind+" w:", "W:", 1), ": ")
		if !strings.HasPrefix(got, tc.want) {
			t.Errorf("%s:\n got %s\nwant %s", name, got, tc.want)
		}
	}
}

// Objects of the files that ask for the address of another one are warned.
func TestClaims(t *testing.T) {
	pod := func(name, annotation string) string {
		return "kind: Pod\nmetadata: {name: " + name + ", annotations: {k8s.v1.cni.cncf.io/networks: '" + annotation + "'}}\n---\n"
	}
	const address, mac = `[{"name":"n","ips":["10.0.0.5/24"]}]`, `[{"name":"n","mac":"02:00:00:00:00:01"}]`
	checkVerdicts(t, map[string]verdictCase{
		"one address": {
			sharing + pod("a", address) + pod("b", address),
			"NetworkAttachmentDefinition n: works\n" +
				"Pod a: works, with warnings\n  warning: network default/n: 10.0.0.5: Pod b asks for it too, and only one of the two runs at a time\n" +
				"Pod b: works, with warnings\n  warning: network default/n: 10.0.0.5: Pod a asks for it too, and only one of the two runs at a time\n",
		},
		"one MAC address": {
			plain + pod("a", mac) + pod("b", mac) + pod("c", "n"),
			"NetworkAttachmentDefinition n: works\n" +
				"Pod a: works, with warnings\n  warning: network default/n: MAC address 02:00:00:00:00:01: Pod b asks for it too, and only one of the two runs at a time, on one node\n" +
				"Pod b: works, with warnings\n  warning: network default/n: MAC address 02:00:00:00:00:01: Pod a asks for it too, and only one of the two runs at a time, on one node\n" +
				"Pod c: works\n",
		},
		"an object and its owner": {
			sharing + "kind: StatefulSet\nmetadata: {name: a}\nspec: {template: " + template(address) + "}\n---\n" +
				strings.Replace(pod("a-0", address), "{name: a-0", "{name: a-0, ownerReferences: [{kind: StatefulSet, name: a}]", 1) +
				strings.Replace(pod("b-0", address), "{name: b-0", "{name: b-0, ownerReferences: [{kind: StatefulSet, name: b}]", 1),
			"NetworkAttachmentDefinition n: works\n" +
				"StatefulSet a: works, with warnings\n  warning: network default/n: 10.0.0.5: Pod b-0 asks for it too, and only one of the two runs at a time\n" +
				"Pod a-0: works\n" +
				"Pod b-0: works, with warnings\n  warning: network default/n: 10.0.0.5: StatefulSet a asks for it too, and only one of the two runs at a time\n",
		},
		"no replica": {
			sharing + pod("a", address) + "kind: StatefulSet\nmetadata: {name: s}\nspec: {replicas: 0, template: " + template(address) + "}\n",
			"NetworkAttachmentDefinition n: works\nPod a: works\nStatefulSet s: works\n",
		},
		"twice in one pod": {plain + pod("a", `[{"name":"n","mac":"02:00:00:00:00:01"},{"name":"n","mac":"02:00:00:00:00:01"}]`), "NetworkAttachmentDefinition n: works\nPod a: works\n"},
		"two templates": {
			sharing + "kind: PyTorchJob\nmetadata: {name: j}\nspec: {pytorchReplicaSpecs: {Master: {template: " + template(address) + "}, Worker: {template: " + template(address) + "}}}\n",
			"NetworkAttachmentDefinition n: works\nPyTorchJob j: works, with warnings\n" +
				"  warning: spec.pytorchReplicaSpecs.Master.template: network default/n: 10.0.0.5: PyTorchJob j (spec.pytorchReplicaSpecs.Worker.template) asks for it too, ",
		},
	})
}
