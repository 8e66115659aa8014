package failure

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/culvert-net/culvert/internal/kernel/fake"
	"github.com/culvert-net/culvert/internal/node/journal"
	"github.com/culvert-net/culvert/internal/vf"
)

// plainA wants no setting for which its VF's driver is bound anew.
var plainA = attachment{pod: "a", pool: "net", plain: true}

// I2: the owner of a VF changes one attribute of its interface, or all. The next owner gets the VF as it
// was made, with the changes in the ledger. What culvertd set for the owner is none of them.
func TestI2OwnerChangesAttributes(t *testing.T) {
	for name, change := range ownersChanges() {
		t.Run(name, func(t *testing.T) {
			w := made(t, fake.IGB, fastDir(t))
			defer w.close()
			for range 2 {
				must(w, w.add(plainA))
				held := w.held(plainA)
				for _, attribute := range change {
					must(w, w.k.SetAttribute(held.PCI, attribute, "eth0"))
				}
				must(w, w.del(plainA))
				w.settled()
				w.isReadBack(held.ID, change)
			}
			w.asNew()
		})
	}
}

// I3: culvertd is killed at every moment of a detach, after the owner changed an attribute. The ledger then
// has the change, or says that it may lack changes. It never says that nothing was changed.
func TestI3ReadbackAfterAKill(t *testing.T) {
	points := 0
	for n := 1; ; n++ {
		w := made(t, fake.IGB, fastDir(t))
		must(w, w.add(plainA))
		held := w.held(plainA)
		must(w, w.k.SetAttribute(held.PCI, "txqlen", "7"))
		if !w.dies(n, func(w *world) { _ = w.del(plainA) }) {
			w.isReadBack(held.ID, []string{"txqlen"})
			w.close()
			break
		}
		points++
		w.restart()
		w.start()
		w.pass()
		must(w, w.del(plainA))
		w.rest()
		for _, r := range w.records() {
			if r.ID == held.ID && (r.Phase != vf.PhaseFree || r.Readback == nil || r.Readback.Unknown == "" && len(r.Readback.Changed) == 0) {
				t.Errorf("killed %s: VF %s is %s: %v", w.gate.killed(), r.ID, r.Phase, r.Readback)
			}
		}
		w.close()
	}
	t.Logf("%d crash points", points)
}

// isReadBack checks that the ledger has the changes of a VF that the reset undid, or says that there may be
// others. Culvert does not list the attributes that a driver chooses when it binds.
func (w *world) isReadBack(id vf.ID, changes []string) {
	w.t.Helper()
	all := w.records()
	rec := all[slices.IndexFunc(all, func(r journal.Record) bool { return r.ID == id })]
	if rec.Readback == nil || rec.Readback.Attributes < 20 || !rec.Readback.AfterOwner {
		w.t.Fatalf("VF %s: readback %+v", id, rec.Readback)
	}
	for _, name := range rec.Readback.Names() {
		if !slices.Contains(changes, name) {
			w.t.Errorf("readback of VF %s: %s, which no owner changed", id, rec.Readback)
		}
	}
	for _, name := range changes {
		if rec.Readback.Unknown == "" && !strings.HasPrefix(name, "xps_") && !slices.Contains(rec.Readback.Names(), name) {
			w.t.Errorf("readback of VF %s: %s, and no %s", id, rec.Readback, name)
		}
	}
	if rec.Readback.Unknown != "" && len(rec.Readback.Changed) == 0 {
		w.t.Errorf("readback of VF %s: %s", id, rec.Readback)
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

// I2: culvertd mends attributes of free VFs that were changed outside Culvert before an
// owner gets such a VF. It mends those that a listing shows at the next pass, the
// others when it is about to give out a VF.
func TestI2AttributesOfFreeVFs(t *testing.T) {
	for _, attribute := range fake.AttributeNames() {
		if strings.HasPrefix(attribute, "xps_") {
			continue // compared when a VF comes back from its owner
		}
		if attribute == "master" {
			continue // another interface uses the VF: TestI2PartsOfOtherInterfaces
		}
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

// I2: a free VF that is a part of a bond or bridge of the host stays that, and no pod gets it.
func TestI2PartsOfOtherInterfaces(t *testing.T) {
	w := made(t, fake.IGB, fastDir(t))
	defer w.close()
	for _, v := range w.vfs() {
		if v.Link != nil {
			must(w, w.k.SetAttribute(v.PCI, "master", "bond7"))
		}
	}
	w.pass()
	if err := w.add(plainA); err == nil || !strings.Contains(err.Error(), "used outside Culvert") {
		t.Errorf("a pod asks for a VF: %v", err)
	}
	w.pass()
	for _, v := range w.vfs() {
		if left := w.k.ChangedAttributes(v.PCI); v.Link != nil && !strings.Contains(left, "master") {
			t.Errorf("VF %s is no part of bond7 any more:%s", v.PCI, left)
		}
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
		if r.ID == rec.ID && withoutXPS(r.Baseline) != withoutXPS(want) {
			t.Errorf("baseline %+v, want %+v", r.Baseline, want)
		}
	}
}

// I2: a later version reads more attributes than the one that wrote a VF's baseline. The
// first reset binds the driver anew, and takes them from the new netdevice.
func TestI2BaselineLacksAnAttribute(t *testing.T) {
	w := made(t, fake.IGB, fastDir(t))
	defer w.close()
	must(w, w.add(plainA))
	rec := w.held(plainA)
	must(w, w.k.SetAttribute(rec.PCI, "rps_cpus", "ff"))
	want := rec.Baseline
	rec.Baseline.Attributes = vf.Attributes(regexp.MustCompile(`(?m)^rps_cpus .*\n`).ReplaceAllString(string(want.Attributes), ""))
	if rec.Baseline == want {
		t.Fatal("the baseline has no rps_cpus")
	}
	must(w, w.ledger.Update(func(tx *journal.Tx) error { return tx.Put(rec) }))
	must(w, w.del(plainA))
	w.asNew()
	for _, r := range w.records() {
		if r.ID == rec.ID && withoutXPS(r.Baseline) != withoutXPS(want) {
			t.Errorf("baseline %+v, want %+v", r.Baseline, want)
		}
	}
}

// withoutXPS returns a baseline without the attributes that a driver chooses as it binds.
func withoutXPS(b vf.Baseline) vf.Baseline {
	b.Attributes = vf.Attributes(regexp.MustCompile(`(?m)^xps_.*\n`).ReplaceAllString(string(b.Attributes), ""))
	return b
}

// I2 has a limit: culvertd does not read some attributes. If the owner changed such an
// attribute, it stays changed until the driver is bound anew. culvertd binds it anew when
// the owner has also changed an attribute that culvertd reads.
func TestUnreadAttributesEndWithABind(t *testing.T) {
	for _, name := range fake.UnreadAttributeNames() {
		alone, both := leftOf(t, name), leftOf(t, name, "rings")
		if alone == "" || both != "" {
			t.Errorf("%s was changed: left is%s; with the rings: left is%s", name, alone, both)
		}
	}
}

// leftOf returns the attributes that are still changed after the DEL of an owner that
// changed these.
func leftOf(t *testing.T, attributes ...string) string {
	w := made(t, fake.IGB, fastDir(t))
	defer w.close()
	must(w, w.add(plainA))
	pci := w.held(plainA).PCI
	for _, name := range attributes {
		must(w, w.k.SetAttribute(pci, name, "changed"))
	}
	must(w, w.del(plainA))
	return w.k.ChangedAttributes(pci)
}
