package netannotation

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/culvert-net/culvert/internal/network/netconf"
)

func TestConfirmation(t *testing.T) {
	want := Confirmation{Pod: "u1", At: time.Date(2026, 11, 26, 14, 0, 0, 123_000, time.UTC), VFs: []ConfirmedVF{{Interface: "net1", Network: "d/a", Pool: "x/a", Addresses: []string{"10.0.0.2/24"}}, {Interface: "net2"}}}
	got, err := ParseConfirmation(want.String())
	if err != nil || !cmp.Equal(want, got) {
		t.Errorf("%v: %s", err, cmp.Diff(want, got))
	}
	later := want
	later.At = later.At.Add(time.Hour)
	other := want
	other.VFs = []ConfirmedVF{want.VFs[0]}
	renamed := want
	renamed.VFs = slices.Clone(want.VFs)
	renamed.VFs[0].Network = "d/b"
	moved := want
	moved.Pod = "u2"
	if !want.SameVFs(later) || want.SameVFs(other) || want.SameVFs(renamed) || want.SameVFs(moved) {
		t.Error("SameVFs compares the pod and its VFs, and no times")
	}
	for text, part := range map[string]string{
		"{":                               "unexpected end of JSON",
		`{"at":"yesterday"}`:              "cannot parse",
		strings.Repeat(" ", 64<<10) + "1": "it has 65537 bytes; want at most 65536",
	} {
		if _, err := ParseConfirmation(text); err == nil || !strings.Contains(err.Error(), "annotation culvert.dev/confirmed: ") || !strings.Contains(err.Error(), part) {
			t.Errorf("%v", err)
		}
	}
}

// FuzzParseConfirmation: a Confirmation that was read is the same after it was written and read
// again.
func FuzzParseConfirmation(f *testing.F) {
	f.Add(`{"pod":"u1","at":"2026-11-26T14:00:00.000123Z","vfs":[{"interface":"net1","pool":"x/a","addresses":["10.0.0.2/24"]}]}`)
	f.Add(`{"vfs":null}`)
	f.Add(`[]`)
	f.Fuzz(func(t *testing.T, text string) {
		c, err := ParseConfirmation(text)
		if err != nil {
			return
		}
		again, err := ParseConfirmation(c.String())
		if len(c.String()) <= netconf.MaxText && (err != nil || !c.SameVFs(again) || !c.At.Equal(again.At)) {
			t.Fatalf("%q: %+v, %+v, %v", text, c, again, err)
		}
	})
}
