package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/culvert-net/culvert/bench/place"
	"github.com/culvert-net/culvert/internal/admin/cli"
	"github.com/culvert-net/culvert/test/promises"
)

// TestPageIsUnderstood parses each command of docs/bench.md, and those of docs/esxi.md that measure, as a shell and the program do. It
// runs report, compare and presets, and checks the flags, presets and ends of run. TestRun,
// test/e2e and bench/place test whole runs.
func TestPageIsUnderstood(t *testing.T) {
	page, err := os.ReadFile("../../docs/bench.md")
	if err != nil {
		t.Fatal(err)
	}
	guests, err := os.ReadFile("../../docs/esxi.md")
	if err != nil {
		t.Fatal(err)
	}
	example, err := filepath.Abs(benchExample)
	if err != nil {
		t.Fatal(err)
	}
	docs, err := filepath.Abs("../../docs")
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(t.TempDir())
	if err := os.Symlink(docs, "docs"); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"before", "after", "main", "pr"} {
		if err := os.Mkdir(name, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"result.json", "before.json", "after.json", "before/1.json", "after/1.json", "main/1.json", "pr/1.json"} {
		if err := os.Symlink(example, name); err != nil {
			t.Fatal(err)
		}
	}
	understood := 0
	for _, command := range promises.Commands(string(page) + "\n" + string(guests)) {
		line, isBench := strings.CutPrefix(strings.TrimPrefix(command, "sudo "), "culvert bench ")
		if !isBench || line == "report" || line == "compare" { // the names of commands, in a sentence
			continue
		}
		understood++
		words, err := exec.CommandContext(t.Context(), "bash", "-c", "printf '%s\\n' "+strings.Split(line, " >")[0]).Output()
		args := strings.Split(strings.TrimSuffix(string(words), "\n"), "\n")
		if err == nil && args[0] == "run" {
			err = checkRun(t, args[1:])
		} else if err == nil {
			_, err = execute(t, args...)
		}
		var exit cli.ExitStatus
		if err != nil && !errors.As(err, &exit) {
			t.Errorf("%s: %v", command, err)
		}
	}
	if understood < 20 {
		t.Errorf("only %d commands of the page were found", understood)
	}
}

// checkRun checks the arguments of culvert bench run, without starting an agent.
func checkRun(t *testing.T, args []string) error {
	t.Helper()
	b := &run{}
	cmd := &cobra.Command{Use: "run", SilenceErrors: true, SilenceUsage: true, RunE: func(_ *cobra.Command, args []string) error {
		order, err := b.buildOrder(args)
		if len(args) == 1 && len(order.From) == 0 && order.Cluster == nil && !b.lab {
			return nil // a preset's name in a sentence
		}
		for _, end := range append(append(order.From, order.To...), order.Via) {
			if end != "" {
				_, wrong := place.Parse(end)
				err = errors.Join(err, wrong)
			}
		}
		return err
	}}
	b.addFlags(cmd)
	b.cluster.addFlags(cmd)
	cmd.SetArgs(args)
	return cmd.Execute()
}
