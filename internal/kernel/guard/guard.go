// Package guard pins the source of the frames that a pod sends by nftables' hook at the egress of
// the pod's interface: its MAC address, its IP addresses, and the sender of ARP and of IPv6
// neighbour discovery.
//
// Its input is a [vf.Guard] and an interface of the calling thread's network namespace; package
// kernel calls it in that namespace. The rules are in a table of their own in that namespace, so
// they outlive culvertd. docs/design/0027-guard.md says which forged frames they stop and which
// they do not.
package guard

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/google/nftables"
	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"github.com/culvert-net/culvert/internal/vf"
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
	return setTable(ask, tableOf(pci), device, g)
}

func setTable(q query, table *nftables.Table, device string, g vf.Guard) error {
	text, err := partText(g)
	if err != nil {
		return err
	}
	there, err := tableExists(q, table)
	if err != nil {
		return err
	}
	conn, err := nftables.New(nftables.WithSockOptions(func(c *netlink.Conn) error {
		return errors.Join(c.SetReadBuffer(buffer), c.SetWriteBuffer(buffer))
	}))
	if err != nil {
		return fmt.Errorf("open a netlink socket: %w", err)
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
			if i == 0 {
				r.UserData = text[c.name]
			}
			conn.AddRule(r)
		}
	}
	return explainWrite(conn.Flush(), there)
}

// buffer is the size of the buffers of a socket, in bytes. The transaction of a guard with 273 short
// IPv6 addresses and all keys has 1,995 rules of 400 bytes; a network gives 64 addresses. The answer
// to each rule takes 768 bytes in the kernel, which doubles the buffer.
const buffer = 1 << 20

// partText returns the parts of the text of a guard by the names of their chains.
func partText(g vf.Guard) (map[string][]byte, error) {
	text := []byte(g.String())
	if most := len(textChains) * textPart; len(text) > most {
		return nil, fmt.Errorf("%w: a guard of %d addresses has a text of %d bytes, and the kernel stores %d: give the interface fewer addresses", vf.ErrUnable, len(g.Addresses), len(text), most)
	}
	parts := map[string][]byte{}
	for i, part := range slices.Collect(slices.Chunk(text, textPart)) {
		parts[textChains[i]] = part
	}
	return parts, nil
}

// explainWrite explains the kernel's answer to the transaction of Set. there is set if the VF had a
// guard, which proves that the kernel has the hook.
func explainWrite(err error, there bool) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, unix.EOPNOTSUPP), errors.Is(err, unix.ENOENT) && !there:
		return fmt.Errorf("%w: this kernel has no hook of nftables at the egress of an interface, which came with Linux 5.16 (CONFIG_NETFILTER_EGRESS): take guard out of the network, or run a newer kernel: %w", vf.ErrUnable, err)
	}
	return fmt.Errorf("write nftables: %w", err)
}

// chainAt returns a chain as the guard makes it: the base chain at the hook of a device, or a chain
// that the rules of other chains jump to.
func chainAt(table *nftables.Table, name, device string) *nftables.Chain {
	c := &nftables.Chain{Name: name, Table: table}
	if name == baseChain {
		policy := nftables.ChainPolicyDrop
		c.Type, c.Hooknum, c.Priority, c.Policy, c.Device = nftables.ChainTypeFilter, nftables.ChainHookEgress, nftables.ChainPriorityFilter, &policy, device
	}
	return c
}

// Remove removes the guard of a VF. It also succeeds if there is no guard, as on a kernel without
// nftables.
func (Tables) Remove(pci vf.PCIAddr) error {
	return removeTable(ask, tableOf(pci))
}

func removeTable(q query, table *nftables.Table) error {
	there, err := tableExists(q, table)
	if err != nil || !there {
		return ignoreUnable(err)
	}
	conn, err := nftables.New()
	if err != nil {
		return fmt.Errorf("open a netlink socket: %w", err)
	}
	conn.DelTable(table)
	if err := conn.Flush(); err != nil && !errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("remove a table of nftables: %w", err)
	}
	return nil
}

// ignoreUnable drops the error about a kernel that cannot have guards.
func ignoreUnable(err error) error {
	if errors.Is(err, vf.ErrUnable) {
		return nil
	}
	return err
}
