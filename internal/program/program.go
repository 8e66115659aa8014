// Package program finds Culvert's other programs, and replaces the calling program
// with one of them.
//
// In goes a program's name; out comes its path. The programs culvert (for its
// commands lab, bench and esxi) and culvert-bench (for ends in a lab) call it.
package program

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
)

// The programs that other programs of Culvert run.
const (
	Bench = "culvert-bench"
	ESXi  = "culvert-esxi"
	Lab   = "culvert-lab"
)

// Find returns the path of a program: the one beside the calling program, so that
// programs of one build run each other, else the first one in PATH. The error names
// the package that has it and matches [exec.ErrNotFound].
func Find(name string) (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	dir := filepath.Dir(self)
	if path, err := exec.LookPath(filepath.Join(dir, name)); err == nil {
		return path, nil
	}
	if path, err := exec.LookPath(name); err == nil {
		return path, nil
	}
	return "", fmt.Errorf("program %[1]s: %[2]w: it is not beside %[3]s; `make build` in the source tree makes it, and the Debian package %[1]s installs it", name, exec.ErrNotFound, self)
}

// Exec replaces the calling program with another one, which gets the arguments, the
// environment, the terminal and the process id: signals reach it, and its exit status
// is the caller's. Exec returns only when that fails.
func Exec(name string, args []string) error {
	path, err := Find(name)
	if err != nil {
		return err
	}
	return fmt.Errorf("exec %s: %w", path, syscall.Exec(path, append([]string{name}, args...), os.Environ()))
}
