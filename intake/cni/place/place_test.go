package place

import (
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// folder is what a folder of plugins holds: a link as "-> target".
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
		"a half-made one":   {"culvert.culvert-new": "hal", "bridge": "b"},
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
				case "culvert", "culvert.culvert-new":
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

// dist/install takes from a host what a culvertd has put there: the configuration
// too, which would still be the first one, and want a plugin that is gone.
func TestScriptTakesAway(t *testing.T) {
	root := t.TempDir()
	bin, conf := filepath.Join(root, "opt/cni/bin"), filepath.Join(root, "etc/cni/net.d")
	for _, dir := range []string{bin, conf} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	write(t, bin, "culvert", "ours")
	write(t, bin, "sriov.before-culvert", "theirs")
	write(t, conf, "00-culvert.conflist", "ours")
	write(t, conf, "10-flannel.conflist", "theirs")
	if err := os.Symlink("culvert", filepath.Join(bin, "sriov")); err != nil {
		t.Fatal(err)
	}
	script := exec.Command("../../../dist/install", "uninstall")
	script.Env = append(os.Environ(), "DESTDIR="+root)
	if out, err := script.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for dir, want := range map[string]string{bin: "sriov", conf: "10-flannel.conflist"} {
		got := folder(t, dir)
		if len(got) != 1 || !strings.HasSuffix(got[want], "theirs") {
			t.Errorf("%s has %v", dir, got)
		}
	}
}
