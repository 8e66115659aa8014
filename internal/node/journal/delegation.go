package journal

import "slices"

// Delegation is a call of another project's IPAM plugin, which has given an attachment its
// addresses or may have. It has all that the plugin's DEL needs (CNI specification, section 4),
// and is written before the plugin runs.
type Delegation struct {
	Plugin      string `json:"plugin"`
	Network     string `json:"network"`
	ContainerID string `json:"containerID"`
	Interface   string `json:"interface"`
	Netns       string `json:"netns,omitempty"`
	Args        string `json:"args,omitempty"`
	Path        string `json:"path,omitempty"`
	// Config is the plugin's configuration. It is empty in a lease, whose Request has the
	// configuration.
	Config []byte `json:"config,omitempty"`
}

// IsSame reports whether two delegations are of the same plugin for the same attachment.
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

// mostOwed and keepOwed bound the delegations that one record owes, and the bytes of their
// configurations. The lease's own delegation is always owed: config.Config.Kept bounds it. Tenants write these configurations, and a plugin may refuse its DEL for ever. A
// usual configuration has some hundred bytes.
const (
	mostOwed = 4
	keepOwed = 16 << 10
)

// Owing returns the delegations that r owes when its lease ends: the ones in Owed, and the lease's.
// It leaves out the oldest ones if there are too many.
func (r Record) Owing() []Delegation {
	d, has := r.Lease.Delegated()
	if !has {
		return r.Owed
	}
	owed := append(slices.DeleteFunc(slices.Clone(r.Owed), d.IsSame), d)
	size := 0
	for i, d := range slices.Backward(owed) {
		if size += len(d.Config); i < len(owed)-1 && size > keepOwed || len(owed)-i > mostOwed {
			return owed[i+1:]
		}
	}
	return owed
}
