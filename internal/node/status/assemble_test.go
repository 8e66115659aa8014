package status

import (
	"bytes"
	"encoding/json"
	"flag"
	"net/netip"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/culvert-net/culvert/api/v1alpha1"
	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/api/nodestate"
	"github.com/culvert-net/culvert/internal/node/journal"
	"github.com/culvert-net/culvert/internal/vf"
)

var update = flag.Bool("update", false, "write the golden files")

// golden compares v as JSON with a file. The tests of status/text and status/pick read that file.
func golden(t *testing.T, name string, v any) {
	t.Helper()
	got, err := json.MarshalIndent(v, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	got = append(got, '\n')
	if *update {
		if err := os.WriteFile("testdata/"+name, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s (-want +got):\n%s", name, diff)
	}
}

func TestAssemble(t *testing.T) { golden(t, "node.json", Assemble(node(t))) }

func TestAssembleNothing(t *testing.T) {
	raw, err := json.Marshal(Assemble(Input{}))
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(raw, []byte("null")) {
		t.Errorf("an empty node has null where programs expect a list: %s", raw)
	}
}

// TestWireRoundTrip: the CLI reads the status exactly as culvertd wrote it.
func TestWireRoundTrip(t *testing.T) {
	st := Assemble(node(t))
	raw, err := json.Marshal(st)
	if err != nil {
		t.Fatal(err)
	}
	var got api.NodeStatus
	if err := json.Unmarshal(raw, &got); err != nil {
		t.Fatal(err)
	}
	again, err := json.Marshal(got)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(raw), string(again)); diff != "" {
		t.Errorf("(-sent +sent on):\n%s", diff)
	}
}

func TestConditionsComeFirstAndKnowMore(t *testing.T) {
	in := node(t)
	in.Conditions = []api.Problem{{Object: "PF enp1s0f1", Reason: "write sriov_numvfs: no memory"}}
	got := Assemble(in).Problems
	if got[0] != in.Conditions[0] {
		t.Errorf("first is %+v", got[0])
	}
	for _, p := range got[1:] {
		if p.Object == "PF enp1s0f1" {
			t.Errorf("derived beside the condition: %+v", p)
		}
	}
}

// A VF that the kubelet gave to a pod belongs to that pod, also if no network has attached it. For
// a VF that is not free, the ledger's record counts and not the kubelet's answer.
func TestGiven(t *testing.T) {
	in := node(t)
	free, held := in.PFs[2].VFs[4].PCI, in.PFs[2].VFs[0].PCI
	before := Assemble(in)
	in.Given = map[vf.PCIAddr]string{free: "default/dpdk", held: "default/other"}
	got := Assemble(in)
	v := got.VFs[4]
	if v.PCI != free || v.Phase != api.PhaseGiven || v.Owner == nil || v.Owner.String() != "pod default/dpdk" || len(v.Differences) != 0 {
		t.Errorf("%+v", v)
	}
	in.Records = slices.DeleteFunc(slices.Clone(in.Records), func(r journal.Record) bool { return r.PCI == free })
	if v := Assemble(in).VFs[4]; v.PCI != free || v.Phase != api.PhaseGiven || v.Owner == nil || v.Owner.String() != "pod default/dpdk" {
		t.Errorf("a VF that an earlier device plugin served: %+v", v)
	}
	if !reflect.DeepEqual(before.VFs[0], got.VFs[0]) {
		t.Errorf("a lease is changed by what the kubelet says: %+v", got.VFs[0])
	}
	if was, is := before.PFs[0].VFs, got.PFs[0].VFs; is.Free != was.Free-1 || is.Used != was.Used+1 {
		t.Errorf("%+v, then %+v", was, is)
	}
}

func TestProblemsOfPF(t *testing.T) {
	for _, tc := range []struct {
		name string
		yaml string
		pf   func(*vf.PF)
		want []string
	}{
		{"as wanted", "pfs: [{name: enp1s0f0, vfs: 7}]", func(*vf.PF) {}, nil},
		{"not ours", "", func(p *vf.PF) { p.Carrier = false }, nil},
		{"more than it can", "pfs: [{name: enp1s0f0, vfs: 9}]", func(*vf.PF) {}, []string{
			"9 VFs wanted (host.yaml:1), it can have 7: write vfs: 7 or vfs: max: invalid",
		}},
		{"fewer there", "pfs: [{name: enp1s0f0, vfs: 7}]", func(p *vf.PF) { p.NumVFs = 4 }, []string{"7 VFs wanted (host.yaml:1), it has 4"}},
		{"mtu", "pfs: [{name: enp1s0f0, vfs: 7, mtu: 9000}]", func(*vf.PF) {}, []string{"MTU 9000 wanted (host.yaml:1), it is 1500"}},
		{"mtu of a bond of the host", "pfs: [{name: enp1s0f0, vfs: 7, mtu: 9000}]", func(p *vf.PF) { p.Master = &hostBond }, []string{
			"MTU 9000 wanted (host.yaml:1), it is 1500, as bond0 of the host sets it for its members",
		}},
		{"mtu of a bond of the host, as wanted", "pfs: [{name: enp1s0f0, vfs: 7, mtu: 1500}]", func(p *vf.PF) { p.Master = &hostBond }, nil},
		{"none wanted needs no carrier", "pfs: [{name: enp1s0f0, vfs: 0}]", func(p *vf.PF) { p.Carrier, p.NumVFs = false, 0 }, nil},
		{"broken", "", func(p *vf.PF) { p.Err = "no answer" }, []string{"no answer"}},
	} {
		pf := igb(0, 7)
		tc.pf(&pf)
		var got []string
		for _, p := range Assemble(Input{Spec: spec(t, tc.yaml), PFs: []vf.PF{pf}}).Problems {
			if p.Object != "PF enp1s0f0" || p.Next == "" {
				t.Errorf("%s: %+v", tc.name, p)
			}
			got = append(got, p.Reason)
		}
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tc.name, diff)
		}
	}
}

// A PF that could not be read has one problem. Problems that follow from its missing facts are not
// reported: that its VFs are gone, that it can have none, that a pool is empty.
func TestProblemsOfAnUnreadPF(t *testing.T) {
	in := node(t)
	in.PFs = slices.DeleteFunc(in.PFs, func(pf vf.PF) bool { return pf.Name != "enp1s0f0" })
	in.Spec = spec(t, "pfs: [{name: enp1s0f0, vfs: 7}]\npools: [{name: fast, selectors: {pfNames: [enp1s0f0]}}]")
	in.Records = slices.DeleteFunc(in.Records, func(r journal.Record) bool { return r.ID.PF != in.PFs[0].ID || r.Phase != vf.PhaseAttached })
	if len(in.Records) != 2 {
		t.Fatalf("%d VFs have owners, want 2", len(in.Records))
	}
	pf := &in.PFs[0]
	pf.VFs, pf.NumVFs, pf.TotalVFs, pf.Err = nil, 0, 0, "timed out"
	got := Assemble(in).Problems
	if len(got) != 1 || got[0].Object != "PF enp1s0f0" || got[0].Reason != "timed out" {
		t.Errorf("%+v", got)
	}
	pf.Err = ""
	if got := Assemble(in).Problems; len(got) != 4 { // too few VFs, two owners without theirs, the pool
		t.Errorf("without the cause: %+v", got)
	}
}

// The status says which pools bound what owners may request: the doctor warns of the others.
func TestPoolIsBounded(t *testing.T) {
	in := node(t)
	in.Spec = spec(t, "pools: [{name: closed, allow: {vlans: [7]}}, {name: plain, allow: {}}, {name: open}]")
	var got []string
	for _, p := range Assemble(in).Pools {
		if p.Bounded {
			got = append(got, p.Name)
		}
	}
	if want := []string{"culvert.dev/closed", "culvert.dev/plain"}; !slices.Equal(got, want) {
		t.Errorf("%q are bounded, want %q", got, want)
	}
}

var hostBond = vf.Master{Name: "bond0", Kind: vf.MasterBond, Mode: vf.BondActiveBackup, Active: "enp1s0f0"}

// A member of a bond of the host has the bond in its status and in a NodeState, with the effect of
// a fail-over on a VF. Other PFs have neither.
func TestHostBond(t *testing.T) {
	f0, f1 := igb(0, 1), igb(1, 1)
	f0.Master = &hostBond
	st := Assemble(Input{PFs: []vf.PF{f0, f1}})
	back := FromNodeState(v1alpha1.NodeState{Status: ToNodeState(st)}, now)
	inNodeState := hostBond
	inNodeState.Active = "" // each fail-over would be a write
	for from, want := range map[string]struct {
		pfs    []api.PF
		master vf.Master
	}{"node": {st.PFs, hostBond}, "NodeState": {back.PFs, inNodeState}} {
		pfs := want.pfs
		if pf := pfs[0]; pf.Master == nil || *pf.Master != want.master || pf.FailOver != hostBond.FailOver() || pf.FailOver == "" {
			t.Errorf("%s: the member shows %v, %q", from, pf.Master, pf.FailOver)
		}
		if pf := pfs[1]; pf.Master != nil || pf.FailOver != "" {
			t.Errorf("%s: the other PF shows %v, %q", from, pf.Master, pf.FailOver)
		}
	}
}

// TestDifferences: a VF that was changed outside Culvert shows the difference in the phases in
// which that means something.
func TestDifferences(t *testing.T) {
	pf := igb(0, 1)
	for _, tc := range []struct {
		phase vf.Phase
		want  int
	}{
		{vf.PhaseFree, 1}, {vf.PhaseQuarantined, 1}, {vf.PhaseAttached, 1},
		{vf.PhaseMaking, 0}, {vf.PhaseConfiguring, 0}, {vf.PhaseReleasing, 0},
	} {
		r, v := free(pf.VFs[0]), pf.VFs[0]
		r.Phase = tc.phase
		if tc.phase == vf.PhaseAttached {
			r.Lease = journal.Lease{Owner: vf.Owner{Kind: vf.OwnerPod, Name: "default/a"}, Netns: "/run/netns/a"}
			v.Link = nil
		}
		if got := findDifferences(r, v); len(got) != 0 {
			t.Errorf("%s, untouched: %v", tc.phase, got)
		}
		v.Admin.SpoofChk = vf.No
		if got := findDifferences(r, v); tc.phase != vf.PhaseMaking && len(got) != tc.want {
			t.Errorf("%s: %v", tc.phase, got)
		}
	}
	r := free(pf.VFs[0])
	r.Phase, r.Lease = vf.PhaseAttached, journal.Lease{Netns: "/run/netns/a", Wanted: vf.Spec{Interface: "net1"}}
	if got := vf.Differences(findDifferences(r, pf.VFs[0])); got == "" {
		t.Error("a netdevice that is back on the host is no difference")
	}
}

// A VF whose record changed while the hardware was listed is seen at two moments, so it shows no
// difference. The status has its record, and the differences of other VFs.
func TestChangedRecordsShowNoDifference(t *testing.T) {
	in := node(t)
	var differing []vf.ID
	for _, v := range Assemble(in).VFs {
		if len(v.Differences) > 0 && v.Phase != api.PhaseGiven {
			differing = append(differing, v.ID)
		}
	}
	if len(differing) == 0 {
		t.Fatal("no VF differs, so this test shows nothing")
	}
	in.Changed = map[vf.ID]bool{differing[0]: true}
	for _, v := range Assemble(in).VFs {
		if i := slices.Index(differing, v.ID); i >= 0 && (len(v.Differences) == 0) != (i == 0) {
			t.Errorf("VF %s, changed %t: %v", v.Name, i == 0, v.Differences)
		}
	}
}

// The status names who uses a VF that has no owner. A VF that another program only prepared keeps culvertd
// from changing the number of VFs, so the status says so while the number is to change.
func TestUsersOutsideTheLedger(t *testing.T) {
	pf := igb(0, 5)
	pf.VFs[3].Driver, pf.VFs[3].Link = vf.DriverVFIO, nil
	in := Input{Spec: spec(t, "pfs: [{name: enp1s0f0, vfs: 7}]"), PFs: []vf.PF{pf}, Given: map[vf.PCIAddr]string{pf.VFs[4].PCI: "default/dpdk"}}
	for _, v := range pf.VFs[:3] { // the last two are not in the ledger
		in.Records = append(in.Records, free(v))
	}
	in.Records[1].Phase, in.Records[1].Lease.Owner = vf.PhaseAttached, vf.Owner{Kind: vf.OwnerPod, Name: "default/a", UID: "a"}
	qemu := vf.Use{By: vf.Process{PID: 12, Name: "qemu"}}
	in.Uses = map[vf.PCIAddr]vf.Use{pf.VFs[0].PCI: qemu, pf.VFs[1].PCI: qemu, pf.VFs[4].PCI: qemu}
	usedBy := func() (out []string) {
		for _, v := range Assemble(in).VFs {
			out = append(out, v.UsedBy)
			if nodestate.FromVF(v).UsedBy != v.UsedBy {
				t.Errorf("VF %s: the NodeState lacks it", v.Name)
			}
		}
		return out
	}
	if diff := cmp.Diff([]string{"open by qemu (process 12)", "", "", "bound to vfio-pci by another program, perhaps for a VM", ""}, usedBy()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	resets := func() bool {
		return slices.ContainsFunc(Assemble(in).Problems, func(p api.Problem) bool { return strings.Contains(p.Next, "culvertd resets it") })
	}
	in.PFs[0].VFs[2].Admin.VLAN.ID = 7 // a free VF is changed
	if !resets() {
		t.Error("the status does not say that culvertd resets a changed VF")
	}
	in.Given, in.GivenUnknown = nil, true // a pod of the kubelet may use them
	if resets() {
		t.Error("the status says that culvertd resets a VF that a pod may have")
	}
	if diff := cmp.Diff(make([]string, 5), usedBy()); diff != "" {
		t.Errorf("the kubelet does not answer: -want +got:\n%s", diff)
	}
	in.GivenUnknown = false
	in.Spec = spec(t, "pfs: [{name: enp1s0f0, vfs: 5}]")
	if diff := cmp.Diff([]string{qemu.String(), "", "", "", qemu.String()}, usedBy()); diff != "" {
		t.Errorf("nothing is to change: -want +got:\n%s", diff)
	}
}

// The status of a PF has the kernel's report without addresses and VFs, which scripts have never
// found there.
func TestStatusHidesPartsOfTheReport(t *testing.T) {
	pf := vf.PF{
		Name: "a", MAC: vf.MAC{2}, Addrs: []netip.Prefix{netip.MustParsePrefix("10.0.0.1/8")}, OwnAddrs: []netip.Prefix{netip.MustParsePrefix("10.0.0.1/8")},
		NumVFs: 1, VFs: []vf.State{{}}, SpeedMbps: 1000,
	}
	text, err := json.Marshal(pfOf(pf, nil))
	if err != nil {
		t.Fatal(err)
	}
	var fields map[string]any
	if err := json.Unmarshal(text, &fields); err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"mac", "addrs", "ownAddrs", "numVFs"} {
		if fields[key] != nil {
			t.Errorf("it has %s: %s", key, text)
		}
	}
	if _, isCounts := fields["vfs"].(map[string]any); !isCounts || fields["speedMbps"] != 1000.0 {
		t.Errorf("%s", text)
	}
}
