package evidence

import (
	"os"
	"strings"
	"testing"
)

// OfVF looks for the PF in both namespaces, the agent's and that of process 1. Only the lab has a
// PF with VFs.
func TestOfVF(t *testing.T) {
	r := writeTree(t, "host.txtar")
	if _, err := r.OfVF("0000:01:00.0"); err == nil || !strings.Contains(err.Error(), `"0000:01:00.0" is no VF`) {
		t.Errorf("of a PF: %v", err)
	}
	ns := r.pathOf("proc/1/ns/net")
	if _, err := r.OfVF("0000:01:10.2"); err == nil || !strings.Contains(err.Error(), "VF 1 of 0000:01:00.0") || !strings.Contains(err.Error(), "no interface in this network namespace") {
		t.Errorf("without process 1: %v", err)
	}
	if err := os.MkdirAll(ns[:len(ns)-len("/net")], 0o755); err != nil {
		t.Fatal(err)
	}
	if os.Getuid() != 0 {
		t.Skip("entering a network namespace needs root")
	}
	if err := os.Symlink("/proc/self/ns/net", ns); err != nil {
		t.Fatal(err)
	}
	_, err := r.OfVF("0000:01:10.2")
	if err == nil || strings.Count(err.Error(), "no interface in this network namespace") != 2 {
		t.Errorf("in process 1's network namespace: %v", err)
	}
}
