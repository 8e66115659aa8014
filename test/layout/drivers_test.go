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

	"github.com/culvert-net/culvert/vf"
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

// namesDrivers are the files that may name a NIC driver: the table of what is
// known of them, and the model NICs of the fake kernel.
var namesDrivers = []string{"vf/drivers.go", "kernel/fake/profile.go"}

// checkDrivers finds code that decides by the name of a NIC driver.
func checkDrivers(tree fs.FS) (complaints []string, err error) {
	err = visitStrings(tree, func(file string, at token.Position, value string) {
		top, _, _ := strings.Cut(file, "/")
		known := vf.DriverOf(value).Name != "" || vf.NIC{Driver: value}.IsVF()
		if known && !slices.Contains(namesDrivers, file) && !slices.Contains([]string{"lab", "test"}, top) {
			complaints = append(complaints, fmt.Sprintf("%s: names the driver %s: what is known of a driver is a field of vf.Driver (vf/drivers.go)", at, value))
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
		"vf/drivers.go":     {Data: []byte("package vf\nvar a = \"igb\"\n")},
		"kernel/a.go":       {Data: []byte("package kernel\nvar a = \"igbvf\"\n")},
		"kernel/a_test.go":  {Data: []byte("package kernel\nvar a = \"igb\"\n")},
		"attach/message.go": {Data: []byte("package attach\nvar a, b = \"driver igb\", \"vfio-pci\"\n")},
		"lab/nodes.go":      {Data: []byte("package lab\nvar a = \"igb\"\n")},
	})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"kernel/a.go:2:9: names the driver igbvf: what is known of a driver is a field of vf.Driver (vf/drivers.go)"}, complaints); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
