package kernel

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/culvert-net/culvert/internal/kernel/netns"
	"github.com/culvert-net/culvert/internal/kernel/rtnl"
	"github.com/culvert-net/culvert/internal/kernel/step"
	"github.com/culvert-net/culvert/internal/vf"
)

// moveNetdev sends one message with the target netns and the name.
//
// The kernel moves first and renames second (do_setlink, net/core/rtnetlink.c). If the name is
// taken in the target, the message fails, but the device is in the target. So moveNetdev looks
// the name up first, and sends back a device that was moved and not renamed.
func (k *Kernel) moveNetdev(s step.Move) error {
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
	if err := k.sendLink(from, l.Index, s.To, s.Name); err != nil {
		return errors.Join(err, k.sendBack(to, s, l.Name))
	}
	return checkArrival(to, s)
}

// nameBefore tries to give a netdevice its own name before it moves back to the host, so that
// udev sees a new netdevice with the right name. If it were renamed after the move, udev would
// rename it too, perhaps once more after Culvert has read the name back.
//
// nameBefore does not wait for udev, since udev does nothing to that netdevice: it chose this
// name when the driver bound (bindDriver waits for that), and follows the same rules each time.
// If the rules change meanwhile, the name differs from the baseline. The pass after the next
// listing mends that, and an attach that comes before it reads the VF first (I3).
func nameBefore(c *rtnl.Conn, l rtnl.Link, name string) {
	_ = renameLink(c, l, name) // the move tries it again, and returns the error
}

// checkArrival reads back that the VF's netdevice is in the target under its name.
func checkArrival(to *rtnl.Conn, s step.Move) error {
	l, err := to.LinkNamed(s.Name)
	if err != nil {
		return fmt.Errorf("moved, but %s is not there: %w", s.Name, err)
	}
	if l.Parent != s.VF.String() {
		return fmt.Errorf("moved, but %s is a netdevice of %s", s.Name, l.Parent)
	}
	return nil
}

// sendLink moves a link to the netns at path under a name.
func (k *Kernel) sendLink(c *rtnl.Conn, index int, path, name string) error {
	f, err := k.openNetns(path)
	if err != nil {
		return err
	}
	defer f.Close()
	attrs := rtnl.AppendUint32(nil, unix.IFLA_NET_NS_FD, uint32(f.Fd()))
	attrs = rtnl.AppendString(attrs, unix.IFLA_IFNAME, name)
	return c.SetLink(index, 0, 0, attrs)
}

// sendBack moves a device back that was moved and not renamed. It does nothing if the device was
// not moved.
func (k *Kernel) sendBack(to *rtnl.Conn, s step.Move, name string) error {
	l, err := k.findLink(to, s.VF, s.To)
	if errors.Is(err, errNoLink) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := k.sendLink(to, l.Index, s.From, name); err != nil {
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
	c, err := k.dialIn(path)
	return c, notFound(err)
}

// notFound wraps the error about a netns that is gone in vf.ErrNotFound.
func notFound(err error) error {
	if errors.Is(err, vf.ErrNetnsGone) {
		return fmt.Errorf("%w: %w", vf.ErrNotFound, err)
	}
	return err
}
