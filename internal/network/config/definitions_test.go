package config

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/culvert-net/culvert/internal/api"
)

// Each version of a definition is parsed once, also by several callers at a time. A definition that
// the API server does not have is parsed each time.
func TestDefinitionsAreParsedOnce(t *testing.T) {
	var s Definitions
	n := api.NetworkDefinition{Namespace: "d", Name: "n", Config: strict(`"bond":{"links":3}`), UID: "u1", Version: "1"}
	first := s.Read(n)
	if first.VFs() != 3 || first.Bond() == nil || first.Err != nil {
		t.Errorf("%d VFs, bond %v, %v", first.VFs(), first.Bond(), first.Err)
	}
	var callers errgroup.Group
	for range 8 {
		callers.Go(func() error {
			if s.Read(n) != first {
				return errors.New("it is parsed again")
			}
			return nil
		})
	}
	if err := callers.Wait(); err != nil {
		t.Error(err)
	}
	next, again, other := n, n, n
	next.Version, next.Config = "2", strict(``)
	again.UID, again.Config = "u2", strict(`"bond":{}`)
	other.Name, other.Config = "other", `{"type":"bridge"}`
	for i, want := range []struct {
		n   api.NetworkDefinition
		vfs int
	}{{next, 1}, {again, 2}, {other, 1}, {n, 3}} {
		if got := s.Read(want.n); got.VFs() != want.vfs || got == first || got != s.Read(want.n) {
			t.Errorf("%d: %d VFs, want %d", i, got.VFs(), want.vfs)
		}
	}
	n.Version = ""
	if a, b := s.Read(n), s.Read(n); a == b || (*Definitions)(nil).Read(n).VFs() != 3 {
		t.Error("a definition without a version is kept")
	}
}

// Definitions keeps a bounded size of definitions, and the namespace with the most gives way.
func TestDefinitionsAreBounded(t *testing.T) {
	for name, size := range map[string]int{"many": 0, "large": 60 << 10} {
		var s Definitions
		text := `{"type":"bridge","x":"` + strings.Repeat("x", size) + `"}`
		each := objectSize + len(text)
		victim := api.NetworkDefinition{Namespace: "b", Name: "n", Config: text, UID: "u", Version: "1"}
		first := s.Read(victim)
		for i := range mostText/each + 10 {
			s.find(api.NetworkDefinition{Namespace: "a", Name: fmt.Sprint(i), Config: text, UID: "u", Version: "1"})
			if len(s.known)*each > mostText {
				t.Fatalf("%s: %d definitions are kept", name, len(s.known))
			}
		}
		late := api.NetworkDefinition{Namespace: "c", Name: "n", Config: text, UID: "u", Version: "1"}
		fitted := s.Read(late)
		if s.Read(victim) != first || s.Read(late) != fitted || len(s.known)*each > mostText {
			t.Errorf("%s: the networks of one namespace push out those of another; %d are kept", name, len(s.known))
		}
	}
}

// A definition that cannot be read has an error, and no plugins of Culvert's.
func TestReadRefuses(t *testing.T) {
	for text, want := range map[string]string{
		`{"type":"sriov","x":"` + strings.Repeat("x", 70_000) + `"}`: "the network configuration: invalid: it has 70023 bytes; want at most 65536",
		`{`: "spec.config: invalid: not a JSON object: unexpected end of JSON input",
	} {
		d := Read(api.NetworkDefinition{Name: "n", Config: text})
		own, err := d.Own()
		if fmt.Sprint(d.Err) != want || fmt.Sprint(err) != want || own != nil || d.IsFile || d.VFs() != 1 || !d.Shared().Unread {
			t.Errorf("%.20s: %v, %v, %d configurations", text, d.Err, err, len(own))
		}
	}
}
