// Package filter balances connections to Services by nftables in the pods' network namespaces:
// where eBPF cannot (package socket), and for SCTP everywhere. Its input is a [balance.Table]. Its
// result is one table in each pod that has Frontends, for IPv4 and for IPv6. Its chains change the
// destination of new connections, and refuse those without backends. The kernel's connection
// tracking then sees each packet.
//
// Tables are written by netlink (github.com/google/nftables): the image of culvertd has no
// program nft, which sigs.k8s.io/knftables would run.
package filter

import (
	"errors"
	"fmt"
	"slices"

	"github.com/google/nftables"
	"github.com/mdlayher/netlink"

	"github.com/culvert-net/culvert/internal/kernel/balance"
	"github.com/culvert-net/culvert/internal/kernel/netns"
	"github.com/culvert-net/culvert/internal/kernel/rtnl"
	"github.com/culvert-net/culvert/internal/vf"
)

// tableName is the name of Culvert's tables in a pod.
const tableName = "culvert-services"

// families are the address families. A pod has a table for each family that its Frontends have.
var families = []nftables.TableFamily{nftables.TableFamilyIPv4, nftables.TableFamilyIPv6}

// Balancer writes the tables of pods. One culvertd uses it, and no two of its methods at once.
type Balancer struct {
	written map[string]written // by Pod.ID
}

// written identifies the content from which a pod's tables were made.
type written struct{ sum, netns string }

// Supports reports whether nftables balances a protocol.
func Supports(p balance.Protocol) bool {
	return p == balance.TCP || p == balance.UDP || p == balance.SCTP
}

// Limit returns how many rules and backends the table of a pod may have. The kernel takes seconds
// to check 4,096 chains, and four times as long for twice as many. The other pods wait meanwhile
// (I7).
func Limit() balance.Limit { return balance.Limit{Rules: 4 << 10, Backends: 64 << 10, PerPod: true} }

// Open returns a Balancer. It lists tables first, which needs nf_tables, so it fails if the kernel
// has no nftables.
func Open() (*Balancer, error) {
	c, err := nftables.New()
	if err == nil {
		_, err = c.ListTables()
	}
	if err != nil {
		return nil, fmt.Errorf("the kernel has no nftables: %w", err)
	}
	return &Balancer{written: map[string]written{}}, nil
}

// Pending returns false: Apply leaves nothing to do later.
func (b *Balancer) Pending() bool { return false }

// Before returns nil: the rules are in the pods' network namespaces, where other projects have none.
func (b *Balancer) Before() []string { return nil }

// Apply writes the tables of pods for which they differ, and deletes those of pods that are no
// longer in the Table. Apply replaces a table as a whole, in one transaction; connections go on. It
// leaves out a pod whose network namespace is gone. If it fails for one pod, it still writes the
// tables of the others.
func (b *Balancer) Apply(t balance.Table) error {
	all, contents := map[string]written{}, map[balance.ViewID]content{}
	var errs []error
	for _, p := range t.Pods {
		c, made := contents[p.View]
		if !made {
			c = newContent(t.Views[p.View], t.Views[balance.Foreign])
			contents[p.View] = c
		}
		now := written{c.sum, p.Netns}
		if b.written[p.ID] == now {
			all[p.ID] = now
			continue
		}
		err := netns.Run(p.Netns, c.write)
		if errors.Is(err, vf.ErrNetnsGone) {
			continue
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("nftables of pod sandbox %s: %w", p.ID, err))
			continue
		}
		all[p.ID] = now
	}
	for id, old := range b.written {
		if slices.ContainsFunc(t.Pods, func(p balance.Pod) bool { return p.ID == id }) {
			continue
		}
		if err := netns.Run(old.netns, newContent(nil, nil).write); err != nil && !errors.Is(err, vf.ErrNetnsGone) {
			all[id] = written{netns: old.netns}
			errs = append(errs, fmt.Errorf("nftables of pod sandbox %s: %w", id, err))
		}
	}
	b.written = all
	return errors.Join(errs...)
}

// write replaces the tables of the thread's network namespace that differ from the content.
func (c content) write() error {
	for _, family := range families {
		if err := c.writeFamily(family); err != nil {
			return err
		}
	}
	return c.forgetDatagrams()
}

// writeFamily replaces a table. If the content has no Frontends of the family, it only deletes the
// table.
func (c content) writeFamily(family nftables.TableFamily) error {
	frontends := c.of(family)
	reader, err := rtnl.DialNetfilter()
	if err != nil {
		return err
	}
	defer reader.Close()
	table := &nftables.Table{Family: family, Name: tableName}
	there := lookup{reader, table}
	exists, err := there.hasTable()
	if err != nil {
		return fmt.Errorf("read nftables: %w", err)
	}
	if !exists && len(frontends) == 0 {
		return nil
	}
	if !exists {
		return c.replaceTable(table, exists, frontends, nil)
	}
	// An empty chain is named by the sum of the content from which culvertd made the table.
	isCurrent, err := there.hasChain(c.sum)
	if err != nil {
		return fmt.Errorf("read nftables: %w", err)
	}
	if isCurrent && len(frontends) > 0 {
		return nil
	}
	choices, err := there.keepChoices(frontends)
	if err != nil {
		return err
	}
	return c.replaceTable(table, exists, frontends, choices)
}

// replaceTable deletes a table that exists, and writes it anew if there are Frontends.
func (c content) replaceTable(table *nftables.Table, exists bool, frontends []frontend, choices []nftables.SetElement) error {
	conn, err := nftables.New(nftables.WithSockOptions(func(s *netlink.Conn) error { return setBuffers(s, frontends, len(choices)) }))
	if err != nil {
		return fmt.Errorf("open a netlink socket: %w", err)
	}
	if exists {
		conn.DelTable(table)
	}
	if len(frontends) > 0 {
		if err := c.render(conn, table, frontends, choices); err != nil {
			return err
		}
	}
	if err := conn.Flush(); err != nil {
		return fmt.Errorf("write nftables: %w", err)
	}
	return nil
}
