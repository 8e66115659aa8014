package desired

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"k8s.io/apimachinery/pkg/util/intstr"
	"pgregory.net/rapid"
	k8syaml "sigs.k8s.io/yaml"

	"github.com/culvert-net/culvert/api/v1alpha1"
	"github.com/culvert-net/culvert/internal/vf"
)

func policy(t interface{ Fatal(...any) }, name string, priority int32, content string) Policy {
	return Policy{Name: name, Priority: priority, Spec: policySpec(t, name, content)}
}

// policySpec reads the spec of a NodePolicy as kubectl does.
func policySpec(t interface{ Fatal(...any) }, name, content string) Spec {
	var p v1alpha1.NodePolicySpec
	err := k8syaml.UnmarshalStrict([]byte(content), &p)
	if err != nil {
		t.Fatal(err)
	}
	s, err := FromPolicy(name, p)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func twoPFs() []vf.PF {
	other := igb
	other.Name, other.PCI, other.ID = "enp2s0f0", vf.PCIAddr{Bus: 2}, vf.PFID{MAC: vf.MAC{0x90, 0xe2, 0xba, 0, 0, 2}}
	return []vf.PF{igb, other}
}

// outcome describes, for each PF and each pool, the entry that decides.
func outcome(m Merged, pfs []vf.PF) (out []string) {
	for _, pf := range pfs {
		want, ok := m.Spec.ForPF(pf)
		s := pf.Name + " is left alone"
		if ok {
			s = fmt.Sprintf("%s has %d by %s", pf.Name, want.VFs, want.From)
		}
		out = append(out, s)
	}
	for _, p := range m.Spec.Pools {
		out = append(out, "pool "+p.FullName()+" by "+p.From)
	}
	for _, c := range m.Conflicts {
		out = append(out, c.Object+" contested by "+strings.Join(c.Policies, " and "))
	}
	return out
}

func TestMerge(t *testing.T) {
	host := parse(t, "{pfs: [{name: enp1s0f0, vfs: 1}], pools: [{name: a}]}")
	none := []string{"enp1s0f0 is left alone", "enp2s0f0 is left alone"}
	for _, tc := range []struct {
		name string
		in   Sources
		was  Spec
		want []string
	}{
		{"nothing", Sources{}, Spec{}, none},
		{"host.yaml comes first", Sources{Host: host, Policies: []Policy{policy(t, "p", 9, `{pfs: [{driver: igb, vfs: max}], pools: [{name: a}, {name: b}]}`)},
			DevicePlugin: []Pool{{Name: "c", Prefix: "intel.com", From: "config.json"}, {Name: "b", Prefix: "culvert.dev"}}}, Spec{},
			[]string{"enp1s0f0 has 1 by host.yaml:1", "enp2s0f0 has 7 by NodePolicy p, pfs[0]", "pool culvert.dev/a by host.yaml:1",
				"pool culvert.dev/b by NodePolicy p, pools[1]", "pool intel.com/c by config.json"}},
		{"the higher priority comes first", Sources{Policies: []Policy{
			policy(t, "a", 1, `{pfs: [{driver: igb, vfs: 2}]}`), policy(t, "b", 2, `{pfs: [{name: enp1s0f0, vfs: 3}]}`)}}, Spec{},
			[]string{"enp1s0f0 has 3 by NodePolicy b, pfs[0]", "enp2s0f0 has 2 by NodePolicy a, pfs[0]"}},
		{"the same in two policies", Sources{Policies: []Policy{
			policy(t, "b", 0, `{pfs: [{driver: igb, vfs: max}], pools: [{name: x}]}`), policy(t, "a", 0, `{pfs: [{name: "enp*", vfs: 7}], pools: [{name: x}]}`)}}, Spec{},
			[]string{"enp1s0f0 has 7 by NodePolicy a, pfs[0]", "enp2s0f0 has 7 by NodePolicy a, pfs[0]", "pool culvert.dev/x by NodePolicy a, pools[0]"}},
		{"contradicting policies, with a lower one", Sources{Policies: []Policy{
			policy(t, "a", 0, `{pfs: [{name: enp1s0f0, vfs: 2}, {driver: igb, vfs: 5}]}`), policy(t, "b", 0, `{pfs: [{driver: igb, vfs: 5}]}`),
			policy(t, "c", -1, `{pfs: [{driver: igb, vfs: 6}]}`)}}, Spec{},
			[]string{"enp1s0f0 is left alone", "enp2s0f0 has 5 by NodePolicy a, pfs[1]", "PF enp1s0f0 contested by a and b"}},
		{"what is there stays", Sources{Policies: []Policy{
			policy(t, "a", 0, `{pfs: [{name: enp1s0f0, vfs: 2}], pools: [{name: x}, {name: "y"}]}`),
			policy(t, "b", 0, `{pfs: [{name: enp1s0f0, vfs: 3}], pools: [{name: x, deviceType: vfio-pci}, {name: "y", drift: report}]}`)}},
			parse(t, "{pfs: [{name: enp1s0f0, vfs: 4}], pools: [{name: x}]}"),
			[]string{"enp1s0f0 has 4 by host.yaml:1", "enp2s0f0 is left alone", "pool culvert.dev/x by host.yaml:1",
				"PF enp1s0f0 contested by a and b", "pool culvert.dev/x contested by a and b", "pool culvert.dev/y contested by a and b"}},
		{"contradicting policies, merged before the PF appeared", Sources{Policies: eightAndFour(t)}, Merge(Sources{Policies: eightAndFour(t)}, Spec{}, nil).Spec,
			[]string{"enp1s0f0 is left alone", "enp2s0f0 is left alone", "PF enp1s0f0 contested by a and b", "PF enp2s0f0 contested by a and b"}},
		{"the default offer and its name are one, claims is another", Sources{Policies: []Policy{
			policy(t, "a", 0, `{pools: [{name: x}, {name: "y"}]}`), policy(t, "b", 0, `{pools: [{name: x, offer: resource}, {name: "y", offer: claims}]}`)}}, Spec{},
			append(slices.Clone(none), "pool culvert.dev/x by NodePolicy a, pools[0]", "pool culvert.dev/y contested by a and b")},
		{"host.yaml settles a contradiction", Sources{Host: host, Policies: []Policy{
			policy(t, "a", 0, `{pfs: [{name: enp1s0f0, vfs: 2}], pools: [{name: a}]}`),
			policy(t, "b", 0, `{pfs: [{name: enp1s0f0, vfs: 3}], pools: [{name: a, deviceType: vfio-pci}]}`)}}, Spec{},
			[]string{"enp1s0f0 has 1 by host.yaml:1", "enp2s0f0 is left alone", "pool culvert.dev/a by host.yaml:1"}},
		{"two names that are one to a container", Sources{Policies: []Policy{policy(t, "a", 1, `{pools: [{name: x-y}]}`), policy(t, "b", 0, `{pools: [{name: x_y}]}`)}}, Spec{},
			append(slices.Clone(none), "pool culvert.dev/x-y by NodePolicy a, pools[0]")},
	} {
		got := outcome(Merge(tc.in, tc.was, twoPFs()), twoPFs())
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tc.name, diff)
		}
	}
}

// eightAndFour returns policies of one priority that match PFs by their driver and contradict each
// other.
func eightAndFour(t interface{ Fatal(...any) }) []Policy {
	return []Policy{policy(t, "a", 0, `{pfs: [{driver: igb, vfs: 8}]}`), policy(t, "b", 0, `{pfs: [{driver: igb, vfs: 4}]}`)}
}

// A PF that appears after Merge is left alone, as after the next Merge, if policies contradict each
// other about it. A rule of host.yaml or of a higher priority decides, and so do policies that
// agree.
func TestPFThatAppearsAfterMerge(t *testing.T) {
	nine := func(p Policy) Policy { p.Priority = 9; return p }
	ab := eightAndFour(t)
	for name, tc := range map[string]struct {
		in      Sources
		want    string
		mayWant bool
	}{
		"a contradiction":                 {Sources{Policies: ab}, "enp1s0f0 is left alone", true},
		"one of a higher priority":        {Sources{Policies: []Policy{ab[0], nine(ab[1])}}, "enp1s0f0 has 4 by NodePolicy b, pfs[0]", false},
		"a contradiction of lower ones":   {Sources{Policies: append(slices.Clone(ab), policy(t, "c", 1, `{pfs: [{driver: igb, vfs: 2}]}`))}, "enp1s0f0 has 2 by NodePolicy c, pfs[0]", false},
		"host.yaml":                       {Sources{Host: parse(t, "{pfs: [{driver: igb, vfs: 1}]}"), Policies: ab}, "enp1s0f0 has 1 by host.yaml:1", false},
		"the same wish":                   {Sources{Policies: []Policy{ab[1], policy(t, "c", 0, `{pfs: [{name: enp1s0f0, vfs: 4}]}`)}}, "enp1s0f0 has 4 by NodePolicy b, pfs[0]", false},
		"max, which is that number":       {Sources{Policies: []Policy{policy(t, "a", 0, `{pfs: [{driver: igb, vfs: max}]}`), policy(t, "b", 0, `{pfs: [{driver: igb, vfs: 7}]}`)}}, "enp1s0f0 has 7 by NodePolicy a, pfs[0]", false},
		"two entries of one policy":       {Sources{Policies: []Policy{policy(t, "a", 0, `{pfs: [{driver: igb, vfs: 3}, {name: enp1s0f0, vfs: 4}]}`)}}, "enp1s0f0 has 3 by NodePolicy a, pfs[0]", false},
		"another policy about another PF": {Sources{Policies: []Policy{ab[1], policy(t, "c", 0, `{pfs: [{name: enp9s0, vfs: 5}]}`)}}, "enp1s0f0 has 4 by NodePolicy b, pfs[0]", false},
	} {
		spec := Merge(tc.in, Spec{}, nil).Spec
		got := outcome(Merged{Spec: spec}, []vf.PF{igb})
		if diff := cmp.Diff([]string{tc.want}, got); diff != "" || spec.MayWant(igb) != tc.mayWant {
			t.Errorf("%s: more may be wanted: %t (-want +got):\n%s", name, spec.MayWant(igb), diff)
		}
	}
}

func TestConflictSaysWhatToDo(t *testing.T) {
	m := Merge(Sources{Policies: []Policy{
		policy(t, "a", 0, `{pfs: [{name: enp1s0f0, vfs: max}]}`), policy(t, "b", 0, `{pfs: [{name: enp1s0f0, vfs: 3, mtu: 9000}]}`)}}, Spec{}, twoPFs())
	want := "PF enp1s0f0: policies a, b contradict each other (a: vfs max, autoprobe true, needCarrier true; b: vfs 3, mtu 9000, autoprobe true, needCarrier true): it stays as it is; give one of them a higher priority"
	if len(m.Conflicts) != 1 || m.Conflicts[0].String() != want {
		t.Errorf("%v", m.Conflicts)
	}
}

// Errors of a policy name the field: an object has no lines. The API server refuses
// unknown keys.
func TestFromPolicyNamesTheField(t *testing.T) {
	_, err := FromPolicy("a", v1alpha1.NodePolicySpec{
		PFs: []v1alpha1.PFRule{{VFs: intstr.FromInt32(7)}, {Name: "a", VFs: intstr.FromString("all")}},
		Pools: []v1alpha1.Pool{{Name: "x", Selectors: []v1alpha1.Selector{{Vendors: []string{"8086", "intel"}, PFNames: []string{"a#9-8"}}}, AdditionalInfo: map[string]map[string]string{"b": {}}},
			{Name: "x"}},
	})
	want := `NodePolicy a: pfs[0]: which PFs? Write name, mac, pciAddress, vendor, device or driver
NodePolicy a: pfs[1].vfs "all": want a number from 0 to 65535, or max
NodePolicy a: pools[0].additionalInfo.b: no VF is called that: want "*", which is every VF, or a PCI address such as 0000:3b:00.1
NodePolicy a: pools[0].selectors[0].vendors[1] "intel": want four hexadecimal digits such as 8086
NodePolicy a: pools[0].selectors[0].pfNames[0] "a#9-8": a range counts up: write 8-9
NodePolicy a: pools[1]: pool culvert.dev/x is there already, as pools[0]: give it another name`
	if err == nil || err.Error() != want {
		t.Errorf("%v", err)
	}
}

// FromPolicy takes the JSON of a spec, too. It refuses what is no JSON of a spec.
func TestFromPolicyReadsJSON(t *testing.T) {
	for text, want := range map[string]string{
		"null": "<nil>",
		`{"priority": 3, "nodeSelector": {"a": "b"}, "pfs": [{"name": "a", "vfs": 1}]}`: "<nil>",
		`{"pools": [{"name": "a\u007f"}]}`:                                              `NodePolicy a: pools[0].name "a\x7f": want letters, digits, '-', '_' or '.', a letter or digit at both ends, at most 63`,
		`{"pools": [{"name": "a", "drift": null}]}`:                                     `NodePolicy a: pools[0].drift: nothing: want mend or report`,
		`{"pfs": [{"name": "a", "vfs": 1, "vendr": 8086}]}`:                             `NodePolicy a: pfs[0].vendr: unknown key: did you mean vendor?`,
		`[]`: `NodePolicy a: its spec is no JSON object: read it: json: cannot unmarshal array into Go value of type map[string]interface {}`,
		`{`:  `NodePolicy a: its spec is no JSON object: write it: json: error calling MarshalJSON for type json.RawMessage: unexpected end of JSON input`,
	} {
		if _, err := FromPolicy("a", json.RawMessage(text)); fmt.Sprint(err) != want {
			t.Errorf("%s: got %v, want %s", text, err, want)
		}
	}
}

// For any policies, Merge does not depend on their order, and a second Merge with the result as
// before changes nothing. No policy of a reported contradiction decides, and an earlier source
// precedes later ones. A PF that appears after a Merge is treated as if it had existed then, if
// nothing was wanted before.
func TestMergeProperties(t *testing.T) {
	pfs := twoPFs()
	rapid.Check(t, func(t *rapid.T) {
		in := Sources{Policies: drawPolicies(t)}
		if rapid.Bool().Draw(t, "host") {
			in.Host = drawSpec(t, "host.yaml")
		}
		before := drawSpec(t, "before")
		m := Merge(in, before, pfs)
		shuffled := in
		shuffled.Policies = rapid.Permutation(in.Policies).Draw(t, "order")
		if diff := cmp.Diff(m, Merge(shuffled, before, pfs)); diff != "" {
			t.Fatalf("the order matters:\n%s", diff)
		}
		again := Merge(in, m.Spec, pfs)
		if diff := cmp.Diff(outcome(m, pfs), outcome(again, pfs)); diff != "" {
			t.Fatalf("merged again:\n%s", diff)
		}
		for _, pf := range pfs {
			checkPF(t, in, before, m, pf)
		}
		checkAppearance(t, in, pfs)
	})
}

func checkPF(t *rapid.T, in Sources, before Spec, m Merged, pf vf.PF) {
	got, wanted := m.Spec.ForPF(pf)
	if want, ok := in.Host.ForPF(pf); ok {
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("%s: host.yaml wants %+v, got %+v", pf.Name, want, got)
		}
		return
	}
	contested := slices.ContainsFunc(m.Conflicts, func(c Conflict) bool { return c.Object == "PF "+pf.Name })
	keep, kept := before.ForPF(pf)
	if contested && (!reflect.DeepEqual(got, keep) || wanted != kept) {
		t.Fatalf("%s is contested: %+v, was %+v", pf.Name, got, keep)
	}
	_, followed := m.PFs[pf.PCI]
	if followed == contested && wanted {
		t.Fatalf("%s: followed %t, contested %t", pf.Name, followed, contested)
	}
}

// checkAppearance merges without the PFs, and again when they have appeared.
func checkAppearance(t *rapid.T, in Sources, pfs []vf.PF) {
	early := Merge(in, Spec{}, pfs[:rapid.IntRange(0, len(pfs)-1).Draw(t, "early")]).Spec
	m := Merge(in, early, pfs)
	if diff := cmp.Diff(outcome(Merged{Spec: m.Spec}, pfs), outcome(Merged{Spec: early}, pfs)); diff != "" {
		t.Fatalf("the next merge of what appeared (-after +before):\n%s", diff)
	}
	for _, pf := range pfs {
		contested := contradicts(in, pf)
		if _, wanted := early.ForPF(pf); contested && wanted || early.MayWant(pf) != contested || m.Spec.MayWant(pf) != contested {
			t.Fatalf("%s: contested %t, wanted %t, more may be wanted: %t, then %t", pf.Name, contested, wanted, early.MayWant(pf), m.Spec.MayWant(pf))
		}
		if told := slices.ContainsFunc(m.Conflicts, func(c Conflict) bool { return c.Object == "PF "+pf.Name }); told != contested {
			t.Fatalf("%s: contested %t, told %t", pf.Name, contested, told)
		}
	}
}

// contradicts reports whether the policies that decide about a PF want different numbers of VFs,
// which is the only difference between drawn policies.
func contradicts(in Sources, pf vf.PF) bool {
	if _, ok := in.Host.ForPF(pf); ok {
		return false
	}
	for _, priority := range []int32{1, 0} {
		numbers := map[int]bool{}
		for _, p := range in.Policies {
			if want, ok := p.Spec.ForPF(pf); ok && p.Priority == priority {
				numbers[want.VFs] = true
			}
		}
		if len(numbers) > 0 {
			return len(numbers) > 1
		}
	}
	return false
}

func drawPolicies(t *rapid.T) (out []Policy) {
	for i := range rapid.IntRange(0, 4).Draw(t, "policies") {
		name := fmt.Sprintf("p%d", i)
		out = append(out, Policy{Name: name, Priority: rapid.Int32Range(0, 1).Draw(t, "priority"), Spec: drawSpec(t, name)})
	}
	return out
}

func drawSpec(t *rapid.T, name string) Spec {
	text := "pfs:\n"
	for range rapid.IntRange(0, 2).Draw(t, "pfs") {
		text += fmt.Sprintf("- {name: %q, vfs: %d}\n", rapid.SampledFrom([]string{"enp1s0f0", "enp2s0f0", "*"}).Draw(t, "PF"), rapid.IntRange(1, 3).Draw(t, "VFs"))
	}
	text += "pools:\n"
	for _, pool := range rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"x", "y"}), 0, 2, rapid.ID).Draw(t, "pools") {
		text += fmt.Sprintf("- {name: %q, drift: %s}\n", pool, rapid.SampledFrom([]string{"mend", "report"}).Draw(t, "drift"))
	}
	return policySpec(t, name, text)
}

// FuzzFromPolicy shows that FromPolicy and Parse return the same Spec for the same keys, or both
// refuse them.
func FuzzFromPolicy(f *testing.F) {
	f.Add([]byte(`{"pfs":[{"name":"a","vfs":"max"}],"pools":[{"name":"x"}]}`))
	f.Add([]byte(`{"pfs":[{"vfs":-1}]}`))
	f.Add([]byte(`{"pfs":[{"name":"a*","mac":"90:e2:ba:00:00:01","pciAddress":"0000:01:00.0","vendor":"8086","device":"10c9","driver":"igb","vfs":7,"mtu":9000,"autoprobe":false,"needCarrier":false}]}`))
	f.Add([]byte(`{"pools":[{"name":"x","prefix":"intel.com","deviceType":"netDevice","drift":"report","excludeTopology":true,"cdi":true,"additionalInfo":{"*":{"a":"1"},"01:10.0":{"b":"2"}},
		"selectors":[{"vendors":["0x8086"],"devices":["10CA"],"drivers":["igbvf"],"pciAddresses":["0000:01:10.0"],"acpiIndexes":["101"],"pfNames":["a#0-1"],"rootDevices":["0000:01:00.0#2"],"linkTypes":["ether"],"needVhostNet":true}]}]}`))
	f.Add([]byte(`{"pools":[{"name":"x","selectors":[{"drivers":["vfio-pci"]}]},{"name":"x","deviceType":"netdevice","selectors":[{"drivers":["vfio-pci"]}]},{"name":"y","additionalInfo":{"z":{}}}]}`))
	f.Add([]byte(`{"pools":[{"name":"x","allow":{"namespaceSelector":{"a":""},"vlans":["5"],"mtu":9000}},{"name":"y","additionalInfo":{"*":null}}]}`))
	f.Fuzz(func(t *testing.T, content []byte) {
		var p v1alpha1.NodePolicySpec
		if json.Unmarshal(content, &p) != nil {
			return
		}
		text, err := json.Marshal(struct {
			PFs   []v1alpha1.PFRule `json:"pfs,omitempty"`
			Pools []v1alpha1.Pool   `json:"pools,omitempty"`
		}{p.PFs, p.Pools})
		if err != nil {
			t.Fatal(err)
		}
		a, err1 := Parse("x", text)
		if err1 != nil && strings.Contains(err1.Error(), "not YAML") {
			return // a control character, which JSON may have
		}
		b, err2 := FromPolicy("x", p)
		ignoreFrom := cmp.FilterPath(func(p cmp.Path) bool { return p.Last().String() == ".From" }, cmp.Ignore())
		if (err1 == nil) != (err2 == nil) || !cmp.Equal(a, b, ignoreFrom, cmpopts.EquateEmpty(), cmpopts.EquateComparable(vf.PCIAddr{}, vf.MAC{})) {
			t.Errorf("%v and %v: %s", err1, err2, cmp.Diff(a, b, ignoreFrom, cmpopts.EquateEmpty(), cmpopts.EquateComparable(vf.PCIAddr{}, vf.MAC{})))
		}
	})
}
