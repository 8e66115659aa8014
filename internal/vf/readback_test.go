package vf

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// A readback says how many attributes are equal and when, and what was changed, or that it does not know
// that. For the next owner it has no value that the last owner may have chosen.
func TestReadback(t *testing.T) {
	at := Readback{Time: time.Date(2026, 12, 1, 7, 0, 0, 0, time.UTC), Attributes: 67}
	const begin = "67 attributes equal the baseline, read at 2026-12-01T07:00:00Z; "
	changes := []Difference{{"mtu", "1500", "9000"}, {"alias", "", "secret"}}
	for _, c := range []struct {
		r               Readback
		host, nextOwner string
	}{
		{at, "it had no owner before", ""},
		{at.WithChanges(nil), "neither its last owner nor another program had changed it", ""},
		{
			at.WithChanges(changes), "the reset undid changes of its last owner or another program: mtu (9000 to 1500), alias (secret to none)",
			"the reset undid changes of its last owner or another program: mtu, alias",
		},
		{Readback{Time: at.Time, Attributes: 67, Unknown: "x"}.WithChanges(nil), "what changed since its last owner got it is not known: x", ""},
		{
			Readback{Time: at.Time, Attributes: 67, Unknown: "x"}.WithChanges(changes[:1]),
			"the reset undid changes of its last owner or another program: mtu (9000 to 1500), and perhaps others: x",
			"the reset undid changes of its last owner or another program: mtu, and perhaps others: x",
		},
	} {
		if got := c.r.String(); got != begin+c.host {
			t.Errorf("%+v:\n%s, want\n%s", c.r, got, begin+c.host)
		}
		if c.nextOwner == "" {
			c.nextOwner = c.host
		}
		if got := c.r.WithoutValues(); got != begin+c.nextOwner {
			t.Errorf("%+v for the next owner:\n%s, want\n%s", c.r, got, begin+c.nextOwner)
		}
	}
}

// An owner who changes everything makes a readback of bounded size.
func TestReadbackIsBounded(t *testing.T) {
	var all []Difference
	for i := range 1000 {
		all = append(all, Difference{fmt.Sprint("attribute-", i), "", strings.Repeat("x", 10000)})
	}
	r := Readback{}.WithChanges(all)
	if len(r.Changed) != mostChanged || r.More != 1000-mostChanged || len(r.String()) > 4096 || !strings.Contains(r.WithoutValues(), "984 more") {
		t.Errorf("%d changes and %d more: %s", len(r.Changed), r.More, r)
	}
}
