package guest

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/culvert-net/culvert/internal/node/journal"
	"github.com/culvert-net/culvert/internal/vf"
)

// wholePF returns a device that passes sparePF.
const wholePF = `<hostdev mode='subsystem' type='pci' managed='yes'><source><address domain='0' bus='2' slot='0' function='0'/></source></hostdev>`

// leaseOf returns the guest that has sparePF, as "NAME UUID", or "".
func leaseOf(t *testing.T, l *journal.Ledger) (owner string) {
	t.Helper()
	err := l.View(func(tx *journal.Tx) error {
		if lease, leased := tx.PFLeaseOf(sparePF); leased {
			owner = lease.Owner.Name + " " + lease.Owner.UID
			if lease.Name != "enp2s0f0" || lease.Driver != "igb" || lease.ID.IsZero() {
				t.Errorf("the PF is %q, driver %q, ID %s", lease.Name, lease.Driver, lease.ID)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return owner
}

// P11: a guest that starts with a PF as a whole is its owner in the ledger until it ends.
func TestP11GuestOwnsItsPF(t *testing.T) {
	h, e := handler(t)
	tell := func(what string, refused string, err error, want string) {
		t.Helper()
		if refused != "" || err != nil {
			t.Errorf("%s: %q, %v", what, refused, err)
		}
		if got := leaseOf(t, e.ledger); got != want {
			t.Errorf("%s: the owner is %q, want %q", what, got, want)
		}
	}
	refused, err := report(t, h.Start, domain(wholePF))
	tell("start", refused, err, "db1 "+uuid1)
	e.unread = "driver vfio-pci has no netdevice"
	refused, err = report(t, h.Start, domain(wholePF))
	tell("started again", refused, err, "db1 "+uuid1)
	refused, err = report(t, h.Stop, strings.ReplaceAll(domain(wholePF), uuid1, uuid2))
	tell("the end of another guest", refused, err, "db1 "+uuid1)
	refused, err = report(t, h.Stop, domain(wholePF))
	tell("end", refused, err, "")

	port := strings.NewReplacer("bus='1'", "bus='2'", "slot='0x10'", "slot='0'").Replace(port(0, ""))
	refused, err = report(t, h.PortCreated, port)
	tell("from a network", refused, err, "db1 "+uuid1)
	refused, err = report(t, h.PortDeleted, port)
	tell("put back", refused, err, "")
}

// P10: two guests cannot have one PF, unless the host has it again and so the end of the first was
// missed.
func TestP10PFOfAnotherGuest(t *testing.T) {
	h, e := handler(t)
	if refused, err := report(t, h.Start, domain(wholePF)); refused != "" || err != nil {
		t.Fatal(refused, err)
	}
	other := strings.ReplaceAll(strings.ReplaceAll(domain(wholePF), uuid1, uuid2), "db1", "db2")
	e.unread = "driver vfio-pci has no netdevice"
	refused, err := report(t, h.Start, other)
	if want := "guest db2 cannot have PF 0000:02:00.0, which guest db1 has as a whole"; err != nil || !strings.Contains(refused, want) {
		t.Errorf("%q, %v; want %q", refused, err, want)
	}
	e.unread = ""
	if refused, err := report(t, h.Start, other); refused != "" || err != nil {
		t.Error(refused, err)
	}
	if got := leaseOf(t, e.ledger); got != "db2 "+uuid2 {
		t.Errorf("the owner is %s", got)
	}
}

// A guest whose VF cannot be made ready does not start, and so does not keep its PF.
func TestPFGoesBackWithAFailedStart(t *testing.T) {
	h, e := handler(t)
	e.fails = place(0)
	refused, err := report(t, h.Start, domain(wholePF, hostdev(0, "net1")))
	if err != nil || refused == "" {
		t.Errorf("%q, %v", refused, err)
	}
	if got := leaseOf(t, e.ledger); got != "" {
		t.Errorf("%s still has the PF", got)
	}
}

// Compare finds a PF whose guest started without a report, also in a ledger without VFs, and ends the
// lease of a guest that does not run any more. A guest that has just started may not be listed yet.
func TestCompareFollowsPFs(t *testing.T) {
	l := emptyLedger(t)
	e := &fakeEngine{ledger: l}
	now := time.Now()
	c := NewComparer(Parts{Engine: e, Resets: e, VFs: e}, l, func() time.Time { return now })
	asked := 0
	compare := func(guests ...Seen) {
		t.Helper()
		problems, err := c.Compare(t.Context(), func(context.Context) ([]Seen, error) { asked++; return guests, nil })
		if err != nil || len(problems) > 0 {
			t.Error(problems, err)
		}
	}
	runs := Seen{UUID: uuid1, Name: "db1", Running: true, Live: parseText(t, domain(wholePF))}
	compare(runs)
	if asked > 0 {
		t.Error("it asked libvirt although no PF is bound to vfio-pci")
	}
	lease := func(who vf.Owner) {
		t.Helper()
		if err := l.Update(func(tx *journal.Tx) error { return leasePFs(tx, who, e.PFs()[1:]) }); err != nil {
			t.Fatal(err)
		}
	}
	lease(vf.Owner{UID: uuid1, Name: "db1"})
	now = now.Add(2 * undefined)
	compare(runs)
	if got := leaseOf(t, l); got != "db1 "+uuid1 {
		t.Errorf("a guest that runs has lost its PF: %q", got)
	}
	compare(Seen{UUID: uuid1, Name: "db1"})
	if got := leaseOf(t, l); got != "" {
		t.Errorf("%s has ended, and has the PF", got)
	}
	now = time.Now()
	lease(vf.Owner{UID: uuid2, Name: "db2"})
	compare(Seen{UUID: uuid2, Name: "db2"})
	if got := leaseOf(t, l); got != "db2 "+uuid2 {
		t.Errorf("a guest that just starts has lost its PF: %q", got)
	}
	compare(Seen{UUID: uuid2, Name: "db2"}, runs)
	if got := leaseOf(t, l); got != "db1 "+uuid1 {
		t.Errorf("the guest that runs with the PF is not its owner: %q", got)
	}
}

// A definition passes a PF of which Culvert has VFs: status says that its guest cannot start.
func TestCompareNamesPFsWithVFs(t *testing.T) {
	h, e := handler(t)
	c := NewComparer(Parts{Engine: e, Resets: e, VFs: e}, h.ledger, time.Now)
	pf := strings.Replace(wholePF, "bus='2'", "bus='1'", 1)
	problems, err := c.Compare(t.Context(), func(context.Context) ([]Seen, error) {
		return []Seen{{UUID: uuid1, Name: "db1", Next: parseText(t, domain(pf))}}, nil
	})
	if err != nil || len(problems) != 1 || !strings.Contains(problems[0].Reason, "passes PF enp1s0f0 (0000:01:00.0) as a whole") {
		t.Error(problems, err)
	}
}
