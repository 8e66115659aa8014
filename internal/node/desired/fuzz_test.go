package desired

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/culvert-net/culvert/internal/vf"
)

// FuzzParse shows that a host.yaml without an error has pools that can be found by name, patterns
// that cannot name a path, and counts in range. The error of any other host.yaml wraps
// vf.ErrInvalid, names lines of the file, and is short enough for people.
func FuzzParse(f *testing.F) {
	for _, name := range []string{"testdata/host.yaml", "testdata/bad.txt"} {
		content, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		for _, c := range strings.Split(string(content), "\n== ") {
			f.Add([]byte(c))
		}
	}
	f.Add([]byte("a: &a [*a]\nb: *a"))
	f.Add([]byte("pfs: [{name: ../../x, vfs: 1, driver: \"../vfio\\0\"}]"))
	f.Add([]byte("pfs: [{name: a, vfs: 1, segment: storage}, {name: b, vfs: 1, segment: \"a\\0\"}]"))
	f.Add([]byte(strings.Repeat("{a: ", 200)))
	f.Add([]byte("pools: [{name: \"\\e[2J\"}]"))
	f.Fuzz(func(t *testing.T, content []byte) {
		spec, err := Parse("host.yaml", content)
		if err != nil {
			refusedWell(t, err, content)
			return
		}
		for _, p := range spec.Pools {
			if got, err := spec.Pool(p.FullName()); err != nil || got.FullName() != p.FullName() {
				t.Errorf("pool %q is not found: %v", p.FullName(), err)
			}
			for _, s := range p.Selectors {
				noPath(t, s.Drivers...)
				for _, n := range s.PFNames {
					noPath(t, n.PF)
				}
			}
		}
		for _, r := range spec.PFs {
			noPath(t, r.Name, r.Driver, string(r.Want.Segment))
		}
		pf := vf.PF{Name: "enp1s0f0", TotalVFs: 7}
		if want, ok := spec.ForPF(pf); ok && (want.VFs < 0 || want.VFs > maxVFs) {
			t.Errorf("%d VFs wanted", want.VFs)
		}
		spec.PoolOf(pf, 3, vf.State{})
	})
}

// noPath fails the test if a name, as a part of a path, would lead to another folder.
func noPath(t *testing.T, names ...string) {
	t.Helper()
	for _, n := range names {
		if strings.ContainsAny(n, "/\x00\n") || n == ".." {
			t.Errorf("%q is taken for a name", n)
		}
	}
}

func refusedWell(t *testing.T, err error, content []byte) {
	t.Helper()
	if !errors.Is(err, vf.ErrInvalid) {
		t.Errorf("%v is no vf.ErrInvalid", err)
	}
	if n := len(err.Error()); n > 100<<10 {
		t.Errorf("an error of %d bytes", n)
	}
	if strings.ContainsAny(err.Error(), "\x00\x1b") {
		t.Errorf("%q would act on a terminal", err)
	}
	var e Error
	if lines := strings.Count(string(content), "\n") + strings.Count(string(content), "\r") + 2; errors.As(err, &e) && e.Line > lines {
		t.Errorf("line %d of %d: %v", e.Line, lines, err)
	}
}
