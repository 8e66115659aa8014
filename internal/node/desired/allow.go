package desired

import (
	"errors"
	"fmt"
	"net/netip"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/culvert-net/culvert/internal/vf"
)

// Allow bounds the requests that owners may make of a pool's VFs. The pool refuses a setting that
// Allow does not name. Namespaces are an exception: without Namespaces and NamespaceSelector the
// pool serves every owner.
type Allow struct {
	// Namespaces are names or path.Match patterns.
	Namespaces []string
	// NamespaceSelector holds labels, all of which a namespace must have. A namespace
	// that Namespaces names needs none of them.
	NamespaceSelector map[string]string
	// VLANs holds the VLAN IDs; 0 is a network without VLAN. Empty allows 0 alone.
	VLANs []Range
	// VLANQoS is the largest vlanQoS.
	VLANQoS int
	// ServiceVLANs lets a network set vlanProto 802.1ad: an outer tag, whose IDs are another
	// provider's VLANs than those of 802.1q.
	ServiceVLANs bool
	Trust        bool
	SpoofChkOff  bool
	// MACs a network may set. Each VF may keep its own.
	MACs      []MACRange
	Addresses []netip.Prefix
	MTU       int // the largest, in bytes; 0 allows none to be set
	// MaxTxRate is the largest max_tx_rate in Mb/s. If it is not 0, each network must set a
	// max_tx_rate.
	MaxTxRate int
	MinTxRate int // the largest min_tx_rate, in Mb/s
}

// MACRange is the MACs that have the first Bits bits of MAC.
type MACRange struct {
	MAC  vf.MAC
	Bits int
}

func (m MACRange) containsMAC(mac vf.MAC) bool {
	for i := range m.Bits {
		if bit := byte(0x80) >> (i % 8); m.MAC[i/8]&bit != mac[i/8]&bit {
			return false
		}
	}
	return true
}

func (m MACRange) String() string {
	if m.Bits == macBits {
		return m.MAC.String()
	}
	return m.MAC.HardwareAddr().String() + "/" + strconv.Itoa(m.Bits)
}

// String returns 5 or 100-200.
func (r Range) String() string {
	if r.First == r.Last {
		return strconv.Itoa(r.First)
	}
	return fmt.Sprintf("%d-%d", r.First, r.Last)
}

// Tenant is the owner of a VF as Allow sees it.
type Tenant struct {
	// Namespace is a pod's; empty for guests and for containers outside Kubernetes.
	Namespace string
	// Labels are the namespace's, and Err says why they are not known.
	Labels map[string]string
	Err    error
}

// Check says why a tenant may not have a VF of the pool with these settings, or nil.
// Errors are vf.ErrInvalid, and Tenant.Err where the answer depends on labels that are
// not known. attach calls it before it writes a lease (TestI9AllowIsEnforced).
func (p Pool) Check(who Tenant, want vf.Spec) error {
	return errors.Join(p.CheckTenant(who), p.CheckSettings(want))
}

// CheckTenant does the part of Check about the namespace.
func (p Pool) CheckTenant(who Tenant) error {
	a := p.Allow
	switch {
	case a == nil, len(a.Namespaces) == 0 && len(a.NamespaceSelector) == 0:
		return nil
	case who.Namespace == "":
		return p.refuseRequest("namespaces", "an owner outside Kubernetes, which is in no namespace,", a.listNamespaces())
	case slices.ContainsFunc(a.Namespaces, func(n string) bool { ok, err := path.Match(n, who.Namespace); return ok && err == nil }):
		return nil
	case len(a.NamespaceSelector) > 0 && who.Err != nil:
		return fmt.Errorf("pool %s: allow.namespaceSelector: the labels of namespace %s are not known: %w", p.FullName(), who.Namespace, who.Err)
	case len(a.NamespaceSelector) > 0 && hasLabels(who.Labels, a.NamespaceSelector):
		return nil
	}
	return p.refuseRequest("namespaces", "namespace "+who.Namespace, a.listNamespaces())
}

func hasLabels(have, want map[string]string) bool {
	for k, v := range want {
		if got, ok := have[k]; !ok || got != v {
			return false
		}
	}
	return true
}

// CheckSettings does the part of Check about the settings.
func (p Pool) CheckSettings(want vf.Spec) error {
	a := p.Allow
	if a == nil {
		return nil
	}
	var errs []error
	refuse := func(key, asked, allowed string) { errs = append(errs, p.refuseRequest(key, asked, allowed)) }
	a.checkVLAN(want.VLAN, refuse)
	if want.Trust != nil && *want.Trust && !a.Trust {
		refuse("trust", "trust on", "off")
	}
	if want.SpoofChk != nil && !*want.SpoofChk && !a.SpoofChkOff {
		refuse("spoofchkOff", "spoofchk off", "on")
	}
	if want.MAC != nil && !slices.ContainsFunc(a.MACs, func(m MACRange) bool { return m.containsMAC(*want.MAC) }) {
		refuse("macs", "mac "+want.MAC.String(), joinListed(a.MACs))
	}
	for _, address := range want.Addresses {
		if !slices.ContainsFunc(a.Addresses, func(n netip.Prefix) bool { return n.Contains(address.Prefix.Addr()) }) {
			refuse("addresses", "address "+address.Prefix.Addr().String(), joinListed(a.Addresses))
		}
	}
	if want.MTU != nil && *want.MTU > a.MTU {
		refuse("mtu", "mtu "+strconv.Itoa(*want.MTU), atMost(a.MTU))
	}
	var highest, lowest uint32
	if want.MaxTxRate != nil {
		highest = *want.MaxTxRate
	}
	if want.MinTxRate != nil {
		lowest = *want.MinTxRate
	}
	switch {
	case a.MaxTxRate > 0 && highest == 0:
		refuse("maxTxRate", "a network without max_tx_rate", fmt.Sprintf("1 to %d", a.MaxTxRate))
	case a.MaxTxRate > 0 && uint64(highest) > uint64(a.MaxTxRate):
		refuse("maxTxRate", fmt.Sprintf("max_tx_rate %d", highest), fmt.Sprintf("1 to %d", a.MaxTxRate))
	}
	if uint64(lowest) > uint64(a.MinTxRate) {
		refuse("minTxRate", fmt.Sprintf("min_tx_rate %d", lowest), atMost(a.MinTxRate))
	}
	return errors.Join(errs...)
}

// checkVLAN does the part of CheckSettings about the VLAN.
func (a Allow) checkVLAN(want *vf.VLAN, refuse func(key, asked, allowed string)) {
	v, vlans := vf.VLAN{}, a.VLANs
	if want != nil {
		v = *want
	}
	if len(vlans) == 0 {
		vlans = []Range{{}}
	}
	if id := int(v.ID); !slices.ContainsFunc(vlans, func(r Range) bool { return r.First <= id && id <= r.Last }) {
		refuse("vlans", "vlan "+strconv.Itoa(id), joinListed(vlans))
	}
	if int(v.QoS) > a.VLANQoS {
		refuse("vlanQoS", "vlanQoS "+strconv.Itoa(int(v.QoS)), atMost(a.VLANQoS))
	}
	if v.Proto == vf.Dot1AD && !a.ServiceVLANs {
		refuse("serviceVLANs", "vlanProto "+v.Proto.String(), vf.Dot1Q.String())
	}
}

func (p Pool) refuseRequest(key, asked, allowed string) error {
	return fmt.Errorf("pool %s: %s is not allowed: allow.%s has %s (%s): %w", p.FullName(), asked, key, allowed, p.From, vf.ErrInvalid)
}

func (a Allow) listNamespaces() string {
	all := slices.Clone(a.Namespaces)
	for k, v := range a.NamespaceSelector {
		all = append(all, "those with label "+k+"="+v)
	}
	slices.Sort(all)
	return strings.Join(all, ", ")
}

func joinListed[T fmt.Stringer](all []T) string {
	if len(all) == 0 {
		return "none"
	}
	out := make([]string, len(all))
	for i, v := range all {
		out[i] = v.String()
	}
	return strings.Join(out, ", ")
}

func atMost(n int) string {
	if n == 0 {
		return "none"
	}
	return "at most " + strconv.Itoa(n)
}
