// Package balance has the values by which the kernel balances connections to Services over VF
// networks inside the client's network namespace: which pod sees which ClusterIPs, and the backends
// behind each. Package services makes a Table, and the packages below this one make the kernel
// balance by it: socket by eBPF, filter by nftables. It does nothing itself.
package balance

import (
	"cmp"
	"fmt"
	"math"
	"net/netip"
	"slices"
	"time"
)

// PinDir is where eBPF maps and links are pinned (package socket). Removing it detaches the
// programs and frees the maps.
const PinDir = "/sys/fs/bpf/culvert"

// Protocol is an IP protocol number.
type Protocol uint8

// The protocols of Services.
const (
	TCP  Protocol = 6
	UDP  Protocol = 17
	SCTP Protocol = 132
)

// String returns the protocol's name, as Kubernetes writes it.
func (p Protocol) String() string {
	switch p {
	case TCP:
		return "TCP"
	case UDP:
		return "UDP"
	case SCTP:
		return "SCTP"
	}
	return fmt.Sprintf("protocol %d", uint8(p))
}

// Frontend is one port of a ClusterIP.
type Frontend struct {
	Addr     netip.Addr
	Port     uint16
	Protocol Protocol
}

// String returns a text such as "10.96.0.1:80/TCP".
func (f Frontend) String() string {
	return fmt.Sprintf("%s/%s", netip.AddrPortFrom(f.Addr, f.Port), f.Protocol)
}

// Rule says where connections to a Frontend go.
type Rule struct {
	// Backends are sorted, of the Frontend's address family, and differ from each other.
	// Without backends connections are refused.
	Backends []netip.AddrPort
	// Affinity keeps a pod at one backend until it has made no connection for this time; 0 means
	// no affinity. It has a resolution of one second.
	Affinity time.Duration
}

// Equal reports whether two rules have the same backends and the same affinity.
func (r *Rule) Equal(other *Rule) bool {
	return r == other || r != nil && other != nil && r.Affinity == other.Affinity && slices.Equal(r.Backends, other.Backends)
}

// ViewID names a View. It follows from the networks that the pods of a view are attached to,
// so that it is the same after a restart of culvertd.
type ViewID uint64

// Foreign is the view that every pod with a view of its own falls back to: the Frontends of
// networks that a pod may not be attached to. Its rules refuse connections. Network namespaces
// without a view are left to kube-proxy.
const Foreign ViewID = 0

// View is the Frontends that the pods of a view see. Views share the Rule of a Frontend; two
// Frontends never share one.
type View map[Frontend]*Rule

// Pod is a network namespace with a view of its own.
type Pod struct {
	ID    string // of its sandbox; no other sandbox ever has it
	Netns string // path
	View  ViewID
}

// Table is everything that the kernel is to balance on a node.
type Table struct {
	Views map[ViewID]View
	Pods  []Pod
}

// Limit bounds the part of a Table that one mechanism balances. A zero field is no bound.
type Limit struct {
	// Rules bounds the rules of all views together, and Backends the backends of all different
	// Rules.
	Rules, Backends int
	// PerPod is set if the limit holds for each pod separately. A pod sees each Frontend once, so
	// Rules counts it once.
	PerPod bool
}

// OrUnlimited returns the limit with the largest numbers in place of zero.
func (l Limit) OrUnlimited() Limit {
	l.Rules, l.Backends = cmp.Or(l.Rules, math.MaxInt), cmp.Or(l.Backends, math.MaxInt)
	return l
}

// Plus returns the sum of two parts of a limit.
func (l Limit) Plus(other Limit) Limit {
	return Limit{Rules: l.Rules + other.Rules, Backends: l.Backends + other.Backends}
}

// Minus returns the limit that remains after a part of it is used.
func (l Limit) Minus(part Limit) Limit {
	return Limit{Rules: l.Rules - part.Rules, Backends: l.Backends - part.Backends}
}
