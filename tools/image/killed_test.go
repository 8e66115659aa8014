package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/culvert-net/culvert/test/child"
)

// killedFolder is the variable with the folder whose archive a process of TestKilledBuild writes.
const killedFolder = "CULVERT_TEST_KILLED_FOLDER"

// A build that is killed by signal 9 while it writes the archive leaves the archive of before under
// that name. The next build replaces it.
func TestKilledBuild(t *testing.T) {
	if dir := os.Getenv(killedFolder); dir != "" {
		t.Fatal("it was not killed: ", packFolder(filepath.Join(dir, "layout"), filepath.Join(dir, "culvert.tar")))
	}
	dir := t.TempDir()
	file, layout := filepath.Join(dir, "culvert.tar"), filepath.Join(dir, "layout")
	first, pipe := filepath.Join(layout, "a"), filepath.Join(layout, "b")
	body := strings.Repeat("a layer\n", 1<<17)
	err := errors.Join(os.Mkdir(layout, 0o755), os.WriteFile(first, []byte(body), 0o600), os.WriteFile(file, []byte("of before"), 0o600), syscall.Mkfifo(pipe, 0o600))
	if err != nil {
		t.Fatal(err)
	}
	child.KillInTheMiddle(t, killedFolder, dir, func() bool {
		in, err := os.OpenFile(pipe, os.O_WRONLY|syscall.O_NONBLOCK, 0) // fails until the process reads
		if err == nil {
			t.Cleanup(func() { _ = in.Close() }) // until then the process waits for the pipe's end
		}
		return err == nil
	})
	if half, err := filepath.Glob(filepath.Join(dir, ".culvert.tar-*.tmp")); err != nil || len(half) != 1 {
		t.Fatalf("%v, %v: the build was not killed in the middle", half, err)
	}
	if got, err := os.ReadFile(file); err != nil || string(got) != "of before" {
		t.Errorf("after the kill the archive has %d bytes, %v", len(got), err)
	}
	if err := errors.Join(os.Remove(pipe), packFolder(layout, file)); err != nil {
		t.Fatal(err)
	}
	untar(t, file, filepath.Join(dir, "whole"))
	if got, err := os.ReadFile(filepath.Join(dir, "whole", "a")); err != nil || string(got) != body {
		t.Errorf("the next build writes %d bytes of %d, %v", len(got), len(body), err)
	}
}
