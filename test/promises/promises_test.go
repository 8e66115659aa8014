package promises

import (
	"fmt"
	"io/fs"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
)

const top = "../.."

// table returns the content of commands.txt.
func table(t *testing.T) Table {
	t.Helper()
	text, err := os.ReadFile("commands.txt")
	if err != nil {
		t.Fatal(err)
	}
	all, err := ParseTable(string(text))
	if err != nil {
		t.Fatalf("commands.txt: %v", err)
	}
	return all
}

// jobsFile has the jobs of the levels of make test, a line each.
const jobsFile = "tools/levels/jobs.go"

// check compares the table with the promised commands, both ways, and with the tests and
// jobs of the tree. recipe returns the commands that make runs for a target.
func check(tree fs.FS, all Table, recipe func(target string) (string, error)) (complaints []string, err error) {
	promised, err := Promised(tree)
	if err != nil {
		return nil, err
	}
	for command := range promised {
		if all.Find(command) == nil {
			complaints = append(complaints, fmt.Sprintf("no line for %q: write the test that runs it, in a short form if it takes long, and name that in commands.txt", command))
		}
	}
	for _, r := range all {
		if !promised[r.Command] {
			complaints = append(complaints, fmt.Sprintf("%q is on no page and no target of the Makefile: take the line out", r.Command))
		}
		complaint, err := checkRow(tree, r, recipe)
		if err != nil {
			return nil, err
		}
		if complaint != "" {
			complaints = append(complaints, fmt.Sprintf("%q: %s", r.Command, complaint))
		}
	}
	slices.Sort(complaints)
	return complaints, nil
}

func checkRow(tree fs.FS, r Row, recipe func(target string) (string, error)) (complaint string, err error) {
	if reason, is := strings.CutPrefix(r.RunBy, "exception:"); is {
		if strings.TrimSpace(reason) == "" {
			complaint = "an exception needs its reason"
		}
		return complaint, nil
	}
	if level, is := strings.CutPrefix(r.RunBy, "level "); is {
		return checkLevel(tree, level, strings.TrimPrefix(r.Command, "make "), recipe)
	}
	test, long := strings.CutPrefix(r.RunBy, inSoak)
	folder, name, _ := strings.Cut(test, ".")
	files, err := fs.Glob(tree, folder+"/*_test.go")
	for _, f := range files {
		text, err := fs.ReadFile(tree, f)
		if err != nil {
			return "", err
		}
		_, body, found := strings.Cut(string(text), "\nfunc "+name+"(t *testing.T) {")
		if !found {
			continue
		}
		body, _, _ = strings.Cut(body, "\n}\n")
		switch leftOut := strings.Contains(body, "soak.Only("); {
		case leftOut && !long:
			complaint = "make test leaves out " + name + ": name a test that it runs, or write " + inSoak + r.RunBy
		case long && !leftOut:
			complaint = "make test runs " + name + " too: write " + test
		}
		return complaint, nil
	}
	return fmt.Sprintf("there is no test %s in %s", name, folder), err
}

// watched matches the prefix of a command that the Makefile runs by tools/watch.
var watched = regexp.MustCompile(`^tools/watch \S+ `)

// checkLevel returns a complaint unless a job of the level runs the last command of the
// target.
func checkLevel(tree fs.FS, level, target string, recipe func(target string) (string, error)) (string, error) {
	jobs, err := fs.ReadFile(tree, jobsFile)
	if err != nil {
		return "", err
	}
	own, err := recipe(target)
	if err != nil {
		return "", err
	}
	lines := strings.Split(strings.TrimSpace(own), "\n")
	last := watched.ReplaceAllString(lines[len(lines)-1], "")
	for job := range strings.Lines(string(jobs)) {
		if strings.Contains(job, fmt.Sprintf("level: %q", level)) && strings.Contains(job, last) {
			return "", nil
		}
	}
	return fmt.Sprintf("no job of the level %s in %s runs %s", level, jobsFile, last), nil
}

func TestEveryCommandIsRun(t *testing.T) {
	complaints, err := check(os.DirFS(top), table(t), func(target string) (string, error) {
		out, err := Make(t.Context(), top, "--dry-run", target).Output()
		return string(out), err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range complaints {
		t.Error(c)
	}
}

func TestCheck(t *testing.T) {
	page := &fstest.MapFile{}
	tree := fstest.MapFS{
		"README.md": {Data: []byte("Use:\n\n    make one   # first\n    new --flag \\\n        more\n\n`make two` and `culvert` do, `a.yaml b` not.\n\n```\n    output\n```\n")}, "docs/install.md": page, "docs/air-gapped.md": page, "docs/kubernetes.md": page, "docs/migrate.md": page, "docs/guests.md": page, "docs/doctor.md": page, "docs/prepare.md": page, "docs/cri-o.md": page, "docs/bench.md": page, "docs/esxi.md": page, "docs/quickstart.md": page, "docs/troubleshooting.md": page, "docs/operations.md": page, "docs/alerts.md": page, "docs/release.md": page, "docs/ui.md": page,
		"Makefile":      {Data: []byte("X := 1\none: two ## words\n\tcommand\nunsaid lint:\nfuzz:\nthree four:\n.PHONY: one\n")},
		jobsFile:        {Data: []byte("{level: \"lint\", argv: words(\"tools/lint\")}\n{level: \"unit\", argv: words(\"tools/fuzz\")}\n")},
		"a/a_test.go":   {Data: []byte("package a\n\nfunc TestA(t *testing.T) {\n}\n")},
		"a/b/b_test.go": {Data: []byte("package b\n\nfunc TestB(t *testing.T) {\n}\n\nfunc TestLong(t *testing.T) {\n\tsoak.Only(t, \"\")\n}\n")},
	}
	all, err := ParseTable("# words\n\nmake one  a.TestA\ngone  a/b.TestB\nmake two  a/b.TestLong\nmake three  soak a/b.TestLong\nmake four  soak a.TestA\nmake lint  level lint\nmake fuzz  level lint\n")
	if err != nil {
		t.Fatal(err)
	}
	recipes := map[string]string{"lint": "bootstrap\ntools/watch lint tools/lint\n", "fuzz": "tools/fuzz"}
	got, err := check(tree, append(all, Row{"make unsaid", "a.TestB"}, Row{"new --flag more", "exception: "}), func(target string) (string, error) { return recipes[target], nil })
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		`"gone" is on no page and no target of the Makefile: take the line out`,
		`"make four": make test runs TestA too: write a.TestA`,
		`"make fuzz": no job of the level lint in tools/levels/jobs.go runs tools/fuzz`,
		`"make two": make test leaves out TestLong: name a test that it runs, or write soak a/b.TestLong`,
		`"make unsaid": there is no test TestB in a`,
		`"new --flag more": an exception needs its reason`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	got, err = check(tree, all[:1], nil)
	if err != nil || len(got) != 7 || !strings.Contains(got[6], `no line for "new --flag more"`) {
		t.Errorf("%q, %v", got, err)
	}
}

func TestParseTableRefuses(t *testing.T) {
	for text, says := range map[string]string{
		"make one": "line 1 has 1 columns", "\na  b.TestC  d": "line 2 has 3 columns", "a  b.TestC\na  b.TestD": "a has a line already",
	} {
		if got, err := ParseTable(text); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v, %v", text, got, err)
		}
	}
}

// make deb GOARCH=arm64 compiles the packaged programs for arm64 and runs programs of its own, which
// must not get the variable.
func TestRecipesDoNotGetGOARCH(t *testing.T) {
	out, err := Make(t.Context(), top, "GOARCH=arm64", "--eval", `show: ; @echo "[$(GOARCH)][$$GOARCH]"`, "show").CombinedOutput()
	if err != nil || string(out) != "[arm64][]\n" {
		t.Errorf("%v: make has and a recipe gets %s, want [arm64][]", err, out)
	}
}

// make without a target is make help, and help names every target with a description.
func TestHelp(t *testing.T) {
	help, err := Make(t.Context(), top, "help").Output()
	if err != nil {
		t.Fatal(err)
	}
	bare, err := Make(t.Context(), top).Output()
	if err != nil || string(bare) != string(help) {
		t.Errorf("make without a target: %v\n%s", err, bare)
	}
	for _, name := range []string{"help", "demo", "test", "install"} {
		if !regexp.MustCompile(`(?m)^` + name + ` +\S`).Match(help) {
			t.Errorf("make help does not name %s:\n%s", name, help)
		}
	}
}
