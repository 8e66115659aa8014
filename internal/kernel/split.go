package kernel

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"

	"github.com/culvert-net/culvert/internal/kernel/rtnl"
	"github.com/culvert-net/culvert/internal/vf"
)

// A Chelsio card (T4, T5, T6; driver cxgb4) is split: its VFs hang on the PCI functions 0 to 3
// and its ports are netdevices of function 4. Functions 0 to 3 have no netdevice while they have
// no VFs. With its first VF a function gets a netdevice without a hardware address,
// mgmtpf<adapter>,<function>, whose only use is to configure the VFs (Linux commit 7829451c695e;
// cxgb4_main.c, cxgb4_iov_configure and dummy_setup).
//
// So a PF's identity is the permanent MAC of the card's first port and the PF's own number on the
// card (pf0). Both stay the same in another slot. A PF uses the link of one port. The firmware's
// configuration decides which port, and Linux does not show it. In the configurations that
// Chelsio ships, function n uses port n, or port n modulo the number of ports if there are fewer.
// Only real hardware can show whether a card is configured otherwise.
//
// vf.Driver.Split is set for drivers of split cards.

// sameSlot reports whether two functions are of one card.
func sameSlot(a, b vf.PCIAddr) bool {
	a.Function, b.Function = 0, 0
	return a == b
}

// isSplit reports whether a PF has its link on another function.
func (t tree) isSplit(pf vf.PCIAddr, driver string) bool {
	if !vf.DriverOf(driver).Split {
		return false
	}
	all, _ := listNames(t.pciPath(pf, "net"))
	return !slices.ContainsFunc(all, func(name string) bool { return !t.isControl(pf, name) })
}

// isControl reports whether a netdevice of a function only serves to configure VFs: it then has
// no hardware address.
func (t tree) isControl(addr vf.PCIAddr, name string) bool {
	length, err := readNumber(t.pciPath(addr, "net", name, "addr_len"), -1)
	return err == nil && length == 0
}

// cardPort is a netdevice with a link, and the function that it belongs to.
type cardPort struct {
	netdev
	at     vf.PCIAddr
	number int // dev_port
}

// listPorts lists the ports of a PF's card, in their order there.
func (t tree) listPorts(pf vf.PCIAddr) ([]cardPort, error) {
	var out []cardPort
	own, err := linkTarget(t.pciPath(pf, "driver"))
	errs := []error{err}
	for f := range uint8(8) {
		at := pf
		at.Function = f
		driver, err := linkTarget(t.pciPath(at, "driver"))
		if driver != own || at == pf {
			errs = append(errs, err)
			continue
		}
		all, err := listNames(t.pciPath(at, "net"))
		errs = append(errs, err)
		for _, name := range all {
			if t.isControl(at, name) {
				continue
			}
			p := cardPort{at: at}
			var err1, err2 error
			p.netdev, err1 = t.readNetdev(at, name)
			p.number, err2 = readNumber(t.pciPath(at, "net", name, "dev_port"), 0)
			if errors.Is(err1, fs.ErrNotExist) {
				continue // renamed or moved since it was listed
			}
			errs = append(errs, err1, err2)
			out = append(out, p)
		}
	}
	slices.SortFunc(out, func(a, b cardPort) int { return cmp.Or(a.at.Compare(b.at), a.number-b.number) })
	if len(out) == 0 {
		errs = append(errs, fmt.Errorf("no port of the card has a netdevice in the host's netns (they are on function 4, driver %s), so the PF's identity and link are unknown", own))
	}
	return out, errors.Join(errs...)
}

// portOf returns the port that the VFs of a PF use.
func portOf(pf vf.PCIAddr, ports []cardPort) cardPort { return ports[int(pf.Function)%len(ports)] }

// readSplitPF reads a PF that has its link on another function.
func (k *Kernel) readSplitPF(c reader, pf *vf.PF) (control rtnl.Link, err error) {
	ports, err := k.sys.listPorts(pf.PCI)
	if err != nil {
		return control, err
	}
	port := portOf(pf.PCI, ports)
	l, err := c.Link(port.Index, false)
	if err != nil {
		return control, fmt.Errorf("port %s: %w", port.Name, err)
	}
	pf.Port = l.Name
	k.takeLink(pf, port.at, l)
	if pf.Master, err = readMaster(c, l); err != nil {
		return control, err
	}
	if pf.ID, err = k.splitIdentity(c, pf.PCI); err != nil || pf.NumVFs == 0 {
		return control, err
	}
	n, ok, err := k.sys.findNetdev(pf.PCI)
	if err != nil {
		return control, err
	}
	if !ok {
		return control, errors.New("it has VFs and no netdevice to set them by (mgmtpf...) in the host's netns")
	}
	return linkWithVFs(c, n.Index)
}

func (k *Kernel) splitIdentity(c reader, pf vf.PCIAddr) (vf.PFID, error) {
	ports, err := k.sys.listPorts(pf)
	if err != nil {
		return vf.PFID{}, err
	}
	if ports[0].number != 0 {
		return vf.PFID{}, errors.New("the card's first port has no netdevice in the host's netns, so the PF's identity is unknown")
	}
	first, err := c.Link(ports[0].Index, false)
	if err != nil {
		return vf.PFID{}, fmt.Errorf("port %s: %w", ports[0].Name, err)
	}
	if first.PermMAC.IsZero() {
		return vf.PFID{}, fmt.Errorf("the driver of %s reports no permanent MAC, so the PF's identity is unknown", first.Name)
	}
	return vf.PFID{MAC: first.PermMAC, Port: "pf" + strconv.Itoa(int(pf.Function))}, nil
}

// onPort calls fn with the netdevice that has a PF's link and a socket in the
// host's netns.
func (k *Kernel) onPort(pf vf.PCIAddr, fn func(*rtnl.Conn, netdev) error) error {
	driver, err := linkTarget(k.sys.pciPath(pf, "driver"))
	if err != nil {
		return err
	}
	if !k.sys.isSplit(pf, driver) {
		return k.onPF(pf, fn)
	}
	ports, err := k.sys.listPorts(pf)
	if err != nil {
		return err
	}
	c, err := k.dialIn("")
	if err != nil {
		return err
	}
	defer c.Close()
	return fn(c, portOf(pf, ports).netdev)
}
