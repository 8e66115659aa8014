package main

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/node/journal"
	"github.com/culvert-net/culvert/internal/vf"
)

// A ledger is checked, shown and repaired as a file, while culvertd does not
// run.
func TestLedgerOfAStoppedCulvertd(t *testing.T) {
	file := filepath.Join(t.TempDir(), "ledger.db")
	nobody := filepath.Join(t.TempDir(), "s")
	l, err := journal.Open(file, journal.Options{})
	if err != nil {
		t.Fatal(err)
	}
	id := vf.ID{PF: vf.PFID{MAC: vf.MAC{2}}, Index: 3}
	err = l.Update(func(tx *journal.Tx) error {
		return errors.Join(tx.SetBoot("b"), tx.Put(journal.Record{ID: id, Generation: 77, Phase: vf.PhaseMaking}))
	})
	if err != nil {
		t.Fatal(err)
	}
	try := func(want string, wantErr string, args ...string) string {
		t.Helper()
		out, err := run(t.Context(), t, nobody, args...)
		if !strings.Contains(out, want) {
			t.Errorf("%v writes %q, want %q", args, out, want)
		}
		if wantErr == "" && err != nil || wantErr != "" && (err == nil || !strings.Contains(err.Error(), wantErr)) {
			t.Errorf("%v: %v, want %q", args, err, wantErr)
		}
		return out
	}
	for _, verb := range []string{"check", "dump"} {
		try("", "without FILE, this command asks it", "ledger", verb, file)
	}
	try("", "systemctl stop culvertd", "ledger", "repair", "--yes", file)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}

	try("is right: 1 VF, ", "", "ledger", "check", file)
	try(id.String(), "", "ledger", "dump", file)
	try("nothing that a repair could mend", "", "ledger", "repair", "--yes", file)
	try("", "culvertd makes one when it starts", "ledger", "check", file+".not")

	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	spoilt := strings.ReplaceAll(string(raw), `"generation":77`, `"generation":78`)
	if err := os.WriteFile(file, []byte(spoilt), 0o600); err != nil {
		t.Fatal(err)
	}
	try("its record is damaged", "exit status 1", "ledger", "check", file)
	var shown api.Ledger
	if err := json.Unmarshal([]byte(try("", "", "ledger", "dump", "-o", "json", file)), &shown); err != nil ||
		len(shown.Records) != 1 || shown.Records[0].Phase != "damaged" || len(shown.Problems) != 1 {
		t.Errorf("%+v %v", shown, err)
	}
	try("is marked as lost", "or give --yes", "ledger", "repair", file)
	if now, _ := os.ReadFile(file); string(now) != spoilt {
		t.Error("it was changed without --yes")
	}
	try("is repaired", "", "ledger", "repair", "--yes", file)
	if kept, _ := filepath.Glob(file + ".damaged-*"); len(kept) != 1 {
		t.Errorf("kept %v", kept)
	}
	try("lost, and marked so", "exit status 1", "ledger", "check", file)
	try("nothing that a repair could mend", "", "ledger", "repair", "--yes", file)
}

// No command treats a file that was never a ledger as one, or repairs it.
func TestLedgerCommandsRefuseForeignFiles(t *testing.T) {
	nobody, dir := filepath.Join(t.TempDir(), "s"), t.TempDir()
	for name, content := range map[string]string{"passwd": "root:x:0:0:root:/root:/bin/bash\n", "empty": ""} {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		for _, verb := range []string{"check", "dump", "repair --yes"} {
			out, err := run(t.Context(), t, nobody, append(append([]string{"ledger"}, strings.Fields(verb)...), file)...)
			if !errors.Is(err, journal.ErrForeign) || strings.Contains(out+err.Error(), "culvert ledger repair") {
				t.Errorf("%s %s: %v\n%s", verb, name, err, out)
			}
		}
		if now, err := os.ReadFile(file); err != nil || string(now) != content {
			t.Errorf("%s was changed: %v", name, err)
		}
	}
	if left, _ := os.ReadDir(dir); len(left) != 2 {
		t.Errorf("left behind: %v", left)
	}
}

// While culvertd runs, culvert ledger asks it.
func TestLedgerOfCulvertd(t *testing.T) {
	d := &culvertd{}
	out, err := run(t.Context(), t, d.serve(t), "ledger", "check")
	if err != nil || !strings.Contains(out, "/x/ledger.db is right") {
		t.Errorf("%q %v", out, err)
	}
}
