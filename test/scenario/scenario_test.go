// Package scenario tells stories about a node, from host.yaml to CNI results,
// in testdata/*.txtar. The same stories run on the fake kernel, with
//
//	go test ./test/scenario
//
// and on Linux with the stock igb and igbvf drivers, in a fast lab node that is
// started with CULVERT_LAB_NODE=1 (make test-lab does).
//
// What a story says of PFs, VFs and netns it says by alias: $pf0, $pf0v1, $a;
// in what it compares, the machine's own names are turned back into those. The
// commands are listed in commands_test.go. To write the expected output of a
// new story, run with -update on the fake kernel, and read it.
package scenario

import (
	"context"
	"embed"
	"flag"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/culvert-net/culvert/daemon"
	"github.com/culvert-net/culvert/kernel"
	"github.com/culvert-net/culvert/kernel/fake"
	"github.com/culvert-net/culvert/kernel/netns"
	"github.com/culvert-net/culvert/kernel/step"
)

var update = flag.Bool("update", false, "rewrite the expected output in testdata")

//go:embed testdata/*.txtar
var stories embed.FS

// machine is a machine to tell stories on.
type machine interface {
	daemon.Kernel
	AddNetns(path string) error
	DelNetns(path string) error
}

// fakeMachine adapts the fake kernel.
type fakeMachine struct{ *fake.Kernel }

func (m fakeMachine) AddNetns(path string) error { m.Kernel.AddNetns(path); return nil }
func (m fakeMachine) DelNetns(path string) error { m.Kernel.DelNetns(path); return nil }

// linux is the machine we run on.
type linux struct{ *kernel.Kernel }

func (linux) AddNetns(path string) error { return netns.New(path) }
func (linux) DelNetns(path string) error { return netns.Delete(path) }

// bare is where every story starts: PFs up, no VFs.
func bare(ctx context.Context, m machine) error {
	pfs, err := m.PFs(ctx)
	if err != nil {
		return err
	}
	for _, pf := range pfs {
		steps := []step.Step{step.SetNumVFs{PF: pf.PCI, N: 0}, step.SetAutoprobe{PF: pf.PCI, On: true}, step.SetPFUp{PF: pf.PCI}}
		for _, s := range steps {
			if err := m.Do(ctx, s); err != nil {
				return err
			}
		}
	}
	return nil
}

func TestOnTheFakeKernel(t *testing.T) {
	tell(t, func(t *testing.T) (machine, error) {
		m := fakeMachine{fake.New(fake.IGB, 2)}
		return m, bare(t.Context(), m)
	})
}

func TestOnLinux(t *testing.T) {
	if os.Getenv("CULVERT_LAB_NODE") != "1" {
		t.Skip("needs a lab node: make test-lab runs it there")
	}
	if err := flag.Set("test.parallel", "1"); err != nil { // one story at a time: they share the NICs
		t.Fatal(err)
	}
	tell(t, func(t *testing.T) (machine, error) {
		m := linux{kernel.New(kernel.Options{})}
		return m, bare(t.Context(), m)
	})
}

func tell(t *testing.T, boot func(*testing.T) (machine, error)) {
	testscript.Run(t, testscript.Params{
		Dir: extract(t), UpdateScripts: *update, Cmds: commands,
		Setup: func(env *testscript.Env) error {
			m, err := boot(t)
			if err != nil {
				return err
			}
			w, err := newWorld(m, env.WorkDir)
			if err != nil {
				return err
			}
			env.Values[worldKey{}] = w
			env.Defer(w.close)
			for _, kv := range w.aliases() {
				env.Setenv(kv[0], kv[1])
			}
			return nil
		},
	})
}

// extract puts the stories where testscript finds them: the source tree where
// there is one (for -update), else a copy of what is built in.
func extract(t *testing.T) string {
	if _, err := os.Stat("testdata"); err == nil {
		return "testdata"
	}
	dir := t.TempDir()
	names, err := fs.Glob(stories, "testdata/*.txtar")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		text, err := stories.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, filepath.Base(name)), text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// pfAlias names PFs and VFs as stories do.
func pfAlias(i int) string { return "pf" + string(rune('0'+i)) }
