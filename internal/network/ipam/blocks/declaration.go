package blocks

import (
	"fmt"
	"slices"
	"strings"

	"github.com/culvert-net/culvert/api/v1alpha1"
	"github.com/culvert-net/culvert/internal/network/ipam"
	"github.com/culvert-net/culvert/internal/vf"
)

// Declaration is what a person declares in an AddressPool. Networks name the pool, and have
// no addresses of their own.
type Declaration struct {
	// Section has the range sets, one for each family, and the excluded addresses.
	Section ipam.Config
	// BlockSize is how many addresses a node gets at once; 0 leaves it to Grant.
	BlockSize int64
	// Namespaces has the namespaces whose networks may name the pool; if it is empty, all may.
	Namespaces []string
	// Err is the reason why the subnets cannot be served. While it is set, the controller grants
	// no block, nodes give out no further address, and the blocks stay: a wrong edit takes no
	// address from a pod.
	Err error
}

// declarationOf returns what a person declared in an AddressPool, and nil for a pool that the
// controller made.
func declarationOf(o *v1alpha1.AddressPool) *Declaration {
	if o.Spec.Network != "" {
		return nil
	}
	d := &Declaration{BlockSize: int64(o.Spec.BlockSize), Namespaces: o.Spec.Namespaces}
	var texts []ipam.SubnetText
	for _, s := range o.Spec.Subnets {
		text := ipam.SubnetText{CIDR: s.CIDR, Exclude: s.Exclude, Gateway: s.Gateway}
		for _, r := range s.Ranges {
			text.Ranges = append(text.Ranges, [2]string{r.First, r.Last})
		}
		texts = append(texts, text)
	}
	d.Section, d.Err = ipam.ParseSubnets(texts)
	if o.Spec.KeepAddress != nil {
		d.Section.KeepAtMost = o.Spec.KeepAddress.Duration
	}
	if d.Err == nil && len(d.Section.Sets) == 0 {
		d.Err = fmt.Errorf("%w: subnets: missing; want a subnet, e.g. 172.16.91.0/24", vf.ErrInvalid)
	}
	return d
}

// admits reports whether networks of a namespace may name the pool. The namespace is empty for a
// network of a file on the node.
func (d *Declaration) admits(namespace string) bool {
	return len(d.Namespaces) == 0 || slices.Contains(d.Namespaces, namespace)
}

// Addresses counts the addresses that the pool gives out.
func (d *Declaration) Addresses() int64 {
	var all []ipam.Run
	for _, runs := range d.Section.Usable() {
		all = append(all, runs...)
	}
	return Total(all)
}

// Declared returns the ranges that nodes may request.
func (d *Declaration) Declared() (out Declared) {
	out.AddSection(d.Section)
	return out
}

// Subnets lists the subnets.
func (d *Declaration) Subnets() string {
	var out []string
	for _, set := range d.Section.Sets {
		for _, r := range set {
			if s := r.Subnet.String(); !slices.Contains(out, s) {
				out = append(out, s)
			}
		}
	}
	return strings.Join(out, ",")
}

// Overlap returns addresses that another pool gives out, too, and whether there are any.
func (d *Declaration) Overlap(o *Declaration) (ipam.Run, bool) {
	for _, mine := range d.Section.Usable() {
		for _, theirs := range o.Section.Usable() {
			if both := common(mine, theirs); len(both) > 0 {
				return both[0], true
			}
		}
	}
	return ipam.Run{}, false
}

// Section returns the ipam section of a network that names an AddressPool, with the pool's
// addresses, and the ID of the pool. namespace is that of its NetworkAttachmentDefinition, empty
// for a file on the node. The error is the same for a pool that does not exist and for one that
// does not admit the namespace, so that it does not reveal which pools exist.
func (b *NodeBlocks) Section(c ipam.Config, namespace string) (ipam.Config, string, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	id := v1alpha1.DeclaredPoolID(c.AddressPool)
	p, known := b.pools[id]
	switch {
	case !b.heard:
		return c, id, fmt.Errorf("AddressPool %s: %w: the API server has not sent the AddressPools yet", c.AddressPool, vf.ErrNotReady)
	case !known || p.Declared == nil || !p.Declared.admits(namespace):
		return c, id, fmt.Errorf("AddressPool %s: %w: there is none that admits %s: make one, add the namespace to its spec.namespaces, or correct ipam.addressPool", c.AddressPool, vf.ErrInvalid, originOf(namespace))
	case p.Declared.Err != nil:
		return c, id, fmt.Errorf("AddressPool %s: %w: it gives out no addresses until its subnets are corrected: %w", c.AddressPool, vf.ErrNotReady, p.Declared.Err)
	}
	section, err := c.WithPool(p.Declared.Section)
	return section, id, err
}

// Declarations returns the declarations of all declared pools, by the pools' IDs.
func (b *NodeBlocks) Declarations() map[string]Declaration {
	b.mu.Lock()
	defer b.mu.Unlock()
	out := map[string]Declaration{}
	for id, p := range b.pools {
		if p.Declared != nil {
			out[id] = *p.Declared
		}
	}
	return out
}
