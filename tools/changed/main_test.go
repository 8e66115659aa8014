package main

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// initRepository makes a git repository without a commit, and enters it. It removes the
// variables GIT_*, by which a git hook would lead the commands to another repository.
func initRepository(t *testing.T) {
	t.Helper()
	for _, v := range os.Environ() {
		if name, _, _ := strings.Cut(v, "="); strings.HasPrefix(name, "GIT_") {
			t.Setenv(name, "") // restores it in the end
			if err := os.Unsetenv(name); err != nil {
				t.Fatal(err)
			}
		}
	}
	t.Chdir(t.TempDir())
	git(t, "init", "--quiet", "--initial-branch=main")
}

// repository makes a git repository with two commits on main, and enters it.
func repository(t *testing.T) {
	t.Helper()
	initRepository(t)
	git(t, "config", "user.name", "t")
	git(t, "config", "user.email", "t@example.org")
	write(t, "kept.go", "1")
	write(t, "gone.go", "1")
	write(t, ".gitignore", "build\n")
	commit(t, "first")
	write(t, "second.go", "1")
	commit(t, "second")
}

func git(t *testing.T, args ...string) string {
	t.Helper()
	out, err := exec.Command("git", args...).CombinedOutput()
	if err != nil {
		t.Fatalf("git %v: %v: %s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

func write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func commit(t *testing.T, subject string) {
	t.Helper()
	git(t, "add", "--all")
	git(t, "commit", "--quiet", "--message", subject)
}

// since checks the commit that findBase returns, and the files that differ from it.
func since(t *testing.T, base, files string) {
	t.Helper()
	got, err := findBase()
	if want := git(t, "rev-parse", "--short", base); err != nil || got != want {
		t.Errorf("the base is %q, %v; want %s, %s", got, err, base, want)
	}
	all, err := changedFiles(got)
	if diff := cmp.Diff(files, strings.Join(all, ", ")); err != nil || diff != "" {
		t.Errorf("%v; -want +got:\n%s", err, diff)
	}
}

func TestChangedSinceTheBranchLeftMain(t *testing.T) {
	repository(t)
	since(t, "HEAD~1", "second.go") // on main: the last commit
	git(t, "checkout", "--quiet", "-b", "work")
	write(t, "third.go", "1")
	commit(t, "third")
	git(t, "mv", "gone.go", "moved.go")
	write(t, "a new one.go", "1")
	write(t, "build", "1") // ignored
	since(t, "main", "a new one.go, gone.go, moved.go, third.go")
	if all, err := changedFiles("HEAD"); err != nil || strings.Join(all, ", ") != "a new one.go, gone.go, moved.go" {
		t.Errorf("not committed: %v, %v", all, err)
	}
	if _, err := changedFiles("no-such-commit"); err == nil || !strings.Contains(err.Error(), "no-such-commit") {
		t.Errorf("a commit that is not there: %v", err)
	}
}

// In a fresh clone with one commit nothing has changed.
func TestChangedInAFreshClone(t *testing.T) {
	initRepository(t)
	write(t, "kept.go", "1")
	git(t, "add", "--all")
	git(t, "-c", "user.name=t", "-c", "user.email=t@example.org", "commit", "--quiet", "--message", "all")
	since(t, "HEAD", "")
}
