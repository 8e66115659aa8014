package main

import (
	"bytes"
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/culvert-net/culvert/bench/place"
	"github.com/culvert-net/culvert/internal/admin/cli"
	"github.com/culvert-net/culvert/lab"
	"github.com/culvert-net/culvert/test/helptext"
)

func TestHelp(t *testing.T) { helptext.Check(t, newRoot()) }

// run runs a command line with empty standard input, and returns its output.
func run(t *testing.T, args ...string) (string, error) {
	t.Helper()
	root := newRoot()
	var b bytes.Buffer
	root.SetIn(strings.NewReader(""))
	root.SetOut(&b)
	root.SetErr(&b)
	root.SetArgs(args)
	err := root.ExecuteContext(t.Context())
	return b.String(), err
}

// Commands for a lab that is not up name it, and the command that brings it up.
func TestLabIsNotUp(t *testing.T) {
	t.Setenv("XDG_RUNTIME_DIR", t.TempDir())
	for _, line := range []string{"status", "exec worker01 -- true", "kubectl -- get nodes"} {
		out, err := run(t, append([]string{"--name", "none"}, strings.Fields(line)...)...)
		if err == nil || !strings.Contains(err.Error(), "the lab none: ") || !strings.Contains(err.Error(), "culvert lab up brings it up") {
			t.Errorf("culvert lab %s: %v: %s", line, err, out)
		}
	}
}

// culvert-lab answers culvert-bench in JSON, also when it refuses.
func TestEndsAreRefused(t *testing.T) {
	out, err := run(t, "ends", "--senders", "8")
	var got place.LabEnds
	if err != nil || json.Unmarshal([]byte(out), &got) != nil || !strings.Contains(got.Error, "take 1 to 7") || len(got.From) > 0 {
		t.Errorf("%v: %s", err, out)
	}
}

// culvert lab status writes the JSON that culvert-bench reads.
func TestStatusInJSON(t *testing.T) {
	var b bytes.Buffer
	out := cli.AddFormat(&cobra.Command{}, "", cli.JSON)
	if err := out.Set(cli.JSON); err != nil {
		t.Fatal(err)
	}
	if err := printStatus(&b, lab.Status{Name: "x", Nodes: []lab.Node{{Name: "worker01", State: lab.Ready}}}, out); err != nil {
		t.Fatal(err)
	}
	var got struct {
		Nodes []struct {
			Name string `json:"name"`
		} `json:"nodes"`
	}
	if err := json.Unmarshal(b.Bytes(), &got); err != nil || len(got.Nodes) != 1 || got.Nodes[0].Name != "worker01" {
		t.Errorf("%v: %s", err, b.String())
	}
}

// The supervisor of a lab is this program run again.
func TestMain(m *testing.M) {
	lab.Reexec()
	os.Exit(m.Run())
}
