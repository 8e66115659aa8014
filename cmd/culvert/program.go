package main

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/culvert-net/culvert/internal/program"
)

// newProgramCommand makes the command that execs one of Culvert's other programs,
// culvert-WORD, with everything that follows it on the command line.
func newProgramCommand(name, short string) *cobra.Command {
	return &cobra.Command{
		Use:                strings.TrimPrefix(name, "culvert-"),
		Short:              short,
		DisableFlagParsing: true,
		RunE:               func(_ *cobra.Command, args []string) error { return program.Exec(name, args) },
	}
}

// askProgram rewrites a request for help or completion about another program, so
// that this program gets it. "help lab up" becomes "lab help up", and the shell's
// "__complete lab up --n" becomes "lab __complete up --n". Other command lines stay
// as they are.
func askProgram(args []string) []string {
	if len(args) < 2 {
		return args
	}
	least := 2 // least number of words; with 2 words, the shell completes the word "lab" itself
	switch args[0] {
	case cobra.ShellCompRequestCmd, cobra.ShellCompNoDescRequestCmd:
		least = 3
	case "help":
	default:
		return args
	}
	if len(args) < least || !slices.Contains([]string{program.Lab, program.Bench, program.ESXi}, "culvert-"+args[1]) {
		return args
	}
	return append([]string{args[1], args[0]}, args[2:]...)
}
