package migrate

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/culvert-net/culvert/api/v1alpha1"
	"github.com/culvert-net/culvert/internal/admin/cli"
	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/network/config"
	"github.com/culvert-net/culvert/internal/node/desired"
)

var update = flag.Bool("update", false, "write testdata/*.golden")

// TestConvert converts the files of testdata. The golden file has the manifests and the notes.
func TestConvert(t *testing.T) {
	for _, name := range []string{"operator", "deviceplugin"} {
		t.Run(name, func(t *testing.T) {
			file := "testdata/" + name + ".yaml"
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			objects, err := Read(file, text)
			if err != nil {
				t.Fatal(err)
			}
			r := Convert(objects, Options{})
			requireServed(t, r.Manifests)
			var b bytes.Buffer
			for _, m := range r.Manifests {
				if err := cli.EncodeLine(&b, cli.YAML, m); err != nil {
					t.Fatal(err)
				}
			}
			for _, n := range r.Notes {
				fmt.Fprintf(&b, "# lost %t: %s\n", n.Lost, n)
			}
			golden := "testdata/" + name + ".golden"
			if *update {
				if err := os.WriteFile(golden, b.Bytes(), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(string(want), b.String()); d != "" {
				t.Errorf("-want +got (-update writes it):\n%s", d)
			}
		})
	}
}

// requireServed reads manifests with the parsers of the admission webhooks and of culvertd.
func requireServed(t *testing.T, all []Manifest) {
	t.Helper()
	for _, m := range all {
		var err error
		switch spec := m.Spec.(type) {
		case v1alpha1.NodePolicySpec:
			_, err = desired.FromPolicy(m.Metadata.Name, spec)
		case nadSpec:
			var own []config.Config
			own, err = config.Own(api.NetworkDefinition{Namespace: m.Metadata.Namespace, Name: m.Metadata.Name, Config: spec.Config})
			if err == nil && len(own) == 0 {
				err = fmt.Errorf("Culvert does not serve it")
			}
		default:
			err = fmt.Errorf("%T is no spec", spec)
		}
		if err != nil {
			t.Errorf("%s is refused: %v", m, err)
		}
	}
}

// convert reads a text and converts it.
func convert(t *testing.T, text string) Result {
	t.Helper()
	objects, err := Read("x.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	r := Convert(objects, Options{})
	requireServed(t, r.Manifests)
	return r
}

func policyText(name, spec string) string {
	return "---\nkind: SriovNetworkNodePolicy\nmetadata: {name: " + name + "}\nspec: {resourceName: r, numVfs: 4, nicSelector: {vendor: '8086', deviceID: '158b'}, " + spec + "}\n"
}

// spec returns the spec of the only NodePolicy of a result.
func spec(t *testing.T, r Result) v1alpha1.NodePolicySpec {
	t.Helper()
	if len(r.Manifests) != 1 {
		t.Fatalf("%d manifests: %v", len(r.Manifests), r.Notes)
	}
	return r.Manifests[0].Spec.(v1alpha1.NodePolicySpec)
}

// The operator's highest priority is 0, Culvert's the largest number. No policy waits for a cable,
// which the operator does not do.
func TestPolicyPriorityAndCarrier(t *testing.T) {
	for priority, want := range map[string]int32{"": 99, "priority: 0": 99, "priority: 10": 89, "priority: 99": 0} {
		s := spec(t, convert(t, policyText("p", priority)))
		if s.Priority != want || *s.PFs[0].NeedCarrier {
			t.Errorf("%s: priority %d, want %d; needCarrier %t", priority, s.Priority, want, *s.PFs[0].NeedCarrier)
		}
	}
}

// Policies that cut a PF into parts give it the largest number of VFs, and each part keeps its MTU. A
// policy without a range means its own first VFs.
func TestPoliciesOfOnePF(t *testing.T) {
	s := spec(t, convert(t, `
kind: SriovNetworkNodePolicy
metadata: {name: b}
spec: {resourceName: low, numVfs: 8, mtu: 9000, priority: 50, nicSelector: {pfNames: ["ens1f0#4-7"]}}
---
kind: SriovNetworkNodePolicy
metadata: {name: a}
spec: {resourceName: high, numVfs: 4, priority: 5, nicSelector: {pfNames: [ens1f0]}}
`))
	if len(s.PFs) != 1 || s.PFs[0].VFs.IntValue() != 8 || s.PFs[0].MTU != nil || s.Pools[0].MTU != nil || *s.Pools[1].MTU != 9000 {
		t.Errorf("pfs %+v", s.PFs)
	}
	got := fmt.Sprint(s.Pools[0].Name, s.Pools[0].Selectors[0].PFNames, s.Pools[1].Name, s.Pools[1].Selectors[0].PFNames)
	if want := "high[ens1f0#0-3]low[ens1f0#4-7]"; strings.ReplaceAll(got, " ", "") != want {
		t.Errorf("pools %s, want %s", got, want)
	}
}

// A resource of several policies is one pool, and policies of other nodes are other NodePolicies.
func TestPoliciesOfOneResource(t *testing.T) {
	r := convert(t, policyText("a", "nodeSelector: {a: x}")+
		"---\nkind: SriovNetworkNodePolicy\nmetadata: {name: c}\nspec: {resourceName: r, numVfs: 2, nodeSelector: {a: x}, nicSelector: {pfNames: [ens2f0]}}\n"+
		policyText("d", "nodeSelector: {a: y}"))
	if len(r.Manifests) != 2 {
		t.Fatalf("%d manifests", len(r.Manifests))
	}
	s := r.Manifests[0].Spec.(v1alpha1.NodePolicySpec)
	if len(s.Pools) != 1 || len(s.Pools[0].Selectors) != 2 || len(s.PFs) != 2 {
		t.Errorf("%+v", s)
	}
}

// Selectors name the device of the VFs, and rules that of the PFs. A PF that is named twice has to
// be both.
func TestPolicySelectors(t *testing.T) {
	s := spec(t, convert(t, policyText("p", "")))
	if s.PFs[0].Device != "158b" || s.Pools[0].Selectors[0].Devices[0] != "154c" {
		t.Errorf("%+v %+v", s.PFs[0], s.Pools[0])
	}
	r := convert(t, "kind: SriovNetworkNodePolicy\nmetadata: {name: p}\nspec: {resourceName: r, numVfs: 2, nicSelector: {deviceID: 'aaaa'}}")
	if !r.HasLoss() {
		t.Error("a pool of VFs of which nobody knows the device ID is said to be the same")
	}
	s = spec(t, convert(t, "kind: SriovNetworkNodePolicy\nmetadata: {name: p}\nspec: {resourceName: r, numVfs: 2, nicSelector: {pfNames: [a0, a1], rootDevices: ['0000:3b:00.0']}}"))
	if len(s.PFs) != 2 || s.PFs[1].Name != "a1" || s.PFs[1].PCIAddress != "0000:3b:00.0" {
		t.Errorf("%+v", s.PFs)
	}
	s = spec(t, convert(t, policyText("p", "externallyManaged: true")))
	if len(s.PFs) != 0 || len(s.Pools) != 1 {
		t.Errorf("VFs that others make: %+v", s)
	}
}

// A network is of the namespace that it names, or else of the object's own.
func TestNetworkNamespace(t *testing.T) {
	r := convert(t, "kind: SriovNetwork\nmetadata: {name: n, namespace: op}\nspec: {resourceName: r}\n---\nkind: SriovNetwork\nmetadata: {name: m, namespace: op}\nspec: {resourceName: r, networkNamespace: team-a}\n")
	if got := fmt.Sprint(r.Manifests[0], r.Manifests[1]); got != "NetworkAttachmentDefinition op/n NetworkAttachmentDefinition team-a/m" {
		t.Error(got)
	}
}

// A note names each object or field that cannot be converted. Convert converts the rest.
func TestNotConverted(t *testing.T) {
	for text, want := range map[string]string{
		"kind: SriovNetworkNodePolicy\nmetadata: {name: p}\nspec: {resourceName: r, numVfs: 1, linkType: IB, nicSelector: {vendor: '15b3'}}":                     "SriovNetworkNodePolicy p: spec.linkType: not converted: Culvert attaches Ethernet VFs",
		"kind: SriovNetworkNodePolicy\nmetadata: {name: p}\nspec: {resourceName: r, numVfs: 1}":                                                                  "SriovNetworkNodePolicy p: spec.nicSelector: not converted: without it no PF is meant",
		"kind: SriovNetworkNodePolicy\nmetadata: {name: p}\nspec: {resourceName: r, numVfs: 1, eSwitchMode: switchdev, nicSelector: {vendor: '15b3'}}":           "SriovNetworkNodePolicy p: spec.eSwitchMode: not converted: Culvert does not switch NICs",
		"kind: SriovNetworkNodePolicy\nmetadata: {name: p}\nspec: {resourceName: a/b, numVfs: 1, nicSelector: {vendor: '15b3'}}":                                 "SriovNetworkNodePolicy p: not converted: NodePolicy p: pools[0].name",
		"kind: SriovNetworkNodePolicy\nmetadata: {name: p}\nspec: {numVfs: many}":                                                                                "SriovNetworkNodePolicy p: spec.numVfs: not converted: it is the text \"many\", want a number",
		"kind: SriovNetwork\nmetadata: {name: n}\nspec: {resourceName: r, vlan: 4096}":                                                                           "SriovNetwork n: not converted: vlan 4096",
		"kind: SriovNetwork\nmetadata: {name: n}\nspec: {resourceName: r, ipam: '{'}":                                                                            "SriovNetwork n: not converted: spec.ipam: not JSON: correct it",
		"kind: SriovNetwork\nmetadata: {name: n}\nspec: {resourceName: r, metaPlugins: '{]'}":                                                                    "SriovNetwork n: not converted: spec.metaPlugins: want configurations",
		"kind: SriovNetwork\nmetadata: {name: n}\nspec: {}":                                                                                                      "SriovNetwork n: spec.resourceName: not converted: it is missing",
		"kind: SriovIBNetwork\nmetadata: {name: n}\nspec: {resourceName: r}":                                                                                     "SriovIBNetwork n: not converted: Culvert attaches Ethernet VFs",
		"kind: OVSNetwork\nmetadata: {name: n}\nspec: {resourceName: r}":                                                                                         "OVSNetwork n: not converted: Culvert does not switch NICs",
		"kind: ConfigMap\nmetadata: {name: c}\ndata: {config.json: '{\"resourceList\": [{\"resourceName\": \"a\", \"selectors\": []}]}'}":                        "ConfigMap c: data.config.json.resourceList[0]: pool intel.com/a is not made: its list of selectors is empty",
		"kind: ConfigMap\nmetadata: {name: c}\ndata: {config.json: '{\"resourceList\": [{\"resourceName\": \"a\", \"selectors\": {\"VDPATYPE\": \"v\"}}]}'}":     "ConfigMap c: data.config.json: pool intel.com/a is not converted: config.json:1: resourceList[0].selectors.vdpaType",
		"kind: ConfigMap\nmetadata: {name: c}\ndata: {config.json: '{\"resourceList\": [{\"resourceName\": \"a\", \"selectors\": {\"linkTypes\": [\"ib\"]}}]}'}": "ConfigMap c: data.config.json: pool intel.com/a is not converted: config.json:1: resourceList[0].selectors.linkTypes",
	} {
		r := convert(t, text)
		found := false
		for _, n := range r.Notes {
			found = found || n.Lost && strings.HasPrefix(n.String(), want)
		}
		if !found || len(r.Manifests) != 0 {
			t.Errorf("%s\nwant %s\n got %v, %d manifests", text, want, r.Notes, len(r.Manifests))
		}
	}
}

// Objects without any setting to convert get a note, and are no loss.
func TestOthersAreNoted(t *testing.T) {
	r := convert(t, "kind: SriovNetworkPoolConfig\nmetadata: {name: p}\nspec: {}\n---\nkind: Pod\nmetadata: {name: p}\nspec: {}\n---\nkind: ConfigMap\nmetadata: {name: c}\ndata: {a: b}\n")
	if r.HasLoss() || len(r.Notes) != 3 || len(r.Manifests) != 0 {
		t.Errorf("%v", r)
	}
}

func TestReadRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"a: [":                    "f.yaml: invalid: neither YAML nor JSON: line 1",
		"spec: {}":                "f.yaml:1: invalid: kind is missing: want objects of Kubernetes",
		"- a":                     "f.yaml:1: invalid: line 1: a list: want an object of Kubernetes",
		"kind: List\nitems: [{}]": "f.yaml:2: invalid: kind is missing",
		"kind: A\nspec: text":     "f.yaml:1: invalid: line 2: \"text\": want a map",
	} {
		if _, err := Read("f.yaml", []byte(text)); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
	if all, err := Read("f.yaml", []byte("---\n---\n# nothing\n")); err != nil || len(all) != 0 {
		t.Error(all, err)
	}
}

// From files of any text, Convert makes only manifests that are served, and drops no object without
// a note.
func FuzzConvert(f *testing.F) {
	for _, name := range []string{"operator", "deviceplugin"} {
		text, err := os.ReadFile("testdata/" + name + ".yaml")
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Add([]byte(policyText("p", "externallyManaged: true, bridge: {ovs: {}}")))
	f.Fuzz(func(t *testing.T, text []byte) {
		objects, err := Read("f", text)
		if err != nil {
			return
		}
		r := Convert(objects, Options{})
		requireServed(t, r.Manifests)
		said := map[string]bool{}
		for _, n := range r.Notes {
			said[n.Object] = true
		}
		for _, o := range objects {
			if !said[o.String()] {
				t.Errorf("%s: nothing is said of it", o)
			}
		}
	})
}
