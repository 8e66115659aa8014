package layout

import (
	"fmt"
	"io/fs"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
)

// A treeMap is a section of a document that lists folders and their content, folders of a folder
// indented below it.
type treeMap struct {
	document, section string
	// rooms is whether the map also lists each package below internal, down to two folders. The
	// text of the folder above it may name it instead, if the map lists none of that folder's.
	rooms bool
}

var treeMaps = []treeMap{{document: "README.md", section: "Layout"}, {document: "CONTRIBUTING.md", section: "The map of rooms", rooms: true}}

// mapLine matches a line of a map: the indentation, a folder with a slash, and its content.
var mapLine = regexp.MustCompile(`^( *)([a-z0-9./-]+)/(?:\s+(\S.*))?$`)

// readTreeMap returns the text of each folder that a section lists. Lines without a folder continue
// the text above them.
func readTreeMap(document, section string) map[string]string {
	_, text, _ := strings.Cut(document, "\n## "+section+"\n")
	text, _, _ = strings.Cut(text, "\n## ")
	_, text, _ = strings.Cut(text, "\n```\n")
	text, _, _ = strings.Cut(text, "\n```\n")
	type folder struct {
		indent int
		path   string
	}
	dirs := map[string]string{}
	var above []folder
	for line := range strings.Lines(text) {
		m := mapLine.FindStringSubmatch(strings.TrimRight(line, "\n"))
		if m == nil {
			if len(above) > 0 {
				dirs[above[len(above)-1].path] += " " + strings.TrimSpace(line)
			}
			continue
		}
		for len(above) > 0 && above[len(above)-1].indent >= len(m[1]) {
			above = above[:len(above)-1]
		}
		dir := m[2]
		if len(above) > 0 {
			dir = above[len(above)-1].path + "/" + dir
		}
		above = append(above, folder{len(m[1]), dir})
		dirs[dir] += m[3]
	}
	return dirs
}

// checkMap compares a map with the tree, both ways.
func checkMap(tree fs.FS, m treeMap) ([]string, error) {
	text, err := fs.ReadFile(tree, m.document)
	if err != nil {
		return nil, err
	}
	all, err := files(tree)
	if err != nil {
		return nil, err
	}
	listed := readTreeMap(string(text), m.section)
	var complaints []string
	for _, dir := range slices.Sorted(maps.Keys(listed)) {
		if !exists(tree, dir) {
			complaints = append(complaints, fmt.Sprintf("%s, %s: %s/ is not in the tree: take the line out", m.document, m.section, dir))
		}
	}
	said := map[string]bool{}
	for _, name := range all {
		for _, dir := range m.findMissing(listed, name) {
			if !said[dir] {
				said[dir] = true
				complaints = append(complaints, fmt.Sprintf("%s, %s: %s/ is missing (there is %s): add a line that says what is in it", m.document, m.section, dir, name))
			}
		}
	}
	return complaints, nil
}

// findMissing returns the folders above a file that the map must list and does not.
func (m treeMap) findMissing(listed map[string]string, file string) (missing []string) {
	parts := strings.Split(path.Dir(file), "/")
	if parts[0] == "." {
		return nil
	}
	if _, ok := listed[parts[0]]; !ok {
		missing = append(missing, parts[0])
	}
	if !m.rooms || parts[0] != "internal" || path.Ext(file) != ".go" || strings.Contains(file, "/testdata/") {
		return missing
	}
	for depth := 2; depth <= min(3, len(parts)); depth++ {
		dir := strings.Join(parts[:depth], "/")
		parent := path.Dir(dir)
		_, ok := listed[dir]
		hasLines := slices.ContainsFunc(slices.Collect(maps.Keys(listed)), func(d string) bool { return path.Dir(d) == parent })
		named := regexp.MustCompile(`\b` + regexp.QuoteMeta(parts[depth-1]) + `\b`).MatchString(listed[parent])
		if !ok && (hasLines || !named) {
			missing = append(missing, dir)
		}
	}
	return missing
}

func TestMapsShowTheTree(t *testing.T) {
	for _, m := range treeMaps {
		complaints, err := checkMap(repository(t), m)
		report(t, complaints, err)
	}
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

func TestCheckMapsAndLinks(t *testing.T) {
	tree := fstest.MapFS{
		"README.md":          {Data: []byte("# A\n\n## Layout\n\n```\ninternal/     rooms\n  vf/   values, and\n     more\ngone/   nothing\n```\n\n## Then\n\nother/  not a folder\n[a](docs/a.md) [b](docs/b.md#x) [c](https://example.org/c) [d](docs/)\n")},
		"docs/a.md":          {Data: []byte("[up](../README.md) [side](b.md) [out](../../x)\n")},
		"CONTRIBUTING.md":    {Data: []byte("# B\n\n## The map of rooms\n\n```\ninternal/\n  vf/    values\n  node/  a node. Below it: alloc\n  old/   gone\nattach/  x\ndocs/    y\n```\n")},
		"internal/vf/mac.go": {Data: []byte("package vf\n")},

		"internal/node/alloc/a.go":      {Data: []byte("package alloc\n")},
		"internal/node/bond/move/a.go":  {Data: []byte("package move\n")},
		"internal/node/testdata/any.go": {Data: []byte("package any\n")},
		"internal/new/a.go":             {Data: []byte("package new\n")},

		"attach/attach.go":   {Data: []byte("package attach\n")},
		"attach/release.go":  {Data: []byte("package attach\n")},
		"build/log/unit.log": {Data: []byte("")},
	}
	var got []string
	checks := []func(fs.FS) ([]string, error){checkLinks}
	for _, m := range slices.Backward(treeMaps) {
		checks = slices.Insert(checks, 0, func(tree fs.FS) ([]string, error) { return checkMap(tree, m) })
	}
	for _, check := range checks {
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
		"CONTRIBUTING.md, The map of rooms: internal/old/ is not in the tree: take the line out",
		"CONTRIBUTING.md, The map of rooms: internal/new/ is missing (there is internal/new/a.go): add a line that says what is in it",
		"CONTRIBUTING.md, The map of rooms: internal/node/bond/ is missing (there is internal/node/bond/move/a.go): add a line that says what is in it",
		"README.md: the link to docs/b.md leads nowhere",
		"docs/a.md: the link to b.md leads nowhere",
		"docs/a.md: the link to ../../x leads nowhere",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
