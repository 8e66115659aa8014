package main

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"
)

// culvert support packs what culvertd and this host show, and lists what it could not read.
func TestSupport(t *testing.T) {
	d := &culvertd{plan: hurting}
	file := filepath.Join(t.TempDir(), "fault.tar.gz")
	out, err := run(t.Context(), t, d.serve(t), "support", "--out", file)
	if err != nil || !strings.HasSuffix(out, file+"\n") {
		t.Fatalf("%v\n%s", err, out)
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	zip, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for r := tar.NewReader(zip); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		files[path.Base(h.Name)] = string(content)
	}
	for name, want := range map[string]string{"README.txt": "host.yaml", "status.json": `"enp1s0f0#0"`, "events.jsonl": `{"seq":`, "doctor.json": `"findings"`, "versions.txt": "Linux "} {
		if !strings.Contains(files[name], want) {
			t.Errorf("%s has no %s: %.300q", name, want, files[name])
		}
	}
}
