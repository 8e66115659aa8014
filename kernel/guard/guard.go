// Package guard pins the source of the frames that a pod sends by nftables' hook at the egress of
// the pod's interface: its MAC address, its IP addresses, and the sender of ARP and of IPv6
// neighbour discovery.
//
// In go a [vf.Guard] and an interface of the calling thread's network namespace; package kernel
// calls it there. The rules are in a table of their own in that namespace, so they outlive
// culvertd. docs/design/0027-guard.md says what they hold against.
package guard

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"

	"github.com/culvert-net/culvert/vf"
)

// tableOf returns the table of a VF's guard. It is named after the VF and not after the
// interface, so that a late removal does not hit the guard of the next VF of that name. nft's
// grammar has no colons in names.
func tableOf(pci vf.PCIAddr) *nftables.Table {
	name := "culvert-guard-" + strings.NewReplacer(":", "-", ".", "-").Replace(pci.String())
	return &nftables.Table{Name: name, Family: nftables.TableFamilyNetdev}
}

// Tables are the guards in the network namespace of the calling thread.
type Tables struct{}

// Set writes the guard of a VF whose interface has that name, in place of an earlier one, in one
// transaction. The error wraps vf.ErrUnable where the kernel has no nftables, or no hook at
// egress (Linux 5.16, CONFIG_NETFILTER_EGRESS).
func (Tables) Set(pci vf.PCIAddr, device string, g vf.Guard) error {
	conn, err := nftables.New()
	if err != nil {
		return fmt.Errorf("open a netlink socket: %w", err)
	}
	return setTable(conn, tableOf(pci), device, g)
}

func setTable(conn *nftables.Conn, table *nftables.Table, device string, g vf.Guard) error {
	there, err := tableExists(conn, table)
	if err != nil {
		return err
	}
	if there {
		conn.DelTable(table)
	}
	conn.AddTable(table)
	all := chainsOf(g)
	for _, c := range all {
		conn.AddChain(chainAt(table, c.name, device))
	}
	for _, c := range all {
		for i, exprs := range c.rules {
			r := &nftables.Rule{Table: table, Chain: &nftables.Chain{Name: c.name, Table: table}, Exprs: exprs}
			if c.name == baseChain && i == 0 {
				r.UserData = []byte(g.String())
			}
			conn.AddRule(r)
		}
	}
	return explainWrite(conn.Flush(), there)
}

// explainWrite explains the kernel's answer to the transaction of Set. there reports whether the
// VF had a guard, so that the kernel is known to have the hook.
func explainWrite(err error, there bool) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, unix.EOPNOTSUPP), errors.Is(err, unix.ENOENT) && !there:
		return fmt.Errorf("%w: this kernel has no hook of nftables at the egress of an interface, which came with Linux 5.16 (CONFIG_NETFILTER_EGRESS): take guard out of the network, or run a newer kernel: %w", vf.ErrUnable, err)
	}
	return fmt.Errorf("write nftables: %w", err)
}

// chainAt returns a chain as the guard makes it: the base chain at the hook of a device, or a
// chain that others go to.
func chainAt(table *nftables.Table, name, device string) *nftables.Chain {
	c := &nftables.Chain{Name: name, Table: table}
	if name == baseChain {
		policy := nftables.ChainPolicyDrop
		c.Type, c.Hooknum, c.Priority, c.Policy, c.Device = nftables.ChainTypeFilter, nftables.ChainHookEgress, nftables.ChainPriorityFilter, &policy, device
	}
	return c
}

// Remove removes the guard of a VF. It succeeds if there is none, and so on a kernel without
// nftables.
func (Tables) Remove(pci vf.PCIAddr) error {
	conn, err := nftables.New()
	if err != nil {
		return fmt.Errorf("open a netlink socket: %w", err)
	}
	return removeTable(conn, tableOf(pci))
}

func removeTable(conn *nftables.Conn, table *nftables.Table) error {
	there, err := tableExists(conn, table)
	if err != nil || !there {
		return ignoreUnable(err)
	}
	conn.DelTable(table)
	if err := conn.Flush(); err != nil && !errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("remove a table of nftables: %w", err)
	}
	return nil
}

// Read returns the guard of a VF: the zero value if there is none, and so on a kernel without
// nftables, and one that is Altered if a rule differs from those that Set writes.
func (Tables) Read(pci vf.PCIAddr) (vf.Guard, error) {
	conn, err := nftables.New()
	if err != nil {
		return vf.Guard{}, fmt.Errorf("open a netlink socket: %w", err)
	}
	return confirmAltered(func() (vf.Guard, error) { return readTable(conn, tableOf(pci)) })
}

// confirmAltered reads a guard again if it seems to be altered. The kernel lists the chains of all
// guards of a network namespace in several parts. If another guard is removed meanwhile, the list
// may lack chains.
func confirmAltered(read func() (vf.Guard, error)) (g vf.Guard, err error) {
	for range readTries {
		if g, err = read(); err != nil || !g.Altered {
			return g, err
		}
	}
	return g, nil
}

// readTries is how often a guard must seem altered to be so.
const readTries = 3

func readTable(conn *nftables.Conn, table *nftables.Table) (vf.Guard, error) {
	if there, err := tableExists(conn, table); err != nil || !there {
		return vf.Guard{}, ignoreUnable(err)
	}
	rules, err := conn.GetRules(table, &nftables.Chain{Name: baseChain, Table: table})
	if err != nil || len(rules) == 0 {
		return vf.Guard{Altered: true}, ignoreAbsent(err)
	}
	g, err := vf.ParseGuard(string(rules[0].UserData))
	if err != nil {
		return vf.Guard{Altered: true}, nil //nolint:nilerr // the text is not Culvert's
	}
	whole, err := isWhole(conn, table, g)
	if err != nil || !whole {
		return vf.Guard{Altered: true}, err
	}
	return g, nil
}

// tableExists reports whether a table exists. The error wraps vf.ErrUnable where the kernel has no
// nftables: nfnetlink then answers EINVAL, and a kernel without nfnetlink refuses the socket. It is
// asked before each Flush, which on such a kernel waits for answers that never come.
func tableExists(conn *nftables.Conn, table *nftables.Table) (bool, error) {
	all, err := conn.ListTablesOfFamily(table.Family)
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.EPROTONOSUPPORT) {
		return false, fmt.Errorf("%w: this kernel has no nftables (module nf_tables), which a guard needs: load the module, or take guard out of the network: %w", vf.ErrUnable, err)
	}
	if err != nil {
		return false, fmt.Errorf("list nftables: %w", err)
	}
	return slices.ContainsFunc(all, func(t *nftables.Table) bool { return t.Name == table.Name }), nil
}

// ignoreUnable drops the error about a kernel that cannot have a guard.
func ignoreUnable(err error) error {
	if errors.Is(err, vf.ErrUnable) {
		return nil
	}
	return err
}

// ignoreAbsent drops the error about a table or chain that was removed meanwhile.
func ignoreAbsent(err error) error {
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	return err
}

// isWhole reports whether a table has the chains and rules of a guard, and no others.
func isWhole(conn *nftables.Conn, table *nftables.Table, g vf.Guard) (bool, error) {
	all, err := conn.ListChainsOfTableFamily(table.Family)
	if err != nil {
		return false, fmt.Errorf("list chains of nftables: %w", err)
	}
	want := chainsOf(g)
	all = slices.DeleteFunc(all, func(c *nftables.Chain) bool { return c.Table.Name != table.Name })
	if len(all) != len(want) {
		return false, nil
	}
	for _, w := range want {
		i := slices.IndexFunc(all, func(c *nftables.Chain) bool { return c.Name == w.name })
		if i < 0 || !isSameChain(all[i], chainAt(table, w.name, "")) {
			return false, nil
		}
		rules, err := conn.GetRules(table, all[i])
		if err != nil {
			return false, ignoreAbsent(err)
		}
		same := slices.EqualFunc(rules, w.rules, func(r *nftables.Rule, exprs []expr.Any) bool { return reflect.DeepEqual(r.Exprs, exprs) })
		if !same {
			return false, nil
		}
	}
	return true, nil
}

func isSameChain(have, want *nftables.Chain) bool {
	return have.Type == want.Type && reflect.DeepEqual(have.Hooknum, want.Hooknum) &&
		reflect.DeepEqual(have.Priority, want.Priority) && reflect.DeepEqual(have.Policy, want.Policy)
}
