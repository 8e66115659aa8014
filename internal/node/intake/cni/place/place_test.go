package place

import (
	"maps"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// folder returns the content of a folder of plugins: the mode and text of each file, and "->
// target" for a link.
func folder(t *testing.T, dir string) map[string]string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		if to, err := os.Readlink(path); err == nil {
			got[e.Name()] = "-> " + to
			continue
		}
		body, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		info, err := e.Info()
		if err != nil {
			t.Fatal(err)
		}
		got[e.Name()] = info.Mode().String() + " " + string(body)
	}
	return got
}

func write(t *testing.T, dir, name, body string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, []byte(body), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestInstallAndRemove(t *testing.T) {
	const mode = "-rwxr-xr-x "
	for name, there := range map[string]map[string]string{
		"empty folder":      {},
		"other plugins":     {"bridge": "b", "sriov": "somebody's"},
		"a half-made one":   {".culvert-123.tmp": "hal", "bridge": "b"},
		"our older plugin":  {"culvert": "old"},
		"cut off at a link": {"culvert": "new", "sriov.before-culvert": "somebody's"},
	} {
		t.Run(name, func(t *testing.T) {
			dir, program := t.TempDir(), write(t, t.TempDir(), "culvert-cni", "new")
			for name, body := range there {
				write(t, dir, name, body)
			}
			for range 2 { // it is idempotent
				if err := Install(program, dir); err != nil {
					t.Fatal(err)
				}
				got := folder(t, dir)
				if got["culvert"] != mode+"new" || got["sriov"] != "-> culvert" {
					t.Errorf("after Install: %v", got)
				}
			}
			for range 2 {
				if err := Remove(dir); err != nil {
					t.Fatal(err)
				}
			}
			want := map[string]string{}
			for name, body := range there {
				switch name {
				case "sriov.before-culvert":
					want["sriov"] = "-rw------- " + body
				case "culvert", ".culvert-123.tmp":
				default:
					want[name] = "-rw------- " + body
				}
			}
			if diff := cmp.Diff(want, folder(t, dir)); diff != "" {
				t.Errorf("after Remove: -want +got:\n%s", diff)
			}
		})
	}
}

// A folder that cannot be written to stays as it is.
func TestInstallFails(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "sriov", "somebody's")
	before := maps.Clone(folder(t, dir))
	for _, program := range []string{filepath.Join(dir, "none"), dir} {
		if err := Install(program, dir); err == nil {
			t.Error("installed", program)
		}
	}
	if diff := cmp.Diff(before, folder(t, dir)); diff != "" {
		t.Errorf("-before +after:\n%s", diff)
	}
}
