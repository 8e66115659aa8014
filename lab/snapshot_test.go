package lab

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"
)

// TestFindSnapshot: several callers at the same time take one snapshot, and later callers find
// it. A failed attempt leaves nothing that a later caller would find.
func TestFindSnapshot(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	taken := 0
	take := func(_ context.Context, s snapshot) error {
		taken++ // the lock keeps the callers apart
		time.Sleep(50 * time.Millisecond)
		return os.WriteFile(s.statePath("n"), []byte("state"), 0o600)
	}
	var g errgroup.Group
	for range 4 {
		g.Go(func() error {
			s, err := findSnapshot(t.Context(), nil, "key", take)
			if err != nil {
				return err
			}
			_, err = os.Stat(s.statePath("n"))
			return err
		})
	}
	if err := g.Wait(); err != nil || taken != 1 {
		t.Errorf("taken %d times, %v", taken, err)
	}
	failed := errors.New("no power")
	if _, err := findSnapshot(t.Context(), nil, "other", func(context.Context, snapshot) error { return failed }); !errors.Is(err, failed) {
		t.Errorf("a snapshot that failed: %v", err)
	}
	s, err := findSnapshot(t.Context(), nil, "other", take)
	if err != nil || taken != 2 {
		t.Errorf("after a failure it was taken %d times, %v", taken, err)
	}
	if err := s.removeFiles(); err != nil || fileExists(s.dir) {
		t.Errorf("discarded: %v", err)
	}
	left, err := filepath.Glob(filepath.Join(filepath.Dir(s.dir), "*"))
	if err != nil || len(left) != 1 || filepath.Base(left[0]) != "key" {
		t.Errorf("left %v, %v", left, err)
	}
}

// TestPruneSnapshots: snapshots that no lab has used for long are removed, and snapshots in use
// stay.
func TestPruneSnapshots(t *testing.T) {
	s, old := snapshot{filepath.Join(t.TempDir(), "used")}, time.Now().Add(-2*imageAge)
	other := snapshot{filepath.Join(filepath.Dir(s.dir), "old")}
	for _, each := range []snapshot{s, other} {
		if err := os.Mkdir(each.dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(each.dir, old, old); err != nil {
			t.Fatal(err)
		}
	}
	if !s.touchIfPresent() {
		t.Error("it is not there")
	}
	s.removeOldSnapshots(time.Now())
	if !fileExists(s.dir) || fileExists(other.dir) {
		t.Errorf("the used one there: %t; the old one: %t", fileExists(s.dir), fileExists(other.dir))
	}
}

// TestCopySparse: a copy has the bytes of its source, and takes no room for the holes.
func TestCopySparse(t *testing.T) {
	const size, at = 64 << 20, 40 << 20
	open := func(name string) *os.File {
		f, err := os.Create(filepath.Join(t.TempDir(), name))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { f.Close() })
		return f
	}
	from, to := open("from"), open("to")
	for offset, text := range map[int64]string{0: "begin", at: "middle"} {
		if _, err := from.WriteAt([]byte(text), offset); err != nil {
			t.Fatal(err)
		}
	}
	if err := from.Truncate(size); err != nil {
		t.Fatal(err)
	}
	if err := copySparse(to, from); err != nil {
		t.Fatal(err)
	}
	want, err := os.ReadFile(from.Name())
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(to.Name())
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("the copy differs, %v", err)
	}
	if blocks := allocated(t, to); blocks > 1<<20 {
		t.Errorf("the copy of two pages takes %d bytes", blocks)
	}
}

// allocated returns how many bytes of the disk a file takes: stat(2) counts blocks of 512.
func allocated(t *testing.T, f *os.File) int64 {
	t.Helper()
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		t.Fatal(err)
	}
	return st.Blocks * 512
}

// sameKey reports whether two lines of authorized_keys hold one key. Their comments may differ.
func sameKey(a, b []byte) bool {
	first, _, _, _, errA := ssh.ParseAuthorizedKey(a)
	second, _, _, _, errB := ssh.ParseAuthorizedKey(b)
	return errA == nil && errB == nil && bytes.Equal(first.Marshal(), second.Marshal())
}

// TestSnapshotKeys: the keys that a snapshot keeps are read back as they were.
func TestSnapshotKeys(t *testing.T) {
	keys, err := newLabKeys([]string{"a", "b"})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "keys.json")
	if err := writeJSON(file, keys); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	var again labKeys
	if err := readJSON(file, &again); err != nil {
		t.Fatal(err)
	}
	for _, pair := range [][2]keyPair{{keys.Login, again.Login}, {keys.Hosts["a"], again.Hosts["a"]}, {keys.Hosts["b"], again.Hosts["b"]}} {
		if !bytes.Equal(pair[0].private, pair[1].private) || !sameKey(pair[0].public, pair[1].public) {
			t.Errorf("%s became %s", pair[0].public, pair[1].public)
		}
	}
	if err := os.WriteFile(file, []byte(`{"login": "x"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := readJSON(file, &again); err == nil || !strings.Contains(err.Error(), file) {
		t.Errorf("garbage: %v", err)
	}
}

// TestSnapshotDependsOn: each fact that a snapshot depends on is in the key.
func TestSnapshotDependsOn(t *testing.T) {
	dir := t.TempDir()
	disk, layer := filepath.Join(dir, "root.qcow2"), filepath.Join(dir, "layer.qcow2")
	for _, file := range []string{disk, layer} {
		if err := os.WriteFile(file, []byte("disk"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	base := config{Nodes: []string{"worker01"}, CPUs: 1, Image: "i", Dir: "/images/i", Base: disk, PCIRoots: 1, Acceleration: Acceleration{Accel: "tcg"}}
	key := func(c config, setup *Setup) string {
		t.Helper()
		key, err := c.snapshotKey(setup)
		if err != nil {
			t.Fatal(err)
		}
		return key
	}
	if _, err := identifyHypervisor(); err != nil {
		t.Skip(err) // the linter's and the unit level's machines may have no QEMU
	}
	seen := map[string]string{key(base, nil): "the base"}
	for what, change := range map[string]func(*config){
		"another image": func(c *config) { c.Dir = "/images/j" }, "a layer": func(c *config) { c.Base = layer },
		"another name": func(c *config) { c.Nodes = []string{"worker1"} }, "a second node": func(c *config) { c.Nodes = append(c.Nodes, "worker02") },
		"processors": func(c *config) { c.CPUs = 2 }, "KVM": func(c *config) { c.Accel = "kvm" }, "PCIe roots": func(c *config) { c.PCIRoots = 2 },
	} {
		c := base
		change(&c)
		if other, ok := seen[key(c, nil)]; ok {
			t.Errorf("%s has the key of %s", what, other)
		}
		seen[key(c, nil)] = what
	}
	if other, ok := seen[key(base, &Setup{Key: "k"})]; ok {
		t.Errorf("a setup has the key of %s", other)
	}
	same := base
	same.Name, same.Run, same.Disks, same.Joined = "other", "/run/other", "/labs/other", true
	if key(same, nil) != key(base, nil) {
		t.Error("labs that differ in their name and wires have no common snapshot")
	}
	before := key(base, nil)
	if err := os.Chtimes(disk, time.Time{}, time.Now().Add(time.Second)); err != nil {
		t.Fatal(err)
	}
	if key(base, nil) == before {
		t.Error("a disk that was made anew under its name has the key of the old one")
	}
	base.Base = filepath.Join(dir, "none")
	if _, err := base.snapshotKey(nil); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("without the disk: %v", err)
	}
}

// TestHashFiles: the hash depends on the names and bodies of the files, and on the borders
// between them.
func TestHashFiles(t *testing.T) {
	seen := map[string]int{}
	for i, files := range []map[string]string{{"a": "1"}, {"a": "2"}, {"b": "1"}, {"a": "1", "b": "1"}, {"d/a": "1"}, {"a": "1\nb 1\n1"}} {
		tree := fstest.MapFS{}
		for name, body := range files {
			tree[name] = &fstest.MapFile{Data: []byte(body)}
		}
		sum, err := HashFiles(tree)
		again, errAgain := HashFiles(tree)
		if err != nil || errAgain != nil || sum != again {
			t.Errorf("%v: %s and %s, %v, %v", files, sum, again, err, errAgain)
		}
		if other, ok := seen[sum]; ok {
			t.Errorf("trees %d and %d have one hash", other, i)
		}
		seen[sum] = i
	}
}

func TestCPUModel(t *testing.T) {
	const info = "processor\t: 0\nmodel name\t: EPYC\nflags\t\t: fpu vme\nbogomips\t: 1\n\nprocessor\t: 1\nmodel name\t: EPYC\n"
	if got := cpuModel(info); got != "model name\t: EPYC flags\t\t: fpu vme" {
		t.Errorf("%q", got)
	}
}
