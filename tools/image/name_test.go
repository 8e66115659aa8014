package main

import (
	"os"
	"regexp"
	"testing"
)

// The manifest, the chart and docs/kubernetes.md name the same image, with a version, as make
// image makes. So a reader who imports the archive has the image that the pods need.
func TestManifestNamesThisImage(t *testing.T) {
	if !regexp.MustCompile(`^[^:]+:v[0-9]+\.[0-9]+\.[0-9]+$`).MatchString(imageName) {
		t.Errorf("image %s has no version", imageName)
	}
	for file, pattern := range map[string]string{
		"../../dist/kubernetes/culvert.yaml":      `(?m)^ *image: (\S+)$`,
		"../../dist/kubernetes/chart/values.yaml": `(?m)^  name: (\S+/culvert:\S+)$`,
		"../../docs/kubernetes.md":                "`(culvert\\.dev/culvert:[^`]+)`",
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
			if string(n[1]) != imageName {
				t.Errorf("%s names the image %s, and make image makes %s", file, n[1], imageName)
			}
		}
	}
}
