package main

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
)

// built packs a program for two architectures.
func built(t *testing.T) (file string, digest v1.Hash) {
	t.Helper()
	var images []platform
	for _, arch := range []string{"amd64", "arm64"} {
		bin := t.TempDir()
		for _, name := range []string{"culvertd", "culvert", "culvert-lab"} {
			if err := os.WriteFile(filepath.Join(bin, name), []byte(name+" for "+arch), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		p, err := packImage(bin, arch, []byte("all licences"), labelsOf("v1.2.3", "0123abc", "go1.2.3"))
		if err != nil {
			t.Fatal(err)
		}
		images = append(images, p)
	}
	file = filepath.Join(t.TempDir(), "culvert.tar")
	index := indexOf(images)
	digest, err := index.Digest()
	if err := errors.Join(err, writeArchive(file, "localhost/culvert:test", index)); err != nil {
		t.Fatal(err)
	}
	return file, digest
}

func TestSameSourcesSameImage(t *testing.T) {
	one, first := built(t)
	other, second := built(t)
	if first != second {
		t.Errorf("digests %s and %s", first, second)
	}
	a, err := os.ReadFile(one)
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(other)
	if err != nil {
		t.Fatal(err)
	}
	if string(a) != string(b) {
		t.Error("two archives of the same programs differ")
	}
}

// TestArchive reads the archive as a runtime does.
func TestArchive(t *testing.T) {
	file, digest := built(t)
	dir := t.TempDir()
	untar(t, file, dir)
	place, err := layout.FromPath(dir)
	if err != nil {
		t.Fatal(err)
	}
	top, err := place.ImageIndex()
	if err != nil {
		t.Fatal(err)
	}
	m, err := top.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	if len(m.Manifests) != 1 || m.Manifests[0].Digest != digest || m.Manifests[0].Annotations["io.containerd.image.name"] != "localhost/culvert:test" {
		t.Fatalf("index %+v, want %s under its name", m, digest)
	}
	index, err := top.ImageIndex(digest)
	if err != nil {
		t.Fatal(err)
	}
	both, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, d := range both.Manifests {
		image, err := index.Image(d.Digest)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, contents(t, image)...)
	}
	want := []string{
		"amd64 user 65532 by go1.2.3 from v1.2.3 0123abc", licencesFile + ": all licences", "usr/local/bin/culvert: culvert for amd64", "usr/local/bin/culvertd: culvertd for amd64",
		"arm64 user 65532 by go1.2.3 from v1.2.3 0123abc", licencesFile + ": all licences", "usr/local/bin/culvert: culvert for arm64", "usr/local/bin/culvertd: culvertd for arm64",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// contents returns the platform of an image, and its files.
func contents(t *testing.T, image v1.Image) []string {
	t.Helper()
	config, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	layers, err := image.Layers()
	if err != nil {
		t.Fatal(err)
	}
	labels := config.Config.Labels
	all := []string{fmt.Sprintf("%s user %s by %s from %s %s", config.Architecture, config.Config.User, labels["dev.culvert.go"],
		labels["org.opencontainers.image.version"], labels["org.opencontainers.image.revision"])}
	for _, layer := range layers {
		all = append(all, layerFiles(t, layer))
	}
	return all
}

// layerFiles returns the files of a layer on one line.
func layerFiles(t *testing.T, layer v1.Layer) string {
	t.Helper()
	r, err := layer.Uncompressed()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	var all []string
	for name, body := range files(t, r) {
		all = append(all, name+": "+body)
	}
	return strings.Join(all, ", ")
}

// TestUpgradeFetchesChangedPrograms: images of which one program differs share the layers of all
// other programs.
func TestUpgradeFetchesChangedPrograms(t *testing.T) {
	bin := t.TempDir()
	layersWith := func(body string) map[v1.Hash]bool {
		for name, body := range map[string]string{"culvert": "same", "culvertd": body, "culvert-cni": "same"} {
			if err := os.WriteFile(filepath.Join(bin, name), []byte(body), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		p, err := packImage(bin, "amd64", nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		layers, err := p.image.Layers()
		if err != nil {
			t.Fatal(err)
		}
		digests := map[v1.Hash]bool{}
		for _, l := range layers {
			digest, err := l.Digest()
			if err != nil {
				t.Fatal(err)
			}
			digests[digest] = true
		}
		return digests
	}
	before, after := layersWith("one"), layersWith("two")
	maps.DeleteFunc(after, func(digest v1.Hash, _ bool) bool { return before[digest] })
	if len(before) != 4 || len(after) != 1 {
		t.Errorf("an upgrade of one program fetches %d of %d layers, want 1 of 4", len(after), len(before))
	}
}

// files yields the regular files of a tar, in the order of the tar.
func files(t *testing.T, r io.Reader) func(func(name, body string) bool) {
	t.Helper()
	return func(yield func(string, string) bool) {
		in := tar.NewReader(r)
		for {
			h, err := in.Next()
			if errors.Is(err, io.EOF) {
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if h.Typeflag != tar.TypeReg {
				continue
			}
			body, err := io.ReadAll(in)
			if err != nil {
				t.Fatal(err)
			}
			if !yield(h.Name, string(body)) {
				return
			}
		}
	}
}

func untar(t *testing.T, file, dir string) {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for name, body := range files(t, f) {
		place := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(place), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(place, []byte(body), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// TestPrograms: the image has every program that a cluster runs.
func TestPrograms(t *testing.T) {
	all, err := os.ReadDir("../../cmd")
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for _, e := range all {
		if e.Name() != "culvert-lab" && e.Name() != "culvert-esxi" {
			want = append(want, e.Name())
		}
	}
	got := slices.Sorted(slices.Values(inImage))
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
