package status

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/node/desired"
	"github.com/culvert-net/culvert/internal/node/journal"
	"github.com/culvert-net/culvert/internal/node/reconcile"
	"github.com/culvert-net/culvert/internal/vf"
)

func planOf(t *testing.T, was, is string, pfs []vf.PF, records []journal.Record) api.Plan {
	t.Helper()
	now, next := spec(t, was), spec(t, is)
	return Plan(now, next, reconcile.Plan(next, pfs, records, nil), records)
}

// TestPlanGolden: a plan has another number of VFs on a PF with holders, other pools on a PF that
// keeps its VFs, an impossible PF, and entries that do nothing.
func TestPlanGolden(t *testing.T) {
	in := node(t)
	golden(t, "plan.json", planOf(t, hostYAML, `pfs:
- {name: enp1s0f0, vfs: 4, mtu: 9000}
- {name: enp1s0f1, vfs: 6, autoprobe: false}
- {name: enp7s0, vfs: 1}
pools:
- {name: one, selectors: {pfNames: [enp1s0f0]}}
- {name: two, deviceType: vfio-pci, selectors: {pfNames: ["enp1s0f1#0-2"]}}
- {name: never, selectors: {vendors: [15b3]}}
`, in.PFs, in.Records))
}

func TestPlanOfWhatIsThere(t *testing.T) {
	pf := igb(0, 7)
	text := "pfs: [{name: enp1s0f0, vfs: 7}]\npools: [{name: a}]"
	if diff := cmp.Diff(api.Plan{PFs: []api.PFPlan{}}, planOf(t, text, text, []vf.PF{pf}, nil)); diff != "" {
		t.Errorf("a plan of nothing (-want +got):\n%s", diff)
	}
}

// A plan does not change the MTU that a bond of the host sets, and says where to change it.
func TestPlanLeavesTheMTUToTheHostBond(t *testing.T) {
	pf := igb(0, 7)
	pf.Master = &hostBond
	p := planOf(t, "", "pfs: [{name: enp1s0f0, vfs: 7, mtu: 9000}]", []vf.PF{pf}, nil)
	for _, c := range p.PFs {
		for _, change := range c.Changes {
			if change.Attribute == "mtu" {
				t.Errorf("%+v", change)
			}
		}
	}
	const want = "PF enp1s0f0: MTU 9000 wanted (host.yaml:1), it is 1500, as bond0 of the host sets it for its members: " +
		"ip link set bond0 mtu 9000, and the same where bond0 is configured; culvertd leaves it alone"
	if !slices.Contains(p.Notes, want) {
		t.Errorf("no note %q in %q", want, p.Notes)
	}
}

func TestPlanRefusesTooMany(t *testing.T) {
	p := planOf(t, "", "pfs: [{name: enp1s0f0, vfs: 8}]", []vf.PF{igb(0, 0)}, nil)
	want := "8 VFs wanted (host.yaml:1), it can have 7: write vfs: 7 or vfs: max: invalid"
	if len(p.PFs) != 1 || p.PFs[0].Refused != want {
		t.Errorf("got %+v, want %s", p, want)
	}
}

// TestPlanNamesHolders (I5): a held VF that would change its driver keeps it
// until it is given back, and the plan says so.
func TestPlanNamesHolders(t *testing.T) {
	pf := igb(0, 1)
	r := free(pf.VFs[0])
	r.Phase, r.Lease.Owner = vf.PhaseAttached, vf.Owner{Kind: vf.OwnerPod, Name: "default/a"}
	p := planOf(t, "pools: [{name: a}]", "pools: [{name: a, deviceType: vfio-pci}]", []vf.PF{pf}, []journal.Record{r})
	want := api.Plan{PFs: []api.PFPlan{{PF: "enp1s0f0", PCI: pf.PCI, Changes: []api.Change{
		{Op: api.Modify, Object: "VF 0", Attribute: "driver", From: "igbvf", To: desired.VFIO, Note: "once it is given back"},
	}}}}
	if diff := cmp.Diff(want, p); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// The plan says what a change of offer means, and names the pods that the kubelet would refuse after
// a reboot of the node.
func TestPlanOfAnOffer(t *testing.T) {
	pf := igb(0, 3)
	rec := func(index int, kind, pod, pool string, claim *journal.Claim) journal.Record {
		return journal.Record{ID: vf.ID{PF: pf.ID, Index: index}, PCI: pf.VFs[index].PCI, Phase: vf.PhaseAttached, Claim: claim,
			Lease: journal.Lease{Owner: vf.Owner{Kind: kind, UID: pod, Name: pod}, Pool: pool}}
	}
	records := []journal.Record{
		rec(0, vf.OwnerPod, "default/b", "culvert.dev/a", nil), rec(1, vf.OwnerPod, "default/a", "culvert.dev/a", &journal.Claim{UID: "1"}),
		rec(2, vf.OwnerGuest, "guest", "culvert.dev/a", nil),
	}
	const resource, claims = "pools: [{name: a, offer: resource}]", "pools: [{name: a, offer: claims}]"
	for _, tt := range []struct {
		was, is string
		records []journal.Record
		want    []string
	}{
		{resource, "pools: [{name: a}]", records, nil},
		{claims, claims, records, nil},
		{resource, claims, nil, []string{"host.yaml:1: pool culvert.dev/a: offer resource -> claims: the node has 0 of the resource culvert.dev/a, and pods get VFs by ResourceClaims"}},
		{"", claims, records, []string{"host.yaml:1: pool culvert.dev/a: offer resource -> claims: the node has 0 of the resource culvert.dev/a, and pods get VFs by ResourceClaims" +
			"; pods that have VFs by the device plugin keep them until they end (default/b): the kubelet refuses them when the node boots again, so replace them before"}},
		{claims, resource, records, []string{"host.yaml:1: pool culvert.dev/a: offer claims -> resource: its VFs leave the ResourceSlices, and pods get VFs by the resource culvert.dev/a" +
			"; pods that have VFs by ResourceClaims keep them until they end (default/a): their VFs count as unhealthy for the kubelet until then"}},
	} {
		if diff := cmp.Diff(tt.want, planOf(t, tt.was, tt.is, []vf.PF{pf}, tt.records).Notes); diff != "" {
			t.Errorf("%q -> %q (-want +got):\n%s", tt.was, tt.is, diff)
		}
	}
}
