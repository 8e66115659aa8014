package journal_test

import (
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/culvert-net/culvert/internal/node/journal"
	"github.com/culvert-net/culvert/internal/vf"
)

// sound returns a ledger with a VF in each state that culvertd may leave behind when it dies.
func sound() ([]journal.Record, []journal.Address) {
	record := func(i int, phase vf.Phase) journal.Record {
		return journal.Record{
			ID: id(i), PCI: vf.PCIAddr{Bus: 1, Device: uint8(16 + i)}, Generation: 1, Phase: phase,
			Baseline: vf.Baseline{Admin: vf.Admin{MAC: vf.StableMAC(id(i).PF, i)}, Driver: "igbvf", Name: "v"},
		}
	}
	held := func(i int, phase vf.Phase, uid string) (journal.Record, journal.Address) {
		r := record(i, phase)
		addr := netip.AddrFrom4([4]byte{10, 0, 0, byte(i)})
		r.Lease = journal.Lease{
			Owner:   vf.Owner{Kind: vf.OwnerPod, UID: uid, Name: "ns/" + uid, Interface: "net1"},
			Network: "blue", Netns: "/run/netns/" + uid,
			Wanted: vf.Spec{Addresses: []vf.Address{{Prefix: netip.PrefixFrom(addr, 24)}}},
		}
		return r, journal.Address{Network: "blue", Addr: addr, VF: r.ID, Owner: r.Lease.Owner}
	}
	var records []journal.Record
	var addresses []journal.Address
	for i, phase := range []vf.Phase{vf.PhaseConfiguring, vf.PhaseConfiguring, vf.PhaseAttached, vf.PhaseReleasing, vf.PhaseQuarantined} {
		uid := string(phase)
		if i == 0 {
			uid = "another"
		}
		r, a := held(i, phase, uid)
		records, addresses = append(records, r), append(addresses, a)
	}
	// culvertd retries the quarantined VF of an owner that has another VF now.
	again, a := held(5, vf.PhaseAttached, string(vf.PhaseQuarantined))
	// A VF that is not made yet, so it has neither a baseline nor a PCI address.
	making := journal.Record{ID: id(6), Generation: 3, Phase: vf.PhaseMaking}
	// A VF of a card that was in the slot before.
	gone := record(0, vf.PhaseQuarantined)
	gone.ID.PF.MAC[0] = 6
	ofClaim := record(10, vf.PhasePrepared)
	ofClaim.Claim = &journal.Claim{UID: "u", Namespace: "d", Name: "c"}
	records = append(records, again, making, record(7, vf.PhaseFree), record(8, vf.PhaseReleasing), record(9, vf.PhaseQuarantined), ofClaim, gone)
	return records, append(addresses, a)
}

// TestVerify breaks each rule once, in a ledger that is sound otherwise.
func TestVerify(t *testing.T) {
	const begun, configuring, attached, releasing, quarantined, again, making, free, ofClaim = 0, 1, 2, 3, 4, 5, 6, 7, 10
	tests := map[string]struct {
		spoil func(r []journal.Record, a []journal.Address) ([]journal.Record, []journal.Address)
		want  []string // invariant and object
	}{
		"sound":   {spoil: func(r []journal.Record, a []journal.Address) ([]journal.Record, []journal.Address) { return r, a }},
		"nothing": {spoil: func([]journal.Record, []journal.Address) ([]journal.Record, []journal.Address) { return nil, nil }},
		"I1 two records of one VF": {spoil: func(r []journal.Record, a []journal.Address) ([]journal.Record, []journal.Address) {
			return append(r, r[free]), a
		}, want: []string{"I1 VF 02:00:00:00:00:01/p1#7 (0000:01:17.0)"}},
		"I1 two VFs at one place": {spoil: func(r []journal.Record, a []journal.Address) ([]journal.Record, []journal.Address) {
			r[free].PCI = r[attached].PCI
			return r, a
		}, want: []string{"I1 VF 02:00:00:00:00:01/p1#7 (0000:01:12.0)"}},
		"I1 two owners at one place": {spoil: func(r []journal.Record, a []journal.Address) ([]journal.Record, []journal.Address) {
			last := &r[len(r)-1]
			last.Phase, last.Lease = vf.PhaseAttached, journal.Lease{Owner: vf.Owner{Kind: vf.OwnerGuest, UID: "vm"}}
			return r, a
		}, want: []string{"I1 VF 06:00:00:00:00:01/p1#0 (0000:01:10.0)"}},
		"I1 one attachment, two VFs": {spoil: func(r []journal.Record, a []journal.Address) ([]journal.Record, []journal.Address) {
			r[again].Lease.Owner, a[again].Owner = r[attached].Lease.Owner, r[attached].Lease.Owner
			return r, a
		}, want: []string{"I1 VF 02:00:00:00:00:01/p1#5 (0000:01:15.0)"}},
		"I1 free with an owner": {spoil: func(r []journal.Record, a []journal.Address) ([]journal.Record, []journal.Address) {
			r[free].Lease.Owner = vf.Owner{UID: "x"}
			return r, a
		}, want: []string{"I1 VF 02:00:00:00:00:01/p1#7 (0000:01:17.0)"}},
		"I1 prepared with an owner": {spoil: func(r []journal.Record, a []journal.Address) ([]journal.Record, []journal.Address) {
			r[ofClaim].Lease.Owner = vf.Owner{UID: "x"}
			return r, a
		}, want: []string{"I1 VF 02:00:00:00:00:01/p1#10 (0000:01:1a.0)"}},
		"I1 prepared without a claim": {spoil: func(r []journal.Record, a []journal.Address) ([]journal.Record, []journal.Address) {
			r[ofClaim].Claim = nil
			return r, a
		}, want: []string{"I1 VF 02:00:00:00:00:01/p1#10 (0000:01:1a.0)"}},
		"I1 free with a claim": {spoil: func(r []journal.Record, a []journal.Address) ([]journal.Record, []journal.Address) {
			r[free].Claim = r[ofClaim].Claim
			return r, a
		}, want: []string{"I1 VF 02:00:00:00:00:01/p1#7 (0000:01:17.0)"}},
		"I8 a claim without a UID": {spoil: func(r []journal.Record, a []journal.Address) ([]journal.Record, []journal.Address) {
			r[ofClaim].Claim.UID = ""
			return r, a
		}, want: []string{"I1 VF 02:00:00:00:00:01/p1#10 (0000:01:1a.0)"}},
		"I4 address of a prepared VF": {spoil: func(r []journal.Record, a []journal.Address) ([]journal.Record, []journal.Address) {
			a[quarantined].VF = id(ofClaim)
			return r, a
		}, want: []string{"I4 address 10.0.0.4 of network blue"}},
		"I1 making with an owner": {spoil: func(r []journal.Record, a []journal.Address) ([]journal.Record, []journal.Address) {
			r[making].Lease.Owner = vf.Owner{UID: "x"}
			return r, a
		}, want: []string{"I1 VF 02:00:00:00:00:01/p1#6"}},
		"I8 nobody's": {spoil: func(r []journal.Record, a []journal.Address) ([]journal.Record, []journal.Address) {
			r[begun].Lease.Owner.UID, a[begun].Owner.UID = "", ""
			return r, a
		}, want: []string{"I8 VF 02:00:00:00:00:01/p1#0 (0000:01:10.0)"}},
		"I8 generation 0": {spoil: func(r []journal.Record, a []journal.Address) ([]journal.Record, []journal.Address) {
			r[releasing].Generation = 0
			return r, a
		}, want: []string{"I8 VF 02:00:00:00:00:01/p1#3 (0000:01:13.0)"}},
		"I2 no baseline": {spoil: func(r []journal.Record, a []journal.Address) ([]journal.Record, []journal.Address) {
			r[free].Baseline = vf.Baseline{}
			return r, a
		}, want: []string{"I2 VF 02:00:00:00:00:01/p1#7 (0000:01:17.0)"}},
		"no place": {spoil: func(r []journal.Record, a []journal.Address) ([]journal.Record, []journal.Address) {
			r[free].PCI = vf.PCIAddr{}
			return r, a
		}, want: []string{" VF 02:00:00:00:00:01/p1#7"}},
		"unknown phase": {spoil: func(r []journal.Record, a []journal.Address) ([]journal.Record, []journal.Address) {
			r[free].Phase = "parked"
			return r, a
		}, want: []string{" VF 02:00:00:00:00:01/p1#7 (0000:01:17.0)"}},
		"damaged": {spoil: func(r []journal.Record, a []journal.Address) ([]journal.Record, []journal.Address) {
			r[attached] = journal.Record{ID: id(attached), Phase: vf.PhaseDamaged, Reason: "no JSON"}
			return r, a
		}, want: []string{" VF 02:00:00:00:00:01/p1#2"}},
		"I4 address of a VF that has no record": {spoil: func(r []journal.Record, a []journal.Address) ([]journal.Record, []journal.Address) {
			return r[1:], a
		}, want: []string{"I4 address 10.0.0.0 of network blue"}},
		"I4 address of a free VF": {spoil: func(r []journal.Record, a []journal.Address) ([]journal.Record, []journal.Address) {
			a[quarantined].VF = id(free)
			return r, a
		}, want: []string{"I4 address 10.0.0.4 of network blue"}},
		"I4 address of another owner": {spoil: func(r []journal.Record, a []journal.Address) ([]journal.Record, []journal.Address) {
			a[releasing].Owner.UID = "x"
			return r, a
		}, want: []string{"I4 address 10.0.0.3 of network blue"}},
		"I4 one address, two holders": {spoil: func(r []journal.Record, a []journal.Address) ([]journal.Record, []journal.Address) {
			a[releasing].Addr = a[quarantined].Addr
			return r, a
		}, want: []string{"I4 address 10.0.0.4 of network blue"}},
		"I4 no address": {spoil: func(r []journal.Record, a []journal.Address) ([]journal.Record, []journal.Address) {
			a[releasing].Addr = netip.Addr{}
			return r, a
		}, want: []string{"I4 address invalid IP of network blue"}},
		"I4 an address that nobody holds": {spoil: func(r []journal.Record, a []journal.Address) ([]journal.Record, []journal.Address) {
			return r, append(a[:configuring:configuring], a[attached:]...)
		}, want: []string{"I4 VF 02:00:00:00:00:01/p1#1 (0000:01:11.0)"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var got []string
			problems := journal.Verify(test.spoil(sound()))
			for _, p := range problems {
				got = append(got, p.Invariant+" "+p.Object)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("%s\n%v", diff, problems)
			}
		})
	}
}
