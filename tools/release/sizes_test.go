package main

import (
	"archive/tar"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// digestOf returns a digest that ends in one digit.
func digestOf(digit int) string { return fmt.Sprintf("sha256:%064d", digit) }

// putImage writes an OCI archive with an image for amd64, of layers of 100 bytes with these digests.
func putImage(t *testing.T, file string, layers ...int) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	f, err := os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	w := tar.NewWriter(f)
	put := func(name, body string) {
		if err := w.WriteHeader(&tar.Header{Name: name, Size: int64(len(body)), Mode: 0o644}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(body)); err != nil {
			t.Fatal(err)
		}
	}
	var list []string
	for _, digit := range layers {
		list = append(list, fmt.Sprintf(`{"digest": %q, "size": 100}`, digestOf(digit)))
		put("blobs/sha256/"+strings.TrimPrefix(digestOf(digit), "sha256:"), strings.Repeat("x", 100))
	}
	put("index.json", fmt.Sprintf(`{"manifests": [{"digest": %q}]}`, digestOf(90)))
	put("blobs/sha256/"+strings.TrimPrefix(digestOf(90), "sha256:"), fmt.Sprintf(`{"manifests": [{"digest": %q, "size": 10, "platform": {"architecture": "amd64", "os": "linux"}}]}`, digestOf(91+layers[0])))
	put("blobs/sha256/"+strings.TrimPrefix(digestOf(91+layers[0]), "sha256:"), fmt.Sprintf(`{"config": {"digest": %q, "size": 7}, "layers": [%s]}`, digestOf(80+layers[0]), strings.Join(list, ",")))
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
}

// An upgrade fetches the files that changed, and of the image the layers that changed.
func TestSizes(t *testing.T) {
	dir := t.TempDir()
	for version, layer := range map[string]int{"v0.1.0": 1, "v0.1.1": 2} {
		putText(t, filepath.Join(dir, version, "culvert_"+version[1:]+"_amd64.deb"), "deb of "+version)
		putText(t, filepath.Join(dir, version, "krew.yaml"), "same")
		putImage(t, filepath.Join(dir, version, "culvert-"+version+"-image.tar"), layer, 5)
	}
	var out strings.Builder
	if err := showSizes(&out, filepath.Join(dir, "v0.1.0"), filepath.Join(dir, "v0.1.1")); err != nil {
		t.Fatal(err)
	}
	var got []string
	for line := range strings.Lines(out.String()) {
		if words := strings.Fields(line); words[3] != "culvert-VERSION-image.tar" { // with the whole tar
			got = append(got, strings.Join(words, " "))
		}
	}
	want := []string{
		"v0.1.0 v0.1.1 AN UPGRADE FETCHES FILE",
		"217 217 117 culvert-VERSION-image.tar, amd64", // a layer of 100, the configuration and the manifest
		"13 13 13 culvert_VERSION_amd64.deb",
		"4 4 0 krew.yaml",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s\n%s", diff, out.String())
	}
	if err := showSizes(&out, filepath.Join(dir, "v0.1.0"), filepath.Join(dir, "v9")); err == nil || !strings.Contains(err.Error(), "has no release") {
		t.Errorf("a folder without a release: %v", err)
	}
}
