package desired

import (
	"errors"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/culvert-net/culvert/api/v1alpha1"
	"github.com/culvert-net/culvert/internal/vf"
)

// fourPFs returns PFs a to d with two VFs each. Only the VFs of PF a are made.
func fourPFs() (out []vf.PF) {
	for i, name := range []string{"a", "b", "c", "d"} {
		out = append(out, vf.PF{Name: name, PCI: vf.PCIAddr{Bus: uint8(i + 1)}, ID: vf.PFID{MAC: vf.MAC{2, 0, 0, 0, 0, byte(i + 1)}}, TotalVFs: 7})
	}
	for i := range 2 {
		out[0].VFs = append(out[0].VFs, vf.State{ID: vf.ID{PF: out[0].ID, Index: i}})
	}
	return out
}

// makeVFs makes n VFs of each PF.
func makeVFs(pfs []vf.PF, n int) []vf.PF {
	for i := range pfs {
		pfs[i].VFs = nil
		for index := range n {
			pfs[i].VFs = append(pfs[i].VFs, vf.State{ID: vf.ID{PF: pfs[i].ID, Index: index}})
		}
	}
	return pfs
}

// A pool is refused because of VFs that exist. VFs that are not made yet count in the forecast
// only.
func TestPoolOverTwoSegments(t *testing.T) {
	const storage, front = ", segment: storage}", ", segment: front}"
	for name, tc := range map[string]struct{ a, b, c, pool, want string }{
		"no names":                         {"}", "}", "}", `["a", "b"]`, ""},
		"one name":                         {storage, storage, "}", `["a", "b"]`, ""},
		"a PF without a name beside one":   {storage, "}", "}", `["a", "b"]`, ""},
		"two names":                        {storage, front, "}", `["a", "b"]`, "front (b) and storage (a)"},
		"two names and a third PF":         {storage, front, storage, `["?"]`, "front (b) and storage (a, c)"},
		"two names, each with its pool":    {storage, front, "}", `["a", "c"]`, ""},
		"VFs that are not made yet":        {"}", storage, front, `["b#1", "c#0"]`, "front (c) and storage (b)"},
		"VFs that the PF will not have":    {"}", storage, front, `["b#1", "c#5"]`, ""},
		"another PF's VFs that are not in": {storage, front, "}", `["a#0", "b#6"]`, ""},
	} {
		spec, err := Parse("host.yaml", []byte("pfs:\n- {name: a, vfs: 2"+tc.a+"\n- {name: b, vfs: 2"+tc.b+"\n- {name: c, vfs: 2"+tc.c+"\npools:\n- {name: x, selectors: {pfNames: "+tc.pool+"}}\n"))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		const reach = " VFs on two segments, whose pods do not reach each other: "
		forecast := ""
		if tc.want != "" {
			forecast = "it would have" + reach + tc.want
		}
		if got := spec.ForecastMixedSegments("culvert.dev/x", fourPFs()); got != forecast {
			t.Errorf("%s: forecast %q, want %q", name, got, forecast)
		}
		if err := spec.CheckSegments("culvert.dev/x", fourPFs()); err != nil {
			t.Errorf("%s, only VFs of PF a are made: %v", name, err)
		}
		err = spec.CheckSegments("culvert.dev/x", makeVFs(fourPFs(), 2))
		const says = "pool culvert.dev/x: it has" + reach
		switch {
		case tc.want == "" && err != nil:
			t.Errorf("%s: %v", name, err)
		case tc.want != "" && (!errors.Is(err, vf.ErrInvalid) || !strings.HasPrefix(err.Error(), says+tc.want+": invalid: give each segment a pool of its own")):
			t.Errorf("%s: got %v\nwant %s", name, err, says+tc.want)
		}
	}
}

// The VFs of an E810 without a cable are not made, so their device ID is unknown, and the forecast
// has them in the pool of the X710. That pool has VFs of one PF and is not refused.
func TestForecastStopsNoPool(t *testing.T) {
	spec, err := Parse("host.yaml", []byte(`pfs:
- {name: a, vfs: 2, segment: storage}
- {name: b, vfs: 2, segment: front}
pools:
- {name: x710, selectors: {vendors: ["8086"], devices: [154c], drivers: [iavf]}}
- {name: e810, selectors: {devices: ["1889"]}}
`))
	if err != nil {
		t.Fatal(err)
	}
	pfs := fourPFs()[:2]
	for i, device := range []string{"154c", "1889"} {
		pfs[i].Vendor = "8086"
		for j := range pfs[i].VFs {
			pfs[i].VFs[j].Device, pfs[i].VFs[j].Driver = device, "iavf"
		}
	}
	if got := spec.ForecastMixedSegments("culvert.dev/x710", pfs); !strings.HasSuffix(got, "front (b) and storage (a)") {
		t.Errorf("forecast %q", got)
	}
	if err := spec.CheckSegments("culvert.dev/x710", pfs); err != nil {
		t.Error(err)
	}
}

// A PF whose policies contradict each other keeps its segment.
func TestSegmentOfAContestedPF(t *testing.T) {
	pfs := fourPFs()
	spec := Spec{
		PFs:       []PFRule{{Name: "?", Want: PFSpec{VFs: 2, Segment: "storage"}}},
		Contested: []Contested{{PCI: pfs[1].PCI, Keep: PFSpec{VFs: 2, Segment: "front"}}},
		Pools:     []Pool{{Name: "x", Prefix: "y"}},
	}
	if got := spec.MixedSegments("y/x", makeVFs(pfs, 1)); !strings.HasSuffix(got, "front (b) and storage (a, c, d)") {
		t.Errorf("got %q", got)
	}
}

// A segment is parsed in the same way from host.yaml and from a NodePolicy. The error for an
// invalid one names its place.
func TestSegmentOfAPF(t *testing.T) {
	for text, want := range map[string]string{
		"storage": "", "rack-7": "",
		"Storage": "want a name such as storage", "a.b": "want a name such as storage", "-a": "want a name such as storage", "a b": "want a name such as storage",
	} {
		fromFile, err := Parse("host.yaml", []byte(`pfs: [{name: a, vfs: 1, segment: "`+text+`"}]`))
		fromPolicy, err2 := FromPolicy("p", v1alpha1.NodePolicySpec{PFs: []v1alpha1.PFRule{{Name: "a", VFs: intstr.FromInt32(1), Segment: text}}})
		if want != "" {
			if err == nil || !strings.Contains(err.Error(), "pfs[0].segment") || !strings.Contains(err.Error(), want) {
				t.Errorf("%q: %v", text, err)
			}
			if err2 == nil || !strings.Contains(err2.Error(), "NodePolicy p: pfs[0].segment") || !strings.Contains(err2.Error(), want) {
				t.Errorf("%q of a policy: %v", text, err2)
			}
			continue
		}
		if err := errors.Join(err, err2); err != nil {
			t.Errorf("%q: %v", text, err)
			continue
		}
		for _, s := range []Spec{fromFile, fromPolicy} {
			if got := s.SegmentOf(fourPFs()[0]); string(got) != text {
				t.Errorf("%q: got %q", text, got)
			}
		}
	}
}

// Policies of one priority that give a PF two segments contradict each other.
func TestPoliciesNameTwoSegments(t *testing.T) {
	a, b := policy(t, "a", 0, `{pfs: [{name: a, vfs: 2, segment: storage}]}`), policy(t, "b", 0, `{pfs: [{name: a, vfs: 2, segment: front}]}`)
	m := Merge(Sources{Policies: []Policy{a, b}}, Spec{}, fourPFs())
	if len(m.Conflicts) != 1 || !strings.Contains(m.Conflicts[0].Text, "segment storage") || !strings.Contains(m.Conflicts[0].Text, "segment front") {
		t.Errorf("%+v", m.Conflicts)
	}
}
