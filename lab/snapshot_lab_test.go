//go:build lab

package lab

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/culvert-net/culvert/test/soak"
)

// fastSays runs a script in a fast node, and returns its output and the lines of progress.
func fastSays(t *testing.T, noSnapshot bool, script string) (out, steps string) {
	t.Helper()
	var stdout, progress bytes.Buffer
	exit, err := Fast(t.Context(), FastOptions{
		Argv: []string{"sh", "-c", script}, Stdout: &stdout, Stderr: os.Stderr, Progress: &progress, NoSnapshot: noSnapshot,
	})
	if err != nil || exit != 0 {
		t.Fatalf("exit %d, %v", exit, err)
	}
	return strings.TrimSpace(stdout.String()), progress.String()
}

// requireClock checks that a node's clock, which date +%s printed after begin, is at most 30 s
// wrong.
func requireClock(t *testing.T, printed string, begin time.Time) {
	t.Helper()
	const wrong = 30 * time.Second
	seconds, err := strconv.ParseInt(printed, 10, 64)
	if now := time.Unix(seconds, 0); err != nil || now.Before(begin.Add(-wrong)) || now.After(time.Now().Add(wrong)) {
		t.Errorf("the node's clock says %q, the command began at %d", printed, begin.Unix())
	}
}

// damage truncates the state of each snapshot of a kind, and fails the test if there is none.
func damage(t *testing.T, kind string) {
	t.Helper()
	cache, err := cacheDir()
	if err != nil {
		t.Fatal(err)
	}
	states, _ := filepath.Glob(filepath.Join(cache, "snapshots", kind+"-*", "*.state"))
	if len(states) == 0 {
		t.Fatal("no snapshot is in the cache")
	}
	for _, state := range states {
		if err := os.Truncate(state, 1000); err != nil {
			t.Fatal(err)
		}
	}
}

// emptyCache gives the test a cache of its own that has the image of the real one and no snapshot.
func emptyCache(t *testing.T) {
	t.Helper()
	img, err := findImage(t.Context(), nil, "")
	if err != nil {
		t.Fatal(err)
	}
	home := t.TempDir()
	if err := os.Mkdir(filepath.Join(home, "culvert"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Dir(img.dir), filepath.Join(home, "culvert", "images")); err != nil {
		t.Fatal(err)
	}
	t.Setenv("XDG_CACHE_HOME", home)
}

// TestFastSnapshot: a node from a snapshot has the right time and random numbers of its own, and
// can make VFs. A snapshot that does not load is taken anew.
func TestFastSnapshot(t *testing.T) {
	soak.Only(t, "nodes that boot; the level lab-node starts from such a snapshot")
	emptyCache(t)
	const script = `cat /proc/sys/kernel/random/uuid; date +%s; modprobe igbvf; echo 7 >/sys/class/net/eth0/device/sriov_numvfs; cat /sys/class/net/eth0/device/virtfn*/net/*/address`
	seen := make(map[string]bool)
	for _, want := range []string{"booting a fast node for a snapshot", "restoring", "taken anew"} {
		if want == "taken anew" {
			damage(t, "fast")
		}
		begin := time.Now()
		out, steps := fastSays(t, false, script)
		if !strings.Contains(steps, want) {
			t.Errorf("no %q in\n%s", want, steps)
		}
		lines := strings.Split(out, "\n")
		if len(lines) != 9 {
			t.Fatalf("%d lines, want an id, a time and 7 addresses: %s", len(lines), out)
		}
		requireClock(t, lines[1], begin)
		for _, random := range append(lines[2:], lines[0]) {
			if seen[random] {
				t.Errorf("%s was there before", random)
			}
			seen[random] = true
		}
	}
	if _, steps := fastSays(t, true, "true"); !strings.Contains(steps, "booting") {
		t.Errorf("without a snapshot:\n%s", steps)
	}
}

// TestLabSnapshot: labs that start from one snapshot have the right time and are independent. A
// reboot really boots a node, and a snapshot that does not load is taken anew.
func TestLabSnapshot(t *testing.T) {
	soak.Only(t, "labs that boot")
	leavesNothing(t, "t-snap")
	emptyCache(t)
	setup := &Setup{Key: "test", Run: func(ctx context.Context, l *Lab, _ func(string, ...any)) error {
		_, err := l.Exec(ctx, "worker01", Cmd{Argv: []string{"sh", "-c", "echo setup >>/root/setup; setsid sleep 10000 >/dev/null 2>&1 </dev/null & echo $! >/run/sleeper"}})
		return err
	}}
	var boots []string
	for _, want := range []string{"for a snapshot", "restoring", "taken anew"} {
		if want == "taken anew" {
			damage(t, "lab")
		}
		var steps bytes.Buffer
		l, err := Up(t.Context(), Options{
			Name: "t-snap", Nodes: 1, PCIRoots: 2, Progress: &steps,
			Prepare: func(context.Context, func(string, ...any)) (Software, error) { return Software{Setup: setup}, nil },
		})
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(steps.String(), want) {
			t.Errorf("no %q in\n%s", want, steps.String())
		}
		if got := sh(t, l, "worker01", "cat /root/setup; ls /root/mine 2>/dev/null; kill -0 $(cat /run/sleeper) && echo runs"); got != "setup\nruns" {
			t.Errorf("the setup left %q", got)
		}
		sh(t, l, "worker01", "touch /root/mine")
		begin := time.Now()
		requireClock(t, sh(t, l, "worker01", "date +%s"), begin)
		boots = append(boots, bootID(t, l, "worker01"))
		if want == "restoring" {
			testRootsApart(t, l)
			if err := l.Reboot(t.Context(), "worker01"); err != nil {
				t.Error(err)
			}
			if id := bootID(t, l, "worker01"); id == boots[0] {
				t.Error("a reboot did not boot the node")
			}
			if got := sh(t, l, "worker01", "ls /root/mine"); got != "/root/mine" {
				t.Errorf("after a reboot: %q", got)
			}
		}
		if err := l.Down(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if boots[0] != boots[1] || boots[1] == boots[2] {
		t.Errorf("boots %q: want one for the first two", boots)
	}
}

// testRootsApart: by the kernel, each PF of a node with two PCIe roots is below another root, and
// both can have VFs.
func testRootsApart(t *testing.T, l *Lab) {
	t.Helper()
	nodes, err := l.Nodes()
	if err != nil {
		t.Fatal(err)
	}
	var roots []string
	for _, pf := range nodes[0].PFs {
		device := "/sys/class/net/" + pf.Interface + "/device"
		sh(t, l, "worker01", "ip link set "+pf.Interface+" up; echo 7 >"+device+"/sriov_numvfs")
		if got := sh(t, l, "worker01", "ls -d "+device+"/virtfn* | wc -l; basename $(readlink -f "+device+")"); got != "7\n"+pf.PCI {
			t.Errorf("%s has %q", pf.Interface, got)
		}
		root, _, _ := strings.Cut(strings.TrimPrefix(sh(t, l, "worker01", "readlink -f "+device), "/sys/devices/"), "/")
		roots = append(roots, root)
	}
	if roots[0] == roots[1] {
		t.Errorf("the PFs are below the roots %q", roots)
	}
}

// TestJoinedWires: with a link between the switches, the first PF of one node reaches the second PF
// of the other; without it, it does not.
func TestJoinedWires(t *testing.T) {
	soak.Only(t, "two labs that boot")
	leavesNothing(t, "t-wires")
	for _, joined := range []bool{true, false} {
		l := upLab(t, Options{Name: "t-wires", Nodes: 2, JoinWires: joined})
		const up = "ip link set $1 up; ip address add $2/24 dev $1; for i in $(seq 600); do [ $(cat /sys/class/net/$1/carrier) = 1 ] && exit; sleep 0.1; done; exit 1"
		sh(t, l, "worker01", "set -- enp1s0 10.70.0.1; "+up)
		sh(t, l, "worker02", "set -- enp2s0 10.70.0.2; "+up)
		tries, want := 60, "reached"
		if !joined {
			tries, want = 5, "lost"
		}
		if got := sh(t, l, "worker01", fmt.Sprintf("for i in $(seq %d); do ping -c 1 -W 1 10.70.0.2 >/dev/null && echo reached && exit; done; echo lost", tries)); got != want {
			t.Errorf("joined %t: %s", joined, got)
		}
		if err := l.Down(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}
