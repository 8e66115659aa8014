package vf

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/culvert-net/culvert/internal/excerpt"
)

// Readback is the proof that a VF is clean: when it was last read and equal to its baseline, and what its
// last owner had changed before.
type Readback struct {
	// Time is when the VF was read. Attributes is how many of its attributes were compared.
	Time       time.Time `json:"time"`
	Attributes int       `json:"attributes"`
	// AfterOwner is set if the VF had an owner before.
	AfterOwner bool `json:"afterOwner,omitempty"`
	// Changed are changes of the last owner, or of another program since then, which the reset undid. Have
	// is the changed value, Want that of the baseline. Settings that Culvert made for the owner are not
	// among them. More is how many more there were.
	Changed []Difference `json:"changed,omitempty"`
	More    int          `json:"more,omitempty"`
	// Unknown says why Changed may lack changes; empty: it has all.
	Unknown string `json:"unknown,omitempty"`
}

// Bounds of a Readback, so that no owner makes the ledger large.
const (
	mostChanged  = 16
	longestValue = 64 // bytes
)

// WithChanges returns a Readback that has the changes of an owner, as far as they fit.
func (r Readback) WithChanges(all []Difference) Readback {
	r.AfterOwner, r.Changed, r.More = true, nil, max(0, len(all)-mostChanged)
	for _, d := range all[:len(all)-r.More] {
		r.Changed = append(r.Changed, Difference{excerpt.Fit(d.Attribute, longestValue), excerpt.Fit(d.Want, longestValue), excerpt.Fit(d.Have, longestValue)})
	}
	return r
}

// String describes a Readback for the host's administrator.
func (r Readback) String() string { return r.describe(Difference.describeUndone) }

// WithoutValues describes a Readback for the next owner. It names the attributes that the last owner
// changed, and not their values: those may have texts of another tenant.
func (r Readback) WithoutValues() string {
	return r.describe(func(d Difference) string { return d.Attribute })
}

func (r Readback) describe(change func(Difference) string) string {
	text := fmt.Sprintf("%d attributes equal the baseline, read at %s", r.Attributes, r.Time.UTC().Format(time.RFC3339))
	if !r.AfterOwner {
		return text + "; it had no owner before"
	}
	parts := make([]string, len(r.Changed))
	for i, d := range r.Changed {
		parts[i] = change(d)
	}
	if r.More > 0 {
		parts = append(parts, excerpt.More(r.More))
	}
	list := strings.Join(parts, ", ")
	const undone = "; the reset undid changes of its last owner or another program: "
	switch {
	case r.Unknown != "" && list == "":
		return text + "; what changed since its last owner got it is not known: " + r.Unknown
	case r.Unknown != "":
		return text + undone + list + ", and perhaps others: " + r.Unknown
	case list == "":
		return text + "; neither its last owner nor another program had changed it"
	default:
		return text + undone + list
	}
}

// describeUndone returns "ATTRIBUTE (VALUE to BASELINE)".
func (d Difference) describeUndone() string {
	return fmt.Sprintf("%s (%s to %s)", d.Attribute, cmp.Or(d.Have, "none"), cmp.Or(d.Want, "none"))
}

// Names returns the attributes of Changed, for programs.
func (r Readback) Names() []string {
	out := make([]string, len(r.Changed))
	for i, d := range r.Changed {
		out[i] = d.Attribute
	}
	slices.Sort(out)
	return slices.Compact(out)
}
