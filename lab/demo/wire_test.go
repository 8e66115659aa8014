package demo

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/culvert-net/culvert/internal/screen"
)

func TestBondLine(t *testing.T) {
	if got := (Bond{}).String(); got != "" {
		t.Errorf("no wire was pulled, and the report says %q", got)
	}
	ms := 12345.6
	for _, b := range []Bond{{GapMS: 12345.6, GapARPOnlyMS: 12345.6, RecoveredMS: &ms, Pulls: 2}, {Pulls: 2, ConnectionsLost: 2}} {
		for line := range strings.Lines(b.String()) {
			if n := screen.Columns(strings.TrimSuffix(line, "\n")); n > 100 {
				t.Errorf("%d columns: %s", n, line)
			}
		}
	}
}

// Each bond watches the other node's, in another rhythm.
func TestBondConfig(t *testing.T) {
	var texts []string
	for number := 1; number <= nodeCount; number++ {
		body := bondConfig(number)
		if !json.Valid(body) {
			t.Errorf("%s", body)
		}
		texts = append(texts, string(body))
	}
	if !strings.Contains(texts[0], `["10.85.0.2"]`) || !strings.Contains(texts[0], `"10.85.0.1/24"`) || !strings.Contains(texts[1], `["10.85.0.1"]`) || arpTimes[0] == arpTimes[1] {
		t.Error(texts)
	}
}
