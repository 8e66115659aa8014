package node_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/culvert-net/culvert/internal/kernel/fake"
	"github.com/culvert-net/culvert/internal/network/ipam"
	"github.com/culvert-net/culvert/internal/node"
	"github.com/culvert-net/culvert/internal/node/attach"
	"github.com/culvert-net/culvert/internal/node/desired"
	"github.com/culvert-net/culvert/internal/node/journal"
	"github.com/culvert-net/culvert/internal/vf"
)

// machine is a node on the fake kernel whose culvertd can be stopped and
// started, with its ledger in a file.
type machine struct {
	*fake.Kernel
	path   string
	node   *node.Node
	ledger *journal.Ledger
}

func (m *machine) start(t *testing.T, vfs int) {
	t.Helper()
	l, err := journal.Open(m.path, journal.Options{NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	m.ledger, m.node = l, node.New(node.Config{Kernel: m, Ledger: l, BootID: "boot 1"})
	m.node.SetSpec(desired.Spec{
		PFs:   []desired.PFRule{{Name: "enp*", Want: desired.PFSpec{VFs: vfs, Autoprobe: true, NeedCarrier: true}}},
		Pools: []desired.Pool{{Name: "a", Prefix: "x", DeviceType: desired.NetDevice}},
	})
	if err := m.node.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	_ = m.node.Reconciler.Pass(t.Context()) // the tests check the failures
}

func (m *machine) stop(t *testing.T) {
	t.Helper()
	m.node.VFs.Wait()
	if err := m.ledger.Close(); err != nil {
		t.Fatal(err)
	}
}

func request(t *testing.T, pod string) attach.Request {
	t.Helper()
	cfg, err := ipam.Parse([]byte(`{"type":"host-local","ranges":[[{"subnet":"10.1.0.0/24"}]]}`))
	if err != nil {
		t.Fatal(err)
	}
	mtu, trust := 1400, true
	return attach.Request{
		Owner:   vf.Owner{Kind: vf.OwnerPod, UID: pod, Name: "default/" + pod, Interface: "net1"},
		Network: "blue", Netns: "/run/netns/" + pod, IPAM: cfg,
		Spec: vf.Spec{Interface: "net1", VLAN: &vf.VLAN{ID: 100}, Trust: &trust, MTU: &mtu},
	}
}

func (m *machine) attach(t *testing.T, pod string) (journal.Record, error) {
	t.Helper()
	m.AddNetns("/run/netns/" + pod)
	return m.node.Engine.Attach(t.Context(), request(t, pod))
}

func (m *machine) record(t *testing.T, id vf.ID) (rec journal.Record) {
	t.Helper()
	err := m.ledger.View(func(tx *journal.Tx) (err error) {
		rec, err = tx.Record(id)
		return err
	})
	if err != nil && !errors.Is(err, vf.ErrNotFound) {
		t.Fatal(err)
	}
	return rec
}

// exhaust attaches pods until nothing is free and returns who got what.
func (m *machine) exhaust(t *testing.T) map[vf.ID]journal.Record {
	t.Helper()
	got := map[vf.ID]journal.Record{}
	for i := range 20 {
		rec, err := m.attach(t, fmt.Sprintf("more-%d", i))
		if errors.Is(err, vf.ErrNothingFree) {
			return got
		}
		if err != nil {
			t.Fatal(err)
		}
		got[rec.ID] = rec
	}
	t.Fatal("there is no end of VFs")
	return nil
}

// scratch changes one byte of a record inside its JSON, in every version of it
// that the file has.
func scratch(t *testing.T, path string, id vf.ID) {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	mark := []byte(fmt.Sprintf(`{"id":%q,"pci":"0000:`, id))
	if !bytes.Contains(raw, mark) {
		t.Fatalf("no record of VF %s in the file", id)
	}
	if err := os.WriteFile(path, bytes.ReplaceAll(raw, mark, []byte(strings.Replace(string(mark), "0000:", "0007:", 1))), 0o600); err != nil {
		t.Fatal(err)
	}
}

// I1, I2, I5, I7: culvertd gives a VF with a damaged record to no owner, and it hides
// no other VF. Its PF's VFs stay. When the VF's owner has gone, culvertd takes the VF over, as
// clean as before.
func TestI7DamagedRecordHidesNoOther(t *testing.T) {
	m := &machine{Kernel: fake.New(fake.IGB, 1), path: filepath.Join(t.TempDir(), "ledger.db")}
	m.start(t, 7)
	a, errA := m.attach(t, "a")
	b, errB := m.attach(t, "b")
	if err := errors.Join(errA, errB); err != nil {
		t.Fatal(err)
	}
	m.stop(t)
	scratch(t, m.path, a.ID)

	m.start(t, 7)
	if r := m.record(t, a.ID); r.Phase != vf.PhaseDamaged {
		t.Fatalf("the record of the VF of pod a: %+v", r)
	}
	if err := m.node.Engine.Check(t.Context(), b.Lease.Owner, attach.Request{}); err != nil {
		t.Errorf("pod b: %v", err)
	}
	got := m.exhaust(t)
	if _, given := got[a.ID]; given || len(got) != 5 {
		t.Errorf("%d VFs were given out; that of pod a: %t", len(got), given)
	}
	for _, r := range got {
		if r.Lease.Wanted.Addresses[0] == a.Lease.Wanted.Addresses[0] {
			t.Errorf("I4: %s has the address of pod a", r.Lease.Owner)
		}
	}
	got[b.ID], got[a.ID] = b, a // the detach of pod a, whose lease is lost, changes nothing
	for _, r := range got {
		if err := m.node.Resets.Detach(t.Context(), r.Lease.Owner); err != nil {
			t.Error(err)
		}
	}
	m.stop(t)
	m.start(t, 4) // the Spec wants fewer VFs now
	if pfs, err := m.PFs(t.Context()); err != nil || pfs[0].NumVFs != 7 {
		t.Errorf("I5: the VFs were made anew under their holder: %d %v", pfs[0].NumVFs, err)
	}
	m.stop(t)
	m.start(t, 7)
	m.regained(t, a)
	m.stop(t)
}

// regained ends pod a's netns, and fails the test unless the VF is then as clean as before.
func (m *machine) regained(t *testing.T, a journal.Record) {
	t.Helper()
	m.DelNetns("/run/netns/a")
	if err := m.node.Reconciler.Pass(t.Context()); err != nil {
		t.Error(err)
	}
	r := m.record(t, a.ID)
	if r.Phase != vf.PhaseFree {
		t.Fatalf("after its owner has gone: %+v", r)
	}
	diff := a.Baseline.Attributes.Diff(r.Baseline.Attributes) // without those that the driver chose
	r.Baseline.Attributes = a.Baseline.Attributes
	if diff := cmp.Diff(a.Baseline, r.Baseline) + fmt.Sprint(diff); diff != "[]" {
		t.Errorf("I2: what its last owner set is its baseline now: %s", diff)
	}
	err := m.ledger.View(func(tx *journal.Tx) error {
		if p := tx.Content().Problems(); len(p) > 0 {
			t.Errorf("ledger: %v", p)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// I1, I2: with the ledger lost, or repaired from nothing, culvertd neither gives out
// nor changes a VF that a container has. Each such VF is clean and free again when its container
// has gone.
func TestI1LostLedger(t *testing.T) {
	for _, repaired := range []bool{false, true} {
		t.Run(fmt.Sprintf("repaired %t", repaired), func(t *testing.T) {
			m := &machine{Kernel: fake.New(fake.IGB, 1), path: filepath.Join(t.TempDir(), "ledger.db")}
			m.start(t, 7)
			a, err := m.attach(t, "a")
			if err != nil {
				t.Fatal(err)
			}
			m.stop(t)
			before, err := m.VF(t.Context(), a.PCI, "/run/netns/a")
			if err != nil {
				t.Fatal(err)
			}
			if repaired {
				if err := os.Truncate(m.path, 0); err != nil {
					t.Fatal(err)
				}
				c, err := journal.Inspect(m.path)
				if err != nil {
					t.Fatal(err)
				}
				if _, err := journal.Mend(c, "boot 1", map[vf.ID]vf.PCIAddr{a.ID: a.PCI}).Write(m.path, a.Since); err != nil {
					t.Fatal(err)
				}
			} else if err := os.Remove(m.path); err != nil {
				t.Fatal(err)
			}
			m.start(t, 7)
			if got := m.exhaust(t); len(got) != 6 {
				t.Errorf("%d VFs were given out", len(got))
			}
			after, err := m.VF(t.Context(), a.PCI, "/run/netns/a")
			if diff := cmp.Diff(before.Admin, after.Admin); diff != "" || err != nil || after.Link == nil {
				t.Errorf("pod a's VF was touched: %s %v", diff, err)
			}
			told := false
			for _, p := range m.node.Reconciler.Problems() {
				told = told || strings.Contains(p.Reason, "is in another network namespace: not taken over")
			}
			if !told {
				t.Errorf("nobody is told: %v", m.node.Reconciler.Problems())
			}
			m.regained(t, a)
			m.stop(t)
		})
	}
}
