package kernel_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/culvert-net/culvert/internal/kernel/rtnl"
	"github.com/culvert-net/culvert/internal/kernel/step"
	"github.com/culvert-net/culvert/internal/node/desired"
	"github.com/culvert-net/culvert/internal/node/reconcile"
	"github.com/culvert-net/culvert/internal/vf"
)

// hostBond is a bond that the host made of the node's PFs.
type hostBond struct {
	*rtnl.Conn
	n     *node
	index int
}

const hostBondName = "hostbond"

// newHostBond puts the PFs of a node into a bond of the host. Both get one MAC address, as without
// fail_over_mac, which is what hosts usually have.
func newHostBond(n *node) *hostBond {
	n.t.Helper()
	c, err := rtnl.Dial()
	if err != nil {
		n.t.Fatal(err)
	}
	b := &hostBond{Conn: c, n: n}
	n.t.Cleanup(func() { _ = c.Close() })
	b.must(c.AddBond(hostBondName, 0, 0, vf.Bond{Mode: vf.BondActiveBackup}))
	b.index = b.link(hostBondName).Index
	n.t.Cleanup(func() {
		if err := c.DelLink(b.index); err != nil && !errors.Is(err, unix.ENODEV) {
			n.t.Error(err)
		}
	})
	b.must(b.write("fail_over_mac", "none"))
	for _, pf := range n.pfs {
		l := b.link(pf.Name)
		b.must(c.SetLink(l.Index, 0, unix.IFF_UP, nil))
		b.must(c.SetLink(l.Index, 0, 0, rtnl.AppendUint32(nil, unix.IFLA_MASTER, uint32(b.index))))
	}
	b.must(c.SetLink(b.index, unix.IFF_UP, unix.IFF_UP, nil))
	return b
}

func (b *hostBond) must(err error) {
	b.n.t.Helper()
	if err != nil {
		b.n.t.Fatal(err)
	}
}

func (b *hostBond) link(name string) rtnl.Link {
	b.n.t.Helper()
	l, err := b.LinkNamed(name)
	b.must(err)
	return l
}

// write writes an option of the bond.
func (b *hostBond) write(option, value string) error {
	return os.WriteFile(filepath.Join("/sys/class/net", hostBondName, "bonding", option), []byte(value), 0)
}

func (b *hostBond) setMTU(mtu int) {
	b.n.t.Helper()
	b.must(b.SetLink(b.index, 0, 0, rtnl.AppendUint32(nil, unix.IFLA_MTU, uint32(mtu))))
}

// mtus returns the MTUs of the PFs and of the bond.
func (b *hostBond) mtus() [3]int {
	b.n.t.Helper()
	b.n.read()
	return [3]int{b.n.pfs[0].MTU, b.n.pfs[1].MTU, b.link(hostBondName).MTU}
}

// await repeats a read until it is as wanted. The bond learns of its members' links from its own
// timer (miimon).
func (b *hostBond) await(what string, is func() bool) {
	b.n.t.Helper()
	for ctx := b.n.context(); !is(); time.Sleep(10 * time.Millisecond) {
		if ctx.Err() != nil {
			b.n.t.Fatalf("waiting until %s: %+v", what, b.n.pfs)
		}
	}
}

// PFs that are members of a real bond of the host report the bond with its mode and its active
// member, before and after a failover. They keep their identity, although all have one MAC address.
func TestLabHostBond(t *testing.T) {
	n := bareNode(t)
	before := n.pfs
	b := newHostBond(n)
	active := func() string {
		n.read()
		if p, q := n.pfs[0].Master, n.pfs[1].Master; p != nil && q != nil && p.Active == q.Active {
			return p.Active
		}
		return "" // the bond failed over between the reads of the PFs
	}
	b.await("both show the active member", func() bool { return active() != "" })
	for i, pf := range n.pfs {
		if pf.Err != "" || pf.ID != before[i].ID || pf.Name != before[i].Name || pf.MAC != n.pfs[0].MAC {
			t.Errorf("PF %s, identity %s, was %s: MAC address %s, error %q", pf.Name, pf.ID, before[i].ID, pf.MAC, pf.Err)
		}
		if pf.Master == nil || *pf.Master != (vf.Master{Name: hostBondName, Kind: vf.MasterBond, Mode: vf.BondActiveBackup, Active: n.pfs[0].Master.Active}) {
			t.Errorf("PF %s is a member of %v", pf.Name, pf.Master)
		}
	}
	other := n.pfs[0]
	if other.Name == n.pfs[0].Master.Active {
		other = n.pfs[1]
	}
	// The kernel refuses a member without a link.
	b.await("both show "+other.Name+" as active", func() bool {
		return b.write("active_slave", other.Name) == nil && active() == other.Name
	})
	b.must(b.DelLink(b.index))
	n.read()
	for i, pf := range n.pfs {
		if pf.Master != nil || pf.Up || pf.MAC != before[i].MAC {
			t.Errorf("PF %s after the bond: %v, up %t, MAC address %s", pf.Name, pf.Master, pf.Up, pf.MAC)
		}
	}
}

// The kernel's bond gives its MTU to its members. It accepts another MTU for a member, and
// overwrites it when its own MTU changes next. So culvertd plans no MTU for a member.
func TestLabMTUOfHostBond(t *testing.T) {
	n := bareNode(t)
	b := newHostBond(n)
	spec, err := desired.Parse("host.yaml", []byte("pfs: [{name: "+n.pfs[0].Name+", vfs: 0, mtu: 9000, autoprobe: false}]"))
	b.must(err)
	plan := func() []reconcile.Change { return reconcile.Plan(spec, n.pfs, nil, nil)[0].Changes }
	b.setMTU(4000)
	if got := b.mtus(); got != [3]int{4000, 4000, 4000} {
		t.Errorf("the MTU of the bond was set: %v", got)
	}
	if got := plan(); len(got) != 0 {
		t.Errorf("the plan for a member: %v", got)
	}
	n.do(step.SetPFMTU{PF: n.pfs[0].PCI, MTU: 3000})
	if got := b.mtus(); got != [3]int{3000, 4000, 4000} {
		t.Errorf("the MTU of a member was set: %v", got)
	}
	b.setMTU(5000)
	if got := b.mtus(); got != [3]int{5000, 5000, 5000} {
		t.Errorf("the MTU of the bond was set again: %v", got)
	}
	b.must(b.DelLink(b.index))
	n.read()
	want := reconcile.Change{VF: -1, Attribute: "mtu", From: "1500", To: "9000"}
	if got := plan(); n.pfs[0].MTU != 1500 || !slices.Contains(got, want) {
		t.Errorf("after the bond: MTU %d, the plan is %v", n.pfs[0].MTU, got)
	}
}
