package pick

import (
	"encoding/json"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/vf"
)

// A PF has its alternative names wherever a person names it.
func TestAlternativeNames(t *testing.T) {
	st := node(t)
	of := st.VFs[0]
	i := slices.IndexFunc(st.PFs, func(p api.PF) bool { return p.Name == of.PF })
	st.PFs[i].AltNames = []string{"uplink"}
	want, err := Filter{PF: of.PF}.VFs(st)
	if err != nil || len(want) == 0 {
		t.Fatal(want, err)
	}
	got, err := Filter{PF: "uplink"}.VFs(st)
	if len(got) != len(want) || got[0].Name != of.Name || err != nil {
		t.Errorf("%d VFs of %d: %v", len(got), len(want), err)
	}
	one, err := VF(st, strings.Replace(of.Name, of.PF, "uplink", 1))
	if err != nil || len(one) != 1 || one[0].Name != of.Name {
		t.Errorf("%+v, %v; want %s", one, err, of.Name)
	}
	if found, err := VF(st, "uplink#99"); err == nil {
		t.Errorf("a VF that is not there: %+v", found)
	}
}

func node(t *testing.T) api.NodeStatus {
	t.Helper()
	var st api.NodeStatus
	raw, err := os.ReadFile("../testdata/node.json")
	if err == nil {
		err = json.Unmarshal(raw, &st)
	}
	if err != nil {
		t.Fatal(err)
	}
	return st
}

func names(vfs []api.VF) string {
	var all []string
	for _, v := range vfs {
		all = append(all, v.Name)
	}
	return strings.Join(all, " ")
}

// Nodes of a cluster have PFs and pools of one name. Completion offers a name once, and the name
// selects VFs of all nodes.
func TestOfACluster(t *testing.T) {
	st := node(t)
	want := PFs(st)
	st.PFs, st.Pools, st.VFs = append(st.PFs, st.PFs...), append(st.Pools, st.Pools...), append(st.VFs, st.VFs...)
	if diff := cmp.Diff(want, PFs(st)); diff != "" {
		t.Errorf("PFs (-want +got):\n%s", diff)
	}
	got, err := Filter{Pool: "dpdk"}.VFs(st)
	if err != nil || names(got) != "enp1s0f1#4 enp1s0f1#5 enp1s0f1#4 enp1s0f1#5" {
		t.Errorf("pool dpdk of two nodes: %s, %v", names(got), err)
	}
}

func TestVF(t *testing.T) {
	st := node(t)
	for _, tc := range []struct{ word, want, err string }{
		{"0000:01:10.2", "enp1s0f0#2", ""},
		{"01:10.2", "enp1s0f0#2", ""},
		{"enp1s0f0#2", "enp1s0f0#2", ""},
		{"90:e2:ba:00:00:01#2", "enp1s0f0#2", ""},
		{"enp1s0f0v2", "enp1s0f0#2", ""},
		{"net1", "enp1s0f0#0 enp1s0f0#1", ""},
		{"default/a", "enp1s0f0#0", ""},
		{"pod default/a", "enp1s0f0#0", ""},
		{"3f2a9c41", "enp1s0f0#0 enp1s0f0#1", ""},
		{"vm db1", "enp1s0f1#6", ""},
		{"8a1", "", `VF "8a1": not found: write a PCI address, PF#index, netdevice or owner; culvert vf list shows them`},
		{"enp1s0f0#9", "", `VF "enp1s0f0#9": not found: PF enp1s0f0 has enp1s0f0#0 to enp1s0f0#6`},
		{"default/b", "", `VF "default/b": not found: did you mean default/a? culvert vf list shows all`},
		{"", "", `VF "": not found: write a PCI address, PF#index, netdevice or owner; culvert vf list shows them`},
	} {
		got, err := VF(st, tc.word)
		if names(got) != tc.want {
			t.Errorf("%q is %q, want %q", tc.word, names(got), tc.want)
		}
		if tc.err != "" && (err == nil || err.Error() != tc.err || !errors.Is(err, vf.ErrNotFound)) {
			t.Errorf("%q: got %v, want %s", tc.word, err, tc.err)
		}
		if tc.err == "" && err != nil {
			t.Errorf("%q: %v", tc.word, err)
		}
	}
	if _, err := VF(api.NodeStatus{}, "x"); err == nil || !strings.Contains(err.Error(), "this host has no VFs") {
		t.Errorf("on a host without VFs: %v", err)
	}
}

// TestIDsAreFound: VF finds every word that IDs offers for completion.
func TestIDsAreFound(t *testing.T) {
	st := node(t)
	ids := IDs(st)
	for _, id := range ids {
		if _, err := VF(st, id); err != nil {
			t.Error(err)
		}
	}
	if !slices.Contains(ids, "default/a") || !slices.Contains(ids, "0000:01:10.0") {
		t.Errorf("IDs: %v", ids)
	}
}

func TestFilter(t *testing.T) {
	st := node(t)
	st.Pools = append(st.Pools, api.Pool{Name: "other.dev/dpdk"})
	for _, tc := range []struct {
		f         Filter
		want, err string
	}{
		{Filter{PF: "enp1s0f1", Phase: "free"}, "enp1s0f1#0 enp1s0f1#1 enp1s0f1#2 enp1s0f1#3 enp1s0f1#4", ""},
		{Filter{Pool: "culvert.dev/dpdk"}, "enp1s0f1#4 enp1s0f1#5", ""},
		{Filter{Pool: "intel_sriov_netdevice", Phase: "quarantined"}, "enp1s0f0#3", ""},
		{Filter{Owner: "default/a"}, "enp1s0f0#0", ""},
		{Filter{Phase: "releasing"}, "", ""},
		{Filter{PF: "eth0"}, "", `PF "eth0": not found: there are enp1s0f0, enp1s0f1, 0000:04:00.0`},
		{Filter{Pool: "x"}, "", `pool "x": not found: there are intel.com/intel_sriov_netdevice, culvert.dev/dpdk, culvert.dev/late, culvert.dev/chelsio, other.dev/dpdk`},
		{Filter{Pool: "dpdk"}, "", `pool "dpdk": invalid: it could mean culvert.dev/dpdk, other.dev/dpdk`},
	} {
		got, err := tc.f.VFs(st)
		message := ""
		if err != nil {
			message = err.Error()
		}
		if diff := cmp.Diff([]string{tc.want, tc.err}, []string{names(got), message}); diff != "" {
			t.Errorf("%+v (-want +got):\n%s", tc.f, diff)
		}
		if err == nil && got == nil {
			t.Errorf("%+v: nil, which JSON writes as null", tc.f)
		}
	}
}
