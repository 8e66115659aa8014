// Command floor does the bare kernel work of an attach, a detach or the making
// of VFs, and nothing else: what Culvert's own times are measured against. It
// writes no ledger, reads nothing back and trusts its arguments.
//
//	floor attach NETNS VF NAME ADDRESS ROUTE GATEWAY
//	floor detach NETNS NAME HOSTNAME
//	floor make PF N on|off    (the host's driver)
//	floor nothing
package main

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/culvert-net/culvert/kernel/rtnl"
	"github.com/culvert-net/culvert/vf"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "floor:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	switch {
	case len(args) == 7 && args[0] == "attach":
		return attach(args[1], args[2], args[3], args[4:])
	case len(args) == 4 && args[0] == "detach":
		return detach(args[1], args[2], args[3])
	case len(args) == 4 && args[0] == "make":
		return makeVFs(args[1], args[2], map[string]string{"on": "1", "off": "0"}[args[3]])
	case len(args) == 1 && args[0] == "nothing":
		return nil
	}
	return errors.New("want attach, detach, make or nothing, with their arguments")
}

// place is a netns with a socket in it.
type place struct {
	fd   int
	conn *rtnl.Conn
}

// enter opens both netns and leaves the thread in the pod's.
func enter(path string) (host, pod place, err error) {
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

func move(c *rtnl.Conn, index, fd int, name string) error {
	attrs := rtnl.AppendUint32(nil, unix.IFLA_NET_NS_FD, uint32(fd))
	return c.SetLink(index, 0, 0, rtnl.AppendString(attrs, unix.IFLA_IFNAME, name))
}

func attach(netns, pci, name string, addressing []string) error {
	addr, err := netip.ParsePrefix(addressing[0])
	if err != nil {
		return err
	}
	route := vf.Route{}
	if route.Dst, err = netip.ParsePrefix(addressing[1]); err != nil {
		return err
	}
	if route.Gateway, err = netip.ParseAddr(addressing[2]); err != nil {
		return err
	}
	index, err := indexOf(pci)
	if err != nil {
		return err
	}
	host, pod, err := enter(netns)
	if err != nil {
		return err
	}
	if err := move(host.conn, index, pod.fd, name); err != nil {
		return fmt.Errorf("move: %w", err)
	}
	l, err := pod.conn.LinkNamed(name)
	if err != nil {
		return fmt.Errorf("find %s: %w", name, err)
	}
	if err := pod.conn.SetLink(l.Index, unix.IFF_UP, unix.IFF_UP, nil); err != nil {
		return fmt.Errorf("up: %w", err)
	}
	if err := pod.conn.AddAddr(rtnl.Addr{Index: l.Index, Prefix: addr}); err != nil {
		return fmt.Errorf("address: %w", err)
	}
	return pod.conn.AddRoute(rtnl.Route{Index: l.Index, Route: route})
}

func detach(netns, name, hostName string) error {
	host, pod, err := enter(netns)
	if err != nil {
		return err
	}
	l, err := pod.conn.LinkNamed(name)
	if err != nil {
		return fmt.Errorf("find %s: %w", name, err)
	}
	// The move takes the link down, its addresses and its routes.
	return move(pod.conn, l.Index, host.fd, hostName)
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

// makeVFs lets the kernel make the VFs and, where autoprobe is 1, bind them as it does by
// itself. It returns when the PF, whose link igb resets on the way, has carrier again.
func makeVFs(pf, n, autoprobe string) error {
	dev := filepath.Join("/sys/class/net", pf)
	if err := os.WriteFile(dev+"/device/sriov_drivers_autoprobe", []byte(autoprobe), 0); err != nil {
		return err
	}
	if err := os.WriteFile(dev+"/device/sriov_numvfs", []byte(n), 0); err != nil {
		return err
	}
	for range 2000 {
		up, err := os.ReadFile(dev + "/carrier")
		if err == nil && strings.TrimSpace(string(up)) == "1" {
			return nil
		}
		time.Sleep(10 * time.Millisecond)
	}
	return fmt.Errorf("no carrier on %s", pf)
}
