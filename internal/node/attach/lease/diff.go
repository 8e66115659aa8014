package lease

import (
	"slices"

	"github.com/culvert-net/culvert/internal/node/journal"
	"github.com/culvert-net/culvert/internal/vf"
)

// Diff lists the attributes of an attached VF that have changed since the end of its attach.
func Diff(rec journal.Record, st vf.State) []vf.Difference {
	return SpecDiff(rec.Lease.Wanted, rec, st)
}

// SpecDiff lists the differences between the wanted state w and st. A value that the driver
// rounded is compared with the rounded one (I6). A driver may round and still report the
// requested value, which is no difference.
func SpecDiff(w vf.Spec, rec journal.Record, st vf.State) []vf.Difference {
	asked, got := rec.Lease.Wanted.Over(rec.Baseline.Admin), rec.Lease.Effective
	if st.Admin.MinTxRate == asked.MinTxRate && st.Admin.MaxTxRate == asked.MaxTxRate {
		st.Admin.MinTxRate, st.Admin.MaxTxRate = got.MinTxRate, got.MaxTxRate
	}
	if rec.Lease.Bond != nil {
		return memberDiff(EffectiveSpec(w, rec), rec, st)
	}
	return EffectiveSpec(w, rec).Diff(rec.Baseline, rec.Lease.Netns, st)
}

// EffectiveSpec returns w with the lease's driver, and with the rates that the hardware applies:
// those that were read back after the attach, or a lent rate.
func EffectiveSpec(w vf.Spec, rec journal.Record) vf.Spec {
	w.Driver = rec.Lease.Wanted.Driver
	if w.MinTxRate != nil || w.MaxTxRate != nil {
		w.MinTxRate, w.MaxTxRate = &rec.Lease.Effective.MinTxRate, &rec.Lease.Effective.MaxTxRate
	}
	if l := rec.Lease.Lent; l != nil && !l.Over {
		w.MinTxRate, w.MaxTxRate = &rec.Lease.Effective.MinTxRate, &l.MaxTxRate
	}
	return w
}

// HostDiff lists the differences between an attached VF and its lease, as far as a listing of the
// host shows. It compares the PF's settings for the VF and its driver, and reports a netdevice that
// is back on the host. In the owner's netns, which the owner may change, culvertd compares only the
// guard (guardDrift). CHECK compares all of it.
func HostDiff(rec journal.Record, st vf.State) []vf.Difference {
	d := Diff(rec, st)
	if st.Link == nil {
		d = slices.DeleteFunc(d, func(o vf.Difference) bool { return o.Attribute == "interface" })
	}
	return d
}

// memberDiff lists the differences between the wanted state of a member of a bond and its state. It
// looks for the addresses and routes of the lease on the bond's interface.
func memberDiff(w vf.Spec, rec journal.Record, st vf.State) []vf.Difference {
	if st.Link == nil || BondOf(rec) == "" {
		return w.Diff(rec.Baseline, rec.Lease.Netns, st)
	}
	link, bond := *st.Link, vf.Link{}
	if link.Bond != nil {
		bond = link.Bond.Link
	}
	link.Addrs, link.Routes, link.MoreAddrs, link.MoreRoutes = bond.Addrs, bond.Routes, bond.MoreAddrs, bond.MoreRoutes
	link.Tentative, link.Duplicates = bond.Tentative, bond.Duplicates
	st.Link = &link
	return append(w.Diff(rec.Baseline, rec.Lease.Netns, st), rec.Lease.Bond.Diff(BondOf(rec), w.MTU, link.Bond)...)
}

// OwnerChanges returns how a VF differs from its baseline beyond what Culvert set for the lease, in the
// state in which its owner left it. An unknown text says why there may be other changes.
func OwnerChanges(rec journal.Record, st vf.State) (changed []vf.Difference, unknown string) {
	switch {
	case st.Driver == vf.DriverVFIO:
		unknown = "programs had it as a device of user space"
	case st.Link == nil && rec.Baseline.Name != "":
		unknown = "it had no interface any more that culvertd could read"
	}
	isForeign := map[string]bool{}
	for _, d := range Diff(rec, st) {
		isForeign[d.Attribute] = true
	}
	for _, d := range rec.Baseline.Diff(st) {
		switch {
		case slices.Contains(placesOfOwner, d.Attribute):
		case !isInSpec(d.Attribute) || isForeign[d.Attribute]:
			changed = append(changed, d)
		}
	}
	return changed, unknown
}

// placesOfOwner are attributes that differ from the baseline since the VF was with its owner.
var placesOfOwner = []string{"netns", "name", "up", "addresses", "driver", "netdevice", "bond"}

// isInSpec reports whether Diff compares an attribute with the one that the lease wants.
func isInSpec(attribute string) bool {
	switch attribute {
	case "mac", "vlan", "link_state", "min_tx_rate", "max_tx_rate", "link mac", "mtu":
		return true
	}
	return slices.Contains(vf.Switches(), vf.Setting(attribute))
}
