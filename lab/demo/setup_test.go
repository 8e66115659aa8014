package demo

import (
	"io/fs"
	"regexp"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/culvert-net/culvert/lab/demo/node"
)

// The key of the setup is another one for other code and for other plugins, so that no demo starts from
// a snapshot of another setup.
func TestSetupKey(t *testing.T) {
	key := func(code fs.FS, plugins string) string {
		t.Helper()
		key, err := setupKey(code, plugins)
		if err != nil {
			t.Fatal(err)
		}
		return key
	}
	file := func(name, body string) fs.FS { return fstest.MapFS{name: {Data: []byte(body)}} }
	seen := map[string]string{}
	for what, key := range map[string]string{
		"the base": key(file("a.go", "a"), "/cni-1"), "other code": key(file("a.go", "b"), "/cni-1"),
		"another file": key(file("b.go", "a"), "/cni-1"), "other plugins": key(file("a.go", "a"), "/cni-2"),
	} {
		if other, ok := seen[key]; ok {
			t.Errorf("%s has the key of %s", what, other)
		}
		seen[key] = what
	}
	if again := key(file("a.go", "a"), "/cni-1"); seen[again] != "the base" {
		t.Error("one setup has two keys")
	}
	setup, err := nodeSetup(node.Parts{CNI: "/cni-1"})
	if err != nil || setup.Key != key(setupCode, "/cni-1") {
		t.Errorf("the setup of nodes has another key: %+v, %v", setup, err)
	}
}

// The key covers the code of all that the setup calls on a node.
func TestSetupCodeIsWhole(t *testing.T) {
	var code strings.Builder
	if err := fs.WalkDir(setupCode, ".", func(name string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			var body []byte
			body, err = fs.ReadFile(setupCode, name)
			code.Write(body)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	calls := regexp.MustCompile(`\b[nc]\.(\w+)\(`).FindAllStringSubmatch(code.String(), -1)
	if len(calls) < 5 {
		t.Errorf("only %d calls were found", len(calls))
	}
	for _, call := range calls {
		if !regexp.MustCompile(`(?m)^func \(\w (Node|Container)\) ` + call[1] + `\(`).MatchString(code.String()) {
			t.Errorf("the setup calls %s, whose file is not in setupCode: add it there", call[1])
		}
	}
}
