package journal

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/culvert-net/culvert/internal/vf"
)

// Open refuses a ledger that a newer culvertd wrote, before it writes a byte. The message names what
// is new, the formats and the next step. Inspect reports the file as newer, so that no repair
// replaces it. What is unknown in an event is no reason: no event is written again.
func TestNewerLedgerIsRefused(t *testing.T) {
	id := vf.ID{PF: vf.PFID{MAC: vf.MAC{2}}, Index: 1}
	record := map[string]any{"id": id, "generation": 1, "phase": "making"}
	with := func(base map[string]any, key string) []byte {
		all := map[string]any{key: true}
		for k, v := range base {
			all[k] = v
		}
		out, err := json.Marshal(all)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	inLease, err := json.Marshal(map[string]any{"id": id, "generation": 1, "phase": "making", "lease": map[string]any{"wanted": map[string]any{"frob": 1}}})
	if err != nil {
		t.Fatal(err)
	}
	recordKey := []byte(id.String())
	for name, tt := range map[string]struct {
		bucket, key, body []byte
		want              string // empty: it is opened
	}{
		"format":             {bucketMeta, keyFormat, []byte("3"), `a newer culvertd wrote it: its format is "3", and this culvertd reads format 2: nothing was changed in it: start the newer culvertd again`},
		"record":             {bucketRecords, recordKey, with(record, "frob"), `a newer culvertd wrote it: the record of VF "02:00:00:00:00:00#1" has the field "frob", which this culvertd does not know: nothing was changed`},
		"wanted in a lease":  {bucketRecords, recordKey, inLease, `has the field "frob"`},
		"address":            {bucketAddresses, []byte("n\x0010.0.0.5"), with(map[string]any{"network": "n", "addr": "10.0.0.5", "vf": id}, "frob"), `address "n\x0010.0.0.5" has the field "frob"`},
		"sandbox":            {bucketSandboxes, []byte("s"), with(map[string]any{"id": "s", "phase": "adding"}, "frob"), `sandbox "s" has the field "frob"`},
		"settings of new VF": {bucketMeta, freshKey(id.PF), with(nil, "frob"), `has the field "frob", which this culvertd does not know`},
		"event":              {bucketEvents, seqKey(9), with(map[string]any{"seq": 9}, "frob"), ""},
		"a plugin's own key": {bucketSandboxes, []byte("s"), []byte(`{"id": "s", "phase": "adding", "networks": [{"default": true, "interface": "eth0", "plugins": [{"type": "x", "frob": 1}]}]}`), ""},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "ledger.db")
			l, err := Open(path, Options{NoSync: true})
			if err != nil {
				t.Fatal(err)
			}
			if err := errors.Join(l.Update(func(tx *Tx) error { return tx.storeEntry(tt.bucket, tt.key, tt.body) }), l.Close()); err != nil {
				t.Fatal(err)
			}
			before, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			l, err = Open(path, Options{NoSync: true})
			if err == nil {
				err = l.Close()
			}
			c, inspectErr := Inspect(path)
			if inspectErr == nil && c.Newer() != (tt.want != "") {
				t.Errorf("newer %t, faults %v", c.Newer(), c.Faults)
			}
			if tt.want == "" {
				if err := errors.Join(err, inspectErr); err != nil {
					t.Fatal(err)
				}
				return
			}
			after, readErr := os.ReadFile(path)
			if !errors.Is(err, ErrNewer) || !strings.Contains(fmt.Sprint(err), tt.want) || inspectErr != nil || readErr != nil || errors.Is(err, ErrDamaged) {
				t.Errorf("%v, want %s; Inspect: %v", err, tt.want, inspectErr)
			}
			if !bytes.Equal(before, after) {
				t.Error("the file was changed")
			}
			if files, _ := filepath.Glob(path + "*"); len(files) != 1 {
				t.Errorf("files %v", files)
			}
		})
	}
}

// An older culvertd takes a bucket that it does not know for damage. So a ledger with another list
// of buckets needs another format number.
func TestBucketsOfTheFormat(t *testing.T) {
	want := map[string]string{"2": "meta records addresses last events sandboxes"}[format]
	if got := string(bytes.Join(buckets, []byte(" "))); got != want {
		t.Errorf("format %s has the buckets %s, not %s: raise the format, and have prepareBuckets rewrite older files", format, want, got)
	}
}
