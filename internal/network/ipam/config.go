// Package ipam decides addresses. The ipam section of a CNI configuration and the holders of
// addresses go in; the addresses, gateways and routes of one attachment come out. It is pure:
// attach calls it inside the ledger's transaction and records the result there (I4).
package ipam

import (
	"net/netip"
	"time"

	"github.com/culvert-net/culvert/internal/vf"
)

// Types of ipam section. TypeCulvert in a configuration is another name for
// TypeHostLocal; a Config never has it.
const (
	TypeHostLocal = "host-local"
	TypeStatic    = "static"
	TypeCulvert   = "culvert"
)

// Scope is how far an address must be unique.
type Scope string

// Scopes. The zero value leaves the choice to the daemon: the whole cluster
// where there is one.
const (
	ScopeNode    Scope = "node"
	ScopeCluster Scope = "cluster"
)

// Config is a network's ipam section, parsed and checked. The zero value means
// that the network gives no addresses.
type Config struct {
	// Type is TypeHostLocal, TypeStatic, or the name of the CNI plugin that gives the
	// addresses (IsDelegated).
	Type string
	// Scope matters in a cluster only; see attach.Config.Blocks.
	Scope Scope
	// Sets is a list of range sets; an attachment gets one address of each.
	// Ranges do not overlap, and those of one set are of one family.
	Sets [][]Range
	// Exclude is never given out, not even by request.
	Exclude []netip.Prefix
	// Static are the addresses of TypeStatic, unless a request brings others. With ranges
	// (ParseWhereabouts), an attachment gets them beside those of its range sets.
	Static []vf.Address
	// Routes has the routes of the network. A route without a Gateway gets the gateway of an
	// address of the same family.
	Routes []vf.Route
	DNS    DNS
	// ResolvConf is the path of a file in the form of resolv.conf(5) that the
	// intake reads for DNS.
	ResolvConf string

	// Shared lets several attachments of the network have one of the Static addresses, as
	// anycast and VRRP want it. Only networks of TypeStatic have it.
	Shared bool
	// Lenient networks accept what the CNI project's plugins accept: a route whose family has no
	// address, and a wanted address with another prefix length than its range.
	Lenient bool
	// Warnings has the mistakes that the section's author should correct, for networks that are
	// Lenient.
	Warnings []string

	// Pool is the name of the pool of addresses, if the section has it. If it is empty, the intake
	// chooses the pool.
	Pool string
	// LowestFirst gives out the lowest free address, also if it was given back just now.
	LowestFirst bool

	// PoolOf is the namespace/name of the network whose pool this one shares. The section
	// says nothing else then, and has no addresses until the intake replaces it.
	PoolOf string
	// SharedWith lists the namespaces whose networks may share the pool.
	SharedWith []string
	// AddressPool is the name of the AddressPool that has the addresses. The section says
	// only routes and DNS beside it, and has no addresses until the intake fills them in
	// (WithPool).
	AddressPool string
	// KeepAtMost is how long the AddressPool lets pods keep their addresses after they have
	// ended; 0 means that it lets none.
	KeepAtMost time.Duration

	// Own limits the addresses to those that the cluster has given to this node; nil sets no limit.
	// Parse never sets it; see Within.
	Own *Own
}

// Range is a run of addresses of one subnet, Start and End included.
type Range struct {
	Subnet     netip.Prefix
	Start, End netip.Addr
	// Gateway is never given out. A gateway outside of Subnet is on the link.
	Gateway netip.Addr
}

// DNS is passed on to the runtime as it is (CNI result, section dns).
type DNS struct {
	Nameservers []string `json:"nameservers,omitempty"`
	Domain      string   `json:"domain,omitempty"`
	Search      []string `json:"search,omitempty"`
	Options     []string `json:"options,omitempty"`
}

// IsZero reports whether c asks for no addresses.
func (c Config) IsZero() bool { return c.Type == "" }

// IsDelegated reports whether another project's CNI plugin gives the addresses, whose name
// is c.Type.
func (c Config) IsDelegated() bool {
	return c.Type != "" && c.Type != TypeHostLocal && c.Type != TypeStatic
}

// IsUniqueOnNode reports whether other nodes of the cluster may give out the same addresses.
func (c Config) IsUniqueOnNode() bool { return c.Scope == ScopeNode || c.Shared }

// IsZero reports whether d says nothing.
func (d DNS) IsZero() bool {
	return len(d.Nameservers) == 0 && d.Domain == "" && len(d.Search) == 0 && len(d.Options) == 0
}

// Contains reports whether a lies between Start and End.
func (r Range) Contains(a netip.Addr) bool {
	return r.Start.Compare(a) <= 0 && a.Compare(r.End) <= 0
}

func (r Range) String() string { return r.Start.String() + "-" + r.End.String() }
