package migrate

import (
	"fmt"
	"strings"
	"testing"

	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/network/config"
	"github.com/culvert-net/culvert/internal/node/desired"
	"github.com/culvert-net/culvert/internal/vf"
)

// partition has two policies of one PF, each with VFs of its own and an MTU of its own.
const partition = `
kind: SriovNetworkNodePolicy
metadata: {name: jumbo-part}
spec: {resourceName: jumbo, mtu: 9000, numVfs: 8, priority: 50, nicSelector: {pfNames: ["ens4f0#0-3"]}}
---
kind: SriovNetworkNodePolicy
metadata: {name: plain-part}
spec: {resourceName: plain, mtu: 1500, numVfs: 8, priority: 50, nicSelector: {pfNames: ["ens4f0#4-7"]}}
`

// The VFs of each policy of a PF keep the policy's MTU. The PF is raised to the largest one, and a PF
// with a larger one keeps it.
func TestMTUOfEachPolicy(t *testing.T) {
	for name, tc := range map[string]struct {
		text       string
		have, want int // of the PF; 0: it is left alone
	}{
		"a PF with the default":       {partition, 1500, 9000},
		"a PF with a larger MTU":      {partition, 9216, 0},
		"a PF with the wanted MTU":    {partition, 9000, 0},
		"1500 on a PF at 9000":        {strings.ReplaceAll(partition, "9000", "1500"), 9000, 0},
		"4000 on a PF at 9000":        {strings.ReplaceAll(partition, "9000", "4000"), 9000, 0},
		"the user-space VFs need one": {strings.ReplaceAll(partition, "mtu: 9000", "mtu: 9000, deviceType: vfio-pci"), 1500, 9000},
	} {
		t.Run(name, func(t *testing.T) {
			r := convert(t, tc.text)
			if r.HasLoss() {
				t.Error(r.Notes)
			}
			pf := vf.PF{Name: "ens4f0", PCI: vf.PCIAddr{Bus: 4}, TotalVFs: 8, MTU: tc.have}
			m := followed(t, r, nil, pf)
			want, _ := m.Spec.ForPF(pf)
			if want.MTU != tc.want || want.ChangesMTU(pf) != (tc.want != 0) {
				t.Errorf("the PF gets MTU %d, want %d", want.MTU, tc.want)
			}
			first := max(tc.want, 1500)
			if strings.Contains(tc.text, "9000") {
				first = 9000
			} else if strings.Contains(tc.text, "4000") {
				first = 4000
			}
			if got := fmt.Sprint(m.Spec.MTUOfVF(pf, 0, vf.State{}), m.Spec.MTUOfVF(pf, 3, vf.State{}), m.Spec.MTUOfVF(pf, 4, vf.State{}), m.Spec.MTUOfVF(pf, 7, vf.State{})); got != fmt.Sprint(first, first, 1500, 1500) {
				t.Errorf("VFs 0, 3, 4 and 7 get %s", got)
			}
		})
	}
}

// A pool has one MTU, device type and topology, so a policy of the same resource that wants others is
// named.
func TestPoliciesOfOneResourceThatDiffer(t *testing.T) {
	for more, want := range map[string]string{
		"mtu: 1500":             "spec.mtu: 1500: another policy of resource r has 9000",
		"deviceType: vfio-pci":  "spec.deviceType: vfio-pci: another policy of resource r has netdevice",
		"excludeTopology: true": "spec.excludeTopology: true: another policy of resource r has false",
	} {
		r := convert(t, policyText("a", "mtu: 9000")+"---\nkind: SriovNetworkNodePolicy\nmetadata: {name: b}\nspec: {resourceName: r, numVfs: 4, nicSelector: {pfNames: [ens2f0]}, "+more+"}\n")
		if !r.HasLoss() || !strings.Contains(fmt.Sprint(r.Notes), "SriovNetworkNodePolicy b: "+want) {
			t.Errorf("%s: %v", more, r.Notes)
		}
	}
}

// Two policies for user space of one PF, which two keys select, get the VFs that they name.
func TestPlanesOfOnePF(t *testing.T) {
	r := convert(t, `
kind: SriovNetworkNodePolicy
metadata: {name: uplane}
spec: {resourceName: fh_u, priority: 11, mtu: 9216, deviceType: vfio-pci, isRdma: false, numVfs: 4, linkType: eth, nicSelector: {pfNames: ["ens2f1#0-1"], rootDevices: ["0000:51:00.1"]}}
---
kind: SriovNetworkNodePolicy
metadata: {name: cplane}
spec: {resourceName: fh_c, priority: 12, mtu: 9216, deviceType: vfio-pci, isRdma: false, numVfs: 4, linkType: eth, nicSelector: {pfNames: ["ens2f1#2-3"], rootDevices: ["0000:51:00.1"]}}
`)
	pf := vf.PF{Name: "ens2f1", PCI: vf.PCIAddr{Bus: 0x51, Function: 1}, TotalVFs: 8, MTU: 1500}
	m := followed(t, r, nil, pf)
	if got, want := describeVFs(m, pf), "4 VFs, mtu 9216: fh_u 0-1 fh_c 2-3"; got != want || r.HasLoss() {
		t.Errorf("%s, want %s, %v", got, want, r.Notes)
	}
	if p, _ := m.Spec.PoolOf(pf, 0, vf.State{}); p.DriverFor("") != vf.DriverVFIO {
		t.Errorf("%+v", p)
	}
}

// A network with vlanProto and no VLAN is one with VLAN 0, as the operator writes it.
func TestVLANProtoWithoutVLAN(t *testing.T) {
	for _, proto := range []string{"802.1q", "802.1Q"} {
		r := convert(t, "kind: SriovNetwork\nmetadata: {name: vlanproto0, namespace: op}\nspec: {resourceName: intelnics, networkNamespace: team-a, vlanProto: "+proto+"}\n")
		if len(r.Manifests) != 1 || r.HasLoss() {
			t.Fatal(r.Notes)
		}
		own, err := config.Own(api.NetworkDefinition{Name: "n", Config: r.Manifests[0].Spec.(nadSpec).Config})
		if err != nil || own[0].Spec.VLAN != nil && own[0].Spec.VLAN.ID != 0 || len(own[0].Warnings) > 0 {
			t.Errorf("%+v, %v", own, err)
		}
	}
}

// Objects that forbid drains are named with the setting, and the plan has the step, unless the
// controller has the setting already. Drains of one node at a time need nothing.
func TestDrainsThatAreOff(t *testing.T) {
	pool := func(value string) string {
		return "kind: SriovNetworkPoolConfig\nmetadata: {name: p}\nspec: {maxUnavailable: " + value + ", nodeSelector: {matchLabels: {a: b}}}\n"
	}
	for text, isOff := range map[string]bool{
		pool("0"): true, pool("'0'"): true, pool("0%"): true, pool("1"): false, pool("2"): false, pool("10%"): false, pool("null"): false,
		"kind: SriovOperatorConfig\nmetadata: {name: default}\nspec: {disableDrain: true}\n":  true,
		"kind: SriovOperatorConfig\nmetadata: {name: default}\nspec: {disableDrain: false}\n": false,
	} {
		r := convert(t, text)
		if all := fmt.Sprint(r.Notes); r.HasLoss() != isOff || strings.Contains(all, "no pod may be evicted: set controller.drainNodes=0 of Culvert's chart, which is --drain-nodes=0") != isOff {
			t.Errorf("%s: %v", text, r.Notes)
		}
		objects, err := Read("x", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		plan := MakePlan(Cluster{HasNetworks: true, Objects: objects}, Options{})
		if len(plan.Problems) > 0 {
			t.Errorf("%s: %v", text, plan.Problems)
		}
		_, added := edited(t, plan)
		if got := strings.Join(added, ""); got != map[bool]string{true: "- --drain-nodes=0"}[isOff] {
			t.Errorf("%s: the plan writes %q", text, got)
		}
		installed := Cluster{HasNetworks: true, Objects: objects, Workloads: []Workload{{Kind: "Deployment", Namespace: "culvert-system", Name: "culvert-controller", Args: []string{"--drain-nodes=0"}}}}
		if all := commands(MakePlan(installed, Options{})); strings.Contains(all, "drain-nodes") {
			t.Errorf("%s: %s", text, all)
		}
	}
}

// The pools of configurations of the device plugin take the VFs that their selectors name: names
// are whole names, and a bad entry hides no other one.
func TestPFNamesOfConfigMaps(t *testing.T) {
	rails := convert(t, `
kind: ConfigMap
metadata: {name: c}
data:
  config.json: '{"resourceList":[{"resourceName":"rail0","selectors":{"pfNames":["eth0"]}},{"resourceName":"rail7","selectors":{"pfNames":["eth7#0-3"]}}]}'
`)
	s := desired.Merge(desired.Sources{Policies: policiesOf(t, rails, nil)}, desired.Spec{}, nil).Spec
	for name, want := range map[string]string{"eth0": "rail0 rail0", "eth7": "rail7 ", "eth8": " "} {
		pf := vf.PF{Name: name, TotalVFs: 8}
		first, _ := s.PoolOf(pf, 0, vf.State{})
		fourth, _ := s.PoolOf(pf, 4, vf.State{})
		if got := first.Name + " " + fourth.Name; got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	r := convert(t, `
kind: ConfigMap
metadata: {name: c}
data:
  config.json: '{"resourceList":[{"resourceName":"x","selectors":{"vdpaType":"vhost"}},{"resourceName":"k","selectors":{"drivers":["iavf"]}},{"resourceName":"r"}]}'
`)
	if got := spec(t, r); !r.HasLoss() || len(got.Pools) != 1 || got.Pools[0].Name != "k" {
		t.Errorf("%+v %v", got, r.Notes)
	}
}

// Messages about a file name the line and how to write the value, and no type of Go.
func TestTypesInFiles(t *testing.T) {
	for text, want := range map[string]string{
		"kind: SriovNetworkNodePolicy\nspec: text\n":                     "f.yaml:1: invalid: line 2: \"text\": want a map",
		"kind: ConfigMap\ndata:\n  config.json:\n    resourceList: []\n": "f.yaml:1: invalid: line 4: a map: want a text",
		"kind: ConfigMap\ndata: [a]\n":                                   "f.yaml:1: invalid: line 2: a list: want a map of texts",
		"kind: A\nmetadata: [a]\n":                                       "f.yaml:1: invalid: line 2: a list: want a map",
		"kind: A\nmetadata: {annotations: {a: {b: c}}}\n":                "f.yaml:1: invalid: line 2: a map: want a text",
	} {
		_, err := Read("f.yaml", []byte(text))
		if err == nil || !strings.HasPrefix(err.Error(), want) || strings.Contains(err.Error(), "!!") {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
}

// The plan of a cluster whose ConfigMap stays has no problem where nodes have keys of their own: only
// NodePolicies need the label.
func TestPlanNeedsNoLabel(t *testing.T) {
	const one = `{"resourceList":[{"resourceName":"k","selectors":{"drivers":["iavf"]}}]}`
	o := Object{Kind: KindConfigMap, Name: "c", Data: map[string]string{commonKey: one, "worker-7": one}}
	if r := Convert([]Object{o}, Options{}); !r.HasLoss() || !strings.Contains(fmt.Sprint(r.Notes), "kubectl label node NAME "+commonLabel) {
		t.Error(r.Notes)
	}
	if p := MakePlan(Cluster{HasNetworks: true, Objects: []Object{o}}, Options{}); len(p.Problems) > 0 {
		t.Error(p.Problems)
	}
}
