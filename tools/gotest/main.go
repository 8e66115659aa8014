// Command gotest runs go test and prints what go test prints, and besides, after
// each package that fails, the commands that repeat its tests one by one:
//
//	tools/run gotest -as unit -repeat 'tools/go test -race' -- -race -timeout 30m ./...
//
// The arguments after -- are those of go test. The commands end with -args and what follows it.
// gotest writes the outcome and the duration of each test to build/log/NAME.tests, with the name of
// -as. `make test` reads these files.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"syscall"

	"golang.org/x/mod/modfile"

	"github.com/culvert-net/culvert/tools/gotest/outcome"
)

func main() {
	as := flag.String("as", "test", "`name` of the file that is written below build/log")
	repeat := flag.String("repeat", "tools/go test", "how the `command` that repeats a test begins; -run, the package and -args follow")
	flag.Parse()
	err := runGoTest(context.Background(), *as, *repeat, flag.Args())
	var failed *exec.ExitError
	switch {
	case errors.As(err, &failed):
		os.Exit(max(1, failed.ExitCode()))
	case err != nil:
		fmt.Fprintln(os.Stderr, "gotest:", err)
		os.Exit(1)
	}
}

// runGoTest starts go test in the tree's top folder. It passes the signals that end programs
// on to go test, and returns when go test has ended.
func runGoTest(ctx context.Context, as, repeat string, args []string) error {
	module, err := modulePath("go.mod")
	if err != nil {
		return err
	}
	// The linter runs vet's analyzers on all packages, with all tags.
	cmd := exec.CommandContext(ctx, "tools/go", append([]string{"test", "-json", "-vet=off"}, args...)...)
	cmd.Stderr = os.Stderr
	events, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer signal.Stop(signals)
	go func() {
		for sig := range signals {
			_ = cmd.Process.Signal(sig) // it may have ended
		}
	}()
	own, program := splitArgs(args)
	s := stream{out: os.Stdout, verbose: slices.Contains(own, "-v"), module: module, prefix: repeat, suffix: program}
	readErr := s.readEvents(events)
	return errors.Join(cmd.Wait(), readErr, writeOutcome(as, s.ended))
}

// splitArgs splits go test's arguments into its own, and -args with those of the test program.
func splitArgs(args []string) (own, program []string) {
	if i := slices.Index(args, "-args"); i >= 0 {
		return args[:i], args[i:]
	}
	return args, nil
}

func writeOutcome(as string, tests []outcome.Test) error {
	f, err := createFile(filepath.Join("build/log", as+outcome.Extension))
	if err != nil {
		return err
	}
	return errors.Join(outcome.Write(f, tests), f.Close())
}

func createFile(name string) (*os.File, error) {
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return nil, err
	}
	return os.Create(name)
}

// modulePath returns the module path of a go.mod.
func modulePath(name string) (string, error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return "", err
	}
	path := modfile.ModulePath(text)
	if path == "" {
		err = fmt.Errorf("%s has no module line", name)
	}
	return path, err
}
