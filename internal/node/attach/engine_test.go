package attach_test

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"path/filepath"
	"reflect"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/culvert-net/culvert/internal/kernel/fake"
	"github.com/culvert-net/culvert/internal/kernel/faulty"
	"github.com/culvert-net/culvert/internal/kernel/step"
	"github.com/culvert-net/culvert/internal/network/ipam"
	"github.com/culvert-net/culvert/internal/network/ipam/blocks"
	"github.com/culvert-net/culvert/internal/node"
	"github.com/culvert-net/culvert/internal/node/attach"
	"github.com/culvert-net/culvert/internal/node/desired"
	"github.com/culvert-net/culvert/internal/node/journal"
	"github.com/culvert-net/culvert/internal/vf"
)

const podNetns = "/run/netns/a"

// newNode returns a node on the fake kernel with the VFs of two PFs made.
func newNode(t *testing.T) (machine, *node.Node) {
	t.Helper()
	k := fake.New(fake.IGB, 2)
	k.AddNetns(podNetns)
	m := machine{k, faulty.New(k)}
	return m, start(t, m)
}

// machine is the fake kernel, and a wrapper that makes its steps fail.
type machine struct {
	*fake.Kernel
	faults *faulty.Kernel
}

func start(t *testing.T, m machine) *node.Node { return startIn(t, m, nil) }

// startIn is start in a cluster, which may be nil.
func startIn(t testing.TB, m machine, book *blocks.NodeBlocks) *node.Node {
	t.Helper()
	l, err := journal.Open(filepath.Join(t.TempDir(), "ledger.db"), journal.Options{NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	n := node.New(node.Config{Kernel: m.faults, Ledger: l, BootID: "boot 1", Blocks: book})
	n.Upkeep.Patience = time.Minute // a pass waits until all is mended, even on a busy machine
	n.SetSpec(desired.Spec{
		PFs:   []desired.PFRule{{Name: "enp*", Want: desired.PFSpec{VFs: desired.AllVFs, Autoprobe: true, NeedCarrier: true}}},
		Pools: []desired.Pool{{Name: "a", Prefix: "x", DeviceType: desired.NetDevice}},
	})
	if err := n.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := n.Reconciler.Pass(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(n.VFs.Wait)
	return n
}

func ptr[T any](v T) *T { return &v }

// everything is a request that needs every kind of step.
func everything(t *testing.T) attach.Request {
	t.Helper()
	cfg, err := ipam.Parse([]byte(`{"type":"host-local","ranges":[[{"subnet":"10.1.0.0/24"}],[{"subnet":"fd00::/64"}]],
		"routes":[{"dst":"0.0.0.0/0"},{"dst":"10.9.0.0/16","gw":"10.1.0.200"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	mac, err := vf.ParseMAC("02:aa:bb:cc:dd:ee")
	if err != nil {
		t.Fatal(err)
	}
	return attach.Request{
		Owner:   vf.Owner{Kind: vf.OwnerPod, UID: "c1", Name: "default/a", Interface: "net1"},
		Network: "blue", Netns: podNetns, IPAM: cfg,
		Spec: vf.Spec{
			Interface: "net1", MAC: &mac, VLAN: &vf.VLAN{ID: 100, QoS: 3}, SpoofChk: ptr(false), Trust: ptr(true),
			MaxTxRate: ptr(uint32(200)), MTU: ptr(1400),
		},
	}
}

func TestAttachGivesWhatWasAskedFor(t *testing.T) {
	k, n := newNode(t)
	rec, err := n.Engine.Attach(t.Context(), everything(t))
	if err != nil {
		t.Fatal(err)
	}
	st, err := k.VF(t.Context(), rec.PCI, podNetns)
	if err != nil {
		t.Fatal(err)
	}
	if d := rec.Lease.Wanted.Diff(rec.Baseline, podNetns, st); len(d) > 0 {
		t.Errorf("after attach: %s", vf.Differences(d))
	}
	want := []netip.Prefix{netip.MustParsePrefix("10.1.0.2/24"), netip.MustParsePrefix("fd00::2/64")}
	if diff := cmp.Diff(want, st.Link.Addrs, cmp.Comparer(func(a, b netip.Prefix) bool { return a == b })); diff != "" {
		t.Error(diff)
	}
	if err := n.Engine.Check(t.Context(), rec.Lease.Owner, attach.Request{}); err != nil {
		t.Error("check right after attach:", err)
	}
}

// I2, I3, I8: after a detach the machine is as it was before the attach, with
// the netns alive and with it gone.
func TestI2DetachRestoresTheBaseline(t *testing.T) {
	for _, gone := range []bool{false, true} {
		t.Run(fmt.Sprintf("netns gone %t", gone), func(t *testing.T) {
			k, n := newNode(t)
			before := k.String()
			rec, err := n.Engine.Attach(t.Context(), everything(t))
			if err != nil {
				t.Fatal(err)
			}
			if k.String() == before {
				t.Fatal("the attach changed nothing")
			}
			if gone {
				k.DelNetns(podNetns)
			}
			for range 2 { // I8: idempotent
				if err := n.Resets.Detach(t.Context(), rec.Lease.Owner); err != nil {
					t.Fatal(err)
				}
			}
			if diff := cmp.Diff(before, k.String()); diff != "" {
				t.Error(diff)
			}
			clean(t, n, 14)
		})
	}
}

// clean fails the test unless every VF of the ledger is free and no address is held.
func clean(t *testing.T, n *node.Node, vfs int) {
	t.Helper()
	err := n.Ledger.View(func(tx *journal.Tx) error {
		records := tx.Records()
		for _, r := range records {
			if r.Phase != vf.PhaseFree {
				t.Errorf("VF %s is %s: %s", r.ID, r.Phase, r.Reason)
			}
		}
		if len(records) != vfs {
			t.Errorf("%d records, want %d", len(records), vfs)
		}
		wrong := tx.Verify()
		if len(wrong) > 0 {
			t.Errorf("the ledger cannot be true: %v", wrong)
		}
		held := tx.AddressesOf("")
		if len(held) != 0 {
			t.Errorf("addresses still held: %v", held)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

var errInjected = errors.New("injected")

// I2: an attach that fails at any step k, before or after its effect, leaves the machine as it was.
// The steps of the undo do not fail here; if they do, the VF is quarantined, which a test below
// covers.
func TestI2FailingAtAnyStepRestoresTheStart(t *testing.T) {
	for _, moment := range []faulty.Moment{faulty.Before, faulty.After} {
		for failAt := 0; ; failAt++ {
			k, n := newNode(t)
			before, count, failed := k.String(), 0, step.Step(nil)
			k.faults.Fail(func(m faulty.Moment, s step.Step) error {
				if _, aside := s.(step.Announce); aside || m != moment || failed != nil {
					return nil
				}
				count++
				if count-1 == failAt {
					failed = s
					return errInjected
				}
				return nil
			})
			_, err := n.Engine.Attach(t.Context(), everything(t))
			if failed == nil {
				if err != nil {
					t.Fatal(err)
				}
				t.Logf("%s: %d steps", moment, failAt)
				break
			}
			if !errors.Is(err, errInjected) {
				t.Errorf("%s %s: attach returned %v", moment, failed, err)
			}
			if diff := cmp.Diff(before, k.String()); diff != "" {
				t.Errorf("%s %s: %s", moment, failed, diff)
			}
			clean(t, n, 14)
		}
	}
}

// I3: a VF that cannot be reset is quarantined with the reason. No request gets it before a later
// reset was read back.
func TestI3WhatCannotBeResetIsQuarantined(t *testing.T) {
	k, n := newNode(t)
	rec, err := n.Engine.Attach(t.Context(), everything(t))
	if err != nil {
		t.Fatal(err)
	}
	k.faults.Fail(func(m faulty.Moment, s step.Step) error {
		if _, ok := s.(step.SetVFVLAN); ok && m == faulty.Before {
			return errInjected
		}
		return nil
	})
	if err := n.Resets.Detach(t.Context(), rec.Lease.Owner); err != nil {
		t.Fatal("a detach whose reset fails is done for its owner all the same:", err)
	}
	req := everything(t)
	req.VF = rec.PCI
	if _, err := n.Engine.Attach(t.Context(), req); !errors.Is(err, vf.ErrHeld) {
		t.Errorf("attach of a quarantined VF: %v", err)
	}
	k.faults.Fail(nil)
	if err := n.Upkeep.Tend(context.Background(), n.Inventory.PFs()); err != nil {
		t.Fatal(err)
	}
	if _, err := n.Engine.Attach(t.Context(), req); !errors.Is(err, vf.ErrHeld) {
		t.Errorf("retried before it was due: %v", err)
	}
}

// Attach refuses a setting that the driver lacks before it touches anything.
func TestUnableIsRefusedUntouched(t *testing.T) {
	k, n := newNode(t)
	before := k.String()
	k.faults.Fail(func(_ faulty.Moment, s step.Step) error { t.Errorf("touched: %s", s); return nil })
	req := everything(t)
	req.Spec.LinkState = ptr(vf.LinkDisable)
	_, err := n.Engine.Attach(t.Context(), req)
	if !errors.Is(err, vf.ErrUnable) {
		t.Errorf("got %v", err)
	}
	if diff := cmp.Diff(before, k.String()); diff != "" {
		t.Error(diff)
	}
	clean(t, n, 14)
}

// A runtime that disconnects before Attach has touched anything leaves the VF free and no address
// held. The disconnect is no reason to quarantine the VF.
func TestI2CallerThatHasGoneCostsNoVF(t *testing.T) {
	k, n := newNode(t)
	before := k.String()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := n.Engine.Attach(ctx, everything(t)); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if diff := cmp.Diff(before, k.String()); diff != "" {
		t.Error(diff)
	}
	clean(t, n, 14)
}

// patient behaves like Linux: a call that has begun runs to its end, even after its caller's
// context has ended.
type patient struct{ node.Kernel }

func (k patient) Do(ctx context.Context, s step.Step) error {
	return k.Kernel.Do(context.WithoutCancel(ctx), s)
}

func (k patient) VF(ctx context.Context, pci vf.PCIAddr, netns string) (vf.State, error) {
	return k.Kernel.VF(context.WithoutCancel(ctx), pci, netns)
}

// A runtime that disconnects at the last step may already have sent its DEL, which found no
// attachment. So the attach must not complete after that.
func TestI2CallerThatGoesLateCostsNoVF(t *testing.T) {
	k, n := newNode(t)
	before := k.String()
	n.VFs.Kernel = patient{k.faults}
	ctx, cancel := context.WithCancel(t.Context())
	k.faults.Fail(func(_ faulty.Moment, s step.Step) error {
		if _, last := s.(step.AddRoute); last {
			cancel()
		}
		return nil
	})
	if _, err := n.Engine.Attach(ctx, everything(t)); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if diff := cmp.Diff(before, k.String()); diff != "" {
		t.Error(diff)
	}
	clean(t, n, 14)
}

// A runtime that killed its plugin deletes the attachment and adds it again. The second ADD waits
// until the first one, which is still attaching or being undone, has ended, and then gets its VF.
func TestADDAfterOneThatWasGivenUp(t *testing.T) {
	for at, stuck := range map[string]step.Step{"attaching": step.Move{}, "being undone": step.Unbind{}} {
		t.Run(at, func(t *testing.T) { addAfterOneThatWasGivenUp(t, stuck) })
	}
}

// addAfterOneThatWasGivenUp stops the first ADD before it moves the VF to the netns, or when its
// undo takes the VF back.
func addAfterOneThatWasGivenUp(t *testing.T, stuck step.Step) {
	k, n := newNode(t)
	n.VFs.Kernel = patient{k.faults}
	ctx, giveUp := context.WithCancel(t.Context())
	begun, release := make(chan struct{}), make(chan struct{})
	var moving, stopped atomic.Bool
	k.faults.Fail(func(_ faulty.Moment, s step.Step) error {
		if _, ok := s.(step.Move); ok {
			moving.Store(true)
			if reflect.TypeOf(s) != reflect.TypeOf(stuck) {
				giveUp()
			}
		}
		if moving.Load() && reflect.TypeOf(s) == reflect.TypeOf(stuck) && stopped.CompareAndSwap(false, true) {
			close(begun)
			<-release
		}
		return nil
	})
	first, second := make(chan error, 1), make(chan error, 1)
	req := everything(t)
	go func() { _, err := n.Engine.Attach(ctx, req); first <- err }()
	<-begun
	giveUp()
	impatient, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := n.Engine.Attach(impatient, req); !errors.Is(err, vf.ErrHeld) || !errors.Is(err, context.Canceled) {
		t.Errorf("an ADD that does not wait: %v", err)
	}
	go func() { _, err := n.Engine.Attach(t.Context(), req); second <- err }()
	close(release)
	if err := <-first; !errors.Is(err, context.Canceled) {
		t.Errorf("the ADD that was given up: %v", err)
	}
	if err := <-second; err != nil {
		t.Errorf("the ADD after it: %v", err)
	}
}
