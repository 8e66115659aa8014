package suggest

import (
	"slices"
	"strings"
	"testing"
)

var keys = []string{"vlan", "vlanQoS", "vlanProto", "mac", "mtu", "spoofchk", "trust", "link_state", "min_tx_rate", "max_tx_rate", "ipam", "rangeStart"}

func TestNearest(t *testing.T) {
	for _, tc := range []struct{ word, want string }{
		{"max-tx-rate", "max_tx_rate"},
		{"maxTxRate", "max_tx_rate"},
		{"maxtx_rate", "max_tx_rate"},
		{"min_tx_rat", "min_tx_rate"},
		{"vlanqos", "vlanQoS"},
		{"vlanPorto", "vlanProto"},
		{"vlna", "vlan"},
		{"spoofcheck", "spoofchk"},
		{"range_start", "rangeStart"},
		{"linkstate", "link_state"},
		{"mtuu", "mtu"},
		{"x", ""},
		{"", ""},
		{"---", ""},
		{"selectors", ""},
		{"bandwidth", ""},
	} {
		if got := Nearest(tc.word, keys); got != tc.want {
			t.Errorf("Nearest(%q) = %q, want %q", tc.word, got, tc.want)
		}
	}
}

func TestDidYouMean(t *testing.T) {
	if got, want := DidYouMean("max-tx-rate", keys), ": did you mean max_tx_rate?"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := DidYouMean("selectors", keys); got != "" {
		t.Errorf("got %q for a word that is near nothing", got)
	}
}

func FuzzNearest(f *testing.F) {
	f.Add("max-tx-rate")
	f.Add(strings.Repeat("ä", 500))
	f.Fuzz(func(t *testing.T, word string) {
		got := Nearest(word, keys)
		if got != "" && !slices.Contains(keys, got) {
			t.Errorf("Nearest(%q) = %q, which is not known", word, got)
		}
	})
}
