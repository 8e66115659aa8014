package evidence

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/culvert-net/culvert/bench"
)

// The cgroup around the process that was stopped longest counts, in either version of cgroups.
func TestThrottled(t *testing.T) {
	root := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		file := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	r := Reader{Root: root}
	read := func() map[string]throttle {
		t.Helper()
		all, err := r.readThrottles()
		if err != nil {
			t.Fatal(err)
		}
		return all
	}
	if all := read(); all != nil {
		t.Errorf("a kernel without cgroups: %v", all)
	}
	write("proc/self/cgroup", "no hierarchy\n12:cpu,cpuacct:/kubepods/a\n4:memory:/kubepods\n0::/pods/a/b\n")
	write("sys/fs/cgroup/cpu.stat", "usage_usec 1\n") // the root has no quota
	write("sys/fs/cgroup/pods/a/cpu.stat", "usage_usec 9\nnr_periods 5\nnr_throttled 2\nthrottled_usec 100000\n")
	write("sys/fs/cgroup/pods/a/b/cpu.stat", "nr_throttled 0\nthrottled_usec 0\n")
	write("sys/fs/cgroup/cpu,cpuacct/kubepods/a/cpu.stat", "nr_periods 5\nnr_throttled 7\nthrottled_time 5000000000\n")
	before := read()
	want := map[string]throttle{
		"sys/fs/cgroup/pods/a": {2, 100 * time.Millisecond}, "sys/fs/cgroup/pods/a/b": {}, "sys/fs/cgroup/cpu,cpuacct/kubepods/a": {7, 5 * time.Second},
	}
	if diff := cmp.Diff(want, before, cmp.AllowUnexported(throttle{})); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if got := throttledSince(before, before); got != (bench.Throttled{}) {
		t.Errorf("nothing happened: %+v", got)
	}
	write("sys/fs/cgroup/pods/a/cpu.stat", "nr_throttled 12\nthrottled_usec 2100000\n")
	write("sys/fs/cgroup/pods/a/b/cpu.stat", "nr_throttled 3\nthrottled_usec 50000\n")
	if got := throttledSince(before, read()); got != (bench.Throttled{Times: 10, Seconds: 2}) {
		t.Errorf("%+v", got)
	}
	write("sys/fs/cgroup/pods/a/b/cpu.stat", "nr_throttled many\n")
	if _, err := r.readThrottles(); err == nil {
		t.Error("nr_throttled many is read")
	}
}

func FuzzParseThrottle(f *testing.F) {
	f.Add("nr_periods 5\nnr_throttled 2\nthrottled_usec 100000\n", "0::/pods/a\n3:cpu:/\n")
	f.Fuzz(func(t *testing.T, stat, own string) {
		if got, found, err := parseThrottle(stat); err == nil && (got.long < 0 || !found && got != throttle{}) {
			t.Errorf("%q: %+v", stat, got)
		}
		for _, folder := range cgroupFolders(own) {
			if filepath.Clean(folder) != folder {
				t.Errorf("%q: %q", own, folder)
			}
		}
	})
}
