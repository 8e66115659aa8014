package vm

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/culvert-net/culvert/api"
	"github.com/culvert-net/culvert/guest"
	"github.com/culvert-net/culvert/journal"
	"github.com/culvert-net/culvert/vf"
)

// Start is an rpc.Handler: an api.GuestStartRequest in, an api.GuestStartResponse
// out. It refuses a guest whose definition names a VF that somebody else has, or
// that could not be reset after somebody (P10), and knows nothing against PCI
// devices that are not in the ledger.
func (h *Handler) Start(_ context.Context, params json.RawMessage) (any, error) {
	var r api.GuestStartRequest
	if err := json.Unmarshal(params, &r); err != nil {
		return nil, fmt.Errorf("parameters: %w: %w", vf.ErrInvalid, err)
	}
	def, err := guest.Parse(r.Definition)
	if err != nil {
		return nil, err
	}
	var why []string
	err = h.ledger.View(func(tx *journal.Tx) error {
		records, err := tx.Records()
		for _, u := range def.Uses {
			for _, rec := range records {
				if rec.PCI == u.VF() && !rec.PCI.IsZero() {
					why = append(why, against(rec, def)...)
				}
			}
		}
		return err
	})
	if err != nil || len(why) == 0 {
		return api.GuestStartResponse{}, err
	}
	return api.GuestStartResponse{Refused: fmt.Sprintf("guest %s cannot have %s: take it out of the definition, or culvert vm xml another one", def.Name, strings.Join(why, "; "))}, nil
}

// against says why a guest cannot have a VF, if there is a reason.
func against(rec journal.Record, def guest.Definition) []string {
	mine := rec.Lease.Owner.Kind == vf.OwnerVM && rec.Lease.Owner.UID == def.UUID
	switch {
	case rec.Phase == journal.Quarantined:
		return []string{fmt.Sprintf("VF %s, which is quarantined (%s)", rec.PCI, rec.Reason)}
	case rec.Held() && (!mine || rec.Phase != journal.Attached):
		return []string{fmt.Sprintf("VF %s, which is %s: %s by %s", rec.PCI, rec.Phase, vf.ErrHeld, rec.Holder())}
	}
	return nil
}
