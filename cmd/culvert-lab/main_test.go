package main

import (
	"bytes"
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/culvert-net/culvert/bench/place"
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

// The error of a wrong command names the next step.
func TestSaysWhatIsWrong(t *testing.T) {
	t.Setenv("XDG_RUNTIME_DIR", t.TempDir())
	for line, want := range map[string]string{
		"status":                   "culvert lab up brings it up",
		"status --name none":       "the lab none",
		"exec worker01":            "requires at least 2 arg(s)",
		"exec worker01 -- true":    "culvert lab up",
		"link worker01 pf1 off":    "want up or down",
		"cp a b":                   "want NODE:/PATH",
		"fast --file a -- true":    "want SRC:DEST",
		"up --kubernetes --guests": "none of the others can be",
		"up --wires crossed":       `want apart or joined`,
		"up --runtime docker":      `"docker"`,
		"up --cni cilium":          `--cni: `,
		"kubectl -- get nodes":     "culvert lab up",
		"upp":                      "did you mean up?",
	} {
		if out, err := run(t, strings.Fields(line)...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("culvert lab %s: %v, want %q: %s", line, err, want, out)
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
	if err := printStatus(&b, lab.Status{Name: "x", Nodes: []lab.Node{{Name: "worker01", State: lab.Ready}}}, "json"); err != nil {
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
	if err := printStatus(&b, lab.Status{}, "yaml"); err == nil || !strings.Contains(err.Error(), "want table or json") {
		t.Error(err)
	}
}

// The supervisor of a lab is this program run again.
func TestMain(m *testing.M) {
	lab.Reexec()
	os.Exit(m.Run())
}
