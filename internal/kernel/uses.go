package kernel

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/culvert-net/culvert/internal/kernel/rtnl"
	"github.com/culvert-net/culvert/internal/vf"
)

// Uses returns how VFs are used, as the kernel shows it; it leaves out VFs that are not used. A VF
// is used in these cases:
//   - a process has it open, through vfio or as an RDMA device;
//   - its interface is in another network namespace;
//   - its interface has an address, or is a part of a bond, bridge or Open vSwitch;
//   - another interface is on top of it, such as a VLAN or macvlan, also in another netns;
//   - an XDP program runs on it, or a program reads from it (AF_PACKET, AF_XDP).
//
// An interface that is only up or promiscuous is not used: network managers set up each one that
// they see, and flags stay when their user has gone. So do rules of tc and nftables.
//
// With an error, Uses returns the uses that it found. The other VFs may be used or not.
func (k *Kernel) Uses(ctx context.Context, vfs ...vf.PCIAddr) (map[vf.PCIAddr]vf.Use, error) {
	out := map[vf.PCIAddr]vf.Use{}
	open, err := k.Users(ctx, vfs...)
	errs := []error{err}
	for addr, users := range open {
		out[addr] = vf.Use{By: users[0]}
	}
	rdma, err := k.findRDMAUsers(ctx, vfs)
	errs = append(errs, err)
	for addr, user := range rdma {
		out[addr] = vf.Use{By: user}
	}
	for _, addr := range vfs {
		if _, known := out[addr]; known {
			continue
		}
		how, err := readBounded(ctx, &k.hangs, "the use of VF "+addr.String(), func() (string, error) { return k.describeHostUse(addr) })
		if err != nil {
			errs = append(errs, fmt.Errorf("look how VF %s is used: %w", addr, err))
		}
		if how != "" {
			out[addr] = vf.Use{How: how}
		}
	}
	return out, errors.Join(errs...)
}

// findRDMAUsers returns a process that has the RDMA device of a VF open, for each VF that has one.
func (k *Kernel) findRDMAUsers(ctx context.Context, vfs []vf.PCIAddr) (map[vf.PCIAddr]vf.Process, error) {
	numbers := map[uint64]vf.PCIAddr{}
	for _, addr := range vfs {
		names, err := listNames(k.sys.pciPath(addr, rdmaVerbs))
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			if number, ok := deviceNumber(k.sys.pciPath(addr, rdmaVerbs, name, "dev")); ok {
				numbers[number] = addr
			}
		}
	}
	if len(numbers) == 0 {
		return nil, nil
	}
	openers, err := k.searches.search(ctx, searchBound, k.findOpeners)
	out := map[vf.PCIAddr]vf.Process{}
	for _, o := range openers {
		for number := range o.numbers {
			if addr, ok := numbers[number]; ok {
				out[addr] = o.process
			}
		}
	}
	return out, err
}

// describeHostUse describes how the network of the host uses the interface of a VF; "" if it does
// not, or if the VF has none.
func (k *Kernel) describeHostUse(addr vf.PCIAddr) (how string, err error) {
	n, ok, err := k.sys.findNetdev(addr)
	if err != nil {
		return "", err
	}
	if !ok {
		// The folder stays when the interface leaves the host's netns, and sysfs shows it empty.
		if _, err := os.Stat(k.sys.pciPath(addr, "net")); errors.Is(err, fs.ErrNotExist) {
			return "", nil
		} else if err != nil {
			return "", err
		}
		return "its interface is in another network namespace", nil
	}
	err = k.see("", func(c reader) error {
		l, err := c.Link(n.Index, false)
		if errors.Is(err, unix.ENODEV) {
			return fmt.Errorf("interface %s moved while culvertd looked: %w", n.Name, vf.ErrNotReady)
		}
		if err != nil {
			return err
		}
		how, err = k.describeLinkUse(c, l)
		return err
	})
	return how, err
}

// describeLinkUse asks the cheap questions first.
func (k *Kernel) describeLinkUse(c reader, l rtnl.Link) (string, error) {
	addrs, err := c.Addrs(l.Index)
	switch {
	case err != nil:
		return "", err
	case len(addrs.Kept) > 0:
		return fmt.Sprintf("the host uses it as %s with address %s", l.Name, addrs.Kept[0].Prefix), nil
	case l.Master != 0:
		return fmt.Sprintf("the host uses it as %s, a part of another interface", l.Name), nil
	case l.XDP:
		return fmt.Sprintf("an XDP program of the host runs on it as %s", l.Name), nil
	}
	uppers, err := k.listUppers(l.Name)
	if err != nil {
		return "", err
	}
	if len(uppers) > 0 {
		return fmt.Sprintf("the host uses it as %s below %s", l.Name, strings.Join(uppers, ", ")), nil
	}
	if !l.Up { // then nothing passes, and programs that read from all interfaces read from it too
		return "", nil
	}
	return k.describeReaders(l)
}

// listUppers lists the interfaces of the host's netns that are on top of another one.
func (k *Kernel) listUppers(name string) ([]string, error) {
	all, err := listNames(filepath.Join(k.sys.root, "class/net", name))
	var out []string
	for _, entry := range all {
		if upper, ok := strings.CutPrefix(entry, "upper_"); ok {
			out = append(out, upper)
		}
	}
	slices.Sort(out)
	return out, err
}

// describeReaders describes the programs that read from an interface that is up, and interfaces of
// other network namespaces that are on top of it.
func (k *Kernel) describeReaders(l rtnl.Link) (string, error) {
	listens, err := k.hasPacketSocket(l.Index)
	if err != nil {
		return "", err
	}
	if listens {
		return fmt.Sprintf("a program of the host listens on it as %s (AF_PACKET)", l.Name), nil
	}
	sockets, err := listXDPSockets()
	if err != nil {
		return "", err
	}
	if slices.Contains(sockets, l.Index) {
		return fmt.Sprintf("a program of the host uses it as %s (AF_XDP)", l.Name), nil
	}
	upper, where, err := k.findUpperElsewhere(l.Index)
	if upper == "" {
		return "", err
	}
	return fmt.Sprintf("%s in the network namespace %s is on top of it as %s", upper, where, l.Name), nil
}

// hasPacketSocket reports whether a socket of AF_PACKET is bound to an interface of the host
// (net/packet/af_packet.c, packet_seq_show). Sockets that are bound to none read from all.
func (k *Kernel) hasPacketSocket(index int) (bool, error) {
	text, err := os.ReadFile(filepath.Join(k.proc, "1/net/packet"))
	if errors.Is(err, fs.ErrNotExist) { // the kernel has no such sockets
		return false, nil
	}
	const column = 4 // Iface
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); len(f) > column && f[column] == strconv.Itoa(index) {
			return true, nil
		}
	}
	return false, err
}

func listXDPSockets() ([]int, error) {
	c, err := rtnl.DialSockDiag()
	if err != nil {
		return nil, err
	}
	defer c.Close()
	out, err := c.XDPSockets()
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.EINVAL) {
		return nil, nil // the kernel has no AF_XDP, or cannot list its sockets
	}
	return out, err
}

// findUpperElsewhere finds an interface of another netns that is on top of one of the host, such
// as a macvlan of a pod. It looks into the netns of each process and into those with a name.
func (k *Kernel) findUpperElsewhere(index int) (upper, where string, err error) {
	host, err := os.Open(filepath.Join(k.proc, "1/ns/net"))
	if err != nil {
		return "", "", err
	}
	defer host.Close()
	all, err := k.listNetns(host)
	if err != nil {
		return "", "", err
	}
	for _, path := range all {
		upper, err := k.findUpperIn(path, host, index)
		if upper != "" || err != nil && !errors.Is(err, vf.ErrNetnsGone) {
			return upper, path, err
		}
	}
	return "", "", nil
}

func (k *Kernel) findUpperIn(path string, host *os.File, index int) (string, error) {
	c, err := k.dialIn(path)
	if err != nil {
		return "", err
	}
	defer c.Close()
	return findUpper(c, host, index)
}

// findUpper finds a link in the netns of c that is on top of a link of the host.
func findUpper(c *rtnl.Conn, host *os.File, index int) (string, error) {
	links, err := c.FindLinks(func(l rtnl.Link) bool { return l.Lower == index && l.LowerNetns != nil && l.Kind != "veth" })
	if err != nil || len(links) == 0 {
		return "", err
	}
	id, ok, err := c.NetnsID(int(host.Fd()))
	if err != nil || !ok {
		return "", err
	}
	for _, l := range links {
		if *l.LowerNetns == id {
			return l.Name, nil
		}
	}
	return "", nil
}

// listNetns returns a path of each netns but the host's.
func (k *Kernel) listNetns(host *os.File) ([]string, error) {
	pids, err := listNames(k.proc)
	if err != nil {
		return nil, err
	}
	var paths []string
	for _, pid := range pids {
		if _, notOne := strconv.Atoi(pid); notOne == nil {
			paths = append(paths, filepath.Join(k.proc, pid, "ns/net"))
		}
	}
	named, err := listNames(filepath.Join(k.run, "netns"))
	for _, name := range named {
		paths = append(paths, filepath.Join(k.run, "netns", name))
	}
	own, statErr := host.Stat()
	if err := errors.Join(err, statErr); err != nil {
		return nil, err
	}
	seen := []os.FileInfo{own}
	var out []string
	for _, path := range paths {
		at, err := os.Stat(path)
		if err != nil || slices.ContainsFunc(seen, func(s os.FileInfo) bool { return os.SameFile(s, at) }) {
			continue // it has ended, or may not be seen
		}
		seen, out = append(seen, at), append(out, path)
	}
	return out, nil
}
