package main

import (
	"os"
	"strings"
	"testing"

	"github.com/culvert-net/culvert/test/promises"
)

// Each command line of culvertd on a page has flags and commands that the program takes.
func TestPagesAreUnderstood(t *testing.T) {
	understood := 0
	for _, page := range promises.Pages {
		text, err := os.ReadFile("../../" + page)
		if err != nil {
			t.Fatal(err)
		}
		for _, command := range promises.Commands(string(text)) {
			line, isCulvertd := strings.CutPrefix(command, "culvertd ")
			if !isCulvertd {
				continue
			}
			cmd, rest, err := newCommand().Find(strings.Fields(line))
			if err == nil {
				err = cmd.ParseFlags(rest)
			}
			if err == nil {
				err = cmd.ValidateArgs(cmd.Flags().Args())
			}
			if err != nil {
				t.Errorf("%s: %s: %v", page, command, err)
			}
			understood++
		}
	}
	if understood < 3 {
		t.Errorf("only %d commands of the pages were found", understood)
	}
}
