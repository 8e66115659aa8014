package failure

import (
	"testing"

	"github.com/culvert-net/culvert/journal"
	"github.com/culvert-net/culvert/kernel/fake"
)

// plainA wants no setting for which its VF's driver is bound anew.
var plainA = attachment{pod: "a", pool: "net", plain: true}

// I2: the owner of a VF changes one attribute of its interface, or all. The next owner
// gets the VF as it was made.
func TestI2OwnerChangesAttributes(t *testing.T) {
	for name, change := range ownersChanges() {
		t.Run(name, func(t *testing.T) {
			w := made(t, fake.IGB, fastDir(t))
			defer w.close()
			for range 2 {
				must(w, w.add(plainA))
				pci := w.held(plainA).PCI
				for _, attribute := range change {
					must(w, w.k.SetAttribute(pci, attribute, "eth0"))
				}
				must(w, w.del(plainA))
				w.settled()
			}
			w.asNew()
		})
	}
}

func ownersChanges() map[string][]string {
	out := map[string][]string{"all": fake.AttributeNames()}
	for _, name := range fake.AttributeNames() {
		out[name] = []string{name}
	}
	return out
}

func (w *world) held(a attachment) (rec journal.Record) {
	w.t.Helper()
	for _, r := range w.records() {
		if r.Lease.Owner.UID == a.pod {
			return r
		}
	}
	w.t.Fatalf("%s has no VF", a.pod)
	return rec
}

// I2: attributes of free VFs that were changed outside Culvert are mended before an owner
// gets such a VF: those that a listing shows at the next pass, the others when a VF is to
// be given out.
func TestI2AttributesOfFreeVFs(t *testing.T) {
	for _, attribute := range fake.AttributeNames() {
		t.Run(attribute, func(t *testing.T) {
			w := made(t, fake.IGB, fastDir(t))
			defer w.close()
			for _, v := range w.vfs() {
				if v.Link != nil {
					must(w, w.k.SetAttribute(v.PCI, attribute, "x"+v.PCI.String()))
				}
			}
			w.pass()
			if w.add(plainA) != nil { // all of them are set aside
				w.rest()
				must(w, w.add(plainA))
			}
			if left := w.k.ChangedAttributes(w.held(plainA).PCI); left != "" {
				t.Errorf("given to a pod:%s", left)
			}
		})
	}
}

// I2: a ledger of an earlier version has no attributes. The first reset of a VF takes them
// from the netdevice of a driver that was bound anew, not from what the owner left.
func TestI2BaselineOfAnEarlierVersion(t *testing.T) {
	w := made(t, fake.IGB, fastDir(t))
	defer w.close()
	must(w, w.add(plainA))
	rec := w.held(plainA)
	must(w, w.k.SetAttribute(rec.PCI, "txqlen", "1"))
	want := rec.Baseline
	rec.Baseline.Attributes = ""
	must(w, w.ledger.Update(func(tx *journal.Tx) error { return tx.Put(rec) }))
	w.restart()
	w.start()
	must(w, w.del(plainA))
	w.asNew()
	for _, r := range w.records() {
		if r.ID == rec.ID && r.Baseline != want {
			t.Errorf("baseline %+v, want %+v", r.Baseline, want)
		}
	}
}
