package attach_test

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/culvert-net/culvert/internal/kernel/faulty"
	"github.com/culvert-net/culvert/internal/kernel/step"
	"github.com/culvert-net/culvert/internal/network/ipam"
	"github.com/culvert-net/culvert/internal/node"
	"github.com/culvert-net/culvert/internal/node/attach"
	"github.com/culvert-net/culvert/internal/node/journal"
	"github.com/culvert-net/culvert/internal/vf"
)

// addressesOf returns the addresses of a lease.
func addressesOf(rec journal.Record) (out []string) {
	for _, a := range rec.Lease.Wanted.Addresses {
		out = append(out, a.Prefix.Addr().String())
	}
	return out
}

func has6(rec journal.Record, address string) bool {
	return slices.Contains(addressesOf(rec), address)
}

// duplicateEvents returns the ledger's events about duplicates.
func duplicateEvents(t *testing.T, n *node.Node) (out []string) {
	t.Helper()
	err := n.Ledger.View(func(tx *journal.Tx) error {
		for _, e := range tx.Events(0) {
			if e.Reason == "DuplicateAddress" {
				out = append(out, e.Type+" "+e.Text)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// reported is a request whose reports are recorded.
func reported(t *testing.T) (attach.Request, *[]string) {
	t.Helper()
	req, got := everything(t), &[]string{}
	req.Report = func(reason, text string) { *got = append(*got, reason+" "+text) }
	return req, got
}

// If another machine has an address of the pool, the attach reports it and gets another address.
// The duplicate stays out of the pool for setAsideTime.
func TestDuplicateOfThePoolIsReplaced(t *testing.T) {
	k, n := newNode(t)
	now := time.Now()
	n.VFs.Now = func() time.Time { return now }
	before := k.String()
	k.SetElsewhere(netip.MustParseAddr("fd00::2"), true)
	req, reports := reported(t)
	rec, err := n.Engine.Attach(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	if !has6(rec, "fd00::3") {
		t.Errorf("the pod has %v, want fd00::3 in place of fd00::2", addressesOf(rec))
	}
	if err := n.Engine.Check(t.Context(), rec.Lease.Owner, attach.Request{}); err != nil {
		t.Error(err)
	}
	told := "fd00::2: duplicate: another machine on the segment has it"
	if events := duplicateEvents(t, n); len(events) != 1 || !strings.HasPrefix(events[0], "Warning address "+told) || !strings.Contains(events[0], "replaced") {
		t.Errorf("events of the ledger: %q", events)
	}
	if len(*reports) != 1 || !strings.HasPrefix((*reports)[0], "DuplicateAddress address "+told) || !strings.Contains((*reports)[0], "pod default/a") {
		t.Errorf("events of the pod: %q", *reports)
	}
	problems := n.AddressProblems()
	if len(problems) != 1 || problems[0].Object != "network blue" || !strings.Contains(problems[0].Reason, "[fd00::2] when pod default/a") {
		t.Errorf("problems: %+v", problems)
	}
	if err := n.Resets.Detach(t.Context(), rec.Lease.Owner); err != nil {
		t.Fatal(err)
	}
	clean(t, n, 14)
	if diff := cmp.Diff(before, k.String()); diff != "" {
		t.Error(diff)
	}

	req.IPAM.LowestFirst = true
	k.SetElsewhere(netip.MustParseAddr("fd00::2"), false)
	attachAndDetach(t, n, req, "fd00::3")
	n.VFs.Now = func() time.Time { return now.Add(11 * time.Minute) }
	if problems := n.AddressProblems(); len(problems) > 0 {
		t.Errorf("after its time: %+v", problems)
	}
	attachAndDetach(t, n, req, "fd00::2")
}

// attachAndDetach fails the test unless the request gets the address want.
func attachAndDetach(t *testing.T, n *node.Node, req attach.Request, want string) {
	t.Helper()
	rec, err := n.Engine.Attach(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	if !has6(rec, want) {
		t.Errorf("the pod has %v, want %s", addressesOf(rec), want)
	}
	if err := n.Resets.Detach(t.Context(), rec.Lease.Owner); err != nil {
		t.Fatal(err)
	}
}

// A duplicate that the pod names, that the network fixes or that another project's plugin gave
// fails the attach, which is undone and not tried again. The error and the events name the address.
func TestDuplicateByNameIsRefused(t *testing.T) {
	static := ipam.Config{Type: ipam.TypeStatic, Static: []vf.Address{{Prefix: netip.MustParsePrefix("fd00::2/64")}}}
	for name, change := range map[string]func(*attach.Request){
		"named by the pod":     func(r *attach.Request) { r.Addresses = []netip.Prefix{netip.MustParsePrefix("fd00::2/128")} },
		"fixed by the network": func(r *attach.Request) { r.IPAM = static },
		"given by a plugin": func(r *attach.Request) {
			r.IPAM = ipam.Config{}
			r.Late = func(context.Context) (ipam.Config, error) { return static, nil }
		},
	} {
		t.Run(name, func(t *testing.T) {
			k, n := newNode(t)
			before := k.String()
			k.SetElsewhere(netip.MustParseAddr("fd00::2"), true)
			moves := 0
			k.faults.Fail(func(m faulty.Moment, s step.Step) error {
				if s, ok := s.(step.Move); ok && m == faulty.Before && s.To == podNetns {
					moves++
				}
				return nil
			})
			req, reports := reported(t)
			change(&req)
			_, err := n.Engine.Attach(t.Context(), req)
			if !errors.Is(err, vf.ErrDuplicate) || !strings.Contains(err.Error(), "fd00::2") || !strings.Contains(err.Error(), "dmesg") {
				t.Errorf("attach: %v", err)
			}
			if len(*reports) != 1 || len(duplicateEvents(t, n)) != 1 || len(n.AddressProblems()) != 1 {
				t.Errorf("reports %q, events %q, problems %v", *reports, duplicateEvents(t, n), n.AddressProblems())
			}
			if moves != 1 {
				t.Errorf("tried %d times", moves)
			}
			clean(t, n, 14)
			if diff := cmp.Diff(before, k.String()); diff != "" {
				t.Error(diff)
			}
			k.SetElsewhere(netip.MustParseAddr("fd00::2"), false) // the other machine gives it up
			rec, err := n.Engine.Attach(t.Context(), req)
			if err != nil || !has6(rec, "fd00::2") {
				t.Errorf("once the address is free: %v %v", addressesOf(rec), err)
			}
			if problems := n.AddressProblems(); len(problems) > 0 {
				t.Errorf("the pod has the address, and %+v", problems)
			}
		})
	}
}

// If another machine answers for every address, an attach fails after a few tries, and culvertd
// sets aside a bounded number of addresses.
func TestDuplicatesWithoutEnd(t *testing.T) {
	k, n := newNode(t)
	before := k.String()
	for i := range 300 {
		k.SetElsewhere(netip.MustParseAddr(fmt.Sprintf("fd00::%x", i+2)), true)
	}
	for range 40 {
		if _, err := n.Engine.Attach(t.Context(), everything(t)); !errors.Is(err, vf.ErrDuplicate) {
			t.Fatal(err)
		}
	}
	if got := len(n.Engine.Duplicates()); got != 64 {
		t.Errorf("%d addresses are set aside, want 64 at most", got)
	}
	clean(t, n, 14)
	if diff := cmp.Diff(before, k.String()); diff != "" {
		t.Error(diff)
	}
}

// An attach waits for duplicate detection of its IPv6 addresses only, for all of them at once. It
// waits neither for addresses that several pods share on purpose nor for VFs of vfio.
func TestOnlyIPv6WaitsForDetection(t *testing.T) {
	two, err := ipam.Parse([]byte(`{"type":"static","addresses":[{"address":"fd00::5/64"},{"address":"fd01::5/64"},{"address":"10.1.0.5/24"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	four, shared := two, two
	four.Static, shared.Shared = two.Static[2:], true
	for name, tc := range map[string]struct {
		config ipam.Config
		want   []string
	}{
		"IPv4":   {four, nil},
		"none":   {ipam.Config{}, nil},
		"two":    {two, []string{"[fd00::5/64 fd01::5/64]"}},
		"shared": {shared, nil},
	} {
		t.Run(name, func(t *testing.T) {
			k, n := newNode(t)
			var waits []string
			k.faults.Fail(func(m faulty.Moment, s step.Step) error {
				if s, ok := s.(step.DetectDuplicates); ok && m == faulty.Before {
					waits = append(waits, fmt.Sprint(s.Addresses))
				}
				return nil
			})
			req := everything(t)
			req.IPAM = tc.config
			if tc.config.Shared {
				k.SetElsewhere(netip.MustParseAddr("fd00::5"), true)
			}
			if _, err := n.Engine.Attach(t.Context(), req); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, waits); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// Without carrier, duplicate detection has no result: the attach succeeds. An event, CHECK and the
// status report a duplicate that the kernel finds later.
func TestDuplicateThatIsFoundLater(t *testing.T) {
	k, n := newNode(t)
	k.SetElsewhere(netip.MustParseAddr("fd00::2"), true)
	tried := make(chan struct{})
	plugged := make(chan struct{})
	count := 0
	k.faults.Fail(func(m faulty.Moment, s step.Step) error {
		switch s := s.(type) {
		case step.SetUp:
			if m == faulty.After && s.Up && s.Netns == podNetns {
				return k.Meddle(s.VF, func(st *vf.State) { st.Link.Carrier = false })
			}
		case step.DetectDuplicates:
			if m != faulty.Before {
				break
			}
			if count++; count == 2 { // in the background
				close(tried)
				<-plugged
			}
		}
		return nil
	})
	req, reports := reported(t)
	rec, err := n.Engine.Attach(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	if err := n.Engine.Check(t.Context(), rec.Lease.Owner, attach.Request{}); err != nil {
		t.Error("CHECK before detection has a result:", err)
	}
	select {
	case <-tried:
	case <-time.After(5 * time.Minute):
		t.Fatal("detection is not followed")
	}
	if err := k.Meddle(rec.PCI, func(st *vf.State) { st.Link.Carrier = true }); err != nil {
		t.Fatal(err)
	}
	close(plugged)
	n.VFs.Wait()
	if len(*reports) != 1 || !strings.Contains((*reports)[0], "fd00::2") || len(duplicateEvents(t, n)) != 1 {
		t.Errorf("reports %q, events %q", *reports, duplicateEvents(t, n))
	}
	err = n.Engine.Check(t.Context(), rec.Lease.Owner, attach.Request{})
	if err == nil || !strings.Contains(err.Error(), "address is a duplicate, which another machine on the segment has, not fd00::2/64") {
		t.Errorf("CHECK: %v", err)
	}
	if err := n.Resets.Detach(t.Context(), rec.Lease.Owner); err != nil {
		t.Fatal(err)
	}
	clean(t, n, 14)
}

// The attach also replaces a duplicate that the kernel finds after the wait and before the VF is
// read back.
func TestDuplicateIsFoundByReadingBack(t *testing.T) {
	k, n := newNode(t)
	k.SetElsewhere(netip.MustParseAddr("fd00::2"), true)
	k.faults.Fail(func(m faulty.Moment, s step.Step) error {
		if _, ok := s.(step.DetectDuplicates); ok && m == faulty.Before {
			_ = k.Do(t.Context(), s)
			return faulty.ErrIgnored
		}
		return nil
	})
	req, reports := reported(t)
	rec, err := n.Engine.Attach(t.Context(), req)
	if err != nil || !has6(rec, "fd00::3") || len(*reports) != 1 {
		t.Errorf("%v %v, reports %q", addressesOf(rec), err, *reports)
	}
}

// I2, I4: an attach that meets a duplicate and fails at step k leaves the machine as it was, with no
// address held. That holds for every k, before and after the effect of the step.
func TestI4FailingAfterADuplicateLeaksNoAddress(t *testing.T) {
	for _, moment := range []faulty.Moment{faulty.Before, faulty.After} {
		for failAt := 0; ; failAt++ {
			k, n := newNode(t)
			before, count, failed := k.String(), 0, step.Step(nil)
			k.SetElsewhere(netip.MustParseAddr("fd00::2"), true)
			undoing := false
			k.faults.Fail(func(m faulty.Moment, s step.Step) error {
				if s, ok := s.(step.Move); ok {
					undoing = s.To != podNetns
				}
				if _, beside := s.(step.Announce); beside || m != moment || failed != nil || undoing {
					return nil
				}
				if count++; count-1 == failAt {
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
			k.faults.Fail(nil)
			if err == nil { // a step of the undo failed, and the next round of it did not
				if err := n.Resets.Detach(t.Context(), everything(t).Owner); err != nil {
					t.Fatal(err)
				}
			}
			if diff := cmp.Diff(before, k.String()); diff != "" {
				t.Errorf("%s %s (attach: %v): %s", moment, failed, err, diff)
			}
			clean(t, n, 14)
		}
	}
}

// If another machine has the address that was kept for a pod of a StatefulSet, the pod gets another
// address and keeps that one.
func TestKeptAddressThatIsADuplicate(t *testing.T) {
	p := newPair(t)
	r := stateful(t, 1)
	six, err := ipam.Parse([]byte(`{"type":"host-local","ranges":[[{"subnet":"fd00::/120"}]]}`))
	if err != nil {
		t.Fatal(err)
	}
	r.IPAM = six
	rec, err := p.nodes[0].Engine.Attach(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	p.round()
	if err := p.nodes[0].Resets.Detach(t.Context(), r.Owner); err != nil {
		t.Fatal(err)
	}
	p.round()
	first := rec.Lease.Wanted.Addresses[0].Prefix.Addr()
	p.kernels[0].SetElsewhere(first, true)
	again := stateful(t, 2)
	again.IPAM = six
	rec, err = p.nodes[0].Engine.Attach(t.Context(), again)
	if err != nil || rec.Lease.Wanted.Addresses[0].Prefix.Addr() == first {
		t.Fatalf("%v %v", addressesOf(rec), err)
	}
	second := addressesOf(rec)
	p.round()
	if err := p.nodes[0].Resets.Detach(t.Context(), again.Owner); err != nil {
		t.Fatal(err)
	}
	p.round()
	third := stateful(t, 3)
	third.IPAM = six
	if rec, err = p.nodes[0].Engine.Attach(t.Context(), third); err != nil || !slices.Equal(addressesOf(rec), second) {
		t.Errorf("the pod has %v, and had %v: %v", addressesOf(rec), second, err)
	}
}

// A node whose blocks have only duplicates left requests others.
func TestDuplicatesUseUpABlock(t *testing.T) {
	p := newPair(t)
	for i := range 4 {
		p.kernels[0].SetElsewhere(netip.MustParseAddr(fmt.Sprintf("fd00::%x", i+2)), true)
	}
	const small = `{"type":"host-local","ranges":[[{"subnet":"fd00::/124"}]]}`
	for try := 1; ; try++ {
		rec, err := p.nodes[0].Engine.Attach(t.Context(), from(t, small, 1))
		if err == nil {
			if first := rec.Lease.Wanted.Addresses[0].Prefix.Addr(); first.Less(netip.MustParseAddr("fd00::6")) {
				t.Errorf("the pod has %s", first)
			}
			return
		}
		if !errors.Is(err, vf.ErrDuplicate) || try == 3 {
			t.Fatalf("try %d: %v", try, err)
		}
	}
}
