package pick

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/vf"
)

// history is made of events of the node of testdata, a minute apart.
type history struct {
	st     api.NodeStatus
	events []api.Event
}

func atMinute(minute int) time.Time { return time.Date(2026, 11, 24, 10, minute, 0, 0, time.UTC) }

// addEvent adds an event about the VF with an index of the first PF. owner is the name of a pod.
func (h *history) addEvent(minute, index int, phase vf.Phase, reason, owner, text string) *api.Event {
	v := h.st.VFs[index]
	e := api.Event{Seq: uint64(len(h.events) + 1), Time: atMinute(minute), Type: "Normal", Reason: reason, Object: "VF " + v.PCI.String(), Text: text, VF: v.ID, Phase: phase}
	if owner != "" {
		e.Owner = vf.Owner{Kind: vf.OwnerPod, UID: "sandbox-" + owner, Name: "default/" + owner, Interface: "net1"}
		e.PodUID, e.Network, e.MAC = "uid-"+owner, "blue", vf.MAC{2, 0, 0, 0, 0, byte(index)}
		e.Addresses = []netip.Addr{netip.AddrFrom4([4]byte{10, 0, 0, byte(10 + index)})}
	}
	h.events = append(h.events, e)
	return &h.events[len(h.events)-1]
}

func describeSpans(spans []api.Span) (out []string) {
	clock := func(t time.Time) string {
		if t.IsZero() {
			return "-"
		}
		return t.Format("04")
	}
	for _, s := range spans {
		var changes []string
		for _, e := range s.Changes {
			changes = append(changes, e.Reason)
		}
		out = append(out, strings.TrimSpace(fmt.Sprintf("%s %s-%s %s %s %v", s.Name, clock(s.From), clock(s.To), s.Owner.Name, s.Network, changes)))
	}
	return out
}

// newHistory returns a history with each kind of span.
func newHistory(t *testing.T) *history {
	h := &history{st: node(t)}
	h.addEvent(0, 0, vf.PhaseFree, "Detached", "before", "from before")
	h.addEvent(1, 0, vf.PhaseAttached, "Attached", "a", "to a").Settings = "vlan 100"
	h.addEvent(2, 0, vf.PhaseAttached, "DriftMended", "a", "vlan is 7, not 100")
	h.events = append(h.events, api.Event{Seq: 4, Time: atMinute(3), Type: "Warning", Reason: "LinkDown", Object: "PF enp1s0f0", PF: h.st.VFs[0].ID.PF})
	h.addEvent(4, 0, vf.PhaseQuarantined, "Quarantined", "a", "vlan is 100, not none")
	h.addEvent(5, 0, vf.PhaseFree, "Recovered", "a", "clean")
	h.addEvent(6, 0, vf.PhaseFree, "AttachFailed", "b", "no carrier")
	h.addEvent(6, 0, vf.PhaseFree, "CommandRun", "b", "root ran culvert vm detach b")
	h.addEvent(7, 0, vf.PhaseAttached, "Attached", "c", "to c")
	h.addEvent(8, 1, vf.PhaseAttached, "VFNoCarrier", "d", "no carrier")
	h.addEvent(9, 1, "", "LeaseEnded", "d", "unplugged")
	old := h.addEvent(10, 2, "", "Attached", "", "vf 2 to pod default/old")
	old.VF = vf.ID{}
	return h
}

func TestSpans(t *testing.T) {
	h := newHistory(t)
	want := []string{
		"enp1s0f0#0 --00 default/before blue []",
		"enp1s0f0#0 01-04 default/a blue [DriftMended LinkDown]",
		"enp1s0f0#0 04-05   [Quarantined Recovered]",
		"enp1s0f0#0 06-06 default/b blue [AttachFailed CommandRun]",
		"enp1s0f0#0 07-- default/c blue []",
		"enp1s0f0#1 --09 default/d blue [VFNoCarrier LeaseEnded]",
		"enp1s0f0#2 10--   [Attached]",
	}
	if diff := cmp.Diff(want, describeSpans(History{}.MakeSpans(h.st, h.events))); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	for _, tc := range []struct {
		name, word, pf string
		f              Events
		spans, events  int
	}{
		{"one VF", "enp1s0f0#0", "", Events{}, 5, 9},
		{"a VF by its identity", h.st.VFs[1].ID.String(), "", Events{}, 1, 3},
		{"one PF", "", "enp1s0f1", Events{}, 0, 0},
		{"a time", "enp1s0f0#0", "", Events{Since: atMinute(5)}, 3, 4},
		{"an owner", "", "", Events{Subject: Subject{Owner: "default/a"}}, 1, 4},
		{"a pod", "", "", Events{Subject: Subject{PodUID: "uid-d"}}, 1, 2},
		{"a MAC address", "", "", Events{Subject: Subject{MAC: vf.MAC{2, 0, 0, 0, 0, 1}}}, 1, 2},
		{"an address", "", "", Events{Subject: Subject{Address: netip.MustParseAddr("10.0.0.11")}}, 1, 2},
		{"nothing", "enp1s0f0#0", "", Events{Subject: Subject{Owner: "default/z"}}, 0, 0},
	} {
		f, err := NewHistory(h.st, tc.f, tc.word, tc.pf)
		if err != nil {
			t.Errorf("%s: %v", tc.name, err)
			continue
		}
		if spans, events := f.MakeSpans(h.st, h.events), f.SelectEvents(h.st, h.events); len(spans) != tc.spans || len(events) != tc.events {
			t.Errorf("%s: %d events, spans %q", tc.name, len(events), describeSpans(spans))
		}
	}
	if _, err := NewHistory(h.st, Events{}, "enp1s0f0#99", ""); err == nil {
		t.Error("a VF that is not there")
	}
	if _, err := NewHistory(h.st, Events{}, "", "nic"); err == nil {
		t.Error("a PF that is not there")
	}
}

// The time in which a claim has a VF without a lease is the claim's. The leases of its pod, and a
// quarantine, are apart.
func TestSpansOfAClaim(t *testing.T) {
	h := &history{st: node(t)}
	claim := vf.Owner{Kind: vf.OwnerClaim, UID: "u", Name: "default/c"}
	add := func(minute int, phase vf.Phase, reason, owner string) *api.Event {
		e := h.addEvent(minute, 0, phase, reason, owner, "")
		if e.Claim = claim; owner == "" {
			e.Owner = claim
		}
		return e
	}
	add(0, vf.PhasePrepared, "Prepared", "")
	add(1, vf.PhasePrepared, "AttachFailed", "a")
	add(2, vf.PhaseAttached, "Attached", "a")
	add(3, vf.PhasePrepared, "Detached", "a")
	add(4, vf.PhasePrepared, "DriftMended", "")
	add(5, vf.PhaseAttached, "Attached", "a")
	add(6, vf.PhaseQuarantined, "Quarantined", "a")
	add(7, vf.PhasePrepared, "Recovered", "a")
	add(8, vf.PhaseReleasing, "Unprepared", "")
	h.addEvent(9, 0, vf.PhaseFree, "Detached", "", "clean")
	add(10, vf.PhasePrepared, "Prepared", "")
	add(11, vf.PhaseFree, "Unprepared", "")
	want := []string{
		"enp1s0f0#0 00-02 default/c  [AttachFailed]",
		"enp1s0f0#0 02-03 default/a blue []",
		"enp1s0f0#0 03-05 default/c  [DriftMended]",
		"enp1s0f0#0 05-06 default/a blue []",
		"enp1s0f0#0 06-07   [Quarantined Recovered]",
		"enp1s0f0#0 07-08 default/c  []",
		"enp1s0f0#0 10-11 default/c  []",
	}
	if diff := cmp.Diff(want, describeSpans(History{}.MakeSpans(h.st, h.events))); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
