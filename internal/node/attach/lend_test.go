package attach_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/culvert-net/culvert/internal/kernel/fake"
	"github.com/culvert-net/culvert/internal/node/attach"
	"github.com/culvert-net/culvert/internal/node/journal"
	"github.com/culvert-net/culvert/internal/vf"
)

// I2, I6: the hardware applies a lent rate, and culvertd does not take the rate for drift. When the
// loan ends the VF has the rate of its lease again.
func TestI6RateIsLentAndGivenBack(t *testing.T) {
	for _, own := range []*uint32{nil, ptr(uint32(200))} {
		k, n := nodeOf(t, fake.I40E)
		rec, err := n.Engine.Attach(t.Context(), limited(vf.Spec{MaxTxRate: own}))
		if err != nil {
			t.Fatal(err)
		}
		before := k.String()
		lent, err := n.Loans.Lend(t.Context(), rec.PCI, 170, time.Minute)
		if err != nil || lent.Lease.Lent.MaxTxRate != 150 || !strings.Contains(k.String(), "150") {
			t.Fatalf("%v, %+v\n%s", err, lent.Lease.Lent, k)
		}
		during := k.String()
		if err := n.Reconciler.Pass(t.Context()); err != nil || k.String() != during {
			t.Errorf("a pass fought the loan: %v\n%s", err, k)
		}
		if err := n.Engine.Check(t.Context(), rec.Lease.Owner, attach.Request{}); err != nil {
			t.Error(err)
		}
		for range 2 { // GiveBack may be repeated
			if err := n.Loans.GiveBack(t.Context(), lent); err != nil || k.String() != before {
				t.Errorf("%v\n%s, want\n%s", err, k, before)
			}
		}
	}
}

// I2: when culvertd starts, it ends every loan of the earlier culvertd, even if its time is not
// over.
func TestI2ReplayEndsLoans(t *testing.T) {
	k, n := nodeOf(t, fake.IGB)
	rec, err := n.Engine.Attach(t.Context(), limited(vf.Spec{MaxTxRate: ptr(uint32(200))}))
	if err != nil {
		t.Fatal(err)
	}
	before := k.String()
	if _, err := n.Loans.Lend(t.Context(), rec.PCI, 50, time.Minute); err != nil || k.String() == before {
		t.Fatalf("%v\n%s", err, k)
	}
	if err := n.Upkeep.Replay(t.Context()); err != nil || k.String() != before {
		t.Errorf("%v\n%s", err, k)
	}
}

// Lend refuses a rate that the driver lacks, a time out of bounds and a VF without an owner, and
// touches nothing.
func TestLendRefuses(t *testing.T) {
	k, n := nodeOf(t, fake.IXGBE)
	rec, err := n.Engine.Attach(t.Context(), limited(vf.Spec{MaxTxRate: ptr(uint32(100))}))
	if err != nil {
		t.Fatal(err)
	}
	free := n.Inventory.PFs()[1].VFs[0].PCI
	before := k.String()
	for _, c := range []struct {
		vf   vf.PCIAddr
		rate uint32
		long time.Duration
		is   error
		want string
	}{
		{rec.PCI, 10, time.Minute, vf.ErrUnable, "takes 11 to 10000 Mb/s"},
		{rec.PCI, 100, 0, vf.ErrInvalid, "at most 1h0m0s"},
		{rec.PCI, 100, 2 * time.Hour, vf.ErrInvalid, "at most 1h0m0s"},
		{free, 100, time.Minute, vf.ErrNotFound, "it has no owner"},
	} {
		if _, err := n.Loans.Lend(t.Context(), c.vf, c.rate, c.long); !errors.Is(err, c.is) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%d for %s: %v", c.rate, c.long, err)
		}
	}
	if after := k.String(); after != before {
		t.Errorf("touched:\n%s", after)
	}
	if _, err := n.Loans.Lend(t.Context(), rec.PCI, 50, time.Minute); err != nil {
		t.Fatal(err)
	}
	if _, err := n.Loans.Lend(t.Context(), rec.PCI, 60, time.Minute); !errors.Is(err, vf.ErrHeld) || !strings.Contains(err.Error(), "max_tx_rate 50 is lent to it until") {
		t.Errorf("a second loan: %v", err)
	}
}

// I8: a late GiveBack does not change the VF of the next owner, and a release ends the loan without
// GiveBack.
func TestI8LateGiveBack(t *testing.T) {
	k, n := nodeOf(t, fake.IGB)
	before := k.String()
	rec, err := n.Engine.Attach(t.Context(), limited(vf.Spec{}))
	if err != nil {
		t.Fatal(err)
	}
	lent, err := n.Loans.Lend(t.Context(), rec.PCI, 50, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	if err := n.Resets.Detach(t.Context(), rec.Lease.Owner); err != nil || k.String() != before {
		t.Errorf("%v\n%s", err, k)
	}
	next := limited(vf.Spec{MaxTxRate: ptr(uint32(70))})
	next.VF = rec.PCI
	if _, err := n.Engine.Attach(t.Context(), next); err != nil {
		t.Fatal(err)
	}
	now, err := n.Loans.Lend(t.Context(), rec.PCI, 90, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	during := k.String()
	if err := n.Loans.GiveBack(t.Context(), lent); err != nil || k.String() != during {
		t.Errorf("the first owner's loan was given back late: %v\n%s", err, k)
	}
	err = n.Ledger.View(func(tx *journal.Tx) error {
		r, err := tx.Record(rec.ID)
		if r.Lease.Lent == nil || r.Lease.Lent.MaxTxRate != now.Lease.Lent.MaxTxRate {
			t.Errorf("%+v", r.Lease.Lent)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}
