// Package linked lists the modules that programs link, with their licences. The lists come from the
// build information of the programs, and the texts from Go's module cache. Packages and releases
// have both.
package linked

import (
	"bytes"
	"cmp"
	"context"
	"debug/buildinfo"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/mod/module"
)

// Module is a module that a program links. The standard library is a module here, too: std, in the
// version of Go.
type Module struct {
	Path, Version string
	Sum           string // as go.sum has it; empty for std
}

// own is Culvert's module.
const own = "github.com/culvert-net/culvert"

// Modules returns the modules that the programs link, without Culvert's own, in the order of their
// paths.
func Modules(programs []string) ([]Module, error) {
	found := map[Module]bool{}
	for _, program := range programs {
		info, err := buildinfo.ReadFile(program)
		if err != nil {
			return nil, err
		}
		found[Module{Path: "std", Version: info.GoVersion}] = true
		for _, dep := range info.Deps {
			if dep.Replace != nil {
				dep = dep.Replace
			}
			found[Module{dep.Path, dep.Version, dep.Sum}] = true
		}
	}
	return slices.SortedFunc(maps.Keys(found), func(a, b Module) int { return cmp.Compare(a.Path, b.Path) }), nil
}

// Cache is where Go keeps the sources of modules, and its own.
type Cache struct{ modules, root string }

// FindCache asks the go command of the tree at top for its folders.
func FindCache(ctx context.Context, top string) (Cache, error) {
	cmd := exec.CommandContext(ctx, filepath.Join(top, "tools/go"), "env", "GOMODCACHE", "GOROOT")
	out, err := cmd.Output()
	if err != nil {
		return Cache{}, fmt.Errorf("tools/go env: %w", err)
	}
	lines := strings.Split(string(out), "\n")
	return Cache{lines[0], lines[1]}, nil
}

// Text is a licence, or a notice that a licence asks to pass on.
type Text struct {
	Name string // the file, below the folder of the module
	Body []byte
}

// names matches the files that have licences.
var names = regexp.MustCompile(`(?i)^(LICEN[CS]E|COPYING|NOTICE|PATENTS)([.-].*)?$`)

// Licences returns the licences of a module. A module without one is an error.
func (c Cache) Licences(m Module) ([]Text, error) {
	if m.Path == "std" {
		body, err := os.ReadFile(filepath.Join(c.root, "LICENSE"))
		return []Text{{"LICENSE", body}}, err
	}
	path, err := module.EscapePath(m.Path)
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(c.modules, path+"@"+m.Version)
	var all []Text
	err = filepath.WalkDir(dir, func(at string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (d.Name() == "testdata" || d.Name() == "vendor") {
			return fs.SkipDir
		}
		if d.IsDir() || !names.MatchString(d.Name()) || strings.HasSuffix(d.Name(), ".go") {
			return nil
		}
		body, err := os.ReadFile(at)
		all = append(all, Text{strings.TrimPrefix(at, dir+"/"), body})
		return err
	})
	if err == nil && len(all) == 0 {
		err = fmt.Errorf("module %s %s has no licence in %s", m.Path, m.Version, dir)
	}
	return all, err
}

// Texts returns one document with the licences of all that the programs link, Culvert's own first.
func Texts(ctx context.Context, top string, programs []string) ([]byte, error) {
	modules, err := Modules(programs)
	if err != nil {
		return nil, err
	}
	cache, err := FindCache(ctx, top)
	if err != nil {
		return nil, err
	}
	licence, err := os.ReadFile(filepath.Join(top, "LICENSE"))
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "The programs link these modules. Their licences follow.\n\n")
	for _, m := range modules {
		fmt.Fprintf(&b, "  %s %s\n", m.Path, m.Version)
	}
	addText(&b, own, Text{"LICENSE", licence})
	for _, m := range modules {
		texts, err := cache.Licences(m)
		if err != nil {
			return nil, err
		}
		for _, text := range texts {
			addText(&b, m.Path+" "+m.Version, text)
		}
	}
	return b.Bytes(), nil
}

func addText(b *bytes.Buffer, owner string, text Text) {
	line := strings.Repeat("-", 80)
	fmt.Fprintf(b, "\n%s\n%s: %s\n%s\n\n%s\n", line, owner, text.Name, line, bytes.TrimRight(text.Body, "\n"))
}

// signs has phrases of licences, and their names by SPDX. The first phrase that a text has decides.
var signs = []struct{ phrase, name string }{
	{"apache license version 2.0", "Apache-2.0"},
	{"mozilla public license version 2.0", "MPL-2.0"},
	{"mozilla public license, version 2.0", "MPL-2.0"},
	{"permission is hereby granted, free of charge", "MIT"},
	{"permission to use, copy, modify, and/or distribute this software", "ISC"},
	{"permission to use, copy, modify, and distribute this software", "ISC"},
	{"neither the name", "BSD-3-Clause"},
	{"names of its contributors may", "BSD-3-Clause"},
	{"redistribution and use in source and binary forms", "BSD-2-Clause"},
	{"www.apache.org/licenses/", "Apache-2.0"},
}

// NameLicence returns the name that SPDX has for the first licence of texts, which is that of the
// whole module, or NOASSERTION.
func NameLicence(texts []Text) string {
	for _, text := range texts {
		if strings.Contains(text.Name, "/") {
			continue
		}
		body := strings.ToLower(strings.Join(strings.Fields(string(text.Body)), " "))
		for _, s := range signs {
			if strings.Contains(body, s.phrase) {
				return s.name
			}
		}
	}
	return "NOASSERTION"
}
