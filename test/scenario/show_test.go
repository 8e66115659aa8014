package scenario

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/culvert-net/culvert/internal/kernel/step"
	"github.com/culvert-net/culvert/internal/node/journal"
	"github.com/culvert-net/culvert/internal/vf"
)

// meddling returns the step that has the effect of a command outside Culvert.
func meddling(pf vf.PF, v vf.State, args []string) (step.Step, error) {
	value := ""
	if len(args) > 1 {
		value = args[1]
	}
	switch args[0] {
	case "vlan":
		id, err := strconv.Atoi(value)
		return step.SetVFVLAN{PF: pf.PCI, Index: v.ID.Index, VLAN: vf.VLAN{ID: uint16(id)}}, err
	case "rate":
		rate, err := strconv.ParseUint(value, 10, 32)
		return step.SetVFRate{PF: pf.PCI, Index: v.ID.Index, Max: uint32(rate)}, err
	case "trust", "spoofchk":
		return step.SetVFSwitch{PF: pf.PCI, Index: v.ID.Index, Setting: vf.Setting(args[0]), On: value == "on"}, nil
	case "up":
		return step.SetUp{VF: v.PCI, Up: true}, nil
	case "mtu":
		mtu, err := strconv.Atoi(value)
		return step.SetMTU{VF: v.PCI, MTU: mtu}, err
	case "name":
		return step.Rename{VF: v.PCI, Name: value}, nil
	case "address":
		p, err := netip.ParsePrefix(value)
		return step.AddAddress{VF: v.PCI, Address: p}, err
	case "unbind":
		return step.Unbind{VF: v.PCI}, nil
	case "numvfs":
		n, err := strconv.Atoi(value)
		return step.SetNumVFs{PF: pf.PCI, N: n}, err
	case "podmtu": // in the pod: meddle ALIAS podmtu NETNS:MTU
		ns, text, _ := strings.Cut(value, ":")
		mtu, err := strconv.Atoi(text)
		return step.SetMTU{VF: v.PCI, Netns: netnsPath(ns), MTU: mtu}, err
	case "move": // into another netns
		return step.Move{VF: v.PCI, To: netnsPath(value), Name: v.Link.Name}, nil
	case "unguard": // in the pod
		return step.DelGuard{VF: v.PCI, Netns: netnsPath(value)}, nil
	case "poddown":
		return step.SetUp{VF: v.PCI, Netns: netnsPath(value)}, nil
	case "podaddress": // removes it
		ns, text, _ := strings.Cut(value, ":")
		p, err := netip.ParsePrefix(text)
		return step.DelAddress{VF: v.PCI, Netns: netnsPath(ns), Address: p}, err
	}
	return nil, fmt.Errorf("nobody can meddle with %q", args[0])
}

// show prints the kernel's state, as seen from the host and every living netns.
func show(w *world, _ func(string) string, _ []string) (string, error) {
	pfs, err := w.node.Inventory.Refresh(context.Background())
	if err != nil {
		return "", err
	}
	var b strings.Builder
	for _, pf := range pfs {
		fmt.Fprintf(&b, "%s up %t mtu %d autoprobe %s vfs %d\n", pf.Label(), pf.Up, pf.MTU, pf.Autoprobe, len(pf.VFs))
		for _, v := range pf.VFs {
			st, err := w.find(v)
			if err != nil {
				return "", err
			}
			w.showVF(&b, st)
		}
	}
	return b.String(), nil
}

// find reads a VF in the netns where its interface is.
func (w *world) find(v vf.State) (st vf.State, err error) {
	for _, name := range append([]string{""}, w.netns...) {
		path := ""
		if name != "" {
			path = netnsPath(name)
		}
		if st, err = w.VF(context.Background(), v.PCI, path); err != nil || st.Link != nil {
			return st, err
		}
	}
	return st, nil
}

// showVF prints a VF that is not at its baseline, with those settings that
// differ from it.
func (w *world) showVF(b *strings.Builder, st vf.State) {
	records, _ := w.records()
	i := slices.IndexFunc(records, func(r journal.Record) bool { return r.ID == st.ID })
	made := vf.Baseline{}
	if i >= 0 && records[i].Phase != vf.PhaseMaking {
		made = records[i].Baseline
		if len(made.Diff(st)) == 0 {
			return
		}
	}
	var changed []string
	for _, d := range (vf.Baseline{Admin: made.Admin, Driver: st.Driver}).Diff(vf.State{Admin: st.Admin, Driver: st.Driver}) {
		changed = append(changed, d.Attribute+" "+d.Have)
	}
	fmt.Fprintf(b, "  %s driver %s: %s\n", st.PCI, cmp.Or(st.Driver, "none"), cmp.Or(strings.Join(changed, ", "), "as made"))
	l := st.Link
	if l == nil {
		return
	}
	fmt.Fprintf(b, "    %s/%s mac %s mtu %d up %t promisc %t %s\n", cmp.Or(l.Netns, "host"), l.Name, l.MAC, l.MTU, l.Up, l.Promisc, describePlaces(*l))
	if g, err := w.Guard(context.Background(), st.PCI, l.Netns); l.Netns != "" && err == nil && g.String() != (vf.Guard{}).String() {
		fmt.Fprintf(b, "    guard %s\n", g)
	}
	if bond := l.Bond; bond != nil { // which member sends, and so the MAC address, is the kernel's choice
		fmt.Fprintf(b, "      in bond %s %s fail_over_mac %t arp %d %v missed %d mtu %d up %t %s\n", bond.Link.Name, bond.Mode, bond.FailOverMAC, bond.ARPInterval, bond.ARPTargets, bond.ARPMissedMax,
			bond.Link.MTU, bond.Link.Up, describePlaces(bond.Link))
	}
}

// describePlaces returns the addresses and routes of an interface as text.
func describePlaces(l vf.Link) string {
	addrs := slices.Clone(l.Addrs)
	slices.SortFunc(addrs, func(a, b netip.Prefix) int { return a.Addr().Compare(b.Addr()) })
	routes := make([]string, 0, len(l.Routes))
	for _, r := range l.Routes {
		routes = append(routes, r.String())
	}
	slices.Sort(routes)
	return fmt.Sprintf("addresses %v routes %v", addrs, routes)
}

func ledger(w *world, _ func(string) string, _ []string) (string, error) {
	records, err := w.records()
	if err != nil {
		return "", err
	}
	var b strings.Builder
	count := map[vf.Phase]int{}
	for _, r := range records {
		count[r.Phase]++
		if r.Phase == vf.PhaseFree || r.Phase == vf.PhaseMaking {
			continue
		}
		fmt.Fprintf(&b, "%s %s %s %s\n", w.aliasOf(r.ID), r.Phase, r.Lease.Owner, r.Lease.Owner.Interface)
		if r.Reason != "" {
			fmt.Fprintf(&b, "  because: %s\n", r.Reason)
		}
	}
	fmt.Fprintf(&b, "free %d of %d\n", count[vf.PhaseFree], len(records))
	err = w.ledger.View(func(tx *journal.Tx) error {
		held := tx.AddressesOf("")
		for _, a := range held {
			fmt.Fprintf(&b, "%s in %s: %s\n", a.Addr, a.Network, a.Owner)
		}
		return nil
	})
	return b.String(), err
}

func events(w *world, _ func(string) string, _ []string) (string, error) {
	var b strings.Builder
	err := w.ledger.View(func(tx *journal.Tx) error {
		all := tx.Events(0)
		for _, e := range all {
			fmt.Fprintf(&b, "%s %s %s: %s\n", e.Type, e.Reason, e.Object, e.Text)
		}
		return nil
	})
	return b.String(), err
}

func problems(w *world, _ func(string) string, _ []string) (string, error) {
	var b strings.Builder
	for _, p := range w.node.Reconciler.Problems() {
		fmt.Fprintf(&b, "%s: %s\n", p.Object, p.Reason)
	}
	return b.String(), nil
}

// clean checks that every VF is free and, by the kernel, at its baseline, and
// that no address is held.
func clean(w *world, _ func(string) string, _ []string) (string, error) {
	records, err := w.records()
	if err != nil {
		return "", err
	}
	if len(records) == 0 {
		return "", errors.New("there is no VF at all")
	}
	var errs []error
	for _, r := range records {
		st, err := w.VF(context.Background(), r.PCI, "")
		if err != nil {
			errs = append(errs, err)
			continue
		}
		if d := r.Baseline.Diff(st); len(d) > 0 || r.Phase != vf.PhaseFree {
			errs = append(errs, fmt.Errorf("%s is %s: %s %s", w.aliasOf(r.ID), r.Phase, vf.Differences(d), r.Reason))
		}
	}
	err = w.ledger.View(func(tx *journal.Tx) error {
		held := tx.AddressesOf("")
		if len(held) > 0 {
			errs = append(errs, fmt.Errorf("addresses held by nobody: %v", held))
		}
		return nil
	})
	return "", errors.Join(append(errs, err)...)
}
