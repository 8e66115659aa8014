package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/culvert-net/culvert/test/child"
)

// killedBuild is the variable with the format and the folder of a process of TestKilledBuild.
const killedBuild = "CULVERT_TEST_KILLED_BUILD"

// A build that is killed by signal 9 while nfpm writes a package leaves no file under the name of a
// package. The next build makes it.
func TestKilledBuild(t *testing.T) {
	if format, dir, is := strings.Cut(os.Getenv(killedBuild), " "); is {
		p := pkg{name: hostPackage, version: "1", arch: "amd64", when: when, nfpm: filepath.Join(dir, "nfpm")}
		file, err := p.packStage(t.Context(), t.TempDir(), filepath.Join(dir, "out"), format)
		t.Fatal("it was not killed: ", file, err)
	}
	for _, format := range []string{"deb", "rpm"} {
		dir := t.TempDir()
		half, out := filepath.Join(dir, "half"), filepath.Join(dir, "out")
		writesHalf := fmt.Sprintf("#!/bin/sh\nfor target; do :; done\necho half >\"$target\"\n: >'%s'\nsleep 600\n", half)
		if err := os.WriteFile(filepath.Join(dir, "nfpm"), []byte(writesHalf), 0o700); err != nil {
			t.Fatal(err)
		}
		child.KillInTheMiddle(t, killedBuild, format+" "+dir, func() bool {
			_, err := os.Stat(half)
			return err == nil
		})
		if left := packagesIn(t, out); len(left) > 0 {
			t.Errorf("a killed build of a .%s leaves %v", format, left)
		}
		stage := t.TempDir()
		err := putFile(filepath.Join(stage, prefix, "bin/culvert"), []byte(culvert), 0o755)
		file, packErr := describes(t, hostPackage, "1").packStage(t.Context(), stage, out, format)
		if err := errors.Join(err, packErr); err != nil {
			t.Fatal(err)
		}
		if made := packagesIn(t, out); len(made) != 1 || made[0] != filepath.Base(file) {
			t.Errorf("the next build makes %v, want %s", made, file)
		}
	}
}

// packagesIn returns the files of a folder that are not hidden. One half of a package must be among
// the hidden ones.
func packagesIn(t *testing.T, dir string) (visible []string) {
	t.Helper()
	all, err := os.ReadDir(dir)
	if err != nil || len(all) == 0 {
		t.Fatalf("%s has %v, %v: the build was not killed in the middle", dir, all, err)
	}
	for _, f := range all {
		if !strings.HasPrefix(f.Name(), ".") {
			visible = append(visible, f.Name())
		}
	}
	return visible
}
