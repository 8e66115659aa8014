package main

import (
	"path"
	"slices"
	"strings"
)

// A listed package is what `go list -json` says of one package of the module, with
// paths relative to the top of the tree.
type listed struct {
	folder   string   // "." for the module's own
	imports  []string // folders of packages of the module
	tests    []string // the same of its tests
	embedded []string // files
	names    []string // files, folders and patterns that strings in its sources name
	hasTests bool
}

// affectedFolders returns the folders of the packages whose tests may end otherwise after
// the files have changed.
func affectedFolders(all []listed, files []string) []string {
	found := map[string]bool{} // packages that have changed, for themselves alone
	moved := map[string]bool{} // the same, and for those that import them
	for _, file := range files {
		if file == "go.mod" || file == "go.sum" {
			return listFolders(all, func(listed) bool { return true })
		}
		for _, p := range all {
			switch {
			case changesImporters(p, file):
				moved[p.folder] = true
			case ownerOf(all, file) == p.folder || slices.ContainsFunc(p.names, func(name string) bool { return coversFile(name, file) }):
				found[p.folder] = true
				if !p.hasTests { // it helps the tests of others
					moved[p.folder] = true
				}
			}
		}
	}
	for again := true; again; {
		again = false
		for _, p := range all {
			if !moved[p.folder] && slices.ContainsFunc(p.imports, func(i string) bool { return moved[i] }) {
				moved[p.folder], again = true, true
			}
		}
	}
	return listFolders(all, func(p listed) bool {
		// A test that names a package builds it.
		return found[p.folder] || slices.ContainsFunc(slices.Concat([]string{p.folder}, p.tests, p.names), func(i string) bool { return moved[i] }) ||
			len(files) > 0 && p.folder == layout
	})
}

// ownerFolders returns the folders of the packages that have one of the files.
func ownerFolders(all []listed, files []string) []string {
	return listFolders(all, func(p listed) bool {
		return slices.ContainsFunc(files, func(file string) bool { return ownerOf(all, file) == p.folder })
	})
}

// layout is the package whose tests read every file of the tree.
const layout = "test/layout"

// changesImporters says whether a file is part of what the importers of a package compile.
func changesImporters(p listed, file string) bool {
	return path.Dir(file) == p.folder && strings.HasSuffix(file, ".go") && !strings.HasSuffix(file, "_test.go") ||
		slices.Contains(p.embedded, file)
}

// ownerOf returns the package whose folder has a file, itself or in a folder that is no
// package's.
func ownerOf(all []listed, file string) string {
	best := ""
	for _, p := range all {
		if strings.HasPrefix(file, p.folder+"/") && len(p.folder) > len(best) {
			best = p.folder
		}
	}
	return best
}

// coversFile says whether a name is a file's, that of a folder above it, or a pattern
// for it.
func coversFile(name, file string) bool {
	matches, err := path.Match(name, file)
	return name == "." || name == file || strings.HasPrefix(file, name+"/") || err == nil && matches
}

func listFolders(all []listed, want func(listed) bool) []string {
	var out []string
	for _, p := range all {
		if want(p) {
			out = append(out, p.folder)
		}
	}
	slices.Sort(out)
	return out
}

// module is what the names of packages begin with.
const module = "github.com/culvert-net/culvert/"

// namedPlace returns the place in the tree that a string in a package's sources may name: one
// relative to the package's folder that leads out of it, as tests have it, or one
// relative to the top. "." is the whole tree. It is "" for other strings.
func namedPlace(folder, text string) string {
	if !strings.Contains(text, "/") || strings.ContainsAny(text, " \n") {
		return ""
	}
	text = strings.TrimPrefix(text, module)
	if strings.HasPrefix(text, "../") {
		text = path.Join(folder, text)
	} else if text = path.Clean(text); text == "." {
		return ""
	}
	if text == ".." || strings.HasPrefix(text, "../") || strings.HasPrefix(text, "/") {
		return ""
	}
	return text
}
