package node

import (
	"strings"
	"testing"
	"time"

	"github.com/culvert-net/culvert/internal/vf"
)

// An error that PCIe does not correct, and a transmit queue that did not send in time, are
// problems until FaultPeriod after the last one. Errors from before culvertd's start are no
// problems. Correctable errors are none either, but Count includes them.
func TestFaults(t *testing.T) {
	start := time.Date(2026, 11, 26, 18, 0, 0, 0, time.UTC)
	now := start
	pf, v := vf.PCIAddr{Bus: 1}, vf.PCIAddr{Bus: 1, Device: 16}
	counts := map[vf.PCIAddr]vf.ErrorCounts{pf: {Fatal: 3, TxTimeouts: 1}}
	f := NewFaults(func() time.Time { return now })
	pfs := []vf.PF{{PCI: pf, Name: "enp1s0", VFs: []vf.State{{PCI: v}}}}
	for _, s := range []struct {
		name    string
		after   time.Duration
		do      func()
		changed bool
		want    string // the objects
	}{
		{"errors of before", 0, func() {}, false, ""},
		{"a VF that is read for the first time", time.Second, func() { counts[v] = vf.ErrorCounts{Nonfatal: 2} }, false, ""},
		{"a correctable error", 2 * time.Second, func() { counts[pf] = vf.ErrorCounts{Correctable: 1, Fatal: 3, TxTimeouts: 1} }, false, ""},
		{"a queue", 3 * time.Second, func() { counts[pf] = vf.ErrorCounts{Correctable: 1, Fatal: 3, TxTimeouts: 2} }, true, "transmit queues of PF enp1s0"},
		{"another time", time.Minute, func() { counts[pf] = vf.ErrorCounts{Correctable: 1, Fatal: 3, TxTimeouts: 3} }, false, "transmit queues of PF enp1s0"},
		{"the VF", 2 * time.Minute, func() { counts[v] = vf.ErrorCounts{Nonfatal: 3} }, true, "PCIe of PF enp1s0, transmit queues of PF enp1s0"},
		{"the VF was not read", 3 * time.Minute, func() { delete(counts, v) }, false, "PCIe of PF enp1s0, transmit queues of PF enp1s0"},
		{"just before the end", time.Minute + FaultPeriod - 1, func() {}, false, "PCIe of PF enp1s0, transmit queues of PF enp1s0"},
		{"the queue's end", time.Minute + FaultPeriod, func() {}, true, "PCIe of PF enp1s0"},
		{"made anew, without an error", time.Minute + FaultPeriod, func() { counts[v] = vf.ErrorCounts{} }, false, "PCIe of PF enp1s0"},
		{"the VF's end", 2*time.Minute + FaultPeriod, func() {}, true, ""},
	} {
		now = start.Add(s.after)
		s.do()
		changed := f.Add(pfs, counts)
		var objects []string
		for _, p := range f.Problems() {
			objects = append(objects, p.Object)
		}
		if got := strings.Join(objects, ", "); got != s.want || changed != s.changed {
			t.Errorf("%s: %q, changed %t; want %q, %t", s.name, got, changed, s.want, s.changed)
		}
		if kinds := f.Kinds()[pf]; len(kinds) != len(f.Problems()) || len(kinds) == 2 && (kinds[0] != vf.FaultPCIe || kinds[1] != vf.FaultTransmitQueue) {
			t.Errorf("%s: kinds %v", s.name, kinds)
		}
		for _, p := range f.Problems() {
			if strings.HasPrefix(p.Object, "PCIe") && (!strings.Contains(p.Reason, v.String()) || strings.Contains(p.Reason, pf.String()) || !p.Since.Equal(start.Add(2*time.Minute))) {
				t.Errorf("%s: %+v", s.name, p)
			}
		}
	}
	if kinds := f.Kinds(); len(kinds) != 0 {
		t.Errorf("kinds %v after the end", kinds)
	}
	if got := f.Count(pf); got != (vf.ErrorCounts{Correctable: 1, Nonfatal: 1, TxTimeouts: 2}) {
		t.Errorf("%+v", got)
	}
}

// Without a clock of its own, Faults dates an error by the time of the machine.
func TestFaultsWithoutAClock(t *testing.T) {
	f, pf := NewFaults(nil), vf.PCIAddr{Bus: 1}
	pfs := []vf.PF{{PCI: pf, Name: "enp1s0"}}
	f.Add(pfs, map[vf.PCIAddr]vf.ErrorCounts{pf: {}})
	before := time.Now()
	if !f.Add(pfs, map[vf.PCIAddr]vf.ErrorCounts{pf: {Fatal: 1}}) {
		t.Error("a fatal error is no change")
	}
	if p := f.Problems(); len(p) != 1 || p[0].Since.Before(before) || p[0].Since.After(time.Now()) {
		t.Errorf("%+v, want one problem since %s", p, before)
	}
}
