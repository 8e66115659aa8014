package migrate

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/culvert-net/culvert/api/v1alpha1"
	"github.com/culvert-net/culvert/internal/node/desired"
	"github.com/culvert-net/culvert/internal/vf"
)

// rackNode are the labels of a node, and rackPF is its PF.
var (
	rackNode = map[string]string{"rack": "7", "disk": "ssd"}
	rackPF   = vf.PF{Name: "ens1f0", Vendor: "8086", Device: "158b", PCI: vf.PCIAddr{Bus: 0x3b}, TotalVFs: 64}
)

// followed returns the Spec of a node that follows the NodePolicies of a result.
func followed(t interface{ Fatal(...any) }, r Result, labels map[string]string, pf vf.PF) desired.Merged {
	var s desired.Sources
	for _, m := range r.Manifests {
		spec, ok := m.Spec.(v1alpha1.NodePolicySpec)
		if !ok || !selectsMore(spec.NodeSelector, labels) {
			continue
		}
		read, err := desired.FromPolicy(m.Metadata.Name, spec)
		if err != nil {
			t.Fatal(err)
		}
		s.Policies = append(s.Policies, desired.Policy{Name: m.Metadata.Name, Priority: spec.Priority, Spec: read})
	}
	return desired.Merge(s, desired.Spec{}, []vf.PF{pf})
}

// describeVFs says how many VFs and which MTU a PF gets, and which pools its VFs are in.
func describeVFs(m desired.Merged, pf vf.PF) string {
	want, _ := m.Spec.ForPF(pf)
	out := fmt.Sprintf("%d VFs, mtu %d:", want.VFs, want.MTU)
	last, first := "", 0
	for i := range want.VFs + 1 {
		name := ""
		if pool, ok := m.Spec.PoolOf(pf, i, vf.State{}); ok && i < want.VFs {
			name = pool.Name
		}
		if name != last {
			if last != "" {
				out += fmt.Sprintf(" %s %d-%d", last, first, i-1)
			}
			last, first = name, i
		}
	}
	for _, c := range m.Conflicts {
		out += " " + c.String()
	}
	return out
}

// The wanted numbers are those of the operator's mergeConfigs: culvertd takes over the VFs that the
// operator made only if it wants as many.
func TestPoliciesOfOnePFAsTheOperatorMergesThem(t *testing.T) {
	for name, tc := range map[string]struct {
		policies []string // resourceName, numVfs, priority, and the rest
		want     string
	}{
		"parts":                                  {[]string{"a 4 10 pfNames: ['ens1f0#0-3']", "b 8 20 pfNames: ['ens1f0#4-7']"}, "8 VFs, mtu 0: a 0-3 b 4-7"},
		"parts, the largest number goes first":   {[]string{"a 8 10 pfNames: ['ens1f0#4-7']", "b 4 20 pfNames: [ens1f0]"}, "8 VFs, mtu 0: b 0-3 a 4-7"},
		"the same VFs":                           {[]string{"a 4 10 pfNames: [ens1f0]", "b 8 20 pfNames: [ens1f0]"}, "4 VFs, mtu 0: a 0-3"},
		"the same VFs, one priority":             {[]string{"a 4 10 pfNames: [ens1f0]", "b 8 10 pfNames: [ens1f0]"}, "8 VFs, mtu 0: a 0-3 b 4-7"},
		"some of the same VFs":                   {[]string{"a 4 10 pfNames: ['ens1f0#2-3']", "b 8 20 pfNames: ['ens1f0#3-7']"}, "4 VFs, mtu 0: a 2-3"},
		"the MTU too":                            {[]string{"a 4 10 pfNames: [ens1f0]; mtu: 1500", "b 8 20 pfNames: [ens1f0]; mtu: 9000"}, "4 VFs, mtu 1500: a 0-3"},
		"the MTU of parts":                       {[]string{"a 4 10 pfNames: [ens1f0]; mtu: 1500", "b 8 20 pfNames: ['ens1f0#4-7']; mtu: 9000"}, "8 VFs, mtu 9000: a 0-3 b 4-7"},
		"parts of one resource":                  {[]string{"a 4 10 pfNames: ['ens1f0#0-3']", "a 8 20 pfNames: ['ens1f0#4-7']"}, "4 VFs, mtu 0: a 0-3"},
		"three":                                  {[]string{"a 2 10 pfNames: ['ens1f0#0-1']", "b 6 20 pfNames: ['ens1f0#0-3']", "c 9 30 pfNames: ['ens1f0#4-8']"}, "9 VFs, mtu 0: a 0-1 b 2-3 c 4-8"},
		"by the kind of NIC":                     {[]string{"a 4 10 vendor: '8086'", "b 8 20 pfNames: ['ens1f0#4-7']"}, "8 VFs, mtu 0: a 0-3 b 4-7"},
		"by the kind of NIC, lower":              {[]string{"a 4 20 vendor: '8086', deviceID: 158b", "b 8 10 pfNames: ['ens1f0#4-7']"}, "8 VFs, mtu 0: a 0-3 b 4-7"},
		"by the kind of NIC, the same VFs":       {[]string{"a 4 20 pfNames: [ens1f0]", "b 8 10 vendor: '8086'"}, "8 VFs, mtu 0: b 0-7"},
		"by the address":                         {[]string{"a 4 10 rootDevices: ['0000:3b:00.0']", "b 8 20 pfNames: ['ens1f0#4-7']"}, "8 VFs, mtu 0: a 0-3 b 4-7"},
		"by three keys":                          {[]string{"a 2 10 rootDevices: ['0000:3b:00.0']", "b 4 20 pfNames: ['ens1f0#2-3']", "c 8 30 vendor: '8086'"}, "4 VFs, mtu 0: a 0-1 b 2-3"},
		"another PF":                             {[]string{"a 4 10 pfNames: [ens1f0]", "b 8 20 pfNames: [ens1f1]", "c 9 5 vendor: '15b3'"}, "4 VFs, mtu 0: a 0-3"},
		"other nodes":                            {[]string{"a 4 10 pfNames: ['ens1f0#0-3']", "b 8 20 pfNames: ['ens1f0#4-7']; nodeSelector: {rack: '8'}"}, "4 VFs, mtu 0: a 0-3"},
		"all nodes and some":                     {[]string{"a 4 10 pfNames: ['ens1f0#0-3']", "b 8 20 pfNames: ['ens1f0#4-7']; nodeSelector: {rack: '7'}"}, "8 VFs, mtu 0: a 0-3 b 4-7"},
		"nodes with two labels":                  {[]string{"a 4 10 pfNames: ['ens1f0#0-3']; nodeSelector: {disk: ssd}", "b 8 20 pfNames: ['ens1f0#4-7']; nodeSelector: {rack: '7'}"}, "8 VFs, mtu 0: a 0-3 b 4-7"},
		"nodes with two labels, one priority":    {[]string{"a 4 0 vendor: '8086'; nodeSelector: {disk: ssd}", "b 8 0 pfNames: [ens1f0]; nodeSelector: {rack: '7'}"}, "8 VFs, mtu 0: a 0-3 b 4-7"},
		"one resource of nodes with two labels":  {[]string{"a 4 0 pfNames: [ens1f0]; nodeSelector: {disk: ssd}", "a 8 0 pfNames: [ens2f0]; nodeSelector: {rack: '7'}"}, "4 VFs, mtu 0: a 0-3"},
		"a third one of two labels":              {[]string{"a 2 1 vendor: '8086'; nodeSelector: {disk: ssd}", "a 1 2 rootDevices: ['0000:3b:00.0']; nodeSelector: {disk: ssd}", "b 1 5 vendor: '15b3'; nodeSelector: {rack: '7'}"}, "2 VFs, mtu 0: a 0-1"},
		"VFs that others make":                   {[]string{"a 4 10 pfNames: [ens1f0]; externallyManaged: true"}, "0 VFs, mtu 0:"},
		"the PF itself":                          {[]string{"a 0 10 pfNames: [ens1f0]"}, "0 VFs, mtu 0:"},
		"a mistake in one hides none of another": {[]string{"a/b 4 10 pfNames: [ens1f0]", "b 8 20 pfNames: [ens1f0]"}, "8 VFs, mtu 0: b 0-7"},
	} {
		t.Run(name, func(t *testing.T) {
			var text strings.Builder
			for i, p := range tc.policies {
				words := strings.SplitN(p, " ", 4)
				nics, more, _ := strings.Cut(words[3], "; ")
				fmt.Fprintf(&text, "---\nkind: SriovNetworkNodePolicy\nmetadata: {name: p%d}\nspec: {resourceName: %s, numVfs: %s, priority: %s, nicSelector: {%s}, %s}\n",
					i, words[0], words[1], words[2], nics, strings.ReplaceAll(more, ";", ","))
			}
			r := convert(t, text.String())
			if got := describeVFs(followed(t, r, rackNode, rackPF), rackPF); got != tc.want {
				t.Errorf("%s, want %s\n%+v", got, tc.want, r.Manifests)
			}
		})
	}
}

// For any policies and any node, the node's PF gets the values that the operator merges from the
// policies that select both.
func TestEachNodeGetsWhatTheOperatorMerges(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pick := func(of string, values ...string) string { return rapid.SampledFrom(values).Draw(t, of) }
		var objects []Object
		var here []policy
		c := &converter{}
		priorities := rapid.Permutation([]int{1, 2, 3, 4, 5}).Draw(t, "priorities")
		for i := range rapid.IntRange(1, 5).Draw(t, "policies") {
			nics, labels := map[string]any{}, map[string]any{}
			for key, value := range map[string]string{
				"vendor": pick("vendor", "", "8086", "15b3"), "deviceID": pick("device", "", "158b"),
			} {
				nics[key] = value
			}
			if name := pick("name", "", "ens1f0", "ens1f0#0-1", "ens1f0#2-5", "ens1f1"); name != "" {
				nics["pfNames"] = []any{name}
			}
			if address := pick("address", "", "0000:3b:00.0"); address != "" {
				nics["rootDevices"] = []any{address}
			}
			for key, value := range map[string]string{"rack": pick("rack", "", "7", "8"), "disk": pick("disk", "", "ssd")} {
				if value != "" {
					labels[key] = value
				}
			}
			o := Object{Kind: KindPolicy, Name: fmt.Sprint("p", i), Spec: map[string]any{
				"resourceName": pick("resource", "a", "b", "c"), "numVfs": rapid.IntRange(1, 8).Draw(t, "numVfs"),
				"priority": priorities[i], "nodeSelector": labels, "nicSelector": nics,
			}}
			objects = append(objects, o)
			for _, p := range c.policy(o) {
				if selectsMore(p.NodeSelector, rackNode) {
					here = append(here, p)
				}
			}
		}
		want := mergePF(here, pfSelector{name: rackPF.Name, address: rackPF.PCI.String(), vendor: rackPF.Vendor, device: rackPF.Device})
		m := followed(t, Convert(objects, Options{}), rackNode, rackPF)
		if got, _ := m.Spec.ForPF(rackPF); got.VFs != want.vfs || len(m.Conflicts) > 0 {
			t.Errorf("%d VFs, want %d, conflicts %v", got.VFs, want.vfs, m.Conflicts)
		}
	})
}

// Names of NodePolicies are free, short enough and valid, wherever they come from.
func TestNamesOfNodePolicies(t *testing.T) {
	config := `'{"resourceList": [{"resourceName": "a", "selectors": {"vendors": ["8086"]}}]}'`
	long := strings.Repeat("long-", 50)
	r := convert(t, "kind: ConfigMap\nmetadata: {name: pools, namespace: a}\ndata:\n  config.json: "+config+"\n  Worker_7: "+config+"\n  worker-8: "+config+
		"\n---\nkind: ConfigMap\nmetadata: {name: pools, namespace: b}\ndata: {config.json: "+config+"}\n"+
		"---\nkind: ConfigMap\nmetadata: {name: "+long+"x}\ndata: {worker-8: "+config+"}\n"+
		"---\nkind: ConfigMap\nmetadata: {name: Pools}\ndata: {config.json: "+config+"}\n"+
		"---\nkind: SriovNetworkNodePolicy\nmetadata: {name: pools}\nspec: {resourceName: r, numVfs: 4, nicSelector: {vendor: '8086'}}\n")
	var got []string
	for _, m := range r.Manifests {
		got = append(got, m.Metadata.Name)
	}
	want := []string{"pools", "pools-worker-8", "pools-2", strings.TrimRight(long[:248], "-"), "pools-3"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q\nwant %q", got, want)
	}
	for _, want := range []string{
		"ConfigMap a/pools: data.Worker_7: not converted: no node can have that name: call the key config.json, or after the node that it is for",
		"ConfigMap Pools: data.config.json: not converted: a NodePolicy cannot have the name \"Pools\"",
		"ConfigMap b/pools: data.config.json: becomes NodePolicy pools-2",
		"SriovNetworkNodePolicy pools: becomes NodePolicy pools-3",
	} {
		if !slices.ContainsFunc(r.Notes, func(n Note) bool { return strings.HasPrefix(n.String(), want) }) {
			t.Errorf("no note %q in %v", want, r.Notes)
		}
	}
}

// Sets of nodes and of PFs that are too many to list end the merging, and a note says so.
func TestTooManyIntersections(t *testing.T) {
	var text strings.Builder
	for i := range 12 {
		text.WriteString(policyText(fmt.Sprint("p", i), fmt.Sprintf("nodeSelector: {k%d: x}", i)))
	}
	r := convert(t, text.String())
	if !slices.ContainsFunc(r.Notes, func(n Note) bool { return n.Lost && n.Field == "spec.nodeSelector" }) || len(r.Manifests) < 12 {
		t.Errorf("%d manifests, %v", len(r.Manifests), r.Notes)
	}
}

// The operator ignores the policy default, so it is no loss.
func TestDefaultPolicy(t *testing.T) {
	if r := convert(t, "kind: SriovNetworkNodePolicy\nmetadata: {name: default}\nspec: {numVfs: 0, nicSelector: {}}\n"); r.HasLoss() || len(r.Manifests) != 0 || len(r.Notes) == 0 {
		t.Errorf("%+v", r)
	}
}
