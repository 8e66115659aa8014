package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/culvert-net/culvert/test/promises"
)

// Each command line of culvert on a page is one that the program takes: its commands, flags, values
// and number of arguments. Other tests run most of them. The programs of bench, esxi and lab take
// their own.
func TestPagesAreUnderstood(t *testing.T) {
	understood := 0
	for _, page := range promises.Pages {
		text, err := os.ReadFile("../../" + page)
		if err != nil {
			t.Fatal(err)
		}
		for _, command := range promises.Commands(string(text)) {
			line, isCulvert := strings.CutPrefix(strings.TrimPrefix(command, "sudo "), "culvert ")
			if !isCulvert || strings.ContainsAny(line, "|&;") {
				continue
			}
			words, err := exec.CommandContext(t.Context(), "bash", "-c", "printf '%s\n' "+strings.Split(line, " >")[0]).Output()
			if err != nil {
				t.Fatal(err)
			}
			if err := parseLine(strings.Split(strings.TrimSuffix(string(words), "\n"), "\n")); err != nil {
				t.Errorf("%s: %s: %v", page, command, err)
			}
			understood++
		}
	}
	if understood < 100 {
		t.Errorf("only %d commands of the pages were found", understood)
	}
}

// parseLine reads a command line as the program does, and runs nothing. A command's name with some of
// its flags, as a sentence has it, needs no arguments and no value of the last flag.
func parseLine(words []string) error {
	cmd, rest, err := newRoot().Find(words)
	if err != nil {
		return err
	}
	if cmd.DisableFlagParsing { // another program
		return nil
	}
	var lacking *pflag.ValueRequiredError
	if err := cmd.ParseFlags(rest); err != nil && !errors.Is(err, pflag.ErrHelp) && !errors.As(err, &lacking) {
		return cmd.FlagErrorFunc()(cmd, err)
	}
	args := cmd.Flags().Args()
	switch {
	case len(args) == 0:
		return cmd.ValidateFlagGroups()
	case cmd.HasSubCommands():
		return fmt.Errorf("%s has no command %s", cmd.CommandPath(), args[0])
	}
	return cmd.ValidateArgs(args)
}
