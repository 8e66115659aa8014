package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"

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
			if err := parseLine(splitShell(t, strings.Split(line, " >")[0])); err != nil {
				t.Errorf("%s: %s: %v", page, command, err)
			}
			understood++
		}
	}
	if understood < 100 {
		t.Errorf("only %d commands of the pages were found", understood)
	}
}

// splitShell returns the words of a line of shell.
func splitShell(t *testing.T, line string) []string {
	t.Helper()
	words, err := exec.CommandContext(t.Context(), "bash", "-c", "printf '%s\n' "+line).Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSuffix(string(words), "\n"), "\n")
}

// Each command that an alert names is one that the program takes, or one of kubectl or systemctl that a
// page has. At least one of each alert is Culvert's or kubectl's.
func TestAlertsAreUnderstood(t *testing.T) {
	text, err := os.ReadFile("../../dist/prometheus/culvert-rules.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Groups []struct {
			Rules []struct {
				Alert       string
				Annotations map[string]string
			}
		}
	}
	if err := yaml.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	own := strings.NewReplacer("{{ $labels.instance }}", "worker01", "{{ $labels.pf }}", "enp1s0")
	for _, g := range file.Groups {
		for _, r := range g.Rules {
			understood := 0
			for _, m := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(own.Replace(r.Annotations["description"]), -1) {
				if strings.HasPrefix(m[1], "-") { // a flag of the command before it
					continue
				}
				if err := checkCommand(t, m[1]); err != nil {
					t.Errorf("%s: %s: %v", r.Alert, m[1], err)
				}
				understood++
			}
			if understood == 0 {
				t.Errorf("%s names no command", r.Alert)
			}
		}
	}
}

// checkCommand returns an error unless the program takes a command line, or a page has it.
func checkCommand(t *testing.T, command string) error {
	t.Helper()
	if line, is := strings.CutPrefix(strings.TrimPrefix(command, "kubectl "), "culvert "); is {
		return parseLine(splitShell(t, line))
	}
	text, err := os.ReadFile("../../test/promises/commands.txt")
	if err != nil {
		return err
	}
	table, err := promises.ParseTable(string(text))
	if err == nil && table.Find(command) == nil {
		err = errors.New("it is in no line of test/promises/commands.txt")
	}
	return err
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
