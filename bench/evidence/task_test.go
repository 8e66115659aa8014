package evidence

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/culvert-net/culvert/bench/engine"
)

// TestListTasks: this process is Culvert's own engine, a QEMU has its guest's name, and its vhost
// threads count by their own name and not twice. A task that ended meanwhile is left out.
func TestListTasks(t *testing.T) {
	r := Reader{Root: t.TempDir()}
	stat := func(id int, name string, user, system int) string {
		return fmt.Sprintf("%d (%s) S 1 1 1 0 -1 0 0 0 0 0 %d %d 0 0 20 0 1 0 %d 0 0\n", id, name, user, system, 10*id)
	}
	own := os.Getpid()
	writeFiles(t, r, map[string]string{
		fmt.Sprintf("proc/%d/stat", own):     stat(own, "evidence.test", 100, 20),
		"proc/900000000/stat":                stat(900000000, "qemu-system-x86", 300, 200),
		"proc/900000000/cmdline":             "qemu-system-x86_64\x00-name\x00guest=db1,debug-threads=on\x00",
		"proc/900000000/task/900000000/stat": stat(900000000, "qemu-system-x86", 300, 100),
		"proc/900000000/task/900000001/stat": stat(900000001, "vhost-900000000", 0, 100),
		"proc/900000000/task/900000002/stat": stat(900000002, "CPU 0/KVM", 250, 0),
		"proc/900000000/task/900000003/stat": "-> /gone",
		"proc/900000010/stat":                stat(900000010, "kworker/3:1-events", 7, 0),
		"proc/900000020/stat":                "-> /gone",
	})
	want := map[task]taskTime{
		{uint64(own), uint64(10 * own)}: {name: engine.Own, time: 1200 * time.Millisecond},
		{900000000, 9000000000}:         {name: "qemu-system-x86 of db1", time: 4 * time.Second},
		{900000001, 9000000010}:         {name: "vhost-900000000", time: time.Second},
		{900000010, 9000000100}:         {name: "kworker/3:1-events", time: 70 * time.Millisecond, other: true},
	}
	got, err := r.listTasks()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(task{}, taskTime{})); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	for _, file := range []string{"proc/900000000/task/900000002/stat", "proc/900000010/stat"} {
		writeFiles(t, r, map[string]string{file: "no task\n"})
		if _, err := r.listTasks(); err == nil {
			t.Errorf("%s is read as a task", file)
		}
	}
}

// TestKeepLargest: a result names the eight tasks that ran longest and sums the others, so that no
// time is lost. Of tasks that ran equally long the first names stay.
func TestKeepLargest(t *testing.T) {
	few, many := map[string]float64{}, map[string]float64{"z": 1, "y": 1}
	for i := range mostOthers - 1 {
		few[fmt.Sprint("task ", i)], many[fmt.Sprint("task ", i)] = float64(i), float64(i+2)
	}
	if diff := cmp.Diff(few, keepLargest(few)); diff != "" {
		t.Errorf("few: -want +got:\n%s", diff)
	}
	many["x"] = 0.5
	want := map[string]float64{"task 0": 2, "task 1": 3, "task 2": 4, "task 3": 5, "task 4": 6, "task 5": 7, "task 6": 8, "y": 1, moreOthers: 1.5}
	if diff := cmp.Diff(want, keepLargest(many)); diff != "" {
		t.Errorf("many: -want +got:\n%s", diff)
	}
}
