package kernel

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/culvert-net/culvert/internal/kernel/netns"
	"github.com/culvert-net/culvert/internal/kernel/rtnl"
	"github.com/culvert-net/culvert/internal/kernel/step"
	"github.com/culvert-net/culvert/internal/vf"
)

// setLink carries out a step on a VF's netdevice.
func (k *Kernel) setLink(s step.Step) error {
	switch s := s.(type) {
	case step.Rename:
		return k.onLink(s.VF, s.Netns, func(c *rtnl.Conn, l rtnl.Link) error { return renameLink(c, l, s.Name) })
	case step.SetMTU:
		return k.onLink(s.VF, s.Netns, func(c *rtnl.Conn, l rtnl.Link) error { return setMTU(c, l.Index, s.MTU) })
	case step.SetLinkMAC:
		return k.onLink(s.VF, s.Netns, func(c *rtnl.Conn, l rtnl.Link) error { return setLinkMAC(c, l, s.MAC) })
	case step.SetUp:
		return k.onDevice(s.VF, s.Netns, s.Bond, func(c *rtnl.Conn, l rtnl.Link) error {
			if s.Up && s.Netns != "" {
				k.notifyNeighbours(s.Netns, l.Name)
			}
			return setUp(c, l.Index, s.Up)
		})
	case step.ClearPromisc:
		return k.onLink(s.VF, s.Netns, clearPromisc)
	case step.AddAddress:
		return k.onDevice(s.VF, s.Netns, s.Bond, func(c *rtnl.Conn, l rtnl.Link) error {
			return k.addAddress(c, l, s)
		})
	case step.DelAddress:
		return k.onLink(s.VF, s.Netns, func(c *rtnl.Conn, l rtnl.Link) error {
			err := c.DelAddr(rtnl.Addr{Index: l.Index, Prefix: s.Address})
			if errors.Is(err, unix.EADDRNOTAVAIL) {
				return nil // the interface has no such address
			}
			return err
		})
	case step.AddRoute:
		return k.onDevice(s.VF, s.Netns, s.Bond, func(c *rtnl.Conn, l rtnl.Link) error { return addRoute(c, l, s.Route) })
	}
	return fmt.Errorf("kernel does not know the step %T", s)
}

func renameLink(c *rtnl.Conn, l rtnl.Link, name string) error {
	if l.Name == name {
		return nil
	}
	err := c.SetLink(l.Index, 0, 0, rtnl.AppendString(nil, unix.IFLA_IFNAME, name))
	switch {
	case errors.Is(err, unix.EEXIST):
		return fmt.Errorf("the name is taken there: %w", err)
	case errors.Is(err, unix.EBUSY):
		return fmt.Errorf("%s is up: %w", l.Name, err)
	}
	return err
}

func setMTU(c *rtnl.Conn, index, mtu int) error {
	err := c.SetLink(index, 0, 0, rtnl.AppendUint32(nil, unix.IFLA_MTU, uint32(mtu)))
	l, readErr := c.Link(index, false)
	if err != nil && (errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ERANGE) || errors.Is(err, unix.EOPNOTSUPP)) {
		return fmt.Errorf("%w: it is %d and at most %d: %w", vf.ErrUnable, l.MTU, l.MaxMTU, err)
	}
	if err := errors.Join(err, readErr); err != nil {
		return err
	}
	return checkWritten("MTU", mtu, l.MTU)
}

func setLinkMAC(c *rtnl.Conn, l rtnl.Link, mac vf.MAC) error {
	if l.MAC == mac {
		return nil
	}
	err := c.SetLink(l.Index, 0, 0, rtnl.AppendAttr(nil, unix.IFLA_ADDRESS, mac[:]))
	if errors.Is(err, unix.EADDRNOTAVAIL) || errors.Is(err, unix.EPERM) {
		return fmt.Errorf("%w: it is %s, and the PF, which has set the VF's MAC, allows no other: %w", vf.ErrUnable, l.MAC, err)
	}
	if err != nil {
		return err
	}
	if l, err = c.Link(l.Index, false); err != nil {
		return err
	}
	return checkWritten("link address", mac, l.MAC)
}

// setUp does not read the flag back: the kernel acknowledges after it has called the driver's
// open function, and passes on that function's error (dev_change_flags).
func setUp(c *rtnl.Conn, index int, up bool) error {
	flags := uint32(0)
	if up {
		flags = unix.IFF_UP
	}
	return c.SetLink(index, flags, unix.IFF_UP, nil)
}

// clearPromisc clears the flags. The kernel counts the flags that a listener raised (a packet
// capture, a bridge) separately, and only the listener can clear those.
func clearPromisc(c *rtnl.Conn, l rtnl.Link) error {
	if !l.Promisc && !l.AllMulti {
		return nil
	}
	if err := c.SetLink(l.Index, 0, unix.IFF_PROMISC|unix.IFF_ALLMULTI, nil); err != nil {
		return err
	}
	l, err := c.Link(l.Index, false)
	if err != nil {
		return err
	}
	if l.Promisc || l.AllMulti {
		return fmt.Errorf("%s still listens to everything (promisc %v, allmulti %v): a capture or a bridge holds it so", l.Name, l.Promisc, l.AllMulti)
	}
	return nil
}

func (k *Kernel) addAddress(c *rtnl.Conn, l rtnl.Link, s step.AddAddress) error {
	a := rtnl.Addr{Index: l.Index, Prefix: s.Address}
	if s.Address.Addr().Is6() {
		if !s.Detect {
			a.Flags = unix.IFA_F_NODAD
		}
		if err := k.inNetns(s.Netns, func() error { return k.prepareIPv6(l.Name, s.Detect) }); err != nil {
			return err
		}
	}
	err := c.AddAddr(a)
	if errors.Is(err, unix.EEXIST) {
		return nil // it is there already
	}
	return err
}

// prepareIPv6 prepares an interface of the thread's netns for IPv6 addresses; if detect is set, for
// addresses that undergo duplicate address detection.
func (k *Kernel) prepareIPv6(name string, detect bool) error {
	if err := k.enableIPv6(name); err != nil {
		return err
	}
	if detect {
		k.quickenDetection(name)
	}
	return nil
}

// enableIPv6 lets an interface have IPv6 addresses: runtimes often make sandboxes with
// disable_ipv6 on, and then the kernel answers EACCES to an address. /proc/sys/net shows the
// netns of the thread that reads it.
func (k *Kernel) enableIPv6(name string) error {
	sysctl := k.sysctlIPv6("conf", name, "disable_ipv6")
	s, err := readLine(sysctl)
	if errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("%w: this kernel runs without IPv6", vf.ErrUnable)
	}
	if err != nil || s == "0" {
		return err
	}
	return os.WriteFile(sysctl, []byte("0"), 0)
}

// sysctlIPv6 returns the file of a parameter below net.ipv6 (ip-sysctl(7)).
func (k *Kernel) sysctlIPv6(parts ...string) string {
	return filepath.Join(append([]string{k.proc, "sys/net/ipv6"}, parts...)...)
}

// notifyNeighbours has the kernel announce the addresses of an interface whenever it comes up or gets
// another MAC address (arp_notify and ndisc_notify). The SR-IOV CNI plugin does so before it sets the
// interface up. Without it, neighbours only learn the change later, so no error counts. The kernel
// resets both when the interface leaves the netns.
func (k *Kernel) notifyNeighbours(path, name string) {
	_ = k.inNetns(path, func() error {
		return errors.Join(
			changeLine(filepath.Join(k.proc, "sys/net/ipv4/conf", name, "arp_notify"), "1"),
			changeLine(k.sysctlIPv6("conf", name, "ndisc_notify"), "1"),
		)
	})
}

// inNetns calls fn in the netns with the given path on the host; the empty path is the host's.
func (k *Kernel) inNetns(path string, fn func() error) error {
	if path == "" {
		return fn()
	}
	return netns.Run(k.netnsFile(path), fn)
}

func addRoute(c *rtnl.Conn, l rtnl.Link, r vf.Route) error {
	err := c.AddRoute(rtnl.Route{Index: l.Index, Route: r})
	switch {
	case errors.Is(err, unix.EEXIST):
		have, listErr := c.FindRoutes(l.Index, func(h rtnl.Route) bool {
			return h.Dst == r.Dst.Masked() && h.Gateway == r.Gateway && h.Table == r.Table
		})
		if len(have.Kept) > 0 {
			return nil
		}
		return errors.Join(fmt.Errorf("%w with the same priority: %w", vf.ErrRouteTaken, err), listErr)
	case errors.Is(err, unix.ENETUNREACH), errors.Is(err, unix.EHOSTUNREACH):
		return fmt.Errorf("no address of %s is in a subnet with gateway %s: %w", l.Name, r.Gateway, err)
	case errors.Is(err, unix.ENETDOWN):
		return fmt.Errorf("%s is down: %w", l.Name, err)
	}
	return err
}
