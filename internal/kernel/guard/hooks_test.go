package guard

import (
	"errors"
	"fmt"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"github.com/google/nftables"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// hook drops all frames of the pod's interface in one way, until the test ends.
type hook struct {
	name string
	drop func(w *world) error
	// holds has the senders whose frames it drops.
	holds []bool
}

func allHooks() []hook {
	return []hook{
		{"none", func(*world) error { return nil }, []bool{false, false, false}},
		{"nftables egress", dropByNftables, []bool{true, true, false}},
		{"clsact egress", dropByClsact, []bool{true, false, false}},
		{"tcx egress", dropByTCX, []bool{true, false, false}},
	}
}

// TestHooks: a sender with PACKET_QDISC_BYPASS passes by clsact and tcx, and not by nftables'
// hook. AF_XDP passes by all of them. So a guard is rules of nftables, and is not enforced in a
// pod with NET_RAW (docs/design/0027-guard.md).
func TestHooks(t *testing.T) {
	for _, h := range allHooks() {
		t.Run(h.name, func(t *testing.T) {
			w := newWorld(t)
			w.run(w.pod, func() error {
				if err := h.drop(w); err != nil {
					return lackError{fmt.Errorf("%s: %w", h.name, err)}
				}
				return nil
			})
			for i, s := range allSenders() {
				passes := w.passes(s.send, newARP(podMAC, podMAC, "172.16.91.1"))
				t.Logf("%s: %s passes: %t", h.name, s.name, passes)
				if passes == h.holds[i] {
					t.Errorf("%s: %s passes: %t", h.name, s.name, passes)
				}
			}
		})
	}
}

func dropByNftables(*world) error {
	c, err := nftables.New()
	if err != nil {
		return err
	}
	if _, err := tableExists(ask, tableOf(podPCI)); err != nil {
		return err // Flush would wait without end for the answers of a kernel without nftables
	}
	table := c.AddTable(&nftables.Table{Name: "drop", Family: nftables.TableFamilyNetdev})
	c.AddChain(chainAt(table, baseChain, device))
	return c.Flush()
}

func dropProgram(w *world) (*ebpf.Program, error) {
	p, err := ebpf.NewProgram(&ebpf.ProgramSpec{Type: ebpf.SchedCLS, License: "Apache-2.0", Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, 2), asm.Return()}})
	if err == nil {
		w.t.Cleanup(func() { _ = p.Close() })
	}
	return p, err
}

func dropByTCX(w *world) error {
	p, err := dropProgram(w)
	if err != nil {
		return err
	}
	l, err := link.AttachTCX(link.TCXOptions{Interface: w.index, Program: p, Attach: ebpf.AttachTCXEgress})
	if err == nil {
		w.t.Cleanup(func() { _ = l.Close() })
	}
	return err
}

func dropByClsact(w *world) error {
	p, err := dropProgram(w)
	if err != nil {
		return err
	}
	qdisc := &netlink.GenericQdisc{QdiscType: "clsact", QdiscAttrs: netlink.QdiscAttrs{LinkIndex: w.index, Handle: netlink.MakeHandle(0xffff, 0), Parent: netlink.HANDLE_CLSACT}}
	filter := &netlink.BpfFilter{
		FilterAttrs: netlink.FilterAttrs{LinkIndex: w.index, Parent: netlink.HANDLE_MIN_EGRESS, Handle: 1, Protocol: unix.ETH_P_ALL, Priority: 1},
		Fd:          p.FD(), Name: "drop", DirectAction: true,
	}
	return errors.Join(netlink.QdiscAdd(qdisc), netlink.FilterAdd(filter))
}
