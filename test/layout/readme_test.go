package layout

import (
	"fmt"
	"io/fs"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
)

// layoutLine matches a line of the README's layout: a folder with a slash, and
// its content.
var layoutLine = regexp.MustCompile(`^([a-z0-9./-]+)/\s+\S`)

// readmeLayout returns the folders that the README's section Layout lists.
func readmeLayout(readme string) []string {
	_, section, _ := strings.Cut(readme, "\n## Layout\n")
	section, _, _ = strings.Cut(section, "\n## ")
	var dirs []string
	for line := range strings.Lines(section) {
		if m := layoutLine.FindStringSubmatch(line); m != nil {
			dirs = append(dirs, m[1])
		}
	}
	return dirs
}

// checkLayout compares the README's layout with the tree, both ways.
func checkLayout(tree fs.FS) ([]string, error) {
	readme, err := fs.ReadFile(tree, "README.md")
	if err != nil {
		return nil, err
	}
	listed := readmeLayout(string(readme))
	all, err := files(tree)
	if err != nil {
		return nil, err
	}
	var complaints []string
	for _, dir := range listed {
		if !slices.ContainsFunc(all, func(name string) bool { return strings.HasPrefix(name, dir+"/") }) {
			complaints = append(complaints, fmt.Sprintf("README.md, Layout: %s/ is not in the tree: take the line out", dir))
		}
	}
	said := map[string]bool{}
	for _, name := range all {
		top, _, below := strings.Cut(name, "/")
		if below && !slices.Contains(listed, top) && !said[top] {
			said[top] = true
			complaints = append(complaints, fmt.Sprintf("README.md, Layout: %s/ is missing (there is %s): add a line that says what is in it", top, name))
		}
	}
	return complaints, nil
}

func TestReadmeShowsTheTree(t *testing.T) {
	complaints, err := checkLayout(repository(t))
	report(t, complaints, err)
}

// link matches a link of Markdown to a file of the tree.
var link = regexp.MustCompile(`\]\(([^)#:\s]+)(?:#[^)]*)?\)`)

// checkLinks finds links in the project's documents to files that do not exist.
func checkLinks(tree fs.FS) ([]string, error) {
	all, err := files(tree)
	if err != nil {
		return nil, err
	}
	var complaints []string
	for _, name := range all {
		if !strings.HasSuffix(name, ".md") {
			continue
		}
		text, err := fs.ReadFile(tree, name)
		if err != nil {
			return nil, err
		}
		for _, m := range link.FindAllStringSubmatch(string(text), -1) {
			if target := resolve(name, m[1]); !exists(tree, target) {
				complaints = append(complaints, fmt.Sprintf("%s: the link to %s leads nowhere", name, m[1]))
			}
		}
	}
	return complaints, nil
}

// resolve returns the path that a link in a file leads to.
func resolve(file, target string) string {
	parts := strings.Split(file, "/")
	parts = append(parts[:len(parts)-1], strings.Split(strings.TrimSuffix(target, "/"), "/")...)
	var out []string
	for _, p := range parts {
		switch {
		case p == "..":
			out = out[:max(0, len(out)-1)]
		case p != ".":
			out = append(out, p)
		}
	}
	return strings.Join(out, "/")
}

func exists(tree fs.FS, name string) bool {
	_, err := fs.Stat(tree, name)
	return err == nil
}

func TestLinksLeadSomewhere(t *testing.T) {
	complaints, err := checkLinks(repository(t))
	report(t, complaints, err)
}

func TestCheckLayoutAndLinks(t *testing.T) {
	tree := fstest.MapFS{
		"README.md":          {Data: []byte("# A\n\n## Layout\n\n```\nvf/     values\ngone/   nothing\n```\n\n## Then\n\nother/  not a folder\n[a](docs/a.md) [b](docs/b.md#x) [c](https://example.org/c) [d](docs/)\n")},
		"docs/a.md":          {Data: []byte("[up](../README.md) [side](b.md) [out](../../x)\n")},
		"vf/mac.go":          {Data: []byte("package vf\n")},
		"attach/attach.go":   {Data: []byte("package attach\n")},
		"attach/release.go":  {Data: []byte("package attach\n")},
		"build/log/unit.log": {Data: []byte("")},
	}
	var got []string
	for _, check := range []func(fs.FS) ([]string, error){checkLayout, checkLinks} {
		complaints, err := check(tree)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, complaints...)
	}
	want := []string{
		"README.md, Layout: gone/ is not in the tree: take the line out",
		"README.md, Layout: attach/ is missing (there is attach/attach.go): add a line that says what is in it",
		"README.md, Layout: docs/ is missing (there is docs/a.md): add a line that says what is in it",
		"README.md: the link to docs/b.md leads nowhere",
		"docs/a.md: the link to b.md leads nowhere",
		"docs/a.md: the link to ../../x leads nowhere",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
