package migrate

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// plainObject returns an object of a kind and device type that asks for as little as possible.
func plainObject(t *testing.T, f Field) Object {
	t.Helper()
	o := Object{Kind: f.Kind, Name: "n", Namespace: "op", Spec: map[string]any{}}
	switch f.Kind {
	case KindPolicy:
		o.Spec = object{"resourceName": "r", "numVfs": 1, "nicSelector": object{"vendor": "8086"}}
	case KindNetwork:
		o.Spec = object{"resourceName": "r", "vlan": 7, "vlanQoS": 2}
	case KindConfigMap:
		o = withEntry(t, o, object{"resourceName": "r", "selectors": object{"vendors": items{"8086"}}})
	}
	return o
}

// withEntry returns a ConfigMap of the device plugin with one entry.
func withEntry(t *testing.T, o Object, entry object) Object {
	t.Helper()
	text, err := json.Marshal(object{"resourceList": items{entry}})
	if err != nil {
		t.Fatal(err)
	}
	o.Data, o.Spec = map[string]string{commonKey: string(text)}, entry
	return o
}

// withField returns an object that has the example of a field too.
func withField(t *testing.T, f Field) Object {
	t.Helper()
	o := plainObject(t, f)
	if f.Kind == KindConfigMap && f.DeviceType != "netDevice" {
		setValue(o.Spec, []string{"deviceType"}, f.DeviceType)
	}
	setValue(o.Spec, strings.Split(f.Path, "."), f.Example)
	if f.Kind == KindConfigMap {
		o = withEntry(t, o, o.Spec)
	}
	return o
}

// setValue puts a value at a path.
func setValue(values map[string]any, path []string, value any) {
	for _, key := range path[:len(path)-1] {
		below, ok := values[key].(map[string]any)
		if !ok {
			below = map[string]any{}
			values[key] = below
		}
		values = below
	}
	values[path[len(path)-1]] = value
}

// at returns the values at a path of a manifest, such as pools[].name, as one text. The paths of
// networks are below spec.config.
func at(t *testing.T, all []Manifest, path string) string {
	t.Helper()
	var out []string
	for _, m := range all {
		of, below := m.Spec, path
		if rest, ok := strings.CutPrefix(path, "metadata."); ok {
			of, below = m.Metadata, rest
		}
		text, err := json.Marshal(of)
		if err != nil {
			t.Fatal(err)
		}
		if n, ok := of.(nadSpec); ok {
			text = []byte(n.Config)
		}
		var value any
		if err := json.Unmarshal(text, &value); err != nil {
			t.Fatal(err)
		}
		out = append(out, fmt.Sprint(valuesAt(value, strings.Split(below, "."))))
	}
	return strings.Join(out, " ")
}

func valuesAt(value any, path []string) (out []any) {
	if all, ok := value.([]any); ok {
		for _, one := range all {
			out = append(out, valuesAt(one, path)...)
		}
		return out
	}
	m, ok := value.(map[string]any)
	switch {
	case len(path) == 0:
		return []any{value}
	case !ok:
		return nil
	}
	return valuesAt(m[strings.TrimSuffix(path[0], "[]")], path[1:])
}

// Convert does with each field what the table says. Documentation shows the table.
func TestEveryField(t *testing.T) {
	for _, f := range Fields() {
		t.Run(strings.Join([]string{f.Kind, f.DeviceType, f.Path}, "/"), func(t *testing.T) {
			before := Convert([]Object{plainObject(t, f)}, Options{})
			after := Convert([]Object{withField(t, f)}, Options{})
			requireServed(t, after.Manifests)
			if got := outcomeOf(t, f, before, after); got != f.Outcome {
				t.Errorf("outcome %q, want %q: %v", got, f.Outcome, after.Notes)
			}
			if (f.Outcome == Becomes || f.Outcome == Setting) != (f.To != "") || f.Outcome != Becomes && f.Why == "" {
				t.Errorf("the row is not complete: %+v", f)
			}
		})
	}
}

// outcomeOf says what became of the field by which two results differ.
func outcomeOf(t *testing.T, f Field, before, after Result) Outcome {
	t.Helper()
	key := f.Path[strings.LastIndex(f.Path, ".")+1:]
	i := slices.IndexFunc(after.Notes, func(n Note) bool {
		return n.Lost && (strings.HasPrefix(n.Field, "spec."+f.Path) || f.Kind == KindConfigMap && strings.Contains(n.Text, "resourceList[0]") ||
			f.Kind == KindIBNetwork || f.Kind == KindOVSNetwork)
	})
	same := cmp.Equal(before.Manifests, after.Manifests)
	switch {
	case i >= 0 && len(after.Manifests) == 0 && strings.Contains(after.Notes[i].Text, "not converted"):
		if f.Kind != KindConfigMap && !strings.Contains(after.Notes[i].Text, f.Why) {
			t.Errorf("%s, want the reason %s", after.Notes[i], f.Why)
		}
		return Refused
	case i >= 0 && same && strings.Contains(after.Notes[i].Text, f.To+"=0") || i >= 0 && f.To != "" && strings.Contains(after.Notes[i].Text, "set "+f.To):
		return Setting
	case i >= 0 && same && strings.Contains(after.Notes[i].Text, f.Why):
		return Lost
	case i >= 0:
		return "named otherwise"
	case same:
		return Nothing
	}
	for _, to := range strings.Split(f.To, ", ") {
		if at(t, before.Manifests, to) == at(t, after.Manifests, to) {
			t.Errorf("%s: %s is still %s", key, to, at(t, after.Manifests, to))
		}
	}
	return Becomes
}

// A policy or a network with a mistake in a field is refused, with the field, the nearest one, or
// the way to write it. It becomes no policy for more NICs or nodes, and no network without its VLAN.
func TestMistakesInFields(t *testing.T) {
	const nics = "nicSelector: {vendor: '15b3'}"
	for text, want := range map[string]string{
		"nicSelector: {vendor: '15b3', pfName: [enp3s0f0]}":           "spec.nicSelector.pfName: not converted: unknown field: did you mean pfNames?",
		"nicSelector: {vendor: '15b3', PFNAMES: [enp3s0f0]}":          "spec.nicSelector.PFNAMES: not converted: unknown field: did you mean pfNames?",
		"nicSelector: {vendor: '15b3', rootDevice: ['0000:3b:00.0']}": "spec.nicSelector.rootDevice: not converted: unknown field: did you mean rootDevices?",
		"nicSelector: {vendor: '15b3', macs: [ca:fe:c0:ff:ee:0]}":     "spec.nicSelector.macs: not converted: unknown field: known are vendor, deviceID, rootDevices, pfNames, netFilter",
		"nicSelector: {vendor: '15b3', netFilter: 'aws/NetworkID:1'}": "spec.nicSelector.netFilter: not converted: it selects the NICs of one network of OpenStack or AWS",
		"nicSelector: [{vendor: '15b3'}]":                             "spec.nicSelector: not converted: want a map with vendor, deviceID, rootDevices",
		nics + ", pfNames: [enp3s0f0]":                                "spec.pfNames: not converted: unknown field: did you mean nicSelector.pfNames?",
		nics + ", nodeSelectr: {a.b/c: x, a.b/d: x}":                  "spec.nodeSelectr: not converted: unknown field: did you mean nodeSelector?",
		nics + ", nodeSelector: {rdma: true}":                         "spec.nodeSelector.rdma: not converted: it is the value true, want a text: write it in quotes: \"true\"",
		nics + ", nodeSelector: worker":                               `spec.nodeSelector: not converted: it is the text "worker", want a map`,
		"nicSelector: {vendor: 8086}":                                 `spec.nicSelector.vendor: not converted: it is a number, want a text: write it in quotes: "8086"`,
		"nicSelector: {deviceID: 1572}":                               `spec.nicSelector.deviceID: not converted: it is a number, want a text: write it in quotes: "1572"`,
		"nicSelector: {deviceID: 10e2}":                               `spec.nicSelector.deviceID: not converted: it is a number, want a text: write it in quotes: "10e2"`,
		"nicSelector: {deviceID: 0158}":                               `spec.nicSelector.deviceID: not converted: it is a number, want a text: write it in quotes: "0158"`,
		"nicSelector: {pfNames: [a, 0158]}":                           `spec.nicSelector.pfNames: not converted: element 1: it is a number, want a text: write it in quotes: "0158"`,
		"nicSelector: {pfNames: ['ens1f*']}":                          `spec.nicSelector.pfNames: not converted: the operator takes "ens1f*" for a whole name, which no PF has`,
		"nicSelector: {pfNames: [a, '^ens1f[01]$']}":                  `spec.nicSelector.pfNames: not converted: the operator takes "^ens1f[01]$" for a whole name`,
		nics + ", nodeSelector: , a.b/worker: ''":                     "spec.a.b/worker: not converted: unknown field: it looks like a label of nodes: write it below nodeSelector",
		nics + ", nodeSelectors: {}":                                  "spec.nodeSelectors: not converted: unknown field: did you mean nodeSelector?",
		nics + ", mtuu: 0":                                            "spec.mtuu: not converted: unknown field: did you mean mtu?",
		"nicSelector: {pfNames: enp3s0f0}":                            `spec.nicSelector.pfNames: not converted: it is the text "enp3s0f0", want a list: ["enp3s0f0"]`,
		"nicSelector: {pfNames: [7]}":                                 "spec.nicSelector.pfNames: not converted: element 0: it is a number, want a text",
		nics + ", numVfs: '4'":                                        `spec.numVfs: not converted: it is the text "4", want a number without quotes`,
		nics + ", numVfs: {a: 4}":                                     `spec.numVfs: not converted: it is a map, want a number`,
		nics + ", isRdma: 'true'":                                     `spec.isRdma: not converted: it is the text "true", want true or false without quotes`,
	} {
		o := "kind: SriovNetworkNodePolicy\nmetadata: {name: p}\nspec: {resourceName: r, numVfs: 4, " + text + "}\n"
		if strings.Contains(text, "numVfs") {
			o = strings.Replace(o, "numVfs: 4, ", "", 1)
		}
		requireRefused(t, o, "SriovNetworkNodePolicy p: "+want)
	}
	for text, want := range map[string]string{
		"vlna: 100":            "spec.vlna: not converted: unknown field: did you mean vlan?",
		"vlan: '100'":          `spec.vlan: not converted: it is the text "100", want a number without quotes`,
		"spoofChk: off":        "",
		"spoofChk: false":      "spec.spoofChk: not converted: it is the value false",
		"ipam: {type: static}": "spec.ipam: not converted: it is a map, want a text",
		"resourceNames: [a]":   "spec.resourceNames: not converted: unknown field: did you mean resourceName?",
		"metaPlugins: '{ \"type\" : \"rdma\", \"type\": \"sbr\" }'": "not converted: spec.metaPlugins: [0].type is given twice",
		"ipam: '{\"type\": \"a\", \"type\": \"b\"}'":                "not converted: spec.ipam: type is given twice",
		"capabilities: '{\"mac\": true, \"mac\": false}'":           "not converted: spec.capabilities: mac is given twice",
	} {
		if want != "" {
			requireRefused(t, "kind: SriovNetwork\nmetadata: {name: n}\nspec: {resourceName: r, "+text+"}\n", "SriovNetwork n: "+want)
		}
	}
}

// requireRefused requires that a text becomes no manifest, and that a note says why, without types of
// Go.
func requireRefused(t *testing.T, text, want string) {
	t.Helper()
	r := convert(t, text)
	i := slices.IndexFunc(r.Notes, func(n Note) bool { return n.Lost && strings.HasPrefix(n.String(), want) })
	if i < 0 || len(r.Manifests) != 0 || strings.Contains(fmt.Sprint(r.Notes), "json:") {
		t.Errorf("%s\nwant %s\n got %v, %d manifests", text, want, r.Notes, len(r.Manifests))
	}
}

// IDs are compared in one form, so that two policies of one NIC are merged, and the VFs of a PF are found.
func TestFormsOfIDs(t *testing.T) {
	r := convert(t, `
kind: SriovNetworkNodePolicy
metadata: {name: a}
spec: {resourceName: a, numVfs: 4, nicSelector: {vendor: "0x8086", deviceID: "158B"}}
---
kind: SriovNetworkNodePolicy
metadata: {name: b}
spec: {resourceName: b, numVfs: 6, nicSelector: {vendor: "8086", deviceID: "158b"}}
`)
	got := spec(t, r)
	if len(got.PFs) != 1 || got.PFs[0].VFs.IntValue() != 6 || len(got.Pools) != 2 || fmt.Sprint(got.Pools[0].Selectors[0].Devices, got.Pools[1].Selectors[0].Devices) != "[154c] [154c]" {
		t.Errorf("%+v %v", got, r.Notes)
	}
}

// A label without a value selects nodes, and an empty map below a field asks for something.
func TestEmptyValuesOfFields(t *testing.T) {
	r := convert(t, `
kind: SriovOperatorConfig
metadata: {name: default}
spec: {configDaemonNodeSelector: {node-role.kubernetes.io/worker: ""}}
---
kind: SriovNetworkNodePolicy
metadata: {name: p}
spec: {resourceName: r, numVfs: 4, nicSelector: {pfNames: [a]}, bridge: {ovs: {}}, eSwitchParams: {}, mtu: 0}
`)
	notes := fmt.Sprint(r.Notes)
	if !strings.Contains(notes, "spec.configDaemonNodeSelector: set node.nodeSelector") || !strings.Contains(notes, "spec.bridge.ovs: no equivalent") || strings.Contains(notes, "eSwitchParams") {
		t.Error(notes)
	}
}

// An object that cannot be read hides no other one of the file.
func TestConvertBrokenObject(t *testing.T) {
	all := ReadAll("f.yaml", []byte(`
kind: SriovNetworkNodePolicy
metadata: {name: twice}
spec: {resourceName: a, numVfs: 4, numVfs: 8, nicSelector: {pfNames: [a]}}
---
kind: SriovNetworkNodePolicy
metadata: {name: good}
spec: {resourceName: b, numVfs: 4, nicSelector: {pfNames: [b]}}
`))
	r := Convert(all, Options{})
	if len(r.Manifests) != 1 || r.Manifests[0].Metadata.Name != "good" || !r.HasLoss() || !strings.Contains(fmt.Sprint(r.Notes), `SriovNetworkNodePolicy twice: not converted: f.yaml:2: invalid: line 4: mapping key "numVfs" already defined`) {
		t.Error(r)
	}
}

// kubectl applies the later one of two objects of one name, which replaces the earlier one.
func TestConvertOneName(t *testing.T) {
	r := convert(t, `
kind: SriovNetworkNodePolicy
metadata: {name: p}
spec: {resourceName: a, numVfs: 4, nicSelector: {pfNames: [a]}}
---
kind: SriovNetworkNodePolicy
metadata: {name: p}
spec: {resourceName: b, numVfs: 4, nicSelector: {pfNames: [b]}}
---
kind: SriovNetworkNodePolicy
metadata: {name: p, namespace: other}
spec: {resourceName: c, numVfs: 4, nicSelector: {pfNames: [c]}}
`)
	if got := spec(t, r); len(got.Pools) != 2 || got.Pools[0].Name != "b" || !strings.Contains(fmt.Sprint(r.Notes), "SriovNetworkNodePolicy p: not converted: it has the name of the object at") {
		t.Errorf("%+v %v", got, r.Notes)
	}
}

// A mistake in an object that configures the operator's programs is named, with the nearest field.
func TestUnknownFieldsOfSettings(t *testing.T) {
	r := convert(t, "kind: SriovOperatorConfig\nmetadata: {name: default}\nspec: {disableDrian: true}\n")
	if !r.HasLoss() || !strings.Contains(fmt.Sprint(r.Notes), "spec.disableDrian: no equivalent: unknown field: did you mean disableDrain?") {
		t.Error(r.Notes)
	}
}
