package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestProgram: culvert's commands lab, bench and esxi are the programs beside it. They get
// all words that follow, also of requests for help and completion. They have the
// terminal and the environment, and their exit status counts. TestExec of package
// program tests the process itself.
func TestProgram(t *testing.T) {
	dir := t.TempDir()
	self, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	const script = "#!/bin/sh\necho \"$(basename \"$0\") $*\"\nexit 3\n"
	if err := errors.Join(os.WriteFile(filepath.Join(dir, "culvert"), self, 0o700), os.WriteFile(filepath.Join(dir, "culvert-lab"), []byte(script), 0o700)); err != nil {
		t.Fatal(err)
	}
	for line, want := range map[string]string{
		"lab":                         "culvert-lab \n",
		"lab up --nodes 2 -- -x":      "culvert-lab up --nodes 2 -- -x\n",
		"lab --help":                  "culvert-lab --help\n",
		"help lab up":                 "culvert-lab help up\n",
		"__complete lab up --n":       "culvert-lab __complete up --n\n",
		"__completeNoDesc lab ":       "culvert-lab __completeNoDesc \n",
		"__complete la":               "lab\tBoot nodes",
		"__complete lab":              "lab\tBoot nodes",
		"esxi status":                 "culvert: program culvert-esxi: ",
		"help esxi plan":              "culvert: program culvert-esxi: ",
		"--help":                      "  bench       Measure what",
		"help":                        "  lab         Boot nodes",
		"bench run --lab":             "culvert: program culvert-bench: executable file not found in $PATH: it is not beside " + dir + "/culvert; `make build` in the source tree makes it, and the Debian package culvert-bench installs it\n",
		"completion bash":             "__start_culvert",
		"vf help lab":                 `has no command "help"`,
		"__complete bench report --h": "culvert: program culvert-bench: ",
	} {
		cmd := exec.CommandContext(t.Context(), filepath.Join(dir, "culvert"), strings.Split(line, " ")...)
		cmd.Env = []string{"PATH=/usr/bin:/bin"}
		out, err := cmd.CombinedOutput()
		ran := strings.HasPrefix(want, "culvert-lab")
		if !strings.Contains(string(out), want) || ran && (string(out) != want || cmd.ProcessState.ExitCode() != 3) {
			t.Errorf("culvert %s: %v: %s, want %s", line, err, out, want)
		}
	}
}
