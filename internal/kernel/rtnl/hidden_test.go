package rtnl

import (
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// A pod cannot hide its netdevices from FindLinks by a netdevice that cannot be read. The test
// makes a macvlan with 5,600 MAC addresses, whose IFLA_LINKINFO is longer than its 16-bit length
// says.
func TestFindLinksPassesOverWhatCannotBeRead(t *testing.T) {
	var batch strings.Builder
	batch.WriteString("link add v0 type veth peer name v1\nlink add link v0 name m0 type macvlan mode source\n")
	for i := range 5600 {
		fmt.Fprintf(&batch, "link set m0 type macvlan macaddr add 02:00:%02x:%02x:08:00\n", i>>8, i&0xff)
	}
	var (
		found, none, all []Link
		noneErr, allErr  error
	)
	inNewNetns(t, func() error {
		ip := exec.Command("ip", "-batch", "-")
		ip.Stdin = strings.NewReader(batch.String())
		if out, err := ip.CombinedOutput(); err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		c, err := Dial()
		if err != nil {
			return err
		}
		defer c.Close()
		m0, err := c.LinkNamed("m0")
		if err != nil {
			return err
		}
		// With this attribute, FindLinks comes upon bytes of a MAC address that are no attribute.
		info := AppendString(nil, unix.IFLA_INFO_KIND, "macvlan")
		info = AppendNested(info, unix.IFLA_INFO_DATA, AppendUint32(nil, unix.IFLA_MACVLAN_BC_CUTOFF, 5))
		body := AppendNested(linkHeader(m0.Index, 0, 0), unix.IFLA_LINKINFO, info)
		if _, err := c.Do(Request{Type: unix.RTM_NEWLINK, Flags: unix.NLM_F_ACK, Body: body}); err != nil {
			return err
		}
		found, err = c.FindLinks(func(l Link) bool { return l.Name == "v1" })
		none, noneErr = c.FindLinks(func(l Link) bool { return l.Name == "v9" })
		all, allErr = c.Links()
		return err
	})
	if len(found) != 1 || found[0].Name != "v1" {
		t.Errorf("found %+v", found)
	}
	if noneErr == nil || len(none) > 0 {
		t.Errorf("v9, which may be the one that cannot be read: %v, %v", none, noneErr)
	}
	if allErr == nil || len(all) > 0 {
		t.Errorf("all: %d, %v", len(all), allErr)
	}
}
