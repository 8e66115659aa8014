package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The flags of the command line reach the installer. An empty --root, as make
// passes an empty DESTDIR, means this host.
func TestHostInstall(t *testing.T) {
	from, root := t.TempDir(), t.TempDir()
	for _, name := range []string{"culvert", "culvertd", "culvert-cni", "culvert-hook", "culvert-bench"} {
		if err := os.WriteFile(filepath.Join(from, name), []byte(name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for line, want := range map[string]string{
		"host install --dry-run --parts programs --prefix /nowhere --root": "installing into /\n+ /nowhere/bin/culvert\n",
		"host install --prefix /usr --root " + root:                        "installing into " + root + "\n+ /usr/bin/culvert\n",
		"host install --parts hook --root " + root:                         `part "hook": want some of`,
		"host uninstall --dry-run --prefix /nowhere --root " + t.TempDir(): "removing from ",
	} {
		args := strings.Fields(line)
		if strings.HasSuffix(line, "--root") {
			args = append(args, "")
		}
		if args[1] == "install" {
			args = append(args, "--from", from)
		}
		out, err := run(t.Context(), t, "/nowhere", args...)
		if err != nil {
			out = err.Error()
		}
		if !strings.HasPrefix(out, want) {
			t.Errorf("%s: %s, want %s", line, out, want)
		}
	}
	bash, err := os.ReadFile(filepath.Join(root, "usr/share/bash-completion/completions/culvert"))
	if err != nil || !strings.Contains(string(bash), "__start_culvert") {
		t.Errorf("the completion for bash is %d bytes, %v", len(bash), err)
	}
}
