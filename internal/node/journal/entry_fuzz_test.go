package journal

import (
	"encoding/json"
	"net/netip"
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/culvert-net/culvert/internal/vf"
)

// FuzzEntry shows that an entry that can be read is the same after it was written and read again.
// Verify reports what is wrong with it, and does not panic on any entry.
func FuzzEntry(f *testing.F) {
	whole := Record{
		ID: vf.ID{PF: vf.PFID{MAC: vf.MAC{2}, Port: "p0"}, Index: 3}, PCI: vf.PCIAddr{Bus: 1}, Generation: 2, Phase: vf.PhaseAttached,
		Baseline: vf.Baseline{Driver: "igbvf", Name: "v3"},
		Lease: Lease{Owner: vf.Owner{Kind: vf.OwnerPod, UID: "c1", Interface: "net1"}, Network: "n", Netns: "/run/netns/x", Request: []byte("{}"),
			Wanted: vf.Spec{Addresses: []vf.Address{{Prefix: netip.MustParsePrefix("10.0.0.1/24")}}}},
	}
	for _, v := range []any{
		whole,
		Record{Phase: vf.PhaseFree},
		Record{Phase: vf.PhasePrepared, Claim: &Claim{UID: "u", Namespace: "d", Name: "c", Request: "a/b", Pods: []ClaimPod{{Name: "p", UID: "q"}}, VFs: 2, Config: []byte("{}")}},
		Address{Network: "n", Addr: netip.MustParseAddr("fd00::1"), VF: whole.ID, Owner: whole.Lease.Owner},
		Event{Seq: 1, Type: Warning, Text: "x"},
		[]netip.Addr{netip.MustParseAddr("10.0.0.1")},
	} {
		raw, err := json.Marshal(v)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(raw)
	}
	f.Add([]byte(`{"id":"#0","phase":"attached","lease":{"owner":{},"wanted":{"routes":[{"dst":"::/200"}],"vlan":{"proto":"x"}}}}`))
	f.Add([]byte(`{"since":"0000-00-00T00:00:00Z","generation":-1}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		if _, err := decodeRecord([]byte("key"), raw); err == nil {
			t.Errorf("%q, which has no seal, is a record", raw)
		}
		var records []Record
		if r, ok := again[Record](t, raw); ok {
			records = []Record{r, r}
		}
		var addresses []Address
		if a, ok := again[Address](t, raw); ok {
			addresses = []Address{a, a}
		}
		again[Event](t, raw)
		again[[]netip.Addr](t, raw)
		again[vf.Admin](t, raw)
		if problems := Verify(records, addresses); len(records) > 0 && len(problems) == 0 {
			t.Errorf("a VF that has two records is sound: %s", raw)
		}
	})
}

// again reads an entry, writes it and reads it again. It returns false if the entry cannot be read,
// which must be an error and no panic.
func again[T any](t *testing.T, raw []byte) (T, bool) {
	t.Helper()
	v, err := reopen[T](raw)
	if err != nil {
		return v, false
	}
	written, err := json.Marshal(v)
	if err != nil {
		t.Fatalf("%s reads %+v, which cannot be written: %v", raw, v, err)
	}
	twice, err := reopen[T](written)
	if err != nil {
		t.Fatalf("%s is written %s, which does not read: %v", raw, written, err)
	}
	rewritten, err := json.Marshal(twice)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := reopen[T](rewritten); err != nil || !reflect.DeepEqual(twice, again) {
		t.Fatalf("%s, written and read again: %v\n%s", rewritten, err, cmp.Diff(string(written), string(rewritten)))
	}
	return v, true
}

// reopen reads a body with a valid seal, which anyone can compute.
func reopen[T any](body []byte) (T, error) {
	key := []byte("key")
	return openEntry[T](bucketRecords, key, sealEntry(bucketRecords, key, body))
}
