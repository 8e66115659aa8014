package guest

import (
	"errors"
	"fmt"

	"github.com/culvert-net/culvert/internal/excerpt"
	"github.com/culvert-net/culvert/internal/vf"
)

// mostUses is how many devices Brief keeps. No guest has so many VFs.
const mostUses = 128

// longestReason bounds the reason why Culvert's part of the metadata cannot be read, in bytes.
const longestReason = 1 << 10

// Brief returns the definition without its text, which may be long: its name and UUID, and the devices
// and wants that may be about a VF. Of those with one VF it keeps the first. No method but Wants may be
// called on it. The error, which wraps vf.ErrInvalid, says that too many devices may be VFs.
func (d Definition) Brief() (Definition, error) {
	out := Definition{Name: d.Name, UUID: d.UUID, brief: &briefWants{}}
	had := map[vf.PCIAddr]bool{}
	for _, u := range d.Uses {
		if at := u.VF(); (!at.IsZero() || u.Err != nil) && !had[at] {
			had[at] = true
			out.Uses = append(out.Uses, Use{Way: u.Way, PCI: at, Managed: u.Managed, Err: u.Err})
		}
	}
	if len(out.Uses) > mostUses {
		return Definition{}, fmt.Errorf("guest %s: %w: %d of its devices may be VFs; want at most %d", d.Name, vf.ErrInvalid, len(out.Uses), mostUses)
	}
	wants, err := d.Wants()
	if err != nil { // it may repeat a value that is as long as the text
		out.brief.err = errors.New(excerpt.Fit(err.Error(), longestReason))
	}
	clear(had)
	for _, w := range wants {
		if !had[w.VF] {
			had[w.VF] = true
			out.brief.wants = append(out.brief.wants, w)
		}
	}
	return out, nil
}

// briefWants are the wants of a definition without a text.
type briefWants struct {
	wants []Want
	err   error
}
