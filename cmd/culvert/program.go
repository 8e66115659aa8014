package main

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/culvert-net/culvert/program"
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

// askProgram turns a question about a program's command line into the program's own:
// "help lab up" becomes "lab help up", and "__complete lab up --n", which the shell
// asks, becomes "lab __complete up --n". Other command lines stay as they are.
func askProgram(args []string) []string {
	if len(args) < 2 {
		return args
	}
	least := 2 // words of the question; the shell completes the word "lab" itself with 2
	switch args[0] {
	case cobra.ShellCompRequestCmd, cobra.ShellCompNoDescRequestCmd:
		least = 3
	case "help":
	default:
		return args
	}
	if len(args) < least || !slices.Contains([]string{program.Lab, program.Bench}, "culvert-"+args[1]) {
		return args
	}
	return append([]string{args[1], args[0]}, args[2:]...)
}
