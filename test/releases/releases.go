// Package releases makes releases of this source tree by make release, for tests that compare,
// install and upgrade them.
package releases

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// Options are the releases to make.
type Options struct {
	Top      string   // the source tree
	Dir      string   // where its copy goes, which git has to see as a tree of its own
	Key      string   // the SSH key that signs, as MakeKey returns it
	Versions []string // such as v0.1.0, all of the same sources
	Flags    string   // further flags of tools/release
	Arch     string   // as Go calls it; empty: that of this machine
}

// MakeKey makes an SSH key in dir. Beside it is the file allowed_signers that a publisher gives to
// the users.
func MakeKey(ctx context.Context, dir string) (string, error) {
	key := filepath.Join(dir, "release-key")
	err := runScript(ctx, dir, `ssh-keygen -q -t ed25519 -N '' -C throw-away -f release-key
		echo "culvert $(cat release-key.pub)" >allowed_signers`)
	return key, err
}

// MakeTwo makes v0.1.0 and v0.1.1 of the tree at top, signed by a key of its own, with further flags of
// tools/release. signers is the file allowed_signers of that key.
func MakeTwo(t testing.TB, top, flags string) (made []string, signers string) {
	t.Helper()
	keys := t.TempDir()
	key, err := MakeKey(t.Context(), keys)
	if err != nil {
		t.Fatal(err)
	}
	made, err = Make(t.Context(), Options{Top: top, Dir: filepath.Join(t.TempDir(), "tree"), Key: key, Versions: []string{"v0.1.0", "v0.1.1"}, Flags: flags})
	if err != nil {
		t.Fatal(err)
	}
	return made, filepath.Join(keys, "allowed_signers")
}

// Make makes the releases in a copy of the tree, and returns the folder of each. The copy has an
// address for reports and notes, and its one commit has a fixed date. The Go that is there builds the
// releases, for one architecture.
func Make(ctx context.Context, o Options) ([]string, error) {
	if err := copyTree(ctx, o); err != nil {
		return nil, err
	}
	if o.Arch == "" {
		o.Arch = runtime.GOARCH
	}
	var made []string
	for _, version := range o.Versions {
		err := runScript(ctx, o.Dir, fmt.Sprintf("make -s release VERSION=%s GOVULNDB=none IMAGE_GO=local RELEASE='-go any -arch %s -key %s %s'",
			version, o.Arch, o.Key, o.Flags))
		if err != nil {
			return nil, err
		}
		made = append(made, filepath.Join(o.Dir, "build/release", version))
	}
	return made, nil
}

// copyTree copies the tree, with the changes that a publisher commits before a release.
func copyTree(ctx context.Context, o Options) error {
	if err := os.MkdirAll(o.Dir, 0o755); err != nil {
		return err
	}
	err := runScript(ctx, o.Top, `git ls-files -z -co --exclude-standard |
		tar --create --null --files-from - --ignore-failed-read | tar --extract --directory "`+o.Dir+`"
		sed -i 's/^Address for reports:.*/Address for reports: security@example.org/' "`+o.Dir+`/SECURITY.md"`)
	if err != nil {
		return err
	}
	changes := filepath.Join(o.Dir, "CHANGELOG.md")
	text, err := os.ReadFile(changes)
	if err != nil {
		return err
	}
	var headings strings.Builder
	for _, version := range o.Versions {
		fmt.Fprintf(&headings, "## [%s] - 2026-11-30\n\n- a release for a test\n\n", strings.TrimPrefix(version, "v"))
	}
	if err := os.WriteFile(changes, []byte(strings.Replace(string(text), "## [Unreleased]", headings.String(), 1)), 0o600); err != nil {
		return err
	}
	return runScript(ctx, o.Dir, "git init -q; git add --all; git -c user.name=t -c user.email=t@culvert.invalid commit -qm release")
}

func runScript(ctx context.Context, dir, script string) error {
	cmd := exec.CommandContext(ctx, "bash", "-euo", "pipefail", "-c", script)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GIT_AUTHOR_DATE=2026-11-30T12:00:00Z", "GIT_COMMITTER_DATE=2026-11-30T12:00:00Z")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", script, err, out)
	}
	return nil
}
