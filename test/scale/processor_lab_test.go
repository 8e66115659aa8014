//go:build lab

package scale

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// tick is the unit of the processor times in /proc/PID/stat (USER_HZ, proc(5)).
const tick = 10 * time.Millisecond

// processorTimes returns the processor time of this process and of the programs that it started,
// by program: etcd, kube-apiserver and the test itself.
func processorTimes() map[string]time.Duration {
	out := map[string]time.Duration{}
	files, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // the process has ended
		}
		// The name is in parentheses and may have any character.
		begin, end := strings.IndexByte(string(text), '('), strings.LastIndexByte(string(text), ')')
		fields := strings.Fields(string(text)[end+1:])
		parent, _ := strconv.Atoi(fields[1])
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		if pid != os.Getpid() && parent != os.Getpid() {
			continue
		}
		user, _ := strconv.Atoi(fields[11])
		system, _ := strconv.Atoi(fields[12])
		out[string(text)[begin+1:end]] += time.Duration(user+system) * tick
	}
	return out
}

// describeProcessor returns a text with the processor time of the programs since before.
func describeProcessor(before map[string]time.Duration) string {
	var all []string
	for name, now := range processorTimes() {
		all = append(all, fmt.Sprintf("%s %.1f s", name, (now-before[name]).Seconds()))
	}
	slices.Sort(all)
	return strings.Join(all, ", ")
}
