package membership

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/culvert-net/culvert/api/v1alpha1"
	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/network/config"
	"github.com/culvert-net/culvert/internal/network/ipam"
	"github.com/culvert-net/culvert/internal/network/ipam/blocks"
	"github.com/culvert-net/culvert/internal/network/netannotation"
	"github.com/culvert-net/culvert/internal/node/journal"
	"github.com/culvert-net/culvert/internal/node/sources"
	"github.com/culvert-net/culvert/internal/reasons"
	"github.com/culvert-net/culvert/internal/share"
	"github.com/culvert-net/culvert/internal/vf"
)

// usable has the inputs that decide which networks pods of this node can have: the networks that
// exist, the AddressPools that they name, and the resources of which the node has VFs.
type usable struct {
	networks  []api.NetworkDefinition
	declared  map[string]blocks.Declaration
	resources []string
}

// Section returns the ipam section of a network in a namespace that names an AddressPool, with
// the pool's addresses, and the ID of the pool.
func (m *Member) Section(c ipam.Config, namespace string) (ipam.Config, string, error) {
	return m.book.Section(c, namespace)
}

// requestAhead requests blocks for the networks that pods of this node can have. It parses the
// networks again only when one of its inputs changed, since tenants write networks, and networks
// may be large.
func (m *Member) requestAhead(pools []api.Pool) {
	now := usable{networks: m.Cluster.Networks(), declared: m.book.Declarations()}
	for _, p := range pools {
		if p.VFs.Total > 0 {
			now.resources = append(now.resources, p.Name)
		}
	}
	if !reflect.DeepEqual(now, m.usable) {
		m.usable = now
		m.book.SetNetworks(now.sharedNetworks(m.Definitions, m.book.Section))
	}
}

// maxRuns bounds how many runs of addresses are requested ahead, so that the authors of
// networks cannot make a NodeState larger than the API server takes. The node requests
// the others when a pod uses them.
const maxRuns = 1024

// sharedNetworks returns the networks whose addresses the cluster shares and of whose resource the
// node has VFs, by the names of their pools. It leaves out networks that cannot be read, or whose
// AddressPool cannot be used: the pod that asks for one gets the error. It returns up to maxRuns runs.
// If there are more, the namespace with the most gives way. section is Member.Section.
func (u usable) sharedNetworks(definitions *config.Definitions, section func(ipam.Config, string) (ipam.Config, string, error)) map[string]ipam.Config {
	var all []sharedNetwork
	for _, n := range u.networks {
		all = append(all, u.sharedBy(definitions.Read(n), n, section)...)
	}
	slices.SortStableFunc(all, func(a, b sharedNetwork) int { return cmp.Compare(a.runs, b.runs) })
	out, budget := map[string]ipam.Config{}, share.New(maxRuns)
	for _, s := range all {
		if _, twice := out[s.pool]; twice {
			continue
		}
		fits, dropped := budget.Put(share.Entry{Owner: s.namespace, Key: s.pool}, s.runs)
		for _, d := range dropped {
			delete(out, d.Key)
		}
		if fits {
			out[s.pool] = s.config
		}
	}
	return out
}

// sharedNetwork is a network whose addresses the cluster shares.
type sharedNetwork struct {
	namespace string // of its definition
	pool      string
	config    ipam.Config
	runs      int // of addresses
}

// sharedBy returns the networks of a definition for sharedNetworks.
func (u usable) sharedBy(d *config.Definition, n api.NetworkDefinition, section func(ipam.Config, string) (ipam.Config, string, error)) (out []sharedNetwork) {
	configs, err := d.Own()
	if err != nil {
		return nil
	}
	for _, c := range configs {
		s := sharedNetwork{namespace: n.Namespace, pool: n.Namespace + "/" + n.Name, config: c.IPAM}
		if c.IPAM.AddressPool != "" {
			if s.config, s.pool, err = section(c.IPAM, n.Namespace); err != nil {
				continue
			}
		}
		if !u.isHere(cmp.Or(n.Annotations[netannotation.ResourceName], c.Pool)) || s.config.Scope == ipam.ScopeNode || len(s.config.Sets) == 0 {
			continue
		}
		for _, set := range s.config.Usable() {
			s.runs += len(set)
		}
		out = append(out, s)
	}
	return out
}

// isHere reports whether the node has VFs of a resource, with its prefix or without.
func (u usable) isHere(resource string) bool {
	return slices.ContainsFunc(u.resources, func(name string) bool {
		_, bare, _ := strings.Cut(name, "/")
		return resource == "" || resource == name || resource == bare
	})
}

// namePods adds the UIDs of pods to VFs of a NodeState. The runtime knows a static pod by a hash
// without dashes, which is not its UID in the cluster and is left out.
func namePods(vfs []v1alpha1.VFState, records []journal.Record) {
	type place struct{ sandbox, in string }
	pods := map[place]string{}
	for _, r := range records {
		if o := r.Lease.Owner; o.Kind == vf.OwnerPod && strings.Contains(r.Lease.PodUID, "-") {
			pods[place{o.UID, o.Interface}] = r.Lease.PodUID
		}
	}
	for _, v := range vfs {
		if v.Owner != nil {
			v.Owner.PodUID = pods[place{v.Owner.UID, v.Owner.Interface}]
		}
	}
}

// omittedProblems returns the problem that the NodeState lacks ranges of addresses. networks
// describes the pools that they are of; it is empty if there are none.
func omittedProblems(networks string) []v1alpha1.Problem {
	if networks == "" {
		return nil
	}
	return []v1alpha1.Problem{{
		Object: "addresses", Reason: sources.BoundMessage("the node requests as many ranges of addresses as its NodeState can have, and leaves out some of " + networks),
		Next: "shorten the lists of excluded addresses in the networks of this node's pods; pods there that need a new block of addresses are refused",
	}}
}

// heldAddresses returns the addresses of the ledger. An address whose entry is damaged is
// held by an unknown owner.
func heldAddresses(tx *journal.Tx) []blocks.Held { return toHeld(tx.AddressesOf("")) }

func toHeld(all []journal.Address) (out []blocks.Held) {
	for _, a := range all {
		if a.Damage != "" {
			a.Owner = vf.Owner{Name: "an unknown owner"}
		}
		out = append(out, blocks.Held{Network: a.Network, Addr: a.Addr, Owner: a.Owner, Claim: a.Claim, Local: a.Local, Keep: a.Keep})
	}
	return out
}

// CountAddresses counts the addresses in the node's blocks, by AddressPool. The grants and the held
// addresses are the ledger's.
func (m *Member) CountAddresses(grants []journal.Grant, held []journal.Address) (out []api.AddressUse) {
	for _, u := range m.book.CountUse(keptGrants(grants), toHeld(held)) {
		out = append(out, api.AddressUse{Pool: u.Name, Used: u.Used, Free: u.Free})
	}
	return out
}

// addressCondition returns the condition of the addresses that the node's attachments have.
// disputed describes the addresses in blocks of other nodes. unread counts the entries of the
// ledger that culvertd cannot read.
func addressCondition(disputed []string, unread int) metav1.Condition {
	c := metav1.Condition{Type: v1alpha1.ConditionAddresses, Status: metav1.ConditionTrue, Reason: reasons.Owned}
	switch {
	case len(disputed) > 0:
		c.Status, c.Reason, c.Message = metav1.ConditionFalse, reasons.Disputed, sources.BoundMessage(strings.Join(disputed, "; ")+": delete the pods that have them")
	case unread > 0:
		c.Status, c.Reason, c.Message = metav1.ConditionFalse, reasons.Unread,
			fmt.Sprintf("%d addresses of the ledger cannot be read, so the controller takes no address back from the node: culvert ledger check says more", unread)
	}
	return c
}
