package main

import (
	"testing"

	"github.com/culvert-net/culvert/test/helptext"
)

// Each error of a wrong command line names the command or the flag, says what that takes, and has a
// next step.
func TestWrongLines(t *testing.T) {
	helptext.CheckWrong(t, "testdata/wrong.txt", newCommand)
}

// No flag takes a number or a time without bounds.
func TestNumbersHaveBounds(t *testing.T) { helptext.CheckNumbers(t, newCommand()) }
