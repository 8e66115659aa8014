package layout

import (
	"fmt"
	"io/fs"
	"regexp"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
)

// mechanism is a mechanism that one package owns. Another file that matches the
// pattern has a new copy of it, unless it is listed with the reason.
type mechanism struct {
	pattern *regexp.Regexp
	owner   string
	instead string
	others  map[string]string // file -> why it is no copy
}

var mechanisms = []mechanism{
	{
		pattern: regexp.MustCompile(`\bos\.(Rename|CreateTemp)\(`), owner: "internal/durable",
		instead: "replace a file with durable.WriteFile, Write, Symlink or Rename",
		others: map[string]string{
			"internal/rpc/listen.go":             "a socket: it does not outlive the kernel",
			"internal/admin/guests/transport.go": "a file of its own in the folder for temporary files",
			"lab/copy.go":                        "an archive that a node reads once",
			"lab/image.go":                       "a folder",
			"lab/layer.go":                       "a disk that a snapshot keeps; lab/snapshot.go syncs it",
			"lab/node.go":                        "a disk that a snapshot keeps; lab/snapshot.go syncs it",
			"lab/cluster/images.go":              "a blob in a folder for temporary files, named by its digest",
		},
	},
	{
		pattern: regexp.MustCompile(`make\(chan struct\{\}, 1\)|\bclose\([\w.]*[cC]hanged\)`), owner: "internal/change",
		instead: "notify one reader with a change.Wake, every waiter with a change.Signal",
	},
	{
		pattern: regexp.MustCompile(`\bmap\[\S+\](<-)?chan struct\{\}`), owner: "internal/keylock",
		instead: "lock a key with keylock.Locks",
	},
	{
		pattern: regexp.MustCompile(`\b(unicode\.IsControl|unicode\.IsGraphic|strings\.ToValidUTF8)\b|, "\\n", "; "\)`), owner: "internal/excerpt",
		instead: "show foreign text with excerpt.Line, Quote, Clean or Error",
		others: map[string]string{
			"internal/network/config/names.go":        "refuses names, shows none",
			"internal/node/intake/cni/environment.go": "refuses paths, shows none",
			"bench/report/html.go":                    "keeps the line breaks of a text that HTML shows",
		},
	},
	{
		pattern: regexp.MustCompile(`\btabwriter\.NewWriter\(|x1b\[[0-9"]|\bfunc (orDash|orNone|wrap|plural|ago|age)\(`), owner: "internal/screen",
		instead: "lay text out with screen.Table, Wrap and Look; cmp.Or is a word for nothing",
	},
}

func checkMechanisms(tree fs.FS) ([]string, error) {
	all, err := files(tree)
	if err != nil {
		return nil, err
	}
	var complaints []string
	matched := map[string]bool{} // owner and file
	for _, name := range all {
		if !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") || strings.HasPrefix(name, "test/") {
			continue
		}
		text, err := fs.ReadFile(tree, name)
		if err != nil {
			return nil, err
		}
		for _, m := range mechanisms {
			if strings.HasPrefix(name, m.owner+"/") {
				continue
			}
			for i, line := range strings.Split(string(text), "\n") {
				if !m.pattern.MatchString(line) {
					continue
				}
				matched[m.owner+" "+name] = true
				if m.others[name] == "" {
					complaints = append(complaints, fmt.Sprintf("%s:%d: package %s owns this: %s, or give the reason in test/layout/owners_test.go", name, i+1, m.owner, m.instead))
				}
			}
		}
	}
	for _, m := range mechanisms {
		for name := range m.others {
			if _, err := fs.Stat(tree, name); err == nil && !matched[m.owner+" "+name] {
				complaints = append(complaints, fmt.Sprintf("%s: it is listed beside package %s in test/layout/owners_test.go and does not need to be", name, m.owner))
			}
		}
	}
	return complaints, nil
}

func TestEachMechanismHasOneOwner(t *testing.T) {
	complaints, err := checkMechanisms(repository(t))
	report(t, complaints, err)
}

func TestCheckMechanisms(t *testing.T) {
	file := func(line string) *fstest.MapFile { return &fstest.MapFile{Data: []byte("package x\n\n" + line + "\n")} }
	tree := fstest.MapFS{
		"internal/durable/durable.go":       file("os.Rename(a, b)"),
		"internal/rpc/listen.go":            file("os.Rename(a, b)"),
		"lab/copy.go":                       file("nothing"),
		"internal/node/daemon/file.go":      file("f, err := os.CreateTemp(dir, name)"),
		"internal/node/daemon/file_test.go": file("os.Rename(a, b)"),
		"internal/node/journal/ledger.go":   file("	close(l.changed)"),
		"internal/node/kube/wake.go":        file("c := make(chan struct{}, 1)"),
		"internal/node/attach/locks.go":     file("	held map[vf.ID]chan struct{}"),
		"internal/node/status/text/cut.go":  file(`strings.ReplaceAll(err.Error(), "\n", "; ")`),
	}
	got, err := checkMechanisms(tree)
	if err != nil {
		t.Fatal(err)
	}
	for i := range got {
		got[i], _, _ = strings.Cut(got[i], ": package")
		got[i], _, _ = strings.Cut(got[i], " beside")
	}
	want := []string{"internal/node/attach/locks.go:3", "internal/node/daemon/file.go:3", "internal/node/journal/ledger.go:3", "internal/node/kube/wake.go:3", "internal/node/status/text/cut.go:3", "lab/copy.go: it is listed"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
