package lab

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"
)

func hashOf(t *testing.T, files fstest.MapFS) string {
	t.Helper()
	h, err := recipe{files: files}.hashFiles()
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func TestRecipeHash(t *testing.T) {
	base := fstest.MapFS{"packages": {Data: []byte("a\n")}, "tree/etc/x": {Data: []byte("1")}}
	h := hashOf(t, base)
	if len(h) != 12 || h != hashOf(t, base) {
		t.Errorf("hash %q is not stable, or not of 12 digits", h)
	}
	others := map[string]fstest.MapFS{
		"another package": {"packages": {Data: []byte("b\n")}, "tree/etc/x": {Data: []byte("1")}},
		"another name":    {"packages": {Data: []byte("a\n")}, "tree/etc/y": {Data: []byte("1")}},
		"a file more":     {"packages": {Data: []byte("a\n")}, "tree/etc/x": {Data: []byte("1")}, "tree/etc/y": {}},
		"bytes moved":     {"packages": {Data: []byte("a\ntree/etc/x 1\n1")}},
	}
	for name, files := range others {
		if hashOf(t, files) == h {
			t.Errorf("%s: the hash is the same", name)
		}
	}
}

func TestDefaultRecipe(t *testing.T) {
	r, err := newRecipe("")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := r.writeFiles(dir); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(filepath.Join(dir, "customize.sh"))
	if err != nil || info.Mode().Perm() != 0o755 {
		t.Errorf("customize.sh: %v, %v", info, err)
	}
	args, err := bootstrapArgs(r, "http://mirror.invalid/debian")
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(args, func(a string) bool { return strings.HasPrefix(a, "--include=") })
	if i < 0 || !strings.Contains(args[i], ",linux-image-amd64,") || strings.Contains(args[i], "#") {
		t.Errorf("packages in %q", args)
	}
	if got := args[len(args)-3:]; !slices.Equal(got, []string{suite, "/dev/null", "http://mirror.invalid/debian"}) {
		t.Errorf("the command line ends with %q", got)
	}
}

// TestGuestsRecipe: the image of nodes with guests is another one, and has
// everything that the image of other nodes has.
func TestGuestsRecipe(t *testing.T) {
	plain, err := newRecipe("")
	if err != nil {
		t.Fatal(err)
	}
	r, err := newRecipe(Guests)
	if err != nil {
		t.Fatal(err)
	}
	before, _ := plain.hashFiles()
	if after, err := r.hashFiles(); err != nil || after == before {
		t.Errorf("hash %s of both, %v", after, err)
	}
	packages, err := r.readList("packages")
	if err != nil || !slices.Contains(packages, "libvirt-daemon-system") || !slices.Contains(packages, "linux-image-amd64") {
		t.Errorf("packages %q, %v", packages, err)
	}
	dir := t.TempDir()
	if err := r.writeFiles(dir); err != nil {
		t.Fatal(err)
	}
	args, err := bootstrapArgs(r, "http://mirror.invalid/debian")
	if err != nil {
		t.Fatal(err)
	}
	line := strings.Join(args, "\n")
	own, theirs := strings.Index(line, "upload recipe/customize.sh"), strings.Index(line, "upload recipe/guests/customize.sh")
	if own < 0 || theirs < own || strings.Index(line, "copy-out /boot/lab") < theirs {
		t.Errorf("not in order: %s", line)
	}
	for _, name := range []string{"guests/customize.sh", "guests/tree/boot/guest/init"} {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			t.Error(err)
		}
	}
}

func TestMirrorFrom(t *testing.T) {
	targets := `Translations|http://b.invalid/debian/|trixie
Packages|http://a.invalid/debian/|trixie-updates
Packages|http://b.invalid/debian/|trixie
Packages|http://c.invalid/debian-security/|trixie-security
`
	for release, want := range map[string]string{"trixie": "http://b.invalid/debian/", "sid": ""} {
		if got := mirrorFrom(targets, release); got != want {
			t.Errorf("mirror of %s: %q, want %q", release, got, want)
		}
	}
}

func TestOSReleaseField(t *testing.T) {
	file := "NAME=\"Debian GNU/Linux\"\nVERSION_CODENAME=bookworm\n"
	for key, want := range map[string]string{"VERSION_CODENAME": "bookworm", "NAME": "Debian GNU/Linux", "ID": ""} {
		if got := osReleaseField(file, key); got != want {
			t.Errorf("%s: %q, want %q", key, got, want)
		}
	}
}

func TestPrune(t *testing.T) {
	dir := t.TempDir()
	now := time.Now()
	for name, age := range map[string]time.Duration{"mine": 2 * imageAge, "old": 2 * imageAge, "young": imageAge / 2, "mine-layer-x": 2 * imageAge, ".lock": 2 * imageAge} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(filepath.Join(dir, name), time.Time{}, now.Add(-age)); err != nil {
			t.Fatal(err)
		}
	}
	img := image{dir: filepath.Join(dir, "mine")}
	img.removeOldImages(now)
	var left []string
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		left = append(left, e.Name())
	}
	if !slices.Equal(left, []string{".lock", "mine", "young"}) {
		t.Errorf("left: %q", left)
	}
}
