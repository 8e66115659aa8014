package main

import (
	"flag"
	"testing"

	"github.com/culvert-net/culvert/test/helptext"
)

var _ = flag.Bool("update", false, "write the golden files")

// Each error of a wrong command line names the command or the flag, says what that takes, and has a
// next step.
func TestWrongLines(t *testing.T) {
	t.Setenv("XDG_RUNTIME_DIR", t.TempDir())
	helptext.CheckWrong(t, "testdata/wrong.txt", newRoot)
}

// docs/reference has every command and flag.
func TestReference(t *testing.T) {
	helptext.CheckReference(t, "../../docs/reference/culvert-lab.md", newRoot())
}

// No flag takes a number or a time without bounds.
func TestNumbersHaveBounds(t *testing.T) { helptext.CheckNumbers(t, newRoot()) }
