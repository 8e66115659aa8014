package cluster

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "github.com/opencontainers/image-spec/specs-go/v1"
)

// TestWriteImages reads an archive as a runtime does: every blob matches its
// digest, a shared layer is in the archive once, and the layers have the files
// with their types.
func TestWriteImages(t *testing.T) {
	root := t.TempDir()
	if err := errors.Join(
		os.MkdirAll(filepath.Join(root, "bin"), 0o755),
		os.WriteFile(filepath.Join(root, "bin/tool"), []byte("tool"), 0o755),
		os.Symlink("tool", filepath.Join(root, "bin/alias")),
	); err != nil {
		t.Fatal(err)
	}
	base := []Layer{{root, "/"}}
	images := []Image{
		{Name: "docker.io/a/one:latest", Entrypoint: []string{"/bin/tool"}, Layers: base},
		{Name: "localhost/two:1", Cmd: []string{"x"}, Layers: append(base, Layer{filepath.Join(root, "bin/tool"), "/opt/more/program"})},
	}
	var first, second bytes.Buffer
	then := time.Unix(1, 0)
	if err := errors.Join(
		WriteImages(&first, images...),
		os.Chtimes(filepath.Join(root, "bin/tool"), then, then),
		WriteImages(&second, images...),
	); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(first.Bytes(), second.Bytes()) {
		t.Error("the same files make another archive")
	}
	files := untar(t, &first)
	for name, body := range files {
		if digest, ok := strings.CutPrefix(name, "blobs/sha256/"); ok {
			if sum := sha256.Sum256([]byte(body)); hex.EncodeToString(sum[:]) != digest {
				t.Errorf("%s has another digest", name)
			}
		}
	}
	got := make(map[string][]string)
	for _, d := range decode[struct{ Manifests []v1.Descriptor }](t, files["index.json"]).Manifests {
		manifest := decode[struct{ Layers []v1.Descriptor }](t, files[blob(d)])
		for _, layer := range manifest.Layers {
			for name := range untar(t, strings.NewReader(files[blob(layer)])) {
				got[d.Annotations["io.containerd.image.name"]] = append(got[d.Annotations["io.containerd.image.name"]], name)
			}
		}
	}
	for _, list := range got {
		slices.Sort(list)
	}
	want := map[string][]string{
		"docker.io/a/one:latest": {"bin/", "bin/alias -> tool", "bin/tool"},
		"localhost/two:1":        {"bin/", "bin/alias -> tool", "bin/tool", "opt/", "opt/more/", "opt/more/program"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if len(files) != 2+2+2+2 { // layout and index, two layers, two configurations, two manifests
		t.Errorf("%d files in the archive", len(files))
	}
}

func blob(d v1.Descriptor) string { return "blobs/sha256/" + d.Digest.Encoded() }

func decode[T any](t *testing.T, body string) (v T) {
	t.Helper()
	if err := json.Unmarshal([]byte(body), &v); err != nil {
		t.Fatal(err)
	}
	return v
}

// untar returns the bodies of an archive's files by name.
func untar(t *testing.T, r io.Reader) map[string]string {
	t.Helper()
	out := make(map[string]string)
	for in := tar.NewReader(r); ; {
		head, err := in.Next()
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(in)
		if err != nil {
			t.Fatal(err)
		}
		name := head.Name
		if head.Linkname != "" {
			name += " -> " + head.Linkname
		}
		out[name] = string(body)
	}
}

// TestBuiltImages: the names have a registry and a tag, as the CRI resolves the
// names in manifests.
func TestBuiltImages(t *testing.T) {
	for _, image := range builtImages("/root") {
		registry, rest, _ := strings.Cut(image.Name, "/")
		if !strings.ContainsAny(registry, ".") && registry != "localhost" || !strings.Contains(rest, ":") {
			t.Errorf("%s has no registry or no tag", image.Name)
		}
	}
}
