package evidence

import (
	"fmt"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/culvert-net/culvert/bench"
)

// readThrottles returns how often and how long the CPU quota of each cgroup around this process
// stopped it, by the path of the cgroup's file. A cgroup without a quota has no such counts. A
// container sees only its own cgroup.
func (r Reader) readThrottles() (map[string]throttle, error) {
	own, err := r.readText("proc/self/cgroup")
	if err != nil {
		return nil, nil //nolint:nilerr // a kernel without cgroups
	}
	all := map[string]throttle{}
	for _, folder := range cgroupFolders(own) {
		text, err := r.readText(folder + "/cpu.stat")
		if err != nil {
			continue // it is not mounted there, or has no such controller
		}
		t, found, err := parseThrottle(text)
		if err != nil {
			return nil, fmt.Errorf("read /%s/cpu.stat: %w", folder, err)
		}
		if found {
			all[folder] = t
		}
	}
	return all, nil
}

// throttle is how often a cgroup was stopped, and how long.
type throttle struct {
	times uint64
	long  time.Duration
}

// cgroupFolders returns the folders in which the cgroups around a process may be, by the text of
// /proc/PID/cgroup (cgroups(7)): those of the unified hierarchy, and of the hierarchy that has
// the controller cpu.
func cgroupFolders(text string) (folders []string) {
	for line := range strings.Lines(text) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(parts) != 3 {
			continue
		}
		var roots []string
		switch controllers := parts[1]; {
		case controllers == "":
			roots = []string{"sys/fs/cgroup", "sys/fs/cgroup/unified"}
		case controllers == "cpu" || strings.HasPrefix(controllers, "cpu,") || strings.Contains(controllers, ",cpu,") || strings.HasSuffix(controllers, ",cpu"):
			roots = []string{"sys/fs/cgroup/" + controllers}
		}
		for _, root := range roots {
			for at := path.Clean("/" + parts[2]); ; at = path.Dir(at) {
				folders = append(folders, strings.TrimSuffix(root+at, "/"))
				if at == "/" {
					break
				}
			}
		}
	}
	return folders
}

// parseThrottle reads nr_throttled, and throttled_usec or, of version 1, throttled_time in ns.
func parseThrottle(text string) (t throttle, found bool, err error) {
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		unit := map[string]time.Duration{"nr_throttled": 1, "throttled_usec": time.Microsecond, "throttled_time": 1}[name]
		if unit == 0 {
			continue
		}
		n, err := strconv.ParseUint(value, 10, 63)
		if err != nil || n > 1<<62/uint64(unit) {
			return t, false, fmt.Errorf("%s is %q", name, value)
		}
		if found = true; name == "nr_throttled" {
			t.times = n
		} else {
			t.long = time.Duration(n) * unit
		}
	}
	return t, found, nil
}

// throttledSince returns by how much the counts rose of the cgroup that was stopped longest. It
// does not add counts, since a cgroup is stopped together with those around it.
func throttledSince(before, after map[string]throttle) (most bench.Throttled) {
	for folder, now := range after {
		was := before[folder]
		one := bench.Throttled{Times: now.times - min(was.times, now.times), Seconds: max(0, now.long-was.long).Seconds()}
		if one.Times > 0 && (one.Seconds > most.Seconds || most.Times == 0) {
			most = one
		}
	}
	return most
}
