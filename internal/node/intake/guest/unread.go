package guest

import (
	"fmt"
	"slices"
	"strings"

	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/excerpt"
	"github.com/culvert-net/culvert/internal/guest"
	"github.com/culvert-net/culvert/internal/node/journal"
	"github.com/culvert-net/culvert/internal/vf"
)

// refuseUnread refuses the start of a guest whose definition cannot be read, which err explains. It
// lets the guest start if the devices can be read, and none of them may be a VF of the ledger or is
// the PF of one.
func (h *Handler) refuseUnread(text []byte, err error) (any, error) {
	records, ledgerErr := h.readRecords()
	if ledgerErr != nil {
		return nil, ledgerErr
	}
	uses, textErr := guest.ParseUses(text)
	mayBe := func(u guest.Use) bool {
		_, known := recordAt(records, u.VF())
		return known || u.Err != nil && u.VF().IsZero()
	}
	pf, ledgerErr := h.refusePFs(h.findPFs(uses), vf.Owner{})
	if ledgerErr != nil {
		return nil, ledgerErr
	}
	if len(records) == 0 || textErr == nil && pf == "" && !slices.ContainsFunc(uses, mayBe) {
		return api.GuestAnswer{}, nil
	}
	return refuse(fmt.Sprintf("the guest cannot start, since culvertd cannot tell which VFs it would have: %v", err)), nil
}

// mayBeVF reports whether a device that cannot be read may be a VF of this host that Culvert has,
// or had when it made the device.
func mayBeVF(records []journal.Record, w guest.Want) bool {
	_, known := recordAt(records, w.VF)
	return known || w.Ours || w.VF.IsZero() && len(records) > 0
}

// describeUnread names a device that cannot be read, in the reason of a refusal.
func describeUnread(w guest.Want) string {
	if w.VF.IsZero() {
		return fmt.Sprintf("a device that may be a VF: %v", w.Err)
	}
	return fmt.Sprintf("VF %s: %v", w.VF, w.Err)
}

// longestList bounds the devices in a problem, in bytes: a definition may have thousands.
const longestList = 1 << 10

// findUnread returns the guests with devices that may be VFs of this host and cannot be read from a
// definition: those for which the next start would be refused, and else those with which they run.
func findUnread(guests []Seen, records []journal.Record) (out []api.Problem) {
	for _, g := range guests {
		p := api.Problem{Object: "guest " + g.Name}
		if unread := listUnread(g.Next, records); unread != "" {
			p.Reason, p.Next = "it cannot start with "+unread, fmt.Sprintf("mend the device (virsh edit %s), or take it out", g.Name)
		} else if unread := listUnread(g.Live, records); unread != "" {
			p.Reason, p.Next = "it runs with "+unread, fmt.Sprintf("culvertd leaves the VF to the guest: shut guest %s down and start it anew", g.Name)
		} else {
			continue
		}
		out = append(out, p)
	}
	return out
}

// listUnread names the devices of a definition that may be VFs of this host and cannot be read.
func listUnread(d guest.Definition, records []journal.Record) string {
	wants, _ := d.Wants() // an error is about the metadata: adoptVFs and Start report it
	var all []string
	for _, w := range wants {
		if w.Err != nil && mayBeVF(records, w) {
			all = append(all, describeUnread(w))
		}
	}
	return excerpt.Fit(strings.Join(all, "; "), longestList)
}
