package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/culvert-net/culvert/test/child"
)

// killedRelease is the variable with the folder of a process of TestKilledRelease.
const killedRelease = "CULVERT_TEST_KILLED_RELEASE"

// A release that is killed by signal 9 while it writes the image leaves no folder under the name of the
// release, so that no part of it can be uploaded as the whole.
func TestKilledRelease(t *testing.T) {
	if dir := os.Getenv(killedRelease); dir != "" {
		r := release{Top: filepath.Join(dir, "tree"), Out: filepath.Join(dir, "out"), Version: "v0.1.0", VulnDB: "none"}
		t.Fatal("it was not killed: ", r.make(t.Context()))
	}
	dir := t.TempDir()
	tree, out, half := filepath.Join(dir, "tree"), filepath.Join(dir, "out"), filepath.Join(dir, "half")
	putText(t, filepath.Join(tree, "SECURITY.md"), "Address for reports: security@example.org\n")
	putText(t, filepath.Join(tree, "CHANGELOG.md"), "## [0.1.0] - 2026-11-30\n\n- first\n")
	putText(t, filepath.Join(tree, "tools/go"), fmt.Sprintf("#!/bin/sh\nwhile [ \"$1\" != -out ]; do shift; done\necho half >\"$2\"\n: >'%s'\nsleep 600\n", half))
	if said, err := shell(t, tree, "chmod +x tools/go; git init -q && git add . && git commit -qm one"); err != nil {
		t.Fatal(err, said)
	}
	child.KillInTheMiddle(t, killedRelease, dir, func() bool {
		_, err := os.Stat(half)
		return err == nil
	})
	left, err := os.ReadDir(out)
	if err != nil || len(left) == 0 {
		t.Fatalf("%v, %v: the release was not killed in the middle", left, err)
	}
	for _, f := range left {
		if !strings.HasPrefix(f.Name(), ".") {
			t.Errorf("a killed release leaves %s", f.Name())
		}
	}
}
