package rtnl

import (
	"errors"
	"os"
	"slices"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// addVeth makes a veth interface, whose peer has a name of the kernel's.
func addVeth(c *Conn, name string) (Link, error) {
	body := AppendString(linkHeader(0, 0, 0), unix.IFLA_IFNAME, name)
	body = AppendNested(body, unix.IFLA_LINKINFO, AppendString(nil, unix.IFLA_INFO_KIND, "veth"))
	flags := uint16(unix.NLM_F_ACK | unix.NLM_F_CREATE | unix.NLM_F_EXCL)
	if _, err := c.Do(Request{Type: unix.RTM_NEWLINK, Flags: flags, Body: body}); err != nil {
		return Link{}, err
	}
	return c.LinkNamed(name)
}

// numbers has the numbers that a netns has for another one, before and after an interface went
// there.
type numbers struct {
	before, after int32
	had, has      bool
	errs          [3]error // the last one is that of a file that is no netns
	link          Link     // whose peer went there
}

func (n *numbers) read(c *Conn, there *os.File) error {
	n.before, n.had, n.errs[0] = c.NetnsID(int(there.Fd()))
	l, err := addVeth(c, "v0")
	if err != nil {
		return err
	}
	to := AppendUint32(nil, unix.IFLA_NET_NS_FD, uint32(there.Fd()))
	if err := c.SetLink(l.Lower, 0, 0, to); err != nil {
		return err
	}
	n.after, n.has, n.errs[1] = c.NetnsID(int(there.Fd()))
	if n.link, err = c.LinkNamed("v0"); err != nil {
		return err
	}
	null, err := os.Open(os.DevNull)
	if err != nil {
		return err
	}
	defer null.Close()
	_, _, n.errs[2] = c.NetnsID(int(null.Fd()))
	return nil
}

// A netns has no number for another netns at first. If an interface of one has its peer in the
// other, NetnsID returns the number that the interface has for that netns.
func TestNetnsID(t *testing.T) {
	var n numbers
	inNewNetns(t, func() error {
		there, err := os.Open("/proc/thread-self/ns/net")
		if err != nil {
			return err
		}
		defer there.Close()
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return err
		}
		c, err := Dial()
		if err != nil {
			return err
		}
		defer c.Close()
		return n.read(c, there)
	})
	if n.had || n.errs[0] != nil {
		t.Errorf("before: number %d %t, %v", n.before, n.had, n.errs[0])
	}
	if !n.has || n.errs[1] != nil || n.link.LowerNetns == nil || n.after != *n.link.LowerNetns {
		t.Errorf("after: number %d %t, %v; the interface is %+v", n.after, n.has, n.errs[1], n.link)
	}
	if n.errs[2] == nil {
		t.Error("a file that is no netns has a number, or none without an error")
	}
}

// openXDP opens an AF_XDP socket at the first queue of an interface
// (Documentation/networking/af_xdp.rst). The caller frees the frame after it has closed the socket.
func openXDP(index int) (fd int, frame []byte, err error) {
	const size = 4096
	if fd, err = unix.Socket(unix.AF_XDP, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0); err != nil {
		return 0, nil, err
	}
	anonymous := unix.MAP_PRIVATE | unix.MAP_ANONYMOUS
	if frame, err = unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, anonymous); err != nil {
		return fd, nil, err
	}
	reg := unix.XDPUmemReg{Addr: uint64(uintptr(unsafe.Pointer(&frame[0]))), Len: size, Size: size}
	if _, _, errno := unix.Syscall6(unix.SYS_SETSOCKOPT, uintptr(fd), unix.SOL_XDP,
		unix.XDP_UMEM_REG, uintptr(unsafe.Pointer(&reg)), unsafe.Sizeof(reg), 0); errno != 0 {
		return fd, frame, errno
	}
	rings := []int{unix.XDP_UMEM_FILL_RING, unix.XDP_UMEM_COMPLETION_RING, unix.XDP_TX_RING}
	for _, ring := range rings {
		if err := unix.SetsockoptInt(fd, unix.SOL_XDP, ring, 64); err != nil {
			return fd, frame, err
		}
	}
	return fd, frame, unix.Bind(fd, &unix.SockaddrXDP{Flags: unix.XDP_COPY, Ifindex: uint32(index)})
}

// XDPSockets lists the interface of each AF_XDP socket of the netns. A kernel that cannot list the
// sockets says so by an error that kernel.listXDPSockets knows.
func TestXDPSockets(t *testing.T) {
	var before, after []int
	var link Link
	var errs [2]error
	inNewNetns(t, func() error {
		c, err := Dial()
		if err != nil {
			return err
		}
		defer c.Close()
		if link, err = c.LinkNamed("lo"); err != nil {
			return err
		}
		diag, err := DialSockDiag()
		if err != nil {
			return err
		}
		defer diag.Close()
		before, errs[0] = diag.XDPSockets()
		fd, frame, err := openXDP(link.Index)
		after, errs[1] = diag.XDPSockets()
		_ = unix.Close(fd)
		_ = unix.Munmap(frame)
		return err
	})
	for _, errno := range []unix.Errno{unix.ENOENT, unix.EOPNOTSUPP, unix.EINVAL} {
		if errors.Is(errs[0], errno) {
			t.Skipf("the kernel cannot list AF_XDP sockets: %v", errno)
		}
	}
	isRight := len(before) == 0 && slices.Equal(after, []int{link.Index})
	if err := errors.Join(errs[:]...); err != nil || !isRight {
		t.Errorf("%v, and with a socket at link %d %v; %v", before, link.Index, after, err)
	}
}
