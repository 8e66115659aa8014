package layout

import (
	"fmt"
	"go/scanner"
	"go/token"
	"io/fs"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/culvert-net/culvert/internal/vf"
)

// visitStrings calls visit with every string literal of the tree's code, tests
// aside.
func visitStrings(tree fs.FS, visit func(file string, at token.Position, value string)) error {
	all, err := sources(tree)
	if err != nil {
		return err
	}
	for _, s := range all {
		if s.isTest() {
			continue
		}
		text, err := fs.ReadFile(tree, s.name)
		if err != nil {
			return err
		}
		set := token.NewFileSet()
		var scan scanner.Scanner
		scan.Init(set.AddFile(s.name, set.Base(), len(text)), text, nil, 0)
		for {
			pos, tok, literal := scan.Scan()
			if tok == token.EOF {
				break
			}
			if v, err := strconv.Unquote(literal); tok == token.STRING && err == nil {
				visit(s.name, set.Position(pos), v)
			}
		}
	}
	return nil
}

// namesDrivers has the files that may name a NIC driver: the table with the facts about drivers,
// the model NICs of the fake kernel, and the programs that boot machines with a certain NIC.
var namesDrivers = []string{"internal/vf/drivers.go", "internal/kernel/fake/profile.go", "lab/...", "test/..."}

// checkDrivers finds code that decides by the name of a NIC driver.
func checkDrivers(tree fs.FS) (complaints []string, err error) {
	err = visitStrings(tree, func(file string, at token.Position, value string) {
		known := vf.DriverOf(value).Name != "" || vf.NIC{Driver: value}.IsVF()
		if known && !isAny(namesDrivers, file) {
			complaints = append(complaints, fmt.Sprintf("%s: names the driver %s: what is known of a driver is a field of vf.Driver (internal/vf/drivers.go)", at, value))
		}
	})
	return complaints, err
}

func TestDriversHaveOneTable(t *testing.T) {
	complaints, err := checkDrivers(repository(t))
	report(t, complaints, err)
}

func TestCheckDrivers(t *testing.T) {
	complaints, err := checkDrivers(fstest.MapFS{
		"internal/vf/drivers.go":          {Data: []byte("package vf\nvar a = \"igb\"\n")},
		"internal/kernel/a.go":            {Data: []byte("package kernel\nvar a = \"igbvf\"\n")},
		"internal/kernel/a_test.go":       {Data: []byte("package kernel\nvar a = \"igb\"\n")},
		"internal/node/attach/message.go": {Data: []byte("package attach\nvar a, b = \"driver igb\", \"vfio-pci\"\n")},
		"lab/nodes.go":                    {Data: []byte("package lab\nvar a = \"igb\"\n")},
	})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"internal/kernel/a.go:2:9: names the driver igbvf: what is known of a driver is a field of vf.Driver (internal/vf/drivers.go)"}, complaints); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// errorText matches code that decides by the text of an error.
var errorText = regexp.MustCompile(`strings\.(Contains|HasPrefix|HasSuffix|EqualFold|Index|TrimPrefix|TrimSuffix|CutPrefix|Cut)\([^()]*\.Error\(\)|\.Error\(\) [!=]= |MatchString\([^()]*\.Error\(\)`)

// readsErrorText are the files that may decide by the text of an error. A comment
// there says why the library offers nothing else.
var readsErrorText = []string{"bench/read.go", "internal/exactjson/exactjson.go"}

func checkErrorText(tree fs.FS) ([]string, error) {
	all, err := sources(tree)
	if err != nil {
		return nil, err
	}
	var complaints []string
	for _, s := range all {
		if s.isTest() || slices.Contains(readsErrorText, s.name) {
			continue
		}
		text, err := fs.ReadFile(tree, s.name)
		if err != nil {
			return nil, err
		}
		n := 0
		for line := range strings.Lines(string(text)) {
			n++
			if errorText.MatchString(line) {
				complaints = append(complaints, fmt.Sprintf("%s:%d: matches an error by its text: give it a sentinel or a type, for errors.Is or errors.As", s.name, n))
			}
		}
	}
	return complaints, nil
}

func TestErrorsAreNotMatchedByText(t *testing.T) {
	complaints, err := checkErrorText(repository(t))
	report(t, complaints, err)
}

func TestCheckErrorText(t *testing.T) {
	complaints, err := checkErrorText(fstest.MapFS{
		"a/a.go": {Data: []byte("package a\nvar a = strings." + "Contains(err.Error(), \"x\")\nvar b = e.Err.Error() " + "== \"x\"\nvar c = strings.ReplaceAll(err.Error(), \"x\", \"y\")\n")},
	})
	if err != nil {
		t.Fatal(err)
	}
	const says = "matches an error by its text: give it a sentinel or a type, for errors.Is or errors.As"
	if diff := cmp.Diff([]string{"a/a.go:2: " + says, "a/a.go:3: " + says}, complaints); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
