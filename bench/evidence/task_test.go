package evidence

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/culvert-net/culvert/bench/engine"
)

// TestListTasks: this process is Culvert's own engine, and a child of its child an engine too. A
// guest that takes part has its QEMU with its name, and its vhost threads count by their own name
// and not twice. Names alone make no task take part: a stranger's iperf3, a process that has a
// kernel thread's name, and QEMU of another guest with its vhost. A task that ended is left out.
func TestListTasks(t *testing.T) {
	r := Reader{Root: t.TempDir()}
	const kernel = 0x200000
	own := os.Getpid()
	files, want := map[string]string{}, map[task]taskTime{}
	stat := func(id, parent int, name string, flags, ticks int) string {
		return fmt.Sprintf("%d (%s) S %d 1 1 0 -1 %d 0 0 0 0 %d %d 0 0 20 0 1 0 %d"+strings.Repeat(" 0", 30)+"\n", id, name, parent, flags, ticks-1, 1, 10*id)
	}
	for _, c := range []struct {
		id, parent int
		name       string
		flags      int
		want       taskTime
	}{
		{own, 1, "evidence.test", 0, taskTime{name: engine.Own, own: true, program: "evidence.test"}},
		{900000100, own, "sh", 0, taskTime{name: engine.Own, own: true, program: "sh"}},
		{900000050, 900000100, "iperf3", 0, taskTime{name: "iperf3", own: true, program: "iperf3"}},
		{900000060, 1, "iperf3", 0, taskTime{name: "iperf3", other: true}},
		{900000000, 1, "qemu-system-x86", 0, taskTime{name: "qemu-system-x86 of db1"}},
		{900000070, 1, "qemu-system-x86", 0, taskTime{name: "qemu-system-x86 of db2", other: true}},
		{900000071, 2, "vhost-900000070", kernel, taskTime{name: "vhost-900000070", other: true}},
		{900000072, 2, "vhost-900000000", kernel, taskTime{name: "vhost-900000000"}},
		{900000080, 2, "ksoftirqd/0", kernel, taskTime{name: "ksoftirqd/0"}},
		{900000081, 1, "ksoftirqd/0", 0, taskTime{name: "ksoftirqd/0", other: true}},
		{900000082, 2, "kpktgend_0", kernel, taskTime{name: "kpktgend_0"}},
		{900000010, 2, "kworker/3:1-events", kernel, taskTime{name: "kworker/3:1-events", other: true}},
	} {
		c.want.time = time.Second
		files[fmt.Sprintf("proc/%d/stat", c.id)] = stat(c.id, c.parent, c.name, c.flags, 100)
		want[task{uint64(c.id), uint64(10 * c.id)}] = c.want
	}
	files["proc/900000000/cmdline"] = "qemu-system-x86_64\x00-name\x00guest=db1,debug-threads=on\x00"
	files["proc/900000070/cmdline"] = "qemu-system-x86_64\x00-name\x00db2\x00"
	files["proc/900000000/task/900000000/stat"] = stat(900000000, 1, "qemu-system-x86", 0, 40)
	files["proc/900000000/task/900000001/stat"] = stat(900000001, 1, "vhost-900000000", 0, 20)
	files["proc/900000000/task/900000002/stat"] = stat(900000002, 1, "CPU 0/KVM", 0, 25)
	files["proc/900000000/task/900000003/stat"] = "-> /gone"
	files["proc/900000020/stat"] = "-> /gone"
	want[task{900000000, 9000000000}] = taskTime{name: "qemu-system-x86 of db1", time: 800 * time.Millisecond}
	want[task{900000001, 9000000010}] = taskTime{name: "vhost-900000000", time: 200 * time.Millisecond}
	writeFiles(t, r, files)
	proc, err := r.openProc()
	if err != nil {
		t.Fatal(err)
	}
	got, err := r.listTasks(proc, []string{"db1"})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(task{}, taskTime{})); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	for _, file := range []string{"proc/900000000/task/900000002/stat", "proc/900000010/stat"} {
		writeFiles(t, r, map[string]string{file: "no task\n"})
		if _, err := r.listTasks(proc, []string{"db1"}); err == nil {
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
