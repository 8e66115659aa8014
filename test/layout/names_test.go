package layout

import (
	"fmt"
	"go/token"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
)

// empty lists names of files and packages that do not describe their content.
var empty = []string{"util", "utils", "helper", "helpers", "common", "type", "types", "const", "consts", "vars", "misc", "shared", "base", "core", "lib"}

func checkNames(tree fs.FS) ([]string, error) {
	all, err := files(tree)
	if err != nil {
		return nil, err
	}
	var complaints []string
	for _, name := range all {
		if !strings.HasSuffix(name, ".go") {
			continue
		}
		for part := range strings.SplitSeq(strings.TrimSuffix(name, ".go"), "/") {
			if slices.Contains(empty, strings.TrimSuffix(part, "_test")) {
				complaints = append(complaints, fmt.Sprintf("%s: %q names nothing: name it for the thing it holds", name, part))
			}
		}
	}
	return complaints, nil
}

func TestNamesSaySomething(t *testing.T) {
	complaints, err := checkNames(repository(t))
	report(t, complaints, err)
}

// download matches hosts that serve packages. The owner of a machine chooses
// the mirror, and the configurations of apt and go name it.
var download = regexp.MustCompile(`(?i)\b(?:(?:deb|security|snapshot|archive|cdn|httpredir|ftp)[a-z0-9.-]*\.(?:debian\.org|ubuntu\.com)|` +
	`(?:proxy|sum)\.golang\.(?:org|com)|goproxy\.[a-z]+|go\.dev/dl|registry\.npmjs\.org|pypi\.org|files\.pythonhosted\.org|` +
	`crates\.io|repo1?\.maven\.org|registry-1\.docker\.io|(?:registry\.)?k8s\.gcr\.io|registry\.k8s\.io|quay\.io|ghcr\.io)\b`)

// hints are words of which every match of download has one. To look for them
// first makes the check quick.
var hints = []string{"debian.org", "ubuntu.com", "golang.", "goproxy", "go.dev", "npmjs", "pypi", "pythonhosted", "crates", "maven", "docker", "gcr", "k8s", "quay", "ghcr"}

func hinted(line string) bool {
	line = strings.ToLower(line)
	return slices.ContainsFunc(hints, func(h string) bool { return strings.Contains(line, h) })
}

func checkHosts(tree fs.FS) ([]string, error) {
	all, err := files(tree)
	if err != nil {
		return nil, err
	}
	var complaints []string
	for _, name := range all {
		text, err := fs.ReadFile(tree, name)
		if err != nil {
			return nil, err
		}
		n := 0
		for line := range strings.Lines(string(text)) {
			n++
			if !hinted(line) {
				continue
			}
			if host := download.FindString(line); host != "" {
				complaints = append(complaints, fmt.Sprintf("%s:%d: names the host %s: ask apt or go which one this machine uses", name, n, host))
			}
		}
	}
	return complaints, nil
}

func TestNoHostToDownloadFrom(t *testing.T) {
	complaints, err := checkHosts(repository(t))
	report(t, complaints, err)
}

// namesSysfs has the files that may name paths below /sys.
var namesSysfs = []string{"internal/kernel/...", "lab/...", "test/...", "bench/..."}

// checkSysfs finds paths under /sys outside kernel/, where all code that
// depends on the kernel's files belongs. Messages may name one.
func checkSysfs(tree fs.FS) (complaints []string, err error) {
	err = visitStrings(tree, func(file string, at token.Position, v string) {
		if !isAny(namesSysfs, file) && strings.HasPrefix(v, "/sys/") && path.Clean(v) == v {
			complaints = append(complaints, fmt.Sprintf("%s: %q: sysfs is read and written under internal/kernel/", at, v))
		}
	})
	return complaints, err
}

func TestSysfsIsKernels(t *testing.T) {
	complaints, err := checkSysfs(repository(t))
	report(t, complaints, err)
}

func TestCheckNamesHostsSysfs(t *testing.T) {
	tree := fstest.MapFS{
		"internal/vf/types.go":            {Data: []byte("package vf\n")},
		"util/mac.go":                     {Data: []byte("package util\n")},
		"internal/vf/common_test.go":      {Data: []byte("package vf\n")},
		"docs/install.md":                 {Data: []byte("one\nuse http://deb." + "debian.org/debian\n")},
		"tools/get":                       {Data: []byte("GOPROXY=https://proxy." + "golang.org\n")},
		"internal/node/attach/a.go":       {Data: []byte("package attach\nvar a = \"/sys/class/net\"\n")},
		"internal/kernel/a.go":            {Data: []byte("package kernel\nvar a = \"/sys/class/net\"\n")},
		"build/log/x":                     {Data: []byte("http://deb." + "debian.org/debian\n")},
		"internal/node/attach/b.go":       {Data: []byte("package attach\nvar b = \"write to /sys/class/net\" // \"/sys/a\"\n")},
		"docs/debian.md":                  {Data: []byte("Debian's own archive, https://www.debian.org\n")},
		"internal/vf/commonest_ground.go": {Data: []byte("package vf\n")},
	}
	var got []string
	for _, check := range []func(fs.FS) ([]string, error){checkNames, checkHosts, checkSysfs} {
		complaints, err := check(tree)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range complaints {
			got = append(got, strings.Join(strings.SplitN(c, ":", 3)[:2], ":"))
		}
	}
	want := []string{
		`internal/vf/common_test.go: "common_test" names nothing`, `internal/vf/types.go: "types" names nothing`, `util/mac.go: "util" names nothing`,
		"docs/install.md:2", "tools/get:1", "internal/node/attach/a.go:2",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
