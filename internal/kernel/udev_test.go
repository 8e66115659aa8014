package kernel

import (
	"os"
	"path/filepath"
	"testing"
)

// A record that udev writes before it renames an interface does not end the
// wait for its name.
func TestRecorded(t *testing.T) {
	for text, want := range map[string]bool{
		"I:306201275\nE:ID_NET_NAME=enp1s0v5\nG:systemd\nV:1\n":                      true,
		"I:306201275\nE:ID_NET_NAME=enp1s0v5\nE:ID_RENAMING=1\nG:systemd\nV:1\n":     false,
		"I:306201275\nE:ID_NET_NAME=enp1s0v5\nE:NOT_ID_RENAMING=1\nG:systemd\nV:1\n": true,
	} {
		path := filepath.Join(t.TempDir(), "n7")
		if isRecorded(path) {
			t.Error("a record that is not there is one")
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if got := isRecorded(path); got != want {
			t.Errorf("%q: %t, want %t", text, got, want)
		}
	}
}
