package main

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/culvert-net/culvert/tools/gotest/outcome"
)

// replay reads a recorded stream of go test -json.
func replay(t *testing.T, file string, verbose bool) (text string, tests []outcome.Test) {
	t.Helper()
	f, err := os.Open("testdata/" + file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var out strings.Builder
	s := stream{out: &out, verbose: verbose, module: "x", prefix: "tools/go test"}
	if err := s.readEvents(f); err != nil {
		t.Fatal(err)
	}
	return out.String(), s.ended
}

// The stream prints the same as go test without -json, except for the
// indentation of a test's parts, and the lines that begin with "to repeat".
func TestStreamPrintsWhatGoTestPrints(t *testing.T) {
	for file, want := range map[string]string{
		"mixed.json": `?   	x	[no test files]
# x/b [x/b.test]
b/b_test.go:3:31: declared and not used: x
    a_test.go:4: wrong
        multi
--- FAIL: TestBad/one_two/3$ (0.00s)
--- FAIL: TestBad (0.00s)
    a_test.go:6: par
--- FAIL: TestPar (0.03s)
FAIL
FAIL	x/a	0.056s
to repeat ./a TestBad: tools/go test -run '^TestBad$' ./a
to repeat ./a TestPar: tools/go test -run '^TestPar$' ./a
FAIL	x/b [build failed]
to repeat ./b: tools/go test ./b
--- FAIL: TestPanic (0.00s)
panic: boom [recovered, repanicked]

FAIL	x/c	1.007s
to repeat ./c TestPanic: tools/go test -run '^TestPanic$' ./c
`,
		"main.json": `setting up
no lab
FAIL	x/e	0.003s
to repeat ./e: tools/go test ./e
`,
		"cached.json": "ok  \tx/c\t(cached)\n",
	} {
		got, _ := replay(t, file, false)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: -want +got:\n%s", file, diff)
		}
	}
}

func TestStreamOfATestThatHangs(t *testing.T) {
	got, tests := replay(t, "timeout.json", false)
	for _, want := range []string{"setting up\n", "    e_test.go:4: waiting\n", "panic: test timed out after 1s\n", "FAIL\tx/e\t1.006s\nto repeat ./e TestHang: "} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is not in:\n%s", want, got)
		}
	}
	want := []outcome.Test{{Verdict: "fail", Seconds: 1.007, Package: "./e", Name: "TestHang", Repeat: "tools/go test -run '^TestHang$' ./e"}}
	if diff := cmp.Diff(want, tests); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestStreamCollectsHowTestsEnded(t *testing.T) {
	for file, want := range map[string]string{
		"mixed.json":  "pass ./a TestOk, fail ./a TestBad, skip ./a TestSkip, fail ./a TestPar, fail ./b , pass ./c TestC, fail ./c TestPanic",
		"main.json":   "fail ./e ",
		"cached.json": "cached ./c TestC, cached ./c TestPanic",
	} {
		var got []string
		_, tests := replay(t, file, false)
		for _, test := range tests {
			got = append(got, test.Verdict+" "+test.Package+" "+test.Name)
		}
		if diff := cmp.Diff(want, strings.Join(got, ", ")); diff != "" {
			t.Errorf("%s: -want +got:\n%s", file, diff)
		}
	}
}

func TestStreamWithV(t *testing.T) {
	got, _ := replay(t, "mixed.json", true)
	for _, want := range []string{"=== RUN   TestOk\n    a_test.go:3: quiet\nprint ok\n", "--- PASS: TestBad/good (0.00s)\n", "--- SKIP: TestSkip (0.00s)\n"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is not in:\n%s", want, got)
		}
	}
}

// The stream prints lines of go that are no events.
func TestStreamPassesOtherLinesOn(t *testing.T) {
	var out strings.Builder
	s := stream{out: &out, module: "x"}
	if err := s.readEvents(strings.NewReader("go: warning\n{}\n{\"Action\":\"start\",\"Package\":\"x\"}\n")); err != nil {
		t.Fatal(err)
	}
	if want := "go: warning\n{}\n"; out.String() != want {
		t.Errorf("%q, want %q", out.String(), want)
	}
}

func TestSplitArgs(t *testing.T) {
	for args, want := range map[string][2]string{"-v ./a": {"-v ./a", ""}, "-race ./a -args -v": {"-race ./a", "-args -v"}} {
		own, program := splitArgs(strings.Fields(args))
		if got := [2]string{strings.Join(own, " "), strings.Join(program, " ")}; got != want {
			t.Errorf("splitArgs(%s) = %q, want %q", args, got, want)
		}
	}
}

// The command that repeats a test passes the test program what it was given.
func TestRepeatHasTheProgramsArguments(t *testing.T) {
	s := stream{module: "x", prefix: "tools/go test -v", suffix: []string{"-args", "-seed", "7"}}
	for name, want := range map[string]string{"TestA": "tools/go test -v -run '^TestA$' ./a -args -seed 7", "": "tools/go test -v ./a -args -seed 7"} {
		if got := s.outcomeOf("fail", 1, "x/a", name).Repeat; got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestModulePath(t *testing.T) {
	got, err := modulePath("../../go.mod")
	if got != "github.com/culvert-net/culvert" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	if got, err := modulePath("testdata/none"); err == nil {
		t.Errorf("a file that is not there is of module %q", got)
	}
	if got, err := modulePath("testdata/main.json"); err == nil {
		t.Errorf("a file that is no go.mod has the module %q", got)
	}
}
