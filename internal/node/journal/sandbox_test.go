package journal

import (
	"encoding/json"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/culvert-net/culvert/internal/network/netconf"
	"github.com/culvert-net/culvert/internal/node/journal/pages"
	"github.com/culvert-net/culvert/internal/vf"
)

func sandboxOf(id string) Sandbox {
	return Sandbox{
		ID: id, Netns: "/run/netns/" + id, Namespace: "d", Pod: "a", UID: "u1", Phase: SandboxAdded, Args: "K8S_POD_NAME=a", Path: "/opt/cni/bin",
		Networks: []SandboxNetwork{
			{Name: "cbr0", Interface: "eth0", Default: true, Network: "cbr0", Version: "1.0.0", Plugins: []netconf.Plugin{{Type: "bridge", Raw: json.RawMessage(`{"type":"bridge"}`)}}, Result: json.RawMessage(`{"ips":[]}`)},
			{Name: "d/x", Interface: "net1", Network: "x", Version: "1.0.0", Plugins: []netconf.Plugin{{Type: "sriov", Raw: json.RawMessage(`{"type":"sriov"}`)}}, Result: json.RawMessage(`{}`)},
		},
	}
}

// I8: a sandbox outlives its culvertd and a reboot's Clear, until it is deleted.
func TestSandboxIsKept(t *testing.T) {
	path := filepath.Join(t.TempDir(), "l.db")
	l, err := Open(path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	want := sandboxOf("c1")
	if err := l.Update(func(tx *Tx) error { return errors.Join(tx.PutSandbox(want), tx.Clear()) }); err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	c, err := Inspect(path)
	if err != nil || len(c.Problems()) != 0 || len(c.Sandboxes) != 1 {
		t.Fatalf("%v, %v, %d sandboxes", err, c.Problems(), len(c.Sandboxes))
	}
	if l, err = Open(path, Options{}); err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	err = l.Update(func(tx *Tx) error {
		got, err := tx.Sandbox("c1")
		if got.Since.IsZero() {
			t.Error("Since is not set")
		}
		got.Since = time.Time{}
		if d := cmp.Diff(want, got); err != nil || d != "" {
			t.Errorf("%v\n%s", err, d)
		}
		if len(tx.Content().Sandboxes) != 1 {
			t.Error("Content does not have it")
		}
		return tx.DeleteSandbox("c1")
	})
	if err != nil {
		t.Fatal(err)
	}
	_ = l.View(func(tx *Tx) error {
		if _, err := tx.Sandbox("c1"); !errors.Is(err, vf.ErrNotFound) {
			t.Errorf("after its end: %v", err)
		}
		return nil
	})
}

// The ledger reports a sandbox whose entry is damaged, without hiding the others. A repair forgets
// it.
func TestDamagedSandbox(t *testing.T) {
	damaged := filepath.Join(t.TempDir(), "l.db")
	l, err := Open(damaged, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	err = l.Update(func(tx *Tx) error {
		broken := []byte(`{"id":"c2","phase":"added","networks":[]}#00000000`)
		return errors.Join(tx.PutSandbox(sandboxOf("c1")), tx.tx.Bucket(bucketSandboxes).Put([]byte("c2"), broken))
	})
	if err != nil {
		t.Fatal(err)
	}
	var c Content
	_ = l.View(func(tx *Tx) error {
		c = tx.Content()
		if s, err := tx.Sandbox("c2"); err != nil || s.Damage == "" || s.ID != "c2" {
			t.Errorf("%+v, %v", s, err)
		}
		return nil
	})
	if len(c.Sandboxes) != 2 || len(c.Damage) != 1 || !strings.Contains(c.Damage[0].String(), "sandbox c2") || !c.Mendable() {
		t.Errorf("%d sandboxes, damage %v", len(c.Sandboxes), c.Damage)
	}
	r := Mend(c, c.Boot, nil)
	if len(r.Sandboxes) != 1 || r.Sandboxes[0].ID != "c1" || !strings.Contains(strings.Join(r.Did, "\n"), "c2") {
		t.Errorf("%d sandboxes are kept: %v", len(r.Sandboxes), r.Did)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "r.db")
	err = readFile(damaged, func(source pages.Source) error { return r.writeLedger(path, source, time.Now()) })
	if err != nil {
		t.Fatal(err)
	}
	if c, err := Inspect(path); err != nil || len(c.Sandboxes) != 1 || len(c.Problems()) != 0 {
		t.Errorf("%v, %d sandboxes, %v", err, len(c.Sandboxes), c.Problems())
	}
}

func TestVerifySandboxes(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*Sandbox)
		want   string
	}{
		"sound":         {func(*Sandbox) {}, ""},
		"adding":        {func(s *Sandbox) { s.Phase = SandboxAdding; s.Networks[1].Result = nil }, ""},
		"no networks":   {func(s *Sandbox) { s.Networks = nil }, "no networks"},
		"no result":     {func(s *Sandbox) { s.Networks[1].Result = nil }, "no result"},
		"two defaults":  {func(s *Sandbox) { s.Networks[1].Default = true }, "default true"},
		"one interface": {func(s *Sandbox) { s.Networks[1].Interface = "eth0" }, "so does another"},
		"no plugins":    {func(s *Sandbox) { s.Networks[1].Plugins = nil }, "no plugins"},
		"damaged":       {func(s *Sandbox) { *s = Sandbox{ID: "c1", Damage: "x"} }, ""},
	} {
		s := sandboxOf("c1")
		tc.change(&s)
		got := VerifySandboxes([]Sandbox{s})
		if tc.want == "" && len(got) > 0 || tc.want != "" && (len(got) != 1 || !strings.Contains(got[0].What, tc.want)) {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// FuzzSandbox shows that any entry is read or reported as damaged, and that VerifySandboxes does
// not panic on it.
func FuzzSandbox(f *testing.F) {
	raw, err := json.Marshal(sandboxOf("c1"))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(raw)
	f.Add([]byte(`{"id":"c1","phase":"added","networks":[null,{"plugins":[null]}]}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		s, err := decodeSandbox([]byte("c1"), sealEntry(bucketSandboxes, []byte("c1"), body))
		if err != nil {
			return
		}
		if s.ID != "c1" {
			t.Errorf("it is about %q", s.ID)
		}
		VerifySandboxes([]Sandbox{s})
	})
}
