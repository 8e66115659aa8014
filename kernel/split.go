package kernel

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"

	"github.com/culvert-net/culvert/kernel/rtnl"
	"github.com/culvert-net/culvert/vf"
)

// A Chelsio card (T4, T5, T6; driver cxgb4) is split: its VFs hang on the PCI
// functions 0 to 3 and its ports are netdevices of function 4. Functions 0 to 3
// have no netdevice while they have no VFs; with the first VF each gets one
// without a hardware address, mgmtpf<adapter>,<function>, which is there for
// setting the VFs and nothing else (Linux commit 7829451c695e; cxgb4_main.c,
// cxgb4_iov_configure and dummy_setup).
//
// So a PF's identity is the permanent MAC of the card's first port with its own
// number on the card (pf0): both go with the card into another slot. Its link
// is that of a port. Which port is in the firmware's configuration, which Linux
// does not show; in the configurations that Chelsio ships function n has port n,
// counted anew where there are fewer ports. Only real hardware can tell whether
// a card is configured otherwise.
//
// vf.Driver.Split says of which driver that is true.

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
	all, _ := names(t.pci(pf, "net"))
	return !slices.ContainsFunc(all, func(name string) bool { return !t.isControl(pf, name) })
}

// isControl reports whether a netdevice of a function is only there to set VFs:
// it has no hardware address at all.
func (t tree) isControl(addr vf.PCIAddr, name string) bool {
	length, err := number(t.pci(addr, "net", name, "addr_len"), -1)
	return err == nil && length == 0
}

// cardPort is a netdevice with a link, and the function that it belongs to.
type cardPort struct {
	netdev
	at     vf.PCIAddr
	number int // dev_port
}

// ports lists the ports of a PF's card, in their order there.
func (t tree) ports(pf vf.PCIAddr) ([]cardPort, error) {
	var out []cardPort
	own, err := target(t.pci(pf, "driver"))
	errs := []error{err}
	for f := range uint8(8) {
		at := pf
		at.Function = f
		driver, err := target(t.pci(at, "driver"))
		if driver != own || at == pf {
			errs = append(errs, err)
			continue
		}
		all, err := names(t.pci(at, "net"))
		errs = append(errs, err)
		for _, name := range all {
			if t.isControl(at, name) {
				continue
			}
			p := cardPort{at: at}
			var err1, err2 error
			p.netdev, err1 = t.readNetdev(at, name)
			p.number, err2 = number(t.pci(at, "net", name, "dev_port"), 0)
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

// portOf is the port that a PF's VFs use.
func portOf(pf vf.PCIAddr, ports []cardPort) cardPort { return ports[int(pf.Function)%len(ports)] }

// readSplitPF reads a PF that has its link on another function.
func (k *Kernel) readSplitPF(c eyes, pf *vf.PF) (control rtnl.Link, err error) {
	ports, err := k.sys.ports(pf.PCI)
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
	if pf.ID, err = k.splitIdentity(c, pf.PCI); err != nil || pf.NumVFs == 0 {
		return control, err
	}
	n, ok, err := k.sys.netdev(pf.PCI)
	if err != nil {
		return control, err
	}
	if !ok {
		return control, errors.New("it has VFs and no netdevice to set them by (mgmtpf...) in the host's netns")
	}
	return linkWithVFs(c, n.Index)
}

func (k *Kernel) splitIdentity(c eyes, pf vf.PCIAddr) (vf.PFID, error) {
	ports, err := k.sys.ports(pf)
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
		return vf.PFID{}, fmt.Errorf("the driver of %s tells no permanent MAC, so the PF's identity is unknown", first.Name)
	}
	return vf.PFID{MAC: first.PermMAC, Port: "pf" + strconv.Itoa(int(pf.Function))}, nil
}

// onPort calls fn with the netdevice that has a PF's link and a socket in the
// host's netns.
func (k *Kernel) onPort(pf vf.PCIAddr, fn func(*rtnl.Conn, netdev) error) error {
	driver, err := target(k.sys.pci(pf, "driver"))
	if err != nil {
		return err
	}
	if !k.sys.isSplit(pf, driver) {
		return k.onPF(pf, fn)
	}
	ports, err := k.sys.ports(pf)
	if err != nil {
		return err
	}
	c, err := k.dial("")
	if err != nil {
		return err
	}
	defer c.Close()
	return fn(c, portOf(pf, ports).netdev)
}
