// Command floor does the bare kernel work of an attach, a detach or the making of VFs,
// and nothing else. Benchmarks compare Culvert's times with its times. It writes no
// ledger, reads nothing back and trusts its arguments, which package bench/floor
// describes.
package main

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/culvert-net/culvert/bench/floor"
	"github.com/culvert-net/culvert/internal/kernel/rtnl"
)

func main() {
	if err := runFloor(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "floor:", err)
		os.Exit(1)
	}
}

func runFloor(args []string) error {
	work, err := floor.Parse(args)
	if err != nil {
		return err
	}
	switch w := work.(type) {
	case floor.Attach:
		return attachVF(w)
	case floor.Detach:
		return detachVF(w)
	case floor.Make:
		return makeVFs(w)
	}
	return nil
}

// place is a netns with a socket in it.
type place struct {
	fd   int
	conn *rtnl.Conn
}

// enterNetns opens both netns and leaves the thread in the pod's.
func enterNetns(path string) (host, pod place, err error) {
	runtime.LockOSThread()
	if host.fd, err = unix.Open("/proc/thread-self/ns/net", unix.O_RDONLY|unix.O_CLOEXEC, 0); err != nil {
		return host, pod, err
	}
	if pod.fd, err = unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0); err != nil {
		return host, pod, err
	}
	if host.conn, err = rtnl.Dial(); err != nil {
		return host, pod, err
	}
	if err := unix.Setns(pod.fd, unix.CLONE_NEWNET); err != nil {
		return host, pod, err
	}
	pod.conn, err = rtnl.Dial()
	return host, pod, err
}

func moveLink(c *rtnl.Conn, index, fd int, name string) error {
	attrs := rtnl.AppendUint32(nil, unix.IFLA_NET_NS_FD, uint32(fd))
	return c.SetLink(index, 0, 0, rtnl.AppendString(attrs, unix.IFLA_IFNAME, name))
}

func attachVF(a floor.Attach) error {
	index, err := indexOf(a.VF)
	if err != nil {
		return err
	}
	host, pod, err := enterNetns(a.Netns)
	if err != nil {
		return err
	}
	if err := moveLink(host.conn, index, pod.fd, a.Name); err != nil {
		return fmt.Errorf("move: %w", err)
	}
	l, err := pod.conn.LinkNamed(a.Name)
	if err != nil {
		return fmt.Errorf("find %s: %w", a.Name, err)
	}
	if err := pod.conn.SetLink(l.Index, unix.IFF_UP, unix.IFF_UP, nil); err != nil {
		return fmt.Errorf("up: %w", err)
	}
	if err := pod.conn.AddAddr(rtnl.Addr{Index: l.Index, Prefix: a.Address, Flags: unix.IFA_F_NODAD}); err != nil {
		return fmt.Errorf("address: %w", err)
	}
	return pod.conn.AddRoute(rtnl.Route{Index: l.Index, Route: a.Route})
}

func detachVF(d floor.Detach) error {
	host, pod, err := enterNetns(d.Netns)
	if err != nil {
		return err
	}
	l, err := pod.conn.LinkNamed(d.Name)
	if err != nil {
		return fmt.Errorf("find %s: %w", d.Name, err)
	}
	// The move takes the link down, its addresses and its routes.
	return moveLink(pod.conn, l.Index, host.fd, d.HostName)
}

func indexOf(pci string) (int, error) {
	files, err := filepath.Glob(filepath.Join("/sys/bus/pci/devices", pci, "net/*/ifindex"))
	if err != nil || len(files) != 1 {
		return 0, fmt.Errorf("VF %s has %d netdevices here", pci, len(files))
	}
	text, err := os.ReadFile(files[0])
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(strings.TrimSpace(string(text)))
}

// makeVFs lets the kernel make the VFs. If Bind is set, the kernel also binds them, as
// it does by default. makeVFs returns when the PF, whose link igb resets meanwhile,
// has carrier again.
func makeVFs(m floor.Make) error {
	dev := filepath.Join("/sys/class/net", m.PF)
	autoprobe := "0"
	if m.Bind {
		autoprobe = "1"
	}
	if err := os.WriteFile(dev+"/device/sriov_drivers_autoprobe", []byte(autoprobe), 0); err != nil {
		return err
	}
	if err := os.WriteFile(dev+"/device/sriov_numvfs", []byte(strconv.Itoa(m.VFs)), 0); err != nil {
		return err
	}
	for range 2000 {
		up, err := os.ReadFile(dev + "/carrier")
		if err == nil && strings.TrimSpace(string(up)) == "1" {
			return nil
		}
		time.Sleep(10 * time.Millisecond)
	}
	return fmt.Errorf("no carrier on %s", m.PF)
}
