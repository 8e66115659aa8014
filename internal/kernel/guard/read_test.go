package guard

import (
	"encoding/binary"
	"errors"
	"fmt"
	"runtime"
	"testing"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"github.com/culvert-net/culvert/internal/kernel/rtnl"
	"github.com/culvert-net/culvert/internal/vf"
)

// mostRead is how much memory the reads of one guard may take in all, in bytes. TestReadIsBounded
// makes the pod add more than that in each case, and hundreds of MiB in the first case.
const mostRead = 4 << 20

// A pod with NET_ADMIN adds thousands of rules and other objects to the table of its guard and to
// its netns. Read stops at the first object that is not the guard's, so culvertd's memory does not
// grow with their number.
func TestReadIsBounded(t *testing.T) {
	const many = 5_000
	want := guardOf(vf.GuardIP)
	table := tableOf(podPCI)
	addRules := func(chain string) func(*nftables.Conn, int) {
		return func(n *nftables.Conn, _ int) {
			n.AddRule(&nftables.Rule{Table: table, Chain: &nftables.Chain{Name: chain, Table: table}, Exprs: newRule(drop)})
		}
	}
	for _, tt := range []struct {
		name, want string
		count      int
		add        func(n *nftables.Conn, i int)
	}{
		{"rules at the hook", "altered", 10 * many, addRules(baseChain)},
		{"rules in another chain", "altered", many, addRules(hopChain)},
		{"chains", "altered", many, func(n *nftables.Conn, i int) {
			n.AddChain(&nftables.Chain{Name: fmt.Sprint("more-", i), Table: table})
		}},
		{"chains of another table", want.String(), many, func(n *nftables.Conn, i int) {
			other := n.AddTable(&nftables.Table{Name: "other", Family: nftables.TableFamilyNetdev})
			n.AddChain(&nftables.Chain{Name: fmt.Sprint("more-", i), Table: other})
		}},
		{"tables", want.String(), many, func(n *nftables.Conn, i int) {
			n.AddTable(&nftables.Table{Name: fmt.Sprint("more-", i), Family: nftables.TableFamilyNetdev})
		}},
	} {
		w := newWorld(t)
		w.setGuard(want)
		w.run(w.pod, func() error { return addMany(tt.count, tt.add) })
		var got vf.Guard
		var before, after runtime.MemStats
		w.run(w.pod, func() (err error) {
			runtime.ReadMemStats(&before)
			got, err = Tables{}.Read(podPCI)
			runtime.ReadMemStats(&after)
			return err
		})
		if got.String() != tt.want {
			t.Errorf("%d %s: read %s, not %s", tt.count, tt.name, got, tt.want)
		}
		if took := after.TotalAlloc - before.TotalAlloc; took > mostRead {
			t.Errorf("%d %s: the read took %d KiB of memory, more than %d", tt.count, tt.name, took>>10, mostRead>>10)
		}
	}
}

// addMany adds things in transactions that fit into the buffers of a socket.
func addMany(count int, add func(n *nftables.Conn, i int)) error {
	const buffer, each = 64 << 20, 5000
	n, err := nftables.New(nftables.AsLasting(), nftables.WithSockOptions(func(c *netlink.Conn) error {
		return errors.Join(c.SetReadBuffer(buffer), c.SetWriteBuffer(buffer))
	}))
	if err != nil {
		return err
	}
	defer n.CloseLasting()
	for i := range count {
		add(n, i)
		if i%each == each-1 || i == count-1 {
			if err := n.Flush(); err != nil {
				return fmt.Errorf("%d of %d: %w", i, count, err)
			}
		}
	}
	return nil
}

// Read finds the changes that google/nftables does not report: a table that was made dormant, and
// expressions that google/nftables does not know.
func TestReadSeesTheRest(t *testing.T) {
	w := newWorld(t)
	want := guardOf(vf.GuardIP)
	for name, change := range map[string]func(*nftables.Conn, *nftables.Table){
		"dormant": func(_ *nftables.Conn, table *nftables.Table) { setDormant(t, table) },
		"with a set": func(n *nftables.Conn, table *nftables.Table) {
			_ = n.AddSet(&nftables.Set{Table: table, Name: "more", KeyType: nftables.TypeInetService}, nil)
		},
		"with another expression": func(n *nftables.Conn, table *nftables.Table) {
			n.AddRule(&nftables.Rule{Table: table, Chain: &nftables.Chain{Name: hopChain, Table: table}, Exprs: []expr.Any{&expr.Counter{}}})
		},
	} {
		w.setGuard(want)
		w.run(w.pod, func() error {
			n, err := nftables.New()
			if err == nil {
				change(n, tableOf(podPCI))
				err = n.Flush()
			}
			return err
		})
		var got vf.Guard
		w.run(w.pod, func() (err error) { got, err = Tables{}.Read(podPCI); return err })
		if !got.Altered {
			t.Errorf("%s: read %s", name, got)
		}
	}
}

// setDormant makes a table dormant, which google/nftables cannot do.
func setDormant(t *testing.T, table *nftables.Table) {
	t.Helper()
	c, err := netlink.Dial(unix.NETLINK_NETFILTER, nil)
	if err != nil {
		t.Error(err)
		return
	}
	defer c.Close()
	body := newRequest(unix.NFT_MSG_NEWTABLE, 0, table, unix.NFTA_TABLE_NAME, table.Name).Body
	body = rtnl.AppendAttr(body, unix.NFTA_TABLE_FLAGS, binary.BigEndian.AppendUint32(nil, unix.NFT_TABLE_F_DORMANT))
	batch := []byte{0, 0, 0, unix.NFNL_SUBSYS_NFTABLES}
	if _, err := c.SendMessages([]netlink.Message{
		{Header: netlink.Header{Type: unix.NFNL_MSG_BATCH_BEGIN, Flags: netlink.Request}, Data: batch},
		{Header: netlink.Header{Type: unix.NFNL_SUBSYS_NFTABLES<<8 | unix.NFT_MSG_NEWTABLE, Flags: netlink.Request | netlink.Acknowledge}, Data: body},
		{Header: netlink.Header{Type: unix.NFNL_MSG_BATCH_END, Flags: netlink.Request}, Data: batch},
	}); err != nil {
		t.Error(err)
	}
	if _, err := c.Receive(); err != nil {
		t.Errorf("put a table to sleep: %v", err)
	}
}
