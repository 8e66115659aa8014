package kernel

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"github.com/culvert-net/culvert/internal/excerpt"
	"github.com/culvert-net/culvert/internal/kernel/rtnl"
	"github.com/culvert-net/culvert/internal/vf"
)

// PFs lists every PCI function that can have VFs and is a network device, in bus order, each with
// its VFs. Err of a PF says which parts of it could not be read (I7). PFs returns an error only
// if it cannot read the host at all.
func (k *Kernel) PFs(ctx context.Context) ([]vf.PF, error) {
	all, err := k.sys.listFunctions()
	if err != nil {
		return nil, fmt.Errorf("list PCI devices: %w", err)
	}
	seen, seenErr := readBounded(ctx, &k.hangs, "the host's netdevices", k.listHost)
	var addrs []vf.PCIAddr
	for _, addr := range all {
		if k.sys.isPF(addr) {
			addrs = append(addrs, addr)
		}
	}
	pfs := make([]vf.PF, len(addrs))
	var g errgroup.Group
	for i, addr := range addrs {
		g.Go(func() error {
			pf, err := readBounded(ctx, &k.hangs, "PF "+addr.String(), func() (vf.PF, error) {
				pf, err := k.readPF(addr, seen)
				return pf, errors.Join(err, seenErr)
			})
			pfs[i] = pf
			pfs[i].PCI = addr
			if err != nil {
				pfs[i].Err = excerpt.Error(err)
			}
			return nil
		})
	}
	err = g.Wait()
	dropSharedIDs(pfs)
	return pfs, err
}

// dropSharedIDs clears the identity of PFs that have the same one, so that no step for one PF is
// carried out on another.
func dropSharedIDs(pfs []vf.PF) {
	same := map[vf.PFID][]string{}
	for _, pf := range pfs {
		same[pf.ID] = append(same[pf.ID], pf.PCI.String())
	}
	for i := range pfs {
		pf := &pfs[i]
		if all := same[pf.ID]; len(all) > 1 && !pf.ID.IsZero() {
			pf.Err = fmt.Sprintf("the PFs %s have one permanent MAC, %s, so Culvert cannot distinguish them: give each its own in their firmware", strings.Join(all, ", "), pf.ID)
			pf.ID = vf.PFID{}
		}
	}
}

// PF reads one PF and its VFs; vf.ErrNotFound when there is no such device. As with PFs, Err says
// which parts could not be read.
func (k *Kernel) PF(ctx context.Context, addr vf.PCIAddr) (vf.PF, error) {
	if !k.sys.isPF(addr) {
		return vf.PF{}, fmt.Errorf("PF %s: %w", addr, vf.ErrNotFound)
	}
	return readBounded(ctx, &k.hangs, "PF "+addr.String(), func() (vf.PF, error) {
		seen, seenErr := k.listHost()
		pf, err := k.readPF(addr, seen)
		if err := errors.Join(err, seenErr); err != nil {
			pf.Err = excerpt.Error(err)
		}
		return pf, nil
	})
}

// classNetwork is the PCI base class of network controllers.
const classNetwork = "02"

// isPF reports whether a PCI function can have VFs and is a network device. The class decides, so
// that a PF without a driver is listed too. A function of another class counts if it has a
// netdevice.
func (t tree) isPF(addr vf.PCIAddr) bool {
	if total, err := readNumber(t.pciPath(addr, "sriov_totalvfs"), -1); err == nil && total < 0 {
		return false
	}
	return t.isNetwork(addr)
}

// isNetwork reports whether a PCI function is a network device. A function that cannot be read
// counts as one, so that a PF does not look as if it were gone.
func (t tree) isNetwork(addr vf.PCIAddr) bool {
	class, err := readLine(t.pciPath(addr, "class"))
	if strings.HasPrefix(strings.TrimPrefix(class, "0x"), classNetwork) {
		return true
	}
	netdevs, netErr := listNames(t.pciPath(addr, "net"))
	return len(netdevs) > 0 || isUnread(err) || err != nil && isUnread(netErr)
}

// isUnread reports whether a file or folder may exist and could not be read.
func isUnread(err error) bool { return err != nil && !errors.Is(err, fs.ErrNotExist) }

// sriov has the attributes of a PF in sysfs that are about its VFs.
type sriov struct {
	NumVFs, TotalVFs int
	Autoprobe        vf.Tri
	VFs              map[int]vf.PCIAddr
}

func (t tree) readSRIOV(addr vf.PCIAddr) (sriov, error) {
	var s sriov
	var errs [4]error
	s.NumVFs, errs[0] = readCount(t.pciPath(addr, "sriov_numvfs"))
	s.TotalVFs, errs[1] = readCount(t.pciPath(addr, "sriov_totalvfs"))
	var probe int
	if probe, errs[2] = readNumber(t.pciPath(addr, "sriov_drivers_autoprobe"), -1); probe >= 0 {
		s.Autoprobe = vf.TriOf(probe == 1)
	}
	s.VFs, errs[3] = t.listVFs(addr)
	return s, errors.Join(errs[:]...)
}

// readPF reads a PF and its VFs. With an error it returns the parts that could be read.
func (k *Kernel) readPF(addr vf.PCIAddr, seen sight) (vf.PF, error) {
	f, ferr := k.sys.readFunction(addr)
	s, serr := k.sys.readSRIOV(addr)
	pf := vf.PF{
		PCI: addr, Vendor: f.Vendor, Device: f.Device, Driver: f.Driver, NUMA: f.NUMA, IOMMUGroup: f.IOMMUGroup,
		NumVFs: s.NumVFs, TotalVFs: s.TotalVFs, Autoprobe: s.Autoprobe,
	}
	pf.PCIeRoot = k.sys.readPCIeRoot(addr)
	link, lerr := k.readPFLink(&pf)
	pf.Abilities = abilitiesRead(link.VFs)
	pf.Addrs, pf.OwnAddrs, pf.HostAddrs = seen.addrsOf(cmp.Or(pf.Port, pf.Name))

	rdma, rerr := k.sys.readRDMA(addr)
	pf.RDMA = rdma != nil

	errs := []error{ferr, serr, lerr, rerr}
	for index, addr := range s.VFs {
		v, err := k.sys.readFunction(addr)
		if errors.Is(err, vf.ErrNotFound) {
			continue // unplugged; the link to it stays until sriov_numvfs is written
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("vf %d: %w", index, err))
		}
		if _, ok := link.VFs[index]; !ok && lerr == nil {
			errs = append(errs, fmt.Errorf("vf %d: the PF's driver does not report it", index))
		}
		state := stateOf(vf.ID{PF: pf.ID, Index: index}, v, link.VFs[index])
		if state.RDMA, err = k.sys.readRDMA(addr); err != nil {
			errs = append(errs, fmt.Errorf("vf %d: %w", index, err))
		}
		if n, ok, err := k.sys.findNetdev(addr); err != nil {
			errs = append(errs, fmt.Errorf("vf %d: %w", index, err))
		} else if ok {
			state.Link = seen.linkIn(n.Index, "")
		}
		pf.VFs = append(pf.VFs, state)
	}
	slices.SortFunc(pf.VFs, func(a, b vf.State) int { return a.ID.Compare(b.ID) })
	return pf, errors.Join(errs...)
}

// readPFLink fills in what the PF's netdevice shows. It returns the link with the settings of the
// VFs.
func (k *Kernel) readPFLink(pf *vf.PF) (l rtnl.Link, err error) {
	if k.sys.isSplit(pf.PCI, pf.Driver) {
		err = k.see("", func(c reader) error {
			l, err = k.readSplitPF(c, pf)
			return err
		})
		return l, err
	}
	n, ok, err := k.sys.findNetdev(pf.PCI)
	if err != nil {
		return rtnl.Link{}, err
	}
	if !ok {
		_, pf.Name = k.sys.findNested(pf.PCI)
		return rtnl.Link{}, k.sys.explainNoNetdev(pf.PCI, pf.Driver)
	}
	pf.Name = n.Name
	err = k.see("", func(c reader) error {
		if l, err = linkWithVFs(c, n.Index); l.Index == 0 {
			return fmt.Errorf("netdevice %s: %w", n.Name, err)
		}
		pf.Name = l.Name
		k.takeLink(pf, pf.PCI, l)
		var idErr, masterErr error
		pf.ID, idErr = k.identifyPF(c, pf.PCI, l)
		pf.Master, masterErr = readMaster(c, l)
		return errors.Join(err, idErr, masterErr)
	})
	return l, err
}

// readMaster returns the interface of which a netdevice is a member, nil if there is none.
func readMaster(c reader, member rtnl.Link) (*vf.Master, error) {
	if member.Master == 0 {
		return nil, nil //nolint:nilnil // it has none
	}
	l, err := c.Link(member.Master, false)
	if errors.Is(err, unix.ENODEV) {
		return nil, nil //nolint:nilnil // it was removed after the netdevice was read
	}
	if err != nil {
		return nil, fmt.Errorf("master of %s: %w", member.Name, err)
	}
	out := &vf.Master{Name: l.Name, Kind: l.Kind, IsMember: l.Master != 0}
	if l.Bond == nil {
		return out, nil
	}
	out.Mode = vf.BondModeOf(l.Bond.Mode)
	if l.Bond.Active == 0 {
		return out, nil
	}
	active, err := c.Link(l.Bond.Active, false)
	if err != nil && !errors.Is(err, unix.ENODEV) {
		return out, fmt.Errorf("active member of %s: %w", l.Name, err)
	}
	out.Active = active.Name
	return out, nil
}

// linkWithVFs reads a link with its VFs, or without them if the kernel cuts their list off.
func linkWithVFs(c reader, index int) (rtnl.Link, error) {
	l, err := c.Link(index, true)
	if errors.Is(err, rtnl.ErrVFsCut) {
		var short error
		if l, short = c.Link(index, false); short != nil {
			err = errors.Join(err, short)
		}
	}
	return l, err
}

// takeLink copies the attributes of link l into pf. The link belongs to the PCI function at.
func (k *Kernel) takeLink(pf *vf.PF, at vf.PCIAddr, l rtnl.Link) {
	pf.MAC, pf.MTU, pf.MaxMTU, pf.Up, pf.Carrier = l.MAC, l.MTU, l.MaxMTU, l.Up, l.Carrier
	pf.CarrierLosses, pf.AltNames = l.Downs, l.AltNames()
	if l.Carrier {
		// The file reads -1 or EINVAL if the driver does not know the speed.
		speed, _ := readNumber(k.sys.pciPath(at, "net", l.Name, "speed"), 0)
		pf.SpeedMbps = max(speed, 0)
	}
}

// identifyPF returns the identity of the PF with the netdevice l: its permanent MAC, which no
// other port of the NIC has. phys_port_name is no part of it, since it comes and goes with the
// kernel: i40e has one since Linux 6.7 (9e479d64dc58), and a later patch takes it away again
// (no_phys_port_name).
func (k *Kernel) identifyPF(c reader, pf vf.PCIAddr, l rtnl.Link) (vf.PFID, error) {
	switch {
	case !l.PermMAC.IsZero():
		return vf.PFID{MAC: l.PermMAC}, nil
	case k.sys.isControl(pf, l.Name):
		return k.splitIdentity(c, pf)
	}
	return vf.PFID{}, fmt.Errorf("the driver of %s reports no permanent MAC, so the PF's identity is unknown", l.Name)
}

// stateOf makes the State of a VF, without its netdevice.
func stateOf(id vf.ID, f function, admin vf.Admin) vf.State {
	return vf.State{
		ID: id, PCI: f.PCI, Vendor: f.Vendor, Device: f.Device,
		Driver: f.Driver, NUMA: f.NUMA, IOMMUGroup: f.IOMMUGroup, ACPIIndex: f.ACPIIndex, Admin: admin,
	}
}

// abilitiesRead returns the abilities that a read shows. If the kernel reports no VF's value of a
// setting, the driver lacks the setting. A setting with a value may be read-only, which Probe
// finds out.
func abilitiesRead(vfs map[int]vf.Admin) vf.Abilities {
	a := vf.Abilities{}
	for _, admin := range vfs {
		for _, s := range vf.Switches() {
			if *admin.Switch(s) == vf.Unknown {
				a[s] = vf.No
			}
		}
	}
	return a
}
