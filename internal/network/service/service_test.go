package service

import (
	"errors"
	"strings"
	"testing"

	"github.com/culvert-net/culvert/internal/vf"
)

func TestParseNetwork(t *testing.T) {
	long := strings.Repeat("a", 60)
	for text, want := range map[string]string{
		"net1": "mine/net1", "default/net1": "default/net1", "a/b.c-d": "a/b.c-d", "ab/" + long: "ab/" + long,
		"": "", "/": "", "a/": "", "/b": "", "a/b/c": "", "A/b": "", "a.b/c": "", "-a/b": "", "a/b-": "", "a/b..c": "", "a b": "", "net1@eth0": "", "abc/" + long: "",
	} {
		got, err := ParseNetwork(text, "mine")
		if want == "" {
			if !errors.Is(err, vf.ErrInvalid) {
				t.Errorf("%q: %v, %v; want an error", text, got, err)
			}
			continue
		}
		if err != nil || got.String() != want {
			t.Errorf("%q: %v, %v; want %s", text, got, err, want)
		}
	}
}

// FuzzParseNetwork: a network's label is a valid value of a label, and names that network and no
// other.
func FuzzParseNetwork(f *testing.F) {
	f.Add("default/sriov-net1")
	f.Add("net.1")
	f.Fuzz(func(t *testing.T, text string) {
		n, err := ParseNetwork(text, "mine")
		if err != nil {
			return
		}
		again, err := ParseLabel(n.Label())
		if err != nil || again != n || len(n.Label()) > 63 {
			t.Fatalf("%q: %v, as a label %q: %v, %v", text, n, n.Label(), again, err)
		}
	})
}

func TestParseLabelRefusesOtherText(t *testing.T) {
	for _, text := range []string{"", "net1", ".", "a.", ".b", "a.b/c"} {
		if n, err := ParseLabel(text); !errors.Is(err, vf.ErrInvalid) {
			t.Errorf("%q: %v, %v; want an error", text, n, err)
		}
	}
}
