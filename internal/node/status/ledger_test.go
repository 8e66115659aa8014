package status

import (
	"encoding/json"
	"net/netip"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/node/journal"
	"github.com/culvert-net/culvert/internal/vf"
)

// An entry that cannot be trusted is shown with its damage, and without what it claims. The status
// of the node has the problems of VFs already, so the problems of its ledger leave them out.
func TestDamagedEntriesOfTheLedger(t *testing.T) {
	igb := vf.PFID{MAC: vf.MAC{2, 0, 0, 0, 0, 1}}
	owner := vf.Owner{Kind: vf.OwnerPod, Name: "default/a", UID: "c1", Interface: "net1"}
	whole := journal.Record{ID: vf.ID{PF: igb}, Phase: vf.PhaseAttached, Lease: journal.Lease{Owner: owner, Network: "blue"}}
	whole.Baseline.Attributes = "many"
	c := journal.Content{
		Records: []journal.Record{whole, {ID: vf.ID{PF: igb, Index: 1}, Phase: vf.PhaseDamaged, Reason: "no JSON"}, {ID: vf.ID{PF: igb, Index: 2}, Phase: vf.PhaseMaking}},
		Addresses: []journal.Address{
			{Network: "blue", Addr: netip.MustParseAddr("10.0.0.1"), VF: whole.ID, Owner: owner},
			{Network: "blue", Addr: netip.MustParseAddr("10.0.0.2"), Damage: "no JSON"},
		},
		Sandboxes: []journal.Sandbox{
			{ID: "c1", Namespace: "default", Pod: "a", Phase: journal.SandboxAdded, Networks: []journal.SandboxNetwork{{Name: "default/blue", Interface: "net1"}}},
			{ID: "c2", Damage: "no JSON"},
		},
		Faults: []journal.Fault{"it is cut off"},
	}
	got := Ledger("culvert.db", c)
	if !got.Refused {
		t.Error("it is not shown as refused")
	}
	r := got.Records
	if *r[0].Owner != owner || r[0].Network != "blue" || r[0].Baseline.Attributes != "" || r[1].Baseline != nil || r[1].Owner != nil || r[2].Baseline != nil {
		t.Errorf("records: %+v", r)
	}
	if whole.Baseline.Attributes == "" {
		t.Error("the record itself lost its attributes")
	}
	if a := got.Addresses; a[0].VF != whole.ID.String() || *a[0].Owner != owner || a[1].VF != "" || a[1].Owner != nil || a[1].Damage != "no JSON" {
		t.Errorf("addresses: %+v", a)
	}
	if s := got.Sandboxes; s[0].Pod != "default/a" || s[0].Networks[0].Interface != "net1" || s[1].Pod != "" || s[1].Phase != string(vf.PhaseDamaged) {
		t.Errorf("sandboxes: %+v", s)
	}
	var objects []string
	for _, p := range LedgerConditions(c) {
		if p.Object != "ledger" || p.Next == "" {
			t.Errorf("%+v", p)
		}
		objects = append(objects, p.Reason)
	}
	var want []string
	for _, p := range got.Problems {
		if p.Object != "VF "+(vf.ID{PF: igb, Index: 1}).String() {
			want = append(want, journal.Problem(p).String())
		}
	}
	if diff := cmp.Diff(want, objects); diff != "" || len(want) != len(got.Problems)-1 {
		t.Errorf("of %d problems, -want +got:\n%s", len(got.Problems), diff)
	}
	if got := Ledger("", journal.Content{}); got.Refused || got.Records == nil || got.Events == nil || !cmp.Equal(got.Problems, []api.LedgerProblem{}) {
		t.Errorf("an empty ledger: %+v", got)
	}
}

// The ledger that is written entry by entry is the same as the one that is written whole, with no entry
// and with several, and with each field of its type.
func TestLedgerInParts(t *testing.T) {
	whole := api.Ledger{
		File: "culvert.db", Format: "2", Boot: "b<1>", Refused: true,
		Records:   []api.LedgerRecord{{Reason: "a\nb"}, {Generation: 2}},
		Addresses: []api.LedgerAddress{{Network: "blue"}}, Events: []api.Event{{Seq: 1}, {Seq: 2}, {Seq: 3}},
		Sandboxes: []api.LedgerSandbox{{ID: "c1", Networks: []api.LedgerSandboxNetwork{}}}, Problems: []api.LedgerProblem{{}},
	}
	for i := range reflect.TypeFor[api.Ledger]().NumField() {
		if reflect.ValueOf(whole).Field(i).IsZero() {
			t.Errorf("the test leaves %s out", reflect.TypeFor[api.Ledger]().Field(i).Name)
		}
	}
	for _, want := range []api.Ledger{whole, {Records: []api.LedgerRecord{}, Addresses: []api.LedgerAddress{}, Events: []api.Event{}, Sandboxes: []api.LedgerSandbox{}, Problems: []api.LedgerProblem{}}} {
		var text strings.Builder
		if err := LedgerAnswer(want).WriteParts(&text); err != nil {
			t.Fatal(err)
		}
		var got api.Ledger
		if err := json.Unmarshal([]byte(text.String()), &got); err != nil {
			t.Fatalf("%v: %s", err, text.String())
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
	}
}
