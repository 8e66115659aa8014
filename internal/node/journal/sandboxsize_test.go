package journal

import (
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/culvert-net/culvert/internal/network/netconf"
	"github.com/culvert-net/culvert/internal/vf"
)

// sandboxOfSize is a sandbox whose record has about bytes bytes.
func sandboxOfSize(id string, bytes int) Sandbox {
	s := sandboxOf(id)
	raw := fmt.Sprintf(`{"type":"bridge","x":%q}`, strings.Repeat("x", bytes))
	s.Networks = append(s.Networks, SandboxNetwork{Name: "d/big", Interface: "net2", Network: "big", Version: "1.0.0",
		Plugins: []netconf.Plugin{{Type: "bridge", Raw: json.RawMessage(raw)}}, Result: json.RawMessage(`{}`)})
	return s
}

// I8: networks of pods do not make the ledger grow without bound, whatever their content. They
// never prevent the ADD of an ordinary pod, or the DEL of any pod.
func TestSandboxesAreBounded(t *testing.T) {
	l, err := Open(filepath.Join(t.TempDir(), "l.db"), Options{NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	put := func(s Sandbox) error { return l.Update(func(tx *Tx) error { return tx.PutSandbox(s) }) }
	err = put(sandboxOfSize("c", MaxSandbox))
	want := "network d/big (net2) is the largest of 3, with 2622"
	if !errors.Is(err, vf.ErrInvalid) || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "want at most 262144") {
		t.Errorf("%v; want %q", err, want)
	}
	stored := 0
	for i := range 100 {
		if err := put(sandboxOfSize(fmt.Sprint("large", i), MaxSandbox-2000)); err == nil {
			stored++
		} else if !errors.Is(err, vf.ErrNotReady) || !strings.Contains(err.Error(), "network d/big (net2)") {
			t.Fatal(err)
		}
	}
	if most := maxSandboxes / (MaxSandbox - 2000); stored != most {
		t.Errorf("%d large records were stored, want %d", stored, most)
	}
	if err := put(sandboxOfSize("large0", MaxSandbox-2000)); err != nil {
		t.Errorf("written again: %v", err)
	}
	for i := range 200 {
		if err := put(sandboxOfSize(fmt.Sprint("small", i), 1000)); err != nil {
			t.Fatalf("an ordinary pod is refused: %v", err)
		}
	}
	deleting := sandboxOfSize("large0", 2*MaxSandbox)
	deleting.Phase = SandboxDeleting
	if err := put(deleting); err != nil {
		t.Errorf("a DEL is refused: %v", err)
	}
	_ = l.View(func(tx *Tx) error {
		c := tx.Content()
		raw, err := json.Marshal(c.Sandboxes)
		if last := c.Sandboxes[len(c.Sandboxes)-1]; err != nil || len(raw) > 2*keepSandboxes || last.Omitted == 0 || last.ID == "" {
			t.Errorf("%v, all of them are read as %d bytes, the last is %+v", err, len(raw), last)
		}
		return nil
	})
}
