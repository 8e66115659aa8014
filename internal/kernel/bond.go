package kernel

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/culvert-net/culvert/internal/kernel/rtnl"
	"github.com/culvert-net/culvert/internal/kernel/step"
	"github.com/culvert-net/culvert/internal/vf"
)

// A bond that Culvert makes has bondMark and the mark of its lease in its alias (ifalias). Until it has
// an alias, it is in the group of bondGroup, whose upper half is markGroup.
const (
	bondMark  = "culvert "
	markGroup = 0x6375 // "cu"; ip(8) takes no group over 1<<31
)

// bondGroup returns the group of links in which a bond with a mark is made.
func bondGroup(mark string) uint32 {
	h := fnv.New32a()
	_, _ = h.Write([]byte(mark))
	return markGroup<<16 | h.Sum32()>>16
}

// hasMark reports whether a link is the bond with a mark, or the bond that an interrupted AddBond
// with that mark left without an alias.
func hasMark(l rtnl.Link, mark string) bool {
	return l.Bond != nil && (l.Alias == bondMark+mark || l.Alias == "" && l.Group == bondGroup(mark))
}

// hasAnyMark reports whether a link is a bond that Culvert made.
func hasAnyMark(l rtnl.Link) bool {
	return l.Bond != nil && (strings.HasPrefix(l.Alias, bondMark) || l.Alias == "" && l.Group>>16 == markGroup)
}

// setBond carries out a step on a bond of a pod's netns.
func (k *Kernel) setBond(s step.Step) error {
	switch s := s.(type) {
	case step.AddBond:
		return k.addBond(s)
	case step.DelBond:
		return k.delBond(s)
	case step.Enslave:
		return k.onMember(s.VF, s.Netns, s.Bond, enslave)
	case step.SetBondPrimary:
		return k.onMember(s.VF, s.Netns, s.Bond, func(c *rtnl.Conn, member, bond rtnl.Link) error { return c.SetPrimary(bond.Index, member.Index) })
	}
	return fmt.Errorf("kernel does not know the step %T", s)
}

// addBond makes a bond and marks it. RTM_NEWLINK ignores the alias of a new link, and sets its group
// (rtnl_create_link, net/core/rtnetlink.c, Linux 6.1 to 6.18). So the group marks the bond until the
// next message sets the alias: a culvertd that is killed in between leaves a bond that DelBond and
// the next AddBond recognise. A bond that cannot be marked is removed at once.
func (k *Kernel) addBond(s step.AddBond) error {
	c, err := k.dialNetns(s.Netns)
	if err != nil {
		return err
	}
	defer c.Close()
	err = c.AddBond(s.Name, bondGroup(s.Mark), s.MTU, s.Bond)
	if errors.Is(err, unix.EEXIST) {
		if err := dropEmptyBond(c, s.Name); err != nil {
			return err
		}
		err = c.AddBond(s.Name, bondGroup(s.Mark), s.MTU, s.Bond)
	}
	switch {
	case errors.Is(err, unix.EEXIST):
		return fmt.Errorf("the name is taken there: %w", err)
	case errors.Is(err, unix.EOPNOTSUPP):
		return fmt.Errorf("%w: this kernel has no bonds (module bonding): %w", vf.ErrUnable, err)
	case err != nil:
		return err
	}
	l, err := c.LinkNamed(s.Name)
	if err != nil {
		return fmt.Errorf("made, but it is not there: %w", err)
	}
	if err := c.MarkBond(l.Index, bondMark+s.Mark); err != nil {
		return errors.Join(fmt.Errorf("mark it: %w", err), c.DelLink(l.Index))
	}
	return nil
}

// dropEmptyBond removes a bond that Culvert made and that has no members. Either the PFs of its
// members were unplugged, and its lease ended with the last one, or it never had members.
func dropEmptyBond(c *rtnl.Conn, name string) error {
	bond, err := c.LinkNamed(name)
	if err != nil || !hasAnyMark(bond) {
		return nil //nolint:nilerr // the caller finds out that the name is taken
	}
	members, err := c.FindLinks(func(l rtnl.Link) bool { return l.Master == bond.Index })
	if err != nil || len(members) > 0 {
		return err
	}
	return c.DelLink(bond.Index)
}

// delBond removes a bond by its index, so that a call that comes late removes no later bond of
// the same name.
func (k *Kernel) delBond(s step.DelBond) error {
	c, err := k.dialNetns(s.Netns)
	if errors.Is(err, vf.ErrNetnsGone) {
		return nil
	}
	if err != nil {
		return err
	}
	defer c.Close()
	bonds, err := findBonds(c, s)
	if err != nil {
		return err
	}
	for _, l := range bonds {
		if err := c.DelLink(l.Index); err != nil && !errors.Is(err, unix.ENODEV) {
			return err
		}
		if _, err := c.Link(l.Index, false); !errors.Is(err, unix.ENODEV) {
			return errors.Join(fmt.Errorf("removed, but %s is still there", l.Name), err)
		}
	}
	return nil
}

// mostMarked is how many bonds with one mark DelBond removes. The lease's own bond is the oldest.
// The pod may have made thousands more, whose removal would hold the kernel's lock of links for
// minutes.
const mostMarked = 16

// findBonds returns the bonds that DelBond removes. A pod may change the name, the alias and the group
// of its bond, but not the PCI address of a member. It may give other bonds the same mark.
func findBonds(c reader, s step.DelBond) ([]rtnl.Link, error) {
	member, marked := s.VF.String(), 0
	found, err := c.FindLinks(func(l rtnl.Link) bool {
		if hasMark(l, s.Mark) {
			marked++
			return marked <= mostMarked
		}
		return l.Parent == member && l.Master != 0
	})
	if err != nil {
		return nil, err
	}
	bonds := slices.DeleteFunc(slices.Clone(found), func(l rtnl.Link) bool { return l.Bond == nil })
	for _, l := range found {
		if l.Bond != nil || slices.ContainsFunc(bonds, func(b rtnl.Link) bool { return b.Index == l.Master }) {
			continue
		}
		b, err := c.Link(l.Master, false)
		switch {
		case errors.Is(err, unix.ENODEV) || err == nil && (b.Bond == nil || hasAnyMark(b)):
		case err != nil:
			return nil, err
		default:
			bonds = append(bonds, b)
		}
	}
	return bonds, nil
}

// enslave makes a netdevice a member of a bond. The bond brings the member up, and gives it its
// own MTU (bond_enslave, drivers/net/bonding/bond_main.c).
func enslave(c *rtnl.Conn, member, bond rtnl.Link) error {
	if member.Master == bond.Index {
		return nil
	}
	err := c.SetLink(member.Index, 0, 0, rtnl.AppendUint32(nil, unix.IFLA_MASTER, uint32(bond.Index)))
	switch {
	case errors.Is(err, unix.EPERM) && member.Up:
		return fmt.Errorf("%s is up: %w", member.Name, err)
	case errors.Is(err, unix.EADDRNOTAVAIL):
		return fmt.Errorf("%w: its MAC address is %s, and the PF, which has set it, does not let the bond change it to %s: %w", vf.ErrUnable, member.MAC, bond.MAC, err)
	case err != nil:
		return err
	}
	l, err := c.Link(member.Index, false)
	if err != nil {
		return err
	}
	return checkWritten("master", bond.Index, l.Master)
}

// setBondActive moves a bond. The kernel may hold the lock of the links for long, so a move that
// hangs is not repeated before it has come back: each one would block another thread.
func (k *Kernel) setBondActive(ctx context.Context, s step.SetBondActive) error {
	_, err := readBounded(ctx, &k.hangs, hangOfBond(s), func() (struct{}, error) { return struct{}{}, k.moveBond(s) })
	return err
}

func hangOfBond(s step.SetBondActive) string { return "bond " + s.Bond + " in " + s.Netns }

// moveBond lists the links of the netns once, since each request waits for the lock of the links.
// It looks at the bond first, so that it moves nothing that the kernel has moved already. A new
// primary member sends at once if the kernel counts it as up (bond_option_primary_set).
func (k *Kernel) moveBond(s step.SetBondActive) error {
	c, err := k.dialNetns(s.Netns)
	if err != nil {
		return err
	}
	defer c.Close()
	links, err := c.FindLinks(func(l rtnl.Link) bool {
		_, err := vf.ParsePCIAddr(l.Parent)
		return l.Name == s.Bond || err == nil // the bond, and VFs
	})
	if err != nil {
		return err
	}
	if links, err = withMaster(c, links, s.VF); err != nil {
		return err
	}
	m, err := findMove(links, s)
	if err != nil {
		return err
	}
	wasSending := m.from[m.bond.Bond.Active]
	if m.from[m.bond.Bond.Primary] {
		if err := c.SetPrimary(m.bond.Index, m.member.Index); err != nil {
			return fmt.Errorf("make it the primary member: %w", err)
		}
		if m.bond, err = readMoved(c, m.bond.Index); err != nil {
			return err
		}
	}
	switch {
	case !wasSending:
		return vf.ErrUnchanged
	case !m.from[m.bond.Bond.Active]:
		return nil
	}
	err = c.SetActive(m.bond.Index, m.member.Index)
	if errors.Is(err, unix.EINVAL) {
		return fmt.Errorf("%w: the kernel counts it as down: %w", vf.ErrUnable, err)
	}
	if err != nil {
		return err
	}
	if m.bond, err = readMoved(c, m.bond.Index); err != nil {
		return err
	}
	return checkWritten("the member that sends", m.member.Index, m.bond.Bond.Active)
}

// withMaster adds to links the master of a VF if it is missing, which means that the pod has
// renamed its bond.
func withMaster(c reader, links []rtnl.Link, member vf.PCIAddr) ([]rtnl.Link, error) {
	i := slices.IndexFunc(links, func(l rtnl.Link) bool { return l.Parent == member.String() && l.Master != 0 })
	if i < 0 || slices.ContainsFunc(links, func(l rtnl.Link) bool { return l.Index == links[i].Master }) {
		return links, nil
	}
	l, err := c.Link(links[i].Master, false)
	if errors.Is(err, unix.ENODEV) {
		return links, nil
	}
	return append(links, l), err
}

// move is a step SetBondActive with the links that it names.
type move struct {
	bond, member rtnl.Link
	from         map[int]bool // whether the member with this index is in From
}

// findMove finds the links that a step names among the links of a netns. It finds the bond by the
// membership of the VF, since the pod may have renamed the bond.
func findMove(links []rtnl.Link, s step.SetBondActive) (move, error) {
	var master int
	for _, l := range links {
		if l.Parent == s.VF.String() {
			master = l.Master
		}
	}
	i := slices.IndexFunc(links, func(l rtnl.Link) bool { return l.Index == master && l.Bond != nil })
	if i < 0 {
		return move{}, fmt.Errorf("VF %s is no member of bond %s: %w", s.VF, s.Bond, vf.ErrNotFound)
	}
	m := move{bond: links[i], from: map[int]bool{}}
	for _, l := range links {
		a, err := vf.ParsePCIAddr(l.Parent)
		if err != nil || l.Master != m.bond.Index {
			continue
		}
		m.from[l.Index] = slices.Contains(s.From, a)
		if a == s.VF {
			m.member = l
		}
	}
	return m, nil
}

// readMoved reads a bond again after a change. The error is vf.ErrNotFound if the bond is gone.
func readMoved(c *rtnl.Conn, index int) (rtnl.Link, error) {
	l, err := c.Link(index, false)
	if errors.Is(err, unix.ENODEV) || err == nil && l.Bond == nil {
		return l, fmt.Errorf("the bond went meanwhile: %w", vf.ErrNotFound)
	}
	return l, err
}

// onMember calls fn with the netdevice of a VF and a bond of the same netns.
func (k *Kernel) onMember(a vf.PCIAddr, path, bond string, fn func(c *rtnl.Conn, member, bond rtnl.Link) error) error {
	return k.onLink(a, path, func(c *rtnl.Conn, l rtnl.Link) error {
		b, err := findBond(c, bond, a)
		if err != nil {
			return err
		}
		return fn(c, l, b)
	})
}

// onDevice calls fn with the netdevice of a VF, or with a bond if its name is not empty, and a
// socket in its netns.
func (k *Kernel) onDevice(a vf.PCIAddr, path, bond string, fn func(*rtnl.Conn, rtnl.Link) error) error {
	if bond == "" {
		return k.onLink(a, path, fn)
	}
	c, err := k.dialNetns(path)
	if err != nil {
		return err
	}
	defer c.Close()
	l, err := findBond(c, bond, a)
	if err != nil {
		return err
	}
	return fn(c, l)
}

// findBond returns the bond with a name. If the pod has renamed it, findBond returns the bond of
// which the VF member is a member. The error is vf.ErrNotFound if there is none.
func findBond(c *rtnl.Conn, name string, member vf.PCIAddr) (rtnl.Link, error) {
	l, err := c.LinkNamed(name)
	switch {
	case errors.Is(err, unix.ENODEV):
		err = fmt.Errorf("bond %s: %w there", name, vf.ErrNotFound)
	case err == nil && l.Bond == nil:
		err = fmt.Errorf("%s is no bond: %w", name, vf.ErrInvalid)
	default:
		return l, err
	}
	m, failed := findByParent(c, member)
	if failed != nil || m.Master == 0 {
		return l, err
	}
	if b, failed := c.Link(m.Master, false); failed == nil && b.Bond != nil {
		return b, nil
	}
	return l, err
}

// readBond returns the report about the bond of which a netdevice is a member, nil if it is a
// member of none. The address lists are the bond's.
func readBond(c reader, member rtnl.Link, path string) (*vf.BondState, error) {
	if member.Master == 0 {
		return nil, nil //nolint:nilnil // it is in none
	}
	l, err := c.Link(member.Master, false)
	if errors.Is(err, unix.ENODEV) || err == nil && l.Bond == nil {
		return nil, nil //nolint:nilnil // the bond went meanwhile, or the master is a bridge
	}
	if err != nil {
		return nil, err
	}
	seen, err := lookAt(c, []rtnl.Link{l}, l.Index)
	if errors.Is(err, unix.ENODEV) {
		return nil, nil
	}
	out := l.Bond.State(member.Index)
	out.Link = *seen.linkIn(l.Index, path)
	if mark, marked := strings.CutPrefix(l.Alias, bondMark); marked {
		out.Mark = mark
	}
	return &out, err
}
