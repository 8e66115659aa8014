package kernel

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/culvert-net/culvert/kernel/netns"
	"github.com/culvert-net/culvert/kernel/rtnl"
	"github.com/culvert-net/culvert/kernel/step"
	"github.com/culvert-net/culvert/vf"
)

// move sends one message with the target netns and the name.
//
// The kernel moves first and renames second (do_setlink, net/core/rtnetlink.c):
// where the name is taken in the target, the message fails and the device is
// there all the same. So the name is looked up before, and a device that got
// half way is sent back.
func (k *Kernel) move(s step.Move) error {
	from, err := k.dialNetns(s.From)
	if err != nil {
		return err
	}
	defer from.Close()
	to, err := k.dialNetns(s.To)
	if err != nil {
		return err
	}
	defer to.Close()

	holder, err := to.LinkNamed(s.Name)
	taken := err == nil
	if err != nil && !errors.Is(err, unix.ENODEV) {
		return err
	}
	l, err := k.findLink(from, s.VF, s.From)
	switch {
	case errors.Is(err, errNoLink) && taken && holder.Parent == s.VF.String():
		return nil // it is there
	case err != nil:
		return err
	case taken && s.From != s.To:
		return fmt.Errorf("the name %s is taken there: %w", s.Name, unix.EEXIST)
	}
	if s.To == "" && !l.Up {
		nameBefore(from, l, s.Name)
	}
	if err := k.send(from, l.Index, s.To, s.Name); err != nil {
		return errors.Join(err, k.sendBack(to, s, l.Name))
	}
	return arrive(to, s)
}

// nameBefore gives a netdevice that goes home its name while it is still away,
// if it can: udev then meets a new netdevice that has its name already. Renamed
// after it has come, it would be renamed by udev too, perhaps once more after
// we have read the name back.
//
// Nobody waits for udev here, since it has nothing to do to that netdevice: it
// gave it this very name when its driver bound (bind waits for that), and names
// by the same rules each time. Who changes the rules meanwhile makes it differ
// from its baseline; the next listing shows and mends that, and an attach that
// comes first reads the VF before it gives it out (I3).
func nameBefore(c *rtnl.Conn, l rtnl.Link, name string) {
	_ = rename(c, l, name) // the move tries again, and says what is wrong
}

// arrive reads back that the VF's netdevice has come under its name.
func arrive(to *rtnl.Conn, s step.Move) error {
	l, err := to.LinkNamed(s.Name)
	if err != nil {
		return fmt.Errorf("moved, but %s is not there: %w", s.Name, err)
	}
	if l.Parent != s.VF.String() {
		return fmt.Errorf("moved, but %s is a netdevice of %s", s.Name, l.Parent)
	}
	return nil
}

// send moves a link to the netns at path under a name.
func (k *Kernel) send(c *rtnl.Conn, index int, path, name string) error {
	f, err := k.openNetns(path)
	if err != nil {
		return err
	}
	defer f.Close()
	attrs := rtnl.AppendUint32(nil, unix.IFLA_NET_NS_FD, uint32(f.Fd()))
	attrs = rtnl.AppendString(attrs, unix.IFLA_IFNAME, name)
	return c.SetLink(index, 0, 0, attrs)
}

// sendBack returns a device that was moved and could not be renamed; nil when
// it never left.
func (k *Kernel) sendBack(to *rtnl.Conn, s step.Move, name string) error {
	l, err := k.findLink(to, s.VF, s.To)
	if errors.Is(err, errNoLink) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := k.send(to, l.Index, s.From, name); err != nil {
		return fmt.Errorf("it is there as %s and could not be sent back: %w", l.Name, err)
	}
	return nil
}

// openNetns opens a netns. /proc/self is the main thread, which package netns
// leaves in the host's.
func (k *Kernel) openNetns(path string) (*os.File, error) {
	if path == "" {
		path = "/proc/self/ns/net"
	}
	f, err := netns.Open(k.netnsFile(path))
	return f, notFound(err)
}

func (k *Kernel) dialNetns(path string) (*rtnl.Conn, error) {
	c, err := k.dial(path)
	return c, notFound(err)
}

// notFound makes a netns that is gone a vf.ErrNotFound.
func notFound(err error) error {
	if errors.Is(err, vf.ErrNetnsGone) {
		return fmt.Errorf("%w: %w", vf.ErrNotFound, err)
	}
	return err
}
