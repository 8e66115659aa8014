package torture

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/culvert-net/culvert/internal/vf"
	"github.com/culvert-net/culvert/test/soak"
)

// usage is the memory, the descriptors and the threads of a process.
type usage struct {
	rss     int // kB
	fds     int
	threads int
	open    []string // the files that the descriptors refer to
}

func usageOf(t *testing.T, pid int) usage {
	t.Helper()
	var u usage
	fds, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	if err != nil {
		t.Fatal(err)
	}
	u.fds = len(fds)
	for _, fd := range fds {
		of, _ := os.Readlink(fmt.Sprintf("/proc/%d/fd/%s", pid, fd.Name())) // it may be closed by now
		u.open = append(u.open, of)
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(status)) {
		for key, to := range map[string]*int{"VmRSS:": &u.rss, "Threads:": &u.threads} {
			if rest, ok := strings.CutPrefix(line, key); ok {
				if _, err := fmt.Sscan(rest, to); err != nil {
					t.Fatalf("%q: %v", line, err)
				}
			}
		}
	}
	return u
}

// mean is the average.
func mean(all []usage) (m usage) {
	for _, u := range all {
		m.rss += u.rss
		m.fds += u.fds
		m.threads += u.threads
	}
	return usage{rss: m.rss / len(all), fds: m.fds / len(all), threads: m.threads / len(all)}
}

// most and least are the extremes of a figure.
func most(all []usage, figure func(usage) int) (m int) {
	for _, u := range all {
		m = max(m, figure(u))
	}
	return m
}

func least(all []usage, figure func(usage) int) int {
	m := figure(all[0])
	for _, u := range all {
		m = min(m, figure(u))
	}
	return m
}

// I2 I4: a culvertd that lives on while VFs come and go leaks nothing: no
// memory, no file descriptor, no thread, no VF, no address.
func TestManyCycles(t *testing.T) {
	soak.Only(t, "many cycles; TestSmoke of test/bench compares memory and files of fewer")
	k := inNode(t)
	d := newDaemon(t, hostYAML)
	before := allClean(pfs(t, k))
	awaitBeacons(t, len(pfs(t, k)))
	p := newPod(t, "cycle", vf.PCIAddr{}, `"vlan": 5, "trust": "on", "mtu": 1400, `)
	begin := time.Now()
	seen := make([]usage, 0, *cycles)
	for n := range *cycles {
		p.id = fmt.Sprintf("cycle%04d", n)
		d.mustCNI(t, "ADD", p)
		d.mustCNI(t, "DEL", p)
		d.results.Delete(p.id)
		seen = append(seen, usageOf(t, d.cmd.Process.Pid))
	}
	part := min(100, *cycles/3)
	first, last := mean(seen[:part]), mean(seen[len(seen)-part:])
	t.Logf("%d cycles in %s; culvertd in the first and last %d: %d and %d kB resident, %d and %d descriptors, %d and %d threads",
		*cycles, time.Since(begin).Round(time.Second), part, first.rss, last.rss, first.fds, last.fds, first.threads, last.threads)
	if last.rss > first.rss+first.rss/8 {
		t.Errorf("resident memory went from %d to %d kB", first.rss, last.rss)
	}
	// A busy machine closes some descriptors late, in some cycles. A leak shows in all later cycles.
	fds, threads := func(u usage) int { return u.fds }, func(u usage) int { return u.threads }
	if before, after := most(seen[:part], fds), least(seen[len(seen)-part:], fds); after > before {
		t.Errorf("descriptors went from %d at most to %d at least: from %q to %q", before, after, seen[0].open, seen[len(seen)-1].open)
	}
	if before, after := most(seen[:part], threads), least(seen[len(seen)-part:], threads); after > before+2 {
		t.Errorf("threads went from %d at most to %d at least", before, after)
	}
	wholeAgain(t, d, k, before)
}

// awaitBeacons waits until culvertd has its socket for segment discovery on each PF (proc_net(5),
// /proc/net/packet; the EtherType is kernel/beacon's). culvertd keeps these sockets for good, and
// opens them segment.Period after its start. On a fast machine that would be in the middle of the
// cycles.
func awaitBeacons(t *testing.T, want int) {
	t.Helper()
	eventually(t, time.Minute, func() error {
		sockets, err := os.ReadFile("/proc/net/packet")
		if got := strings.Count(string(sockets), " 88b5 "); err == nil && got != want {
			err = fmt.Errorf("culvertd has %d sockets for segment discovery, not %d", got, want)
		}
		return err
	})
}
