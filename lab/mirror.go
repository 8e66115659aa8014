package lab

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
)

// findMirror returns the URI of the Debian archive that this host's apt uses, so that the image's
// packages come from the source that the host's owner chose.
func findMirror(ctx context.Context) (string, error) {
	release, err := os.ReadFile("/etc/os-release")
	if err != nil {
		return "", fmt.Errorf("find the Debian mirror: %w", err)
	}
	out, err := exec.CommandContext(ctx, "apt-get", "indextargets", "--format", "$(CREATED_BY)|$(REPO_URI)|$(RELEASE)").Output()
	if err != nil {
		return "", fmt.Errorf("ask apt for its mirrors: %w", err)
	}
	codename := osReleaseField(string(release), "VERSION_CODENAME")
	uri := mirrorFrom(string(out), codename)
	if uri == "" {
		return "", fmt.Errorf("find the Debian mirror: apt has no source for %q; run apt-get update, or add one", codename)
	}
	return uri, nil
}

// mirrorFrom picks the archive of release out of apt's index targets.
func mirrorFrom(targets, release string) string {
	for line := range strings.Lines(targets) {
		f := strings.Split(strings.TrimSpace(line), "|")
		if len(f) == 3 && f[0] == "Packages" && f[2] == release {
			return f[1]
		}
	}
	return ""
}

func osReleaseField(file, key string) string {
	for line := range strings.Lines(file) {
		if value, ok := strings.CutPrefix(strings.TrimSpace(line), key+"="); ok {
			return strings.Trim(value, `"'`)
		}
	}
	return ""
}
