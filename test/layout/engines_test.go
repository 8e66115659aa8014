package layout

import (
	"fmt"
	"go/scanner"
	"go/token"
	"io/fs"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/culvert-net/culvert/bench/engine"
)

// engineList is the file that names the engines of measurements.
const engineList = "bench/engine/engines.go"

// checkEngines finds names of engines in the code of bench/ outside their list. A
// branch on such a name is a fact about the engine, which belongs in the list.
func checkEngines(tree fs.FS) ([]string, error) {
	all, err := files(tree)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, e := range engine.Engines() {
		names = append(names, strconv.Quote(e.Name))
	}
	var complaints []string
	for _, name := range all {
		if !strings.HasPrefix(name, "bench/") || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") || name == engineList {
			continue
		}
		text, err := fs.ReadFile(tree, name)
		if err != nil {
			return nil, err
		}
		in := token.NewFileSet()
		file := in.AddFile(name, -1, len(text))
		var s scanner.Scanner
		s.Init(file, text, nil, 0)
		for {
			at, kind, literal := s.Scan()
			if kind == token.EOF {
				break
			}
			if kind == token.STRING && slices.Contains(names, literal) {
				complaints = append(complaints, fmt.Sprintf("%s:%d: %s names an engine: take the constant of %s, and put what sets the engine apart into its list", name, file.Line(at), literal, engineList))
			}
		}
	}
	return complaints, nil
}

func TestEnginesAreListedOnce(t *testing.T) {
	complaints, err := checkEngines(repository(t))
	report(t, complaints, err)
}

func TestCheckEngines(t *testing.T) {
	tree := fstest.MapFS{
		engineList:               {Data: []byte("package engine\nconst Ping = \"ping\"\n")},
		"bench/agent/ping.go":    {Data: []byte("package agent\n// \"ping\"\nvar name = \"ping\"\nvar other = \"pings\"\n")},
		"bench/agent/x_test.go":  {Data: []byte("package agent\nvar name = \"ping\"\n")},
		"lab/demo/pods.go":       {Data: []byte("package demo\nvar name = \"iperf3\"\n")},
		"bench/preset/testdata.": {Data: []byte("\"ping\"")},
	}
	got, err := checkEngines(tree)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{`bench/agent/ping.go:3: "ping" names an engine: take the constant of bench/engine/engines.go, and put what sets the engine apart into its list`}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
