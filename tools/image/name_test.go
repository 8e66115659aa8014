package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/culvert-net/culvert/tools/manifests"
)

// The manifests and the chart name an image below localhost, with a version, and name no other
// one. So no registry serves an image under the default name.
func TestManifestNamesALocalImage(t *testing.T) {
	for file, pattern := range map[string]string{
		"../../dist/kubernetes/culvert.yaml":          `(?m)^ *image: (\S+)$`,
		"../../dist/kubernetes/release-services.yaml": `(?m)^ *image: (\S+)$`,
		"../../dist/kubernetes/chart/values.yaml":     `(?m)^  name: (\S+/culvert:\S+)$`,
		"../../lab/cluster/culvert.go":                `(?m)^const manifestImage = "(\S+)"$`,
	} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		names := regexp.MustCompile(pattern).FindAllSubmatch(text, -1)
		if len(names) == 0 {
			t.Errorf("%s names no image", file)
		}
		for _, n := range names {
			if name := string(n[1]); name != repository+":v0.1.0" {
				t.Errorf("%s names the image %s, want %s:v0.1.0", file, name, repository)
			}
		}
	}
}

// The default name has the version, and a part of the digest when the version does not say which
// sources the image has.
func TestNameImage(t *testing.T) {
	for version, want := range map[string]string{
		"v0.1.0":             "localhost/culvert:v0.1.0",
		"v0.1.0-3-gabc":      "localhost/culvert:v0.1.0-3-gabc",
		"v0.1.0-3-gab-dirty": "localhost/culvert:v0.1.0-3-gab-dirty-0123456789ab",
		"unknown":            "localhost/culvert:unknown-0123456789ab",
	} {
		if got := nameImage(version, "0123456789abcdef"); got != want {
			t.Errorf("the image of %s is %s, want %s", version, got, want)
		}
	}
}

// The manifests beside an image name that image and no other one.
func TestManifestsBesideTheImage(t *testing.T) {
	dir := t.TempDir()
	const name = "registry.example.org/culvert:v9@sha256:abc"
	if err := manifests.Write("../../dist/kubernetes", dir, name); err != nil {
		t.Fatal(err)
	}
	for file, images := range map[string]int{"culvert.yaml": 3, "release-services.yaml": 1} {
		text, err := os.ReadFile(filepath.Join(dir, file))
		if err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(string(text), " image: "+name+"\n"); n != images || strings.Contains(string(text), repository) {
			t.Errorf("%s names the image %d times, want %d and no other image", file, n, images)
		}
	}
	if _, err := manifests.NameImage([]byte("kind: Pod\n"), name); err == nil {
		t.Error("a manifest without an image got one")
	}
}
