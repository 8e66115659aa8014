package membership

import (
	"time"

	"github.com/culvert-net/culvert/api/v1alpha1"
	"github.com/culvert-net/culvert/internal/node/journal"
	"github.com/culvert-net/culvert/internal/vf"
)

// attached identifies an attachment of a pod in a phase. A later sandbox of the same ID has
// attachments of another time.
type attached struct {
	sandbox, in string
	since       time.Time
}

// networkNames are the names of attachments' networks, namespace/name of their
// NetworkAttachmentDefinitions. It keeps them from one NodeState to the next, since the records of
// a node's sandboxes may have some megabytes.
type networkNames map[attached]string

// fillIn adds the names of networks to VFs of a NodeState (v1alpha1.Owner.Network), by the records of
// their sandboxes. It forgets all other names.
func (n *networkNames) fillIn(vfs []v1alpha1.VFState, records []journal.Record, tx *journal.Tx) {
	type place struct{ sandbox, in string }
	names, places := networkNames{}, map[place]string{}
	for _, r := range records {
		o := r.Lease.Owner
		if o.Kind != vf.OwnerPod {
			continue
		}
		key := attached{o.UID, o.Interface, r.Since}
		name, known := (*n)[key]
		if !known {
			sb, _ := tx.Sandbox(o.UID) // it has no networks where Multus made it, or where it is damaged
			name = sb.NetworkOf(o.Interface)
		}
		names[key], places[place{o.UID, o.Interface}] = name, name
	}
	*n = names
	for _, v := range vfs {
		if v.Owner != nil {
			v.Owner.Network = places[place{v.Owner.UID, v.Owner.Interface}]
		}
	}
}
