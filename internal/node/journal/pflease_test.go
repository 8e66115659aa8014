package journal

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/culvert-net/culvert/internal/vf"
)

// The ledger keeps which guest has which PF, until the lease ends or the host is rebooted. The
// addresses given out lately do not contain the leases, and a damaged lease stays one.
func TestPFLeases(t *testing.T) {
	l, err := Open(filepath.Join(t.TempDir(), "ledger.db"), Options{NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	l.now = func() time.Time { return time.Unix(1_800_000_000, 0) }
	pf := vf.PF{PCI: vf.PCIAddr{Bus: 2}, Name: "enp2s0", Driver: "igb", ID: vf.PFID{MAC: vf.MAC{2, 1}}}
	first := NewPFLease(pf, vf.Owner{UID: "u1", Name: "a b", Interface: "net1"})
	bare := NewPFLease(vf.PF{PCI: vf.PCIAddr{Bus: 3}}, vf.Owner{UID: "u2", Name: "db2"})
	update := func(f func(*Tx) error) {
		t.Helper()
		if err := l.Update(f); err != nil {
			t.Fatal(err)
		}
	}
	check := func(what string, want ...PFLease) {
		t.Helper()
		update(func(tx *Tx) error {
			if diff := cmp.Diff(want, tx.PFLeases()); diff != "" {
				t.Errorf("%s: -want +got:\n%s", what, diff)
			}
			c := tx.Content()
			if diff := cmp.Diff(want, c.PFLeases); diff != "" || len(c.Last) > 0 {
				t.Errorf("%s: content: -want +got:\n%s; given out lately: %v", what, diff, c.Last)
			}
			return nil
		})
	}
	update(func(tx *Tx) error { return tx.LeasePF(first) })
	update(func(tx *Tx) error { return tx.LeasePF(bare) })
	first.Since, bare.Since = l.now(), l.now()
	check("leased", first, bare)
	second := NewPFLease(pf, vf.Owner{UID: "u3", Name: "db3"})
	update(func(tx *Tx) error { return tx.LeasePF(second) })
	second.Since = l.now()
	check("leased to another guest", second, bare)
	update(func(tx *Tx) error { return tx.EndPFLease(bare.PCI) })
	check("ended", second)
	update(func(tx *Tx) error { return tx.storeEntry(bucketLast, second.entryKey(), []byte("{")) })
	check("damaged", second)
	update(func(tx *Tx) error { return tx.Clear() })
	check("rebooted")
	for _, wrong := range []PFLease{{}, {PCI: pf.PCI}, {Owner: second.Owner}, NewPFLease(pf, vf.Owner{UID: "u", Name: "a\x00b"})} {
		if err := l.Update(func(tx *Tx) error { return tx.LeasePF(wrong) }); err == nil {
			t.Errorf("%+v is stored", wrong)
		}
	}
}

// A leased PF that the host cannot read has the identity that it had before. One that the host can
// read is as it is.
func TestIdentifyPFs(t *testing.T) {
	was := vf.PF{PCI: vf.PCIAddr{Bus: 2}, Name: "enp2s0", Driver: "igb", ID: vf.PFID{MAC: vf.MAC{2, 1}}}
	leases := []PFLease{NewPFLease(was, vf.Owner{UID: "u1", Name: "db1"})}
	gone := vf.PF{PCI: was.PCI, Driver: "vfio-pci", Err: "driver vfio-pci has no netdevice"}
	renamed := vf.PF{PCI: was.PCI, Name: "enp9s0", Driver: "igb"}
	other := vf.PF{PCI: vf.PCIAddr{Bus: 3}, Err: "it does not answer"}
	want := was
	want.Err = gone.Err
	if diff := cmp.Diff([]vf.PF{want, other}, IdentifyPFs([]vf.PF{gone, other}, leases)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]vf.PF{renamed}, IdentifyPFs([]vf.PF{renamed}, leases)); diff != "" {
		t.Error(diff)
	}
}
