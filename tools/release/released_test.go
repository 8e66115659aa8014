package main

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/culvert-net/culvert/lab/parts"
	"github.com/culvert-net/culvert/test/releases"
	"github.com/culvert-net/culvert/test/soak"
)

// TestReleasedFiles makes two releases, and verifies, installs, upgrades and removes those files of them
// that need no lab, by the commands of docs/install.md. test/promises.TestReleaseOnAHost and
// test/kubernetes.TestAirGapped have the other files.
func TestReleasedFiles(t *testing.T) {
	soak.Only(t, "two releases")
	made, signers := releases.MakeTwo(t, "../..", "-url https://example.org/culvert")
	t.Run("verify", func(t *testing.T) {
		for _, dir := range made {
			out, err := shell(t, dir, "cp "+signers+" .; "+pageCommand(t, "ssh-keygen -Y verify "))
			if err != nil || strings.Count(out, ": OK\n") < 18 {
				t.Errorf("%v\n%s", err, out)
			}
		}
	})
	t.Run("RPM packages", func(t *testing.T) { followRPM(t, made) })
	t.Run("plugin of kubectl", func(t *testing.T) { followKrew(t, made) })
	t.Run("lintian", func(t *testing.T) { checkByLintian(t, made[0]) })
	t.Run("sizes", func(t *testing.T) {
		var out strings.Builder
		if err := showSizes(&out, made[0], made[1]); err != nil || !strings.Contains(out.String(), "culvert-VERSION-image.tar, amd64") {
			t.Error(err)
		}
		t.Logf("\n%s", out.String())
	})
}

// followRPM installs the packages into a folder, without their scripts, upgrades and removes them.
func followRPM(t *testing.T, made []string) {
	if _, err := exec.LookPath("rpm"); err != nil || os.Geteuid() != 0 {
		t.Skip("rpm unpacks as root; tools/bootstrap -for test installs it")
	}
	root := t.TempDir()
	rpm := `rpm() {
		case $1 in --upgrade) set -- "$@" --ignorearch;; esac
		command rpm --root '` + root + `' --dbpath /var/lib/rpm --nodeps --noscripts "$@"
	}
	`
	config := filepath.Join(root, "etc/culvert/host.yaml")
	for _, dir := range made {
		if out, err := shell(t, dir, rpm+pageCommand(t, "rpm --upgrade ")); err != nil {
			t.Fatal(err, out)
		}
		for _, program := range []string{"culvert", "culvertd", "culvert-bench", "culvert-esxi", "culvert-lab"} {
			if out, err := shell(t, root, "usr/bin/"+program+" --version"); err != nil || !strings.HasSuffix(out, " version "+filepath.Base(dir)+"\n") {
				t.Errorf("%s of %s: %v, %s", program, dir, err, out)
			}
		}
		if body, err := os.ReadFile(config); dir != made[0] && (err != nil || string(body) != "pools: []\n") {
			t.Errorf("after the upgrade host.yaml is %q (%v)", body, err)
		}
		putText(t, config, "pools: []\n")
	}
	if out, err := shell(t, root, rpm+pageCommand(t, "rpm --erase ")); err != nil {
		t.Fatal(err, out)
	}
	if diff := cmp.Diff([]string{"etc/culvert/host.yaml.rpmsave"}, listFiles(t, root, "var/lib/rpm")); diff != "" {
		t.Errorf("the removal leaves: -want +got:\n%s", diff)
	}
}

// listFiles returns the files below a folder that are not below a second one.
func listFiles(t *testing.T, dir, but string) []string {
	t.Helper()
	var all []string
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		name, _ := filepath.Rel(dir, path)
		switch {
		case err != nil:
			return err
		case name == but:
			return fs.SkipDir
		case !d.IsDir():
			all = append(all, name)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// followKrew has krew itself install, replace and remove the plugin. krew compares the archive with the
// sum in the manifest.
func followKrew(t *testing.T, made []string) {
	krew, err := parts.Find(t.Context(), "../..", "krew", t.Logf)
	if err != nil {
		t.Fatal(err)
	}
	home, bin := t.TempDir(), t.TempDir()
	if err := os.Symlink(filepath.Join(krew, "krew"), filepath.Join(bin, "kubectl-krew")); err != nil {
		t.Fatal(err)
	}
	if out, err := shell(t, home, "git init -q index/default"); err != nil { // krew uninstalls nothing without an index
		t.Fatal(err, out)
	}
	t.Setenv("KREW_ROOT", home)
	t.Setenv("KREW_NO_UPGRADE_CHECK", "1")
	t.Setenv("PATH", bin+":"+home+"/bin:"+os.Getenv("PATH"))
	const kubectl = `kubectl() { "kubectl-$1" "${@:2}"; }
	` // as kubectl runs plugins
	install := pageCommand(t, "kubectl krew install ")
	other, err := filepath.Glob(made[0] + "/*-linux-amd64.tar.gz")
	if err != nil || len(other) != 1 {
		t.Fatal(other, err)
	}
	wrong := strings.Replace(install, "culvert-*-linux-amd64.tar.gz", other[0], 1)
	if out, err := shell(t, made[1], kubectl+wrong); err == nil || !strings.Contains(out, "checksum does not match") {
		t.Errorf("krew takes the archive of another version: %v\n%s", err, out)
	}
	for _, dir := range made {
		version := filepath.Base(dir)
		if out, err := shell(t, dir, kubectl+install+"; kubectl culvert version"); err != nil || !strings.Contains(out, version) {
			t.Errorf("%v\n%s", err, out)
		}
		if out, err := shell(t, dir, kubectl+pageCommand(t, "kubectl krew uninstall ")); err != nil {
			t.Error(err, out)
		}
		if left := slices.DeleteFunc(listFiles(t, home, "index"), func(f string) bool { return !strings.Contains(f, "culvert") }); len(left) > 0 {
			t.Errorf("krew leaves %v", left)
		}
		manifest, err := os.ReadFile(filepath.Join(dir, "krew.yaml"))
		if uri := "uri: https://example.org/culvert/culvert-" + version + "-linux-amd64.tar.gz"; err != nil || !strings.Contains(string(manifest), uri) {
			t.Errorf("no %s (%v) in\n%s", uri, err, manifest)
		}
	}
}

// checkByLintian has lintian check all Debian packages of a release. Debian 12's does not read zstd, so
// the packages are packed once more.
func checkByLintian(t *testing.T, dir string) {
	if _, err := exec.LookPath("lintian"); err != nil {
		t.Skip("no lintian here: tools/bootstrap -for test installs it")
	}
	out, err := shell(t, t.TempDir(), `for deb in "`+dir+`"/*.deb; do
			name=$(basename "$deb")
			dpkg-deb --raw-extract "$deb" "${name%.deb}"
			grep -q . "${name%.deb}/DEBIAN/conffiles" || rm "${name%.deb}/DEBIAN/conffiles" # dpkg-deb wants no empty one
			dpkg-deb --root-owner-group -Zgzip -z1 --build "${name%.deb}" "$name" >/dev/null
		done
		lintian --allow-root --tag-display-limit 0 ./*.deb || true`)
	if err != nil || out != "" {
		t.Errorf("%v\n%s", err, out)
	}
}
