package main

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// culvert metrics prints culvertd's metrics. With --file it replaces a file in one step, which every
// user may read under each umask, and leaves no other file behind.
func TestMetrics(t *testing.T) {
	defer syscall.Umask(syscall.Umask(0o077))
	socket := (&culvertd{}).serve(t)
	out, err := run(t.Context(), t, socket, "metrics")
	if err != nil || out != metricsText {
		t.Errorf("%v\n%s", err, out)
	}
	dir := t.TempDir()
	file := filepath.Join(dir, "culvert.prom")
	if err := os.WriteFile(file, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	held, err := os.Open(file) // as node_exporter, which reads while the file is replaced
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	if out, err := run(t.Context(), t, socket, "metrics", "--file", file); err != nil || out != "" {
		t.Errorf("%v\n%s", err, out)
	}
	body, err := os.ReadFile(file)
	info, statErr := os.Stat(file)
	if err != nil || statErr != nil || string(body) != metricsText || info.Mode() != 0o644 {
		t.Errorf("%v %v %v %q", err, statErr, info.Mode(), body)
	}
	before := make([]byte, 8)
	if n, _ := held.Read(before); string(before[:n]) != "old" {
		t.Errorf("the reader of the old file sees %q", before[:n])
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
		t.Errorf("%v, %v", entries, err)
	}
}

// A file that node_exporter would not read is refused before culvertd is asked. Without culvertd the
// file stays as it was.
func TestMetricsIsRefused(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"culvert", "culvert.txt", "culvert.prom.tmp"} {
		file := filepath.Join(dir, name)
		if out, err := run(t.Context(), t, "/nonexistent", "metrics", "--file", file); err == nil || !strings.Contains(err.Error(), "end in .prom") {
			t.Errorf("%s: %v\n%s", name, err, out)
		}
		if _, err := os.Stat(file); err == nil {
			t.Errorf("%s was written", name)
		}
	}
	file := filepath.Join(dir, "culvert.prom")
	if err := os.WriteFile(file, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := run(t.Context(), t, "/nonexistent", "metrics", "--file", file); err == nil || !strings.Contains(err.Error(), "culvertd") {
		t.Errorf("without culvertd: %v", err)
	}
	if body, err := os.ReadFile(file); err != nil || string(body) != "old" {
		t.Errorf("without culvertd the file has %q, %v", body, err)
	}
}
