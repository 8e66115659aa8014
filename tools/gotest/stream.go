package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/culvert-net/culvert/tools/gotest/outcome"
)

// event is one line of `go test -json`: an event of a test (go doc test2json) or
// of the build (go help buildjson).
type event struct {
	Action  string
	Package string
	Test    string
	Elapsed float64
	Output  string
}

// A stream turns events into the text that go test prints without -json, and
// collects how the tests ended.
type stream struct {
	out     io.Writer
	verbose bool // as with go test -v
	module  string
	prefix  string   // of the command that repeats a test
	suffix  []string // its end: -args with the arguments of the test program
	running map[string]*pack
	ended   []outcome.Test
}

// pack is a package whose tests run.
type pack struct {
	lines   map[string][]line // by top-level test; "" has the package's own
	tests   []outcome.Test
	started []string // top-level tests that have not ended
	cached  bool
}

// line is a line that a test printed, or a part of it (t.Run).
type line struct{ test, text string }

// maxLine bounds one event. go test cuts longer lines of a test.
const maxLine = 64 << 20

// readEvents reads events until there are no more. Lines that are no events are
// printed as they are.
func (s *stream) readEvents(r io.Reader) error {
	s.running = map[string]*pack{}
	in := bufio.NewScanner(r)
	in.Buffer(nil, maxLine)
	for in.Scan() {
		var e event
		if json.Unmarshal(in.Bytes(), &e) != nil || e.Action == "" {
			fmt.Fprintln(s.out, in.Text())
			continue
		}
		s.handleEvent(e)
	}
	return in.Err()
}

func (s *stream) handleEvent(e event) {
	if e.Action == "build-output" {
		fmt.Fprint(s.out, e.Output)
	}
	if e.Package == "" {
		return
	}
	p := s.running[e.Package]
	if p == nil {
		p = &pack{lines: map[string][]line{}}
		s.running[e.Package] = p
	}
	top, _, below := strings.Cut(e.Test, "/")
	switch {
	case e.Action == "output":
		s.printLine(p, top, line{e.Test, e.Output})
	case below:
		if e.Action == "pass" || e.Action == "skip" {
			p.lines[top] = slices.DeleteFunc(p.lines[top], func(l line) bool { return l.test == e.Test })
		}
	case e.Action == "run":
		p.started = append(p.started, top)
	case !slices.Contains([]string{"pass", "skip", "fail"}, e.Action):
	case top == "":
		s.endPackage(e, p)
	default:
		s.endTest(e, p)
	}
}

// printLine prints a line, or keeps it until it is known whether its test fails.
func (s *stream) printLine(p *pack, top string, l line) {
	if top == "" && strings.HasPrefix(l.text, "ok  \t") && strings.HasSuffix(l.text, "\t(cached)\n") {
		p.cached = true
	}
	if s.verbose {
		fmt.Fprint(s.out, l.text)
		return
	}
	p.lines[top] = append(p.lines[top], l)
}

func (s *stream) endTest(e event, p *pack) {
	p.started = slices.DeleteFunc(p.started, func(name string) bool { return name == e.Test })
	p.tests = append(p.tests, s.outcomeOf(e.Action, e.Elapsed, e.Package, e.Test))
	if e.Action == "fail" {
		s.flushTest(p, e.Test)
	}
	delete(p.lines, e.Test)
}

// flushTest prints the output of a test, without the lines that frame it.
func (s *stream) flushTest(p *pack, top string) {
	for _, l := range p.lines[top] {
		if !strings.HasPrefix(l.text, "=== ") {
			fmt.Fprint(s.out, l.text)
		}
	}
}

func (s *stream) endPackage(e event, p *pack) {
	failed := e.Action == "fail"
	if failed {
		for _, name := range p.started { // it was killed, after at most the time of all
			p.tests = append(p.tests, s.outcomeOf("fail", e.Elapsed, e.Package, name))
			s.flushTest(p, name)
		}
		if !slices.ContainsFunc(p.tests, func(t outcome.Test) bool { return t.Verdict == "fail" }) {
			p.tests = append(p.tests, s.outcomeOf("fail", e.Elapsed, e.Package, ""))
		}
		s.flushTest(p, "")
	}
	for _, l := range p.lines[""] {
		if !failed && (strings.HasPrefix(l.text, "ok  \t") || strings.HasPrefix(l.text, "?   \t") || strings.HasPrefix(l.text, "\t")) {
			fmt.Fprint(s.out, l.text)
		}
	}
	for i := range p.tests {
		if p.cached && p.tests[i].Verdict == "pass" {
			p.tests[i].Verdict, p.tests[i].Seconds = "cached", 0
		}
	}
	outcome.PrintFailed(s.out, p.tests)
	s.ended = append(s.ended, p.tests...)
	delete(s.running, e.Package)
}

func (s *stream) outcomeOf(verdict string, seconds float64, pkg, name string) outcome.Test {
	folder := "./" + strings.TrimPrefix(strings.TrimPrefix(pkg, s.module), "/")
	repeat := []string{s.prefix}
	if name != "" {
		repeat = append(repeat, "-run '^"+name+"$'")
	}
	repeat = append(append(repeat, folder), s.suffix...)
	return outcome.Test{Verdict: verdict, Seconds: seconds, Package: folder, Name: name, Repeat: strings.Join(repeat, " ")}
}
