package cli

import (
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
)

func TestParseSince(t *testing.T) {
	zone := time.FixedZone("there", 3600)
	now := time.Date(2026, 11, 26, 12, 0, 0, 0, zone)
	for text, want := range map[string]time.Time{
		"2026-11-24":           time.Date(2026, 11, 24, 0, 0, 0, 0, zone),
		"2026-11-24 15:04":     time.Date(2026, 11, 24, 15, 4, 0, 0, zone),
		"2026-11-24T15:04:05":  time.Date(2026, 11, 24, 15, 4, 5, 0, zone),
		"2026-11-24T15:04:05Z": time.Date(2026, 11, 24, 15, 4, 5, 0, time.UTC),
		"2d":                   now.Add(-48 * time.Hour),
		"1d12h":                now.Add(-36 * time.Hour),
		"90m":                  now.Add(-90 * time.Minute),
	} {
		if got, err := parseSince(text, now); err != nil || !got.Equal(want) {
			t.Errorf("%q is %s, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "d", "-2d", "2", "2dd", "-1h", "2026-13-01", "99999d", "xd", "1d-2h", "yesterday"} {
		if got, err := parseSince(text, now); err == nil {
			t.Errorf("%q is %s", text, got)
		}
	}
}

// A number is an event's only where events have numbers.
func TestSinceTakesANumber(t *testing.T) {
	var s Since
	numbered, timed := &cobra.Command{}, &cobra.Command{}
	AddSince(numbered, &s, true, "")
	AddSince(timed, &Since{}, false, "")
	if err := numbered.Flags().Set("since", "120"); err != nil || s.After != 120 || !s.Time.IsZero() {
		t.Errorf("%+v, %v", s, err)
	}
	if err := numbered.Flags().Set("since", "2d"); err != nil || s.After != 0 || time.Since(s.Time) < 47*time.Hour {
		t.Errorf("%+v, %v", s, err)
	}
	if err := numbered.Flags().Set("since", "x"); err == nil || !strings.Contains(err.Error(), "number of an event") {
		t.Error(err)
	}
	if err := timed.Flags().Set("since", "120"); err == nil || strings.Contains(err.Error(), "number") {
		t.Error(err)
	}
}
