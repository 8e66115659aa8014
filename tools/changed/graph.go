package main

import (
	"path"
	"slices"
	"strings"
)

// A listed package has the facts of `go list -json` about one package of the module, with
// paths relative to the top of the tree.
type listed struct {
	folder   string   // "." for the module's own
	imports  []string // folders of packages of the module
	tests    []string // the same of its tests
	embedded []string // files
	names    []string // files, folders and patterns that strings in its sources name
	hasTests bool
}

// affectedFolders returns the folders of the packages whose tests may have another outcome
// after the files have changed.
func affectedFolders(all []listed, files []string) []string {
	found := map[string]bool{} // packages whose own tests may end otherwise
	moved := map[string]bool{} // packages whose importers' tests may end otherwise, too
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
				if !p.hasTests { // its files are used by tests of other packages
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

// ownerFolders returns the folders of the packages that own one of the files.
func ownerFolders(all []listed, files []string) []string {
	return listFolders(all, func(p listed) bool {
		return slices.ContainsFunc(files, func(file string) bool { return ownerOf(all, file) == p.folder })
	})
}

// layout is the package whose tests read every file of the tree.
const layout = "test/layout"

// changesImporters says whether a file belongs to the part of a package that its importers
// compile.
func changesImporters(p listed, file string) bool {
	return path.Dir(file) == p.folder && strings.HasSuffix(file, ".go") && !strings.HasSuffix(file, "_test.go") ||
		slices.Contains(p.embedded, file)
}

// ownerOf returns the package whose folder has a file, directly or in a subfolder that is no
// package.
func ownerOf(all []listed, file string) string {
	best := ""
	for _, p := range all {
		if strings.HasPrefix(file, p.folder+"/") && len(p.folder) > len(best) {
			best = p.folder
		}
	}
	return best
}

// coversFile says whether a name is that of a file, that of a folder above the file, or a
// pattern that matches it.
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

// module is the prefix of the import paths of all packages of the module.
const module = "github.com/culvert-net/culvert/"

// namedPlace returns the path in the tree that a string in a package's sources may name. The
// string is relative to the package's folder and leads out of it, as in tests, or is relative
// to the top. "." is the whole tree. For other strings namedPlace returns "".
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
