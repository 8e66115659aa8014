package attach_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/culvert-net/culvert/internal/kernel/fake"
	"github.com/culvert-net/culvert/internal/kernel/faulty"
	"github.com/culvert-net/culvert/internal/kernel/step"
	"github.com/culvert-net/culvert/internal/network/ipam"
	"github.com/culvert-net/culvert/internal/node/attach"
	"github.com/culvert-net/culvert/internal/node/attach/loan"
	"github.com/culvert-net/culvert/internal/node/journal"
	"github.com/culvert-net/culvert/internal/vf"
)

// hold runs work until its first step, which waits until release is called.
func hold(t *testing.T, k machine, work func() error) (release func()) {
	t.Helper()
	begun, ended, outcome := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	var once sync.Once
	k.faults.Fail(func(faulty.Moment, step.Step) error {
		once.Do(func() { close(begun) })
		<-ended
		return nil
	})
	go func() { outcome <- work() }()
	select {
	case <-begun:
	case err := <-outcome:
		t.Fatalf("it ended before its first step: %v", err)
	}
	return func() {
		t.Helper()
		k.faults.Fail(nil)
		close(ended)
		if err := <-outcome; err != nil {
			t.Error(err)
		}
	}
}

var errHungUp = errors.New("the caller hung up")

// A caller that disconnects does not wait for the VF any longer. The error says which work
// has the VF, and nothing is half done.
func TestWaitingForAVFEndsWithItsContext(t *testing.T) {
	k, n := newNode(t)
	before := k.String()
	rec, err := n.Engine.Attach(t.Context(), guestWants(vf.Spec{MaxTxRate: ptr(uint32(100))}))
	if err != nil {
		t.Fatal(err)
	}
	gone, cancel := context.WithCancelCause(t.Context())
	cancel(errHungUp)
	late := func(holder string, call func() error) {
		t.Helper()
		was := recordOf(t, n, rec)
		err := call()
		if !errors.Is(err, errHungUp) || !strings.Contains(err.Error(), rec.PCI.String()) || !strings.Contains(err.Error(), holder+" has not ended") {
			t.Errorf("%v: it does not name VF %s and %q", err, rec.PCI, holder)
		}
		if now := recordOf(t, n, rec); now.Generation != was.Generation || now.Phase != was.Phase {
			t.Errorf("the record was %s %d and is %s %d", was.Phase, was.Generation, now.Phase, now.Generation)
		}
	}

	var lent journal.Record
	release := hold(t, k, func() (err error) {
		lent, err = n.Loans.Lend(t.Context(), rec.PCI, 50, loan.LongestLoan)
		return err
	})
	late("a loan of max_tx_rate", func() error { return n.Resets.End(gone, rec) })
	late("a loan of max_tx_rate", func() error {
		_, err := n.Loans.Lend(gone, rec.PCI, 70, loan.LongestLoan)
		return err
	})
	release()

	release = hold(t, k, func() error { return n.Resets.End(t.Context(), rec) })
	owner := rec.Lease.Owner
	late("the detach from "+owner.String(), func() error { return n.Resets.Detach(gone, owner) })
	late("the detach from "+owner.String(), func() error { return n.Resets.Collect(gone, rec.Lease.Network, nil) })
	late("the detach from "+owner.String(), func() error { return n.Upkeep.Settle(gone, rec, true) })
	late("the detach from "+owner.String(), func() error { return n.Upkeep.Adopt(gone, attach.Request{VF: rec.PCI, Owner: owner}) })
	returned := make(chan error, 1)
	go func() { returned <- n.Loans.GiveBack(gone, lent) }() // although the borrower has gone
	release()
	if err := <-returned; err != nil {
		t.Errorf("the loan of a borrower that left: %v", err)
	}

	if err := n.Resets.Detach(gone, owner); err != nil {
		t.Errorf("a detach that is repeated: %v", err)
	}
	if after := k.String(); after != before {
		t.Errorf("after all:\n%s\nbefore:\n%s", after, before)
	}
}

// An attach that waits for a VF says which work has it.
func TestWaitingAttachNamesTheWork(t *testing.T) {
	k, n := newNode(t)
	req := everything(t)
	release := hold(t, k, func() error { _, err := n.Engine.Attach(t.Context(), req); return err })
	gone, cancel := context.WithCancelCause(t.Context())
	cancel(errHungUp)
	_, err := n.Engine.Attach(gone, req)
	if !errors.Is(err, errHungUp) || !strings.Contains(err.Error(), "the attach to "+req.Owner.String()+" has not ended") {
		t.Errorf("got %v", err)
	}
	release()
}

// I7: a change of the number of VFs that waits for one VF keeps no other VF of the PF locked.
func TestI7TakingVFsWaitsWithoutTheOthers(t *testing.T) {
	_, n := nodeOf(t, fake.IGB)
	records, err := journal.ReadRecords(n.Ledger)
	if err != nil {
		t.Fatal(err)
	}
	slow, pf := records[len(records)-1], records[len(records)-1].ID.PF
	unlock, err := n.VFs.Locks.Lock(t.Context(), slow.ID, "a step that hangs")
	if err != nil {
		t.Fatal(err)
	}
	taken := make(chan error)
	go func() { taken <- n.Resets.TakeVFs(t.Context(), pf, func() error { return nil }) }()
	begun := false
	for _, r := range records {
		if r.ID.PF != pf || r.ID == slow.ID {
			continue
		}
		for !begun { // until TakeVFs has its first lock
			begun = n.VFs.Locks.Holder(r.ID) != nil
			time.Sleep(time.Millisecond)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		one, err := n.VFs.Locks.Lock(ctx, r.ID, "an attach")
		if err != nil {
			t.Errorf("VF %s: %v", r.PCI, err)
		} else {
			one()
		}
		cancel()
	}
	select {
	case err := <-taken:
		t.Errorf("the VFs were taken although one is locked: %v", err)
	default:
	}
	unlock()
	if err := <-taken; err != nil {
		t.Error(err)
	}
}

// I7: an attach does not wait for the last VF of a pool that another attach is getting.
func TestI7AttachDoesNotWaitForATakenVF(t *testing.T) {
	_, n := newNode(t)
	req := everything(t)
	req.Spec, req.IPAM = vf.Spec{Interface: "net1"}, ipam.Config{}
	as := func(i int) attach.Request {
		mine := req
		mine.Owner.UID, mine.Spec.Interface = fmt.Sprint("c", i), fmt.Sprint("net", i)
		mine.Owner.Interface = mine.Spec.Interface
		return mine
	}
	all := len(records(t, n))
	for i := range all - 1 {
		if _, err := n.Engine.Attach(t.Context(), as(i)); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	late := make(chan error)
	err := n.Engine.ReserveAfter(t.Context(), as(all), func() { // it keeps the lock afterwards
		go func() { _, err := n.Engine.Attach(ctx, as(all+1)); late <- err }()
		time.Sleep(100 * time.Millisecond) // the other waits for the lock
	})
	if err != nil {
		t.Error(err)
	}
	if err := <-late; !errors.Is(err, vf.ErrNothingFree) || ctx.Err() != nil {
		t.Errorf("got %v, %v", err, ctx.Err())
	}
}
