package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/culvert-net/culvert/internal/admin/cli"
	"github.com/culvert-net/culvert/test/helptext"
)

// TestMain runs the program itself when it is called as an agent: culvert bench run starts
// its own executable as the agent.
func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == "agent" {
		root := newRoot()
		if os.Getenv(actsAsVM) != "" {
			root.SetOut(vfDriver{os.Stdout})
		}
		os.Exit(cli.Run(root))
	}
	os.Setenv("LC_ALL", "C")
	os.Exit(m.Run())
}

func TestHelp(t *testing.T) { helptext.Check(t, newRoot()) }

// execute runs a command line with a host.yaml on standard input, and returns all output.
func execute(t *testing.T, args ...string) (string, error) {
	t.Helper()
	root := newRoot()
	var b bytes.Buffer
	root.SetOut(&b)
	root.SetErr(&b)
	root.SetIn(strings.NewReader("pfs: [{name: enp1s0f0, vfs: 4}]\n"))
	root.SetArgs(args)
	err := root.ExecuteContext(t.Context())
	return b.String(), err
}

// build builds one of Culvert's programs into a folder and returns its path.
func build(t *testing.T, dir, name string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if out, err := exec.CommandContext(t.Context(), "../../tools/go", "build", "-o", path, "../"+name).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return path
}
