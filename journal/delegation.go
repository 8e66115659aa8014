package journal

import "slices"

// Delegation is a call of another project's IPAM plugin that gave an attachment its
// addresses, or may have: what its DEL needs (CNI specification, section 4). It is written
// before the plugin runs.
type Delegation struct {
	Plugin      string `json:"plugin"`
	Network     string `json:"network"`
	ContainerID string `json:"containerID"`
	Interface   string `json:"interface"`
	Netns       string `json:"netns,omitempty"`
	Args        string `json:"args,omitempty"`
	Path        string `json:"path,omitempty"`
	// Config is the configuration; that of a lease is its Request.
	Config []byte `json:"config,omitempty"`
}

// IsSame reports whether two calls are of one plugin for one attachment.
func (d Delegation) IsSame(o Delegation) bool {
	return d.Plugin == o.Plugin && d.ContainerID == o.ContainerID && d.Interface == o.Interface
}

// Delegated returns the lease's delegation with its configuration; false when it has none.
func (l Lease) Delegated() (Delegation, bool) {
	if l.Delegation == nil {
		return Delegation{}, false
	}
	d := *l.Delegation
	d.Config = l.Request
	return d, true
}

// mostOwed and keepOwed bound what one record keeps for later, in delegations and in bytes of
// their configurations: tenants write them, and a plugin may refuse its DEL for ever. A
// network of a plugin has some hundred bytes.
const (
	mostOwed = 4
	keepOwed = 16 << 10
)

// Owing returns what r owes once its lease ends: what it owed before, and the lease's
// delegation. The oldest ones are left out where these are too many.
func (r Record) Owing() []Delegation {
	d, has := r.Lease.Delegated()
	if !has {
		return r.Owed
	}
	owed := append(slices.DeleteFunc(slices.Clone(r.Owed), d.IsSame), d)
	size := 0
	for i, d := range slices.Backward(owed) {
		if size += len(d.Config); size > keepOwed || len(owed)-i > mostOwed {
			return owed[i+1:]
		}
	}
	return owed
}
