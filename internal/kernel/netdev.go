package kernel

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"regexp"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/culvert-net/culvert/internal/kernel/rtnl"
	"github.com/culvert-net/culvert/internal/vf"
)

// netdev is a netdevice as sysfs shows it, in the host's netns.
type netdev struct {
	Name  string
	Index int
}

// representor matches the phys_port_name of the representors that a NIC in switchdev mode has
// beside its own netdevice: one for each VF and subfunction, under the PF's PCI function
// (devlink_port, __devlink_port_phys_port_name_get).
var representor = regexp.MustCompile(`^(c[0-9]+)?pf[0-9]+(vf|sf)[0-9]+$`)

// findNetdev finds the netdevice of a PCI function in the host's netns, and returns false if
// there is none. If there are several, it takes the first that is no representor.
func (t tree) findNetdev(addr vf.PCIAddr) (netdev, bool, error) {
	all, err := listNames(t.pciPath(addr, "net"))
	if err != nil {
		return netdev{}, false, err
	}
	for _, name := range all {
		if len(all) > 1 && t.isRepresentor(addr, name) {
			continue
		}
		n, err := t.readNetdev(addr, name)
		if errors.Is(err, fs.ErrNotExist) {
			continue // renamed or moved since it was listed
		}
		return n, err == nil, err
	}
	return netdev{}, false, nil
}

// isRepresentor reports whether a netdevice stands for a VF. findNetdev calls it only if a
// function has several netdevices, since reading the file waits for the lock that every change of
// a link holds. Most drivers answer EOPNOTSUPP, and have no representors.
func (t tree) isRepresentor(addr vf.PCIAddr, name string) bool {
	port, err := readLine(t.pciPath(addr, "net", name, "phys_port_name"))
	return err == nil && representor.MatchString(port)
}

// findNested finds a netdevice that belongs to a device below the PCI function, as that of
// virtio-net does: <function>/virtio0/net/ens1. Both names are empty if there is none. Symbolic
// links are other devices (virtfn0 is a VF), so findNested skips them.
func (t tree) findNested(addr vf.PCIAddr) (device, name string) {
	children, _ := os.ReadDir(t.pciPath(addr)) // only for a message
	for _, c := range children {
		if !c.IsDir() {
			continue
		}
		if netdevs, _ := listNames(t.pciPath(addr, c.Name(), "net")); len(netdevs) > 0 {
			return c.Name(), netdevs[0]
		}
	}
	return "", ""
}

// explainNoNetdev says why a PF has no netdevice by which Culvert could configure its VFs.
// virtio_net has no ndo_set_vf_* operations, and rtnetlink lists no VFs for a netdevice whose
// parent is no PCI device (rtnl_fill_ifinfo, dev_num_vf).
func (t tree) explainNoNetdev(pf vf.PCIAddr, driver string) error {
	device, name := t.findNested(pf)
	switch {
	case name != "":
		return fmt.Errorf("its netdevice %s belongs to %s below the PCI function (driver %s): the kernel offers no settings of VFs there, so Culvert does not serve this PF", name, device, driver)
	case driver == "":
		return errors.New("no driver is bound, so its identity and its VFs' settings are unknown")
	}
	return fmt.Errorf("driver %s has no netdevice in the host's netns, so its identity and its VFs' settings are unknown", driver)
}

func (t tree) readNetdev(addr vf.PCIAddr, name string) (netdev, error) {
	index, err := readLine(t.pciPath(addr, "net", name, "ifindex"))
	if err != nil {
		return netdev{}, err
	}
	i, err := strconv.ParseUint(index, 10, 31)
	if err != nil {
		return netdev{}, fmt.Errorf("ifindex of %s: %w", name, err)
	}
	if i == 0 {
		return netdev{}, fmt.Errorf("ifindex of %s: 0 is no netdevice's", name)
	}
	return netdev{Name: name, Index: int(i)}, nil
}

// errNoLink says that the PCI function has no netdevice in the netns.
var errNoLink = fmt.Errorf("no netdevice there: %w", vf.ErrNotFound)

// findLink finds the netdevice of a PCI function in the netns of c, whose path
// is given; errNoLink when it is not there.
func (k *Kernel) findLink(c reader, addr vf.PCIAddr, path string) (rtnl.Link, error) {
	if path != "" {
		return findByParent(c, addr)
	}
	n, ok, err := k.sys.findNetdev(addr)
	if err != nil {
		return rtnl.Link{}, err
	}
	if !ok {
		return rtnl.Link{}, errNoLink
	}
	l, err := c.Link(n.Index, false)
	if errors.Is(err, unix.ENODEV) {
		return l, errNoLink // it was moved between the two reads
	}
	return l, err
}

// findByParent looks for the netdevice among all links of a netns. sysfs does not show those of
// another netns.
func findByParent(c reader, addr vf.PCIAddr) (rtnl.Link, error) {
	links, err := c.FindLinks(func(l rtnl.Link) bool { return l.Parent == addr.String() && !representor.MatchString(l.PortName) })
	if err != nil {
		return rtnl.Link{}, err
	}
	if len(links) == 0 {
		return rtnl.Link{}, errNoLink
	}
	return links[0], nil
}

// onLink calls fn with the netdevice of a VF and a socket in its netns.
func (k *Kernel) onLink(addr vf.PCIAddr, path string, fn func(*rtnl.Conn, rtnl.Link) error) error {
	c, err := k.dialNetns(path)
	if err != nil {
		return err
	}
	defer c.Close()
	l, err := k.findLink(c, addr, path)
	if err != nil {
		return err
	}
	return fn(c, l)
}

// onPF calls fn with the netdevice by which the VFs of a PF are configured, and a socket in the
// host's netns.
func (k *Kernel) onPF(addr vf.PCIAddr, fn func(*rtnl.Conn, netdev) error) error {
	n, ok, err := k.sys.findNetdev(addr)
	if err != nil {
		return err
	}
	if !ok {
		f, err := k.sys.readFunction(addr)
		if errors.Is(err, vf.ErrNotFound) {
			return err
		}
		return k.sys.explainNoNetdev(addr, f.Driver)
	}
	c, err := k.dialIn("")
	if err != nil {
		return err
	}
	defer c.Close()
	return fn(c, n)
}
