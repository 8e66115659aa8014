package failure

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"golang.org/x/sync/errgroup"

	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/kernel/fake"
	"github.com/culvert-net/culvert/internal/kernel/faulty"
	"github.com/culvert-net/culvert/internal/kernel/step"
	"github.com/culvert-net/culvert/internal/node/desired"
	"github.com/culvert-net/culvert/internal/node/journal"
	"github.com/culvert-net/culvert/internal/vf"
)

// behind has each property of an attachment that may change outside Culvert, and the
// word for it in messages.
var behind = []struct {
	word   string
	change func(*vf.State)
}{
	{"mac", func(st *vf.State) { st.Admin.MAC[5] ^= 1 }},
	{"vlan", func(st *vf.State) { st.Admin.VLAN.ID = 7 }},
	{"vlan", func(st *vf.State) { st.Admin.VLAN.QoS = 1 }},
	{"spoofchk", func(st *vf.State) { st.Admin.SpoofChk = vf.Yes }},
	{"trust", func(st *vf.State) { st.Admin.Trust = vf.No }},
	{"link_state", func(st *vf.State) { st.Admin.LinkState = vf.LinkDisable }},
	{"min_tx_rate", func(st *vf.State) { st.Admin.MinTxRate = 7 }},
	{"max_tx_rate", func(st *vf.State) { st.Admin.MaxTxRate = 77 }},
	{"driver", func(st *vf.State) { st.Driver = vf.DriverVFIO }},
	{"interface", func(st *vf.State) { st.Link = nil }},
	{"interface", func(st *vf.State) { st.Link.Name = "eth0" }},
	{"netns", func(st *vf.State) { st.Link.Netns = "" }},
	{"link mac", func(st *vf.State) { st.Link.MAC[5] ^= 1 }},
	{"mtu", func(st *vf.State) { st.Link.MTU = 1300 }},
	{"up", func(st *vf.State) { st.Link.Up = false }},
	{"address", func(st *vf.State) { st.Link.Addrs = nil }},
	{"address", func(st *vf.State) { st.Link.Addrs = []netip.Prefix{netip.MustParsePrefix("10.1.0.99/24")} }},
	{"route", func(st *vf.State) { st.Link.Routes = nil }},
}

// CHECK fails on each property that was changed outside Culvert. The error names the
// property, and has the code and the next step for it.
func TestCheckSaysWhatWasChanged(t *testing.T) {
	for _, b := range behind {
		w := made(t, fake.ICE, fastDir(t))
		must(w, w.add(podA))
		config := withResult(w.config(podA, "CHECK"))
		if err := w.call("CHECK", podA, config); err != nil {
			t.Fatalf("CHECK right after ADD: %v", err)
		}
		w.meddle(w.heldBy("a"), b.change)
		err := w.call("CHECK", podA, config)
		if err == nil {
			t.Errorf("%s: CHECK saw nothing", b.word)
			continue
		}
		answer := failed(t, err)
		if answer.Code != 104 || !strings.Contains(answer.Msg, ": "+b.word+" ") || answer.Details == "" {
			t.Errorf("%s: CHECK answers %d %q (%s)", b.word, answer.Code, answer.Msg, answer.Details)
		}
		w.close()
	}
}

// withResult adds the result that a runtime sends along with CHECK.
func withResult(config []byte) []byte {
	const result = `"prevResult":{"cniVersion":"1.1.0","interfaces":[{"name":"net1","sandbox":"/run/netns/a"}],"ips":[{"address":"10.1.0.2/24","interface":0}],"routes":[{"dst":"10.9.0.0/16"}]}}`
	return []byte(strings.TrimSuffix(string(config), "}") + "," + result)
}

func failed(t *testing.T, err error) (answer api.CNIError) {
	t.Helper()
	if decode := json.Unmarshal([]byte(err.Error()), &answer); decode != nil {
		t.Fatalf("%v: %v", err, decode)
	}
	return answer
}

// If a setting that the PF holds for an attached VF has changed, culvertd sets it
// again or only reports it, as the pool says. It does so at the next pass, with one
// event.
func TestDriftOfAnAttachedVF(t *testing.T) {
	for policy, want := range map[string][]string{
		"mend":   {"DriftMended: vlan is 7, not 100"},
		"report": {"Drifted: vlan is 7, not 100"},
	} {
		t.Run(policy, func(t *testing.T) {
			w := made(t, fake.IGB, fastDir(t))
			defer w.close()
			spec := w.spec
			for i := range spec.Pools {
				spec.Pools[i].Drift = desired.Drift(policy)
			}
			w.node.SetSpec(spec)
			must(w, w.add(podB))
			must(w, w.add(podA))
			w.meddle(w.heldBy("a"), func(st *vf.State) { st.Admin.VLAN = vf.VLAN{ID: 7} })
			w.expect["a"] = meddled
			w.pass()
			w.pass()
			var got []string
			for _, e := range w.events("Drift") {
				_, what, _ := strings.Cut(e.Text, "has: ")
				what, _, _ = strings.Cut(what, " qos")
				got = append(got, e.Reason+": "+what)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("events (-want +got):\n%s", diff)
			}
			if policy == "mend" {
				w.expect["a"] = present
			}
			w.sound()
		})
	}
}

// A lease ends when its VF is gone from the bus: the address is free again, an event
// names the owner, and DEL succeeds. When the VF is back, culvertd gives it out
// again.
func TestLeaseEndsWithItsVF(t *testing.T) {
	for name, unplug := range map[string]func(*world){
		"VF": func(w *world) { must(w, w.k.RemoveVF(w.heldBy("a"))) },
		"PF": func(w *world) { must(w, w.k.RemovePF(w.pf(0))) },
	} {
		t.Run(name, func(t *testing.T) {
			w := made(t, fake.IGB, fastDir(t))
			defer w.close()
			must(w, w.add(podA))
			unplug(w)
			w.expect["a"] = either
			w.pass()
			if r := w.heldBy("a"); !r.IsZero() {
				t.Errorf("a still has VF %s", r)
			}
			if got := w.events("LeaseEnded"); len(got) != 1 || !strings.Contains(got[0].Text, "container a") {
				t.Errorf("events: %v", got)
			}
			w.sound()
			if name == "PF" {
				must(w, w.k.AddPF(vf.PCIAddr{Bus: 1}, vf.PCIAddr{Bus: 1}))
			}
			w.pass()
			w.pass()
			w.asNew()
		})
	}
}

// I8: DEL succeeds when it is repeated, and when there never was an ADD. A late DEL
// does not hit the next owner of the VF.
func TestI8LateAndRepeatedDEL(t *testing.T) {
	w := made(t, fake.IGB, fastDir(t))
	defer w.close()
	must(w, w.del(podA))
	must(w, w.add(podA))
	first := w.heldBy("a")
	must(w, w.del(podA))
	must(w, w.add(attachment{pod: "b", pool: "net", vf: first}))
	must(w, w.del(podA))
	if got := w.heldBy("b"); got != first {
		t.Errorf("a's late DEL took b's VF: b has %s, not %s", got, first)
	}
	w.settled()
}

// I1: many owners request one VF at once, by name or because it is the last one.
// Exactly one gets it, and the refusals of the others name the owner.
func TestI1ManyWantOneVF(t *testing.T) {
	w := made(t, fake.IGB, fastDir(t))
	defer w.close()
	last := w.vfs()[2].PCI // one of the two for user space
	must(w, w.add(attachment{pod: "d", pool: "user", vf: w.vfs()[5].PCI}))
	var g errgroup.Group
	errs := make([]error, 8)
	for i := range errs {
		a := attachment{pod: fmt.Sprintf("p%d", i), pool: "user"}
		if i%2 == 0 {
			a.vf = last
		}
		g.Go(func() error {
			errs[i] = w.call("ADD", a, w.config(a, "ADD"))
			return nil
		})
	}
	must(w, g.Wait())
	var won []string
	for i, err := range errs {
		if err == nil {
			won = append(won, fmt.Sprintf("p%d", i))
			continue
		}
		if answer := failed(t, err); answer.Code != 100 && answer.Code != 101 || !strings.Contains(answer.Msg, "container p") {
			t.Errorf("p%d: %d %q", i, answer.Code, answer.Msg)
		}
	}
	if len(won) != 1 {
		t.Errorf("%v have one VF", won)
	}
	w.sound()
}

// I1: when pods and guests request one VF at once, exactly one gets it, with the
// binding that it needs. The refusals of the others name the owner. The VF comes back
// clean from either.
func TestI1PodsAndGuestsWantOneVF(t *testing.T) {
	w := made(t, fake.IGB, fastDir(t))
	defer w.close()
	wanted := w.vfs()[0].PCI
	guest := func(name string) bool { return len(name) == len(guestE) }
	// No name is in owners(), since the winner is not known before.
	names := []string{"p0", strings.ReplaceAll(guestE, "e", "c"), "p2", strings.ReplaceAll(guestE, "e", "d"), "p4", strings.ReplaceAll(guestE, "e", "f")}
	for _, name := range names {
		w.k.AddNetns(netnsOf(name))
	}
	for range 20 {
		var g errgroup.Group
		errs := make([]error, len(names))
		for i, name := range names {
			g.Go(func() error {
				if guest(name) {
					errs[i] = w.report(w.vms.Start, w.definition(name, wanted))
					return nil
				}
				a := attachment{pod: name, pool: "net", vf: wanted, plain: true}
				errs[i] = w.serve("ADD", a, w.config(a, "ADD"))
				return nil
			})
		}
		must(w, g.Wait())
		w.node.VFs.Wait()
		winner := ""
		for i, err := range errs {
			switch {
			case err == nil && winner != "":
				t.Errorf("%s and %s have one VF", winner, names[i])
			case err == nil:
				winner = names[i]
			case !strings.Contains(err.Error(), "held by "):
				t.Errorf("%s: %v", names[i], err)
			}
		}
		st, err := w.k.VF(t.Context(), wanted, netnsOf(winner))
		must(w, err)
		if guest(winner) != (st.Driver == vf.DriverVFIO) {
			t.Errorf("%s has the VF with driver %s", winner, st.Driver)
		}
		w.sound()
		must(w, w.del(attachment{pod: winner, pool: "net"}))
		w.settled()
	}
}

// GC removes exactly the attachments of its own network that it does not name as
// valid.
func TestGCRemovesExactlyTheRest(t *testing.T) {
	w := made(t, fake.IGB, fastDir(t))
	defer w.close()
	podD := attachment{pod: "d", pool: "net", plain: true}
	for _, a := range []attachment{podA, podB, podC, podD} {
		must(w, w.add(a))
	}
	must(w, w.gc(podA, "b", "x"))
	w.settled()
	var left []string
	for _, r := range w.records() {
		if r.Phase == vf.PhaseAttached {
			left = append(left, r.Lease.Owner.UID)
		}
	}
	if diff := cmp.Diff([]string{"b", "c"}, left, sorting); diff != "" {
		t.Errorf("attached after GC (-want +got):\n%s", diff)
	}
}

// STATUS answers error 50 with the reason while no ADD can succeed, and no error when
// an ADD can.
func TestSTATUSSaysWhyNot(t *testing.T) {
	w := newWorld(t, fake.IGB, fastDir(t))
	defer func() { w.close() }()
	w.start()
	ask := func() error { return w.call("STATUS", podA, w.config(podA, "STATUS")) }
	answer := failed(t, ask())
	if answer.Code != 50 || !strings.Contains(answer.Msg, "no VF has been made yet") || answer.Details == "" {
		t.Errorf("before VFs are made: %d %q (%s)", answer.Code, answer.Msg, answer.Details)
	}
	w.pass()
	if err := ask(); err != nil {
		t.Errorf("with VFs: %v", err)
	}
	w.node.SetSpec(desired.Spec{})
	answer = failed(t, ask())
	if answer.Code != 50 || !strings.Contains(answer.Msg, "no pool is declared") {
		t.Errorf("without pools: %d %q", answer.Code, answer.Msg)
	}
}

// events returns the events whose reason begins with this text.
func (w *world) events(reason string) (out []journal.Event) {
	w.t.Helper()
	err := w.ledger.View(func(tx *journal.Tx) error {
		all := tx.Events(0)
		for _, e := range all {
			if strings.HasPrefix(e.Reason, reason) {
				out = append(out, e)
			}
		}
		return nil
	})
	must(w, err)
	return out
}

var sorting = cmpopts.SortSlices(func(a, b string) bool { return a < b })

// After a failed ADD its VF is in quarantine. The next ADD gets another VF, also
// while culvertd resets the old one again, and DEL releases the new VF.
func TestOldQuarantineIsNoAttachment(t *testing.T) {
	w := made(t, fake.IGB, fastDir(t))
	defer w.close()
	hit := w.arm(faults()[12], 1, true) // a hang, which means quarantine
	if err := w.add(podA); err == nil || hit() == nil {
		t.Fatalf("ADD: %v", err)
	}
	old := w.heldBy("a")
	w.fault.Fail(nil)
	busy, release := make(chan struct{}), make(chan struct{})
	w.meddle(old, func(st *vf.State) { st.Link.Up = true }) // something to reset
	w.fault.Fail(func(m faulty.Moment, s step.Step) error {
		if up, ok := s.(step.SetUp); ok && up.VF == old && !up.Up && m == faulty.Before {
			busy <- struct{}{}
			<-release
		}
		return nil
	})
	w.skew += time.Hour
	passed := make(chan struct{})
	go func() { defer close(passed); _ = w.node.Reconciler.Pass(context.Background()) }()
	<-busy // the old VF is being released, with its lease
	a := attachment{pod: "a", pool: "net", plain: true}
	if err := w.serve("ADD", a, w.config(a, "ADD")); err != nil {
		t.Errorf("ADD while the old VF is tried again: %v", err)
	}
	if err := w.serve("DEL", a, w.config(a, "DEL")); err != nil {
		t.Errorf("DEL: %v", err)
	}
	close(release)
	<-passed
	w.fault.Fail(nil)
	w.expect["a"] = absent
	w.rest()
	w.asNew()
}
