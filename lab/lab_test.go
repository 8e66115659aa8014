//go:build lab

package lab

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/vishvananda/netlink"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"github.com/culvert-net/culvert/test/soak"
)

// traces lists what labs with these names could leave on the host: processes, mounts, links,
// network namespaces with names, files.
func traces(t *testing.T, names ...string) []string {
	t.Helper()
	var out []string
	procs, _ := filepath.Glob("/proc/[0-9]*")
	for _, proc := range procs {
		line, _ := os.ReadFile(proc + "/cmdline")
		for _, name := range names {
			if strings.Contains(string(line), "/"+name) {
				out = append(out, "process "+strings.ReplaceAll(string(line), "\x00", " "))
			}
		}
	}
	if os.Geteuid() == 0 {
		out = append(out, rootTraces(t)...)
	}
	for _, name := range names {
		p, err := labPaths(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, dir := range []string{p.run, p.disks} {
			if _, err := os.Lstat(dir); err == nil {
				out = append(out, "file "+dir)
			}
		}
	}
	temps, _ := filepath.Glob(filepath.Join(os.TempDir(), "*"))
	return append(out, temps...)
}

// rootTraces lists the mounts, links and named network namespaces of the tests' own namespaces
// (runOwn). Labs of a user without rights make none outside of theirs.
func rootTraces(t *testing.T) (out []string) {
	t.Helper()
	mounts, err := os.ReadFile("/proc/mounts")
	if err != nil {
		t.Fatal(err)
	}
	links, err := netlink.LinkList()
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range links {
		out = append(out, "link "+l.Attrs().Name)
	}
	for line := range strings.Lines(string(mounts)) {
		out = append(out, "mount "+line)
	}
	netnses, _ := os.ReadDir(netnsFolder)
	for _, ns := range netnses {
		out = append(out, "netns "+ns.Name())
	}
	return out
}

// leavesNothing checks at the test's end that the lab has left nothing on the host. A process that
// was killed takes a moment to end.
func leavesNothing(t *testing.T, names ...string) {
	t.Helper()
	t.Setenv("TMPDIR", t.TempDir())
	before := traces(t, names...)
	t.Cleanup(func() {
		t.Helper()
		eventually(t, "the lab leaves nothing", func() error {
			left := slices.DeleteFunc(traces(t, names...), func(one string) bool { return slices.Contains(before, one) })
			if len(left) > 0 {
				return fmt.Errorf("left %q", left)
			}
			return nil
		})
	})
}

// TestTracesAreOwn: labs are not blamed for the mounts, links and names of network namespaces that
// other programs make in the host's namespaces meanwhile, and for their own they are.
func TestTracesAreOwn(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root makes what traces sees")
	}
	made, at := fmt.Sprintf("traces%d", os.Getpid()), t.TempDir()
	t.Setenv("TMPDIR", t.TempDir()) // other tests make files in the usual one
	before := traces(t)
	for where, asked := range map[string][]string{
		"in the host's namespaces": {"nsenter", "--target", fmt.Sprint(os.Getppid()), "--mount", "--net", "sh", "-ec"},
		"in the tests' own":        {"sh", "-ec"},
	} {
		do := func(script string) {
			t.Helper()
			argv := append(slices.Clone(asked), script, "sh", made, at)
			if out, err := exec.Command(argv[0], argv[1:]...).CombinedOutput(); err != nil {
				t.Fatalf("%s: %v: %s", where, err, out)
			}
		}
		do(`touch /run/netns/"$1"; mount -t tmpfs "$1" "$2"; ip link add "a$1" type veth peer name "b$1"`)
		var seen []string
		for _, one := range traces(t) {
			if !slices.Contains(before, one) {
				kind, _, _ := strings.Cut(one, " ")
				seen = append(seen, kind)
			}
		}
		do(`ip link del "a$1"; umount "$2"; rm /run/netns/"$1"`)
		want := []string{"link", "mount", "netns"}
		if where == "in the host's namespaces" {
			want = nil
		}
		slices.Sort(seen)
		if seen = slices.Compact(seen); !slices.Equal(seen, want) {
			t.Errorf("%s: saw %q, want %q", where, seen, want)
		}
	}
}

// eventually waits until is returns nil, a minute at most.
func eventually(t *testing.T, what string, is func() error) {
	t.Helper()
	err := is()
	for end := time.Now().Add(time.Minute); err != nil; err = is() {
		if time.Now().After(end) {
			t.Errorf("%s: %v", what, err)
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
}

func upLab(t *testing.T, o Options) *Lab {
	t.Helper()
	start := time.Now()
	o.Progress = os.Stderr
	l, err := Up(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d nodes up in %.1f s", o.Nodes, time.Since(start).Seconds())
	t.Cleanup(func() {
		if err := l.Down(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return l
}

// sh runs a script on a node and returns its standard output.
func sh(t *testing.T, l *Lab, node, script string) string {
	t.Helper()
	var out, errs bytes.Buffer
	exit, err := l.Exec(t.Context(), node, Cmd{Argv: []string{"sh", "-c", script}, Stdout: &out, Stderr: &errs})
	if err != nil || exit != 0 {
		t.Fatalf("%s: exit %d, %v: %s%s", script, exit, err, out.String(), errs.String())
	}
	return strings.TrimSpace(out.String())
}

// TestLab runs many tests on one lab, since a boot takes long.
func TestLab(t *testing.T) {
	soak.Only(t, "a lab that boots and reboots; the other levels start labs too")
	emptyCache(t) // other runs cannot use this lab's snapshot, since each run makes its layer anew
	leavesNothing(t, "t-life", "layer-"+testLayer)
	img, err := findImage(t.Context(), nil, "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(img.layer(testLayer).dir) }) // once the lab is down
	l := upLab(t, Options{Name: "t-life", Nodes: 2, Prepare: func(context.Context, func(string, ...any)) (Software, error) {
		return Software{Layer: &Layer{Name: testLayer, Install: func(_ context.Context, l *Lab, node string, _ func(string, ...any)) error {
			sh(t, l, node, "hostname >/opt/layer")
			return nil
		}}}, nil
	}})
	for _, step := range []struct {
		name string
		run  func(*testing.T, *Lab)
	}{
		{"status", testStatus}, {"layer", testLayerKept}, {"exec", testExec}, {"many execs", testManyExecs}, {"stdin", testStdin},
		{"cancel", testCancel}, {"copy", testCopy}, {"wires", testWires}, {"vfio", testVFIO}, {"link", testLink},
		{"reboot", testReboot}, {"guest reboots itself", testOwnReboot}, {"kill and start", testKillStart},
		{"up again", testUpAgain},
	} {
		if !t.Run(step.name, func(t *testing.T) { step.run(t, l) }) {
			for _, n := range []string{"worker01", "worker02"} {
				t.Log(readTail(l.paths.consolePath(n)))
			}
		}
	}
}

const testLayer = "t-layer"

// testLayerKept: both nodes have the software of the layer, which was installed once on another
// node. It is not installed again.
func testLayerKept(t *testing.T, l *Lab) {
	for _, node := range []string{"worker01", "worker02"} {
		if got := sh(t, l, node, "cat /opt/layer"); got != "worker01" {
			t.Errorf("%s has %q of the layer", node, got)
		}
	}
	img, err := findImage(t.Context(), nil, "")
	if err != nil {
		t.Fatal(err)
	}
	again := &Layer{Name: testLayer, Install: func(context.Context, *Lab, string, func(string, ...any)) error {
		return errors.New("it is installed again")
	}}
	if file, err := again.findDisk(t.Context(), nil, img, ""); err != nil || file != img.layer(testLayer).diskPath() {
		t.Errorf("asked for again: %s, %v", file, err)
	}
}

func testStatus(t *testing.T, l *Lab) {
	st, err := l.Status()
	if err != nil {
		t.Fatal(err)
	}
	if st.Accel != "kvm" && st.WhyNot == "" {
		t.Error("it is not told why KVM is not used")
	}
	for i, n := range st.Nodes {
		if n.Name != nodeName(i+1) || n.State != Ready || n.PID == 0 || len(n.PFs) != 2 {
			t.Errorf("%+v", n)
		}
		if got := sh(t, l, n.Name, "hostname; getent hosts worker02 | cut -d' ' -f1; id -u"); got != n.Name+"\n192.168.77.12\n0" {
			t.Errorf("%s takes itself for %q", n.Name, got)
		}
		if got := sh(t, l, n.Name, "cat /sys/class/net/enp1s0/operstate /sys/class/net/enp2s0/operstate; systemctl is-failed '*' | grep -c failed || true"); got != "down\ndown\n0" {
			t.Errorf("PFs and failed units of %s: %q", n.Name, got)
		}
	}
}

func testExec(t *testing.T, l *Lab) {
	var out, errs bytes.Buffer
	exit, err := l.Exec(t.Context(), "worker01", Cmd{
		Argv: []string{"sh", "-c", `printf %s "$1"; echo err >&2; exit 42`, "sh", "a 'b' $c\n"}, Stdout: &out, Stderr: &errs,
	})
	if exit != 42 || err != nil || out.String() != "a 'b' $c\n" || errs.String() != "err\n" {
		t.Errorf("exit %d, %v, out %q, err %q", exit, err, out.String(), errs.String())
	}
	exit, err = l.Exec(t.Context(), "worker01", Cmd{Argv: []string{"sh", "-c", "kill -TERM $$"}})
	if exit != 128+15 || err != nil {
		t.Errorf("a command that SIGTERM ended: exit %d, %v", exit, err)
	}
	if _, err := l.Exec(t.Context(), "worker09", Cmd{Argv: []string{"true"}}); err == nil {
		t.Error("a command ran on a node that is not there")
	}
	if exit, _ := l.Exec(t.Context(), "worker01", Cmd{Argv: []string{"/no/such/program"}}); exit != 127 {
		t.Errorf("an absent program: exit %d", exit)
	}
}

func testManyExecs(t *testing.T, l *Lab) {
	const n = 50
	start := time.Now()
	for range n {
		sh(t, l, "worker01", "true")
	}
	t.Logf("an exec takes %s", time.Since(start)/n)
	var g errgroup.Group
	for i := range 20 {
		g.Go(func() error {
			var out bytes.Buffer
			_, err := l.Exec(t.Context(), "worker02", Cmd{Argv: []string{"echo", fmt.Sprint(i)}, Stdout: &out})
			if err == nil && strings.TrimSpace(out.String()) != fmt.Sprint(i) {
				err = fmt.Errorf("echo %d said %q", i, out.String())
			}
			return err
		})
	}
	if err := g.Wait(); err != nil {
		t.Error(err)
	}
}

// testStdin checks that streams are not buffered: each line comes back before the next is sent.
func testStdin(t *testing.T, l *Lab) {
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	var g errgroup.Group
	g.Go(func() error {
		exit, err := l.Exec(t.Context(), "worker01", Cmd{Argv: []string{"sed", "-u", "s/^/got /"}, Stdin: inR, Stdout: outW})
		outW.Close()
		if exit != 0 {
			err = fmt.Errorf("exit %d", exit)
		}
		return err
	})
	lines := bufio.NewScanner(outR)
	for _, word := range []string{"one", "two"} {
		fmt.Fprintln(inW, word)
		if !lines.Scan() || lines.Text() != "got "+word {
			t.Fatalf("%q came back for %q", lines.Text(), word)
		}
	}
	inW.Close()
	if err := g.Wait(); err != nil {
		t.Error(err)
	}
	blob := make([]byte, 3<<20)
	_, _ = rand.Read(blob)
	var out bytes.Buffer
	if _, err := l.Exec(t.Context(), "worker02", Cmd{Argv: []string{"cat"}, Stdin: bytes.NewReader(blob), Stdout: &out}); err != nil || !bytes.Equal(out.Bytes(), blob) {
		t.Errorf("3 MiB through cat: %d bytes, %v", out.Len(), err)
	}
}

func testCancel(t *testing.T, l *Lab) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	runs := stepWriter{on: "runs", do: cancel}
	_, err := l.Exec(ctx, "worker01", Cmd{Argv: []string{"sh", "-c", "echo runs; exec sleep 4321"}, Stdout: runs})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("a command that was cancelled: %v", err)
	}
	eventually(t, "the command ends", func() error {
		if n := sh(t, l, "worker01", "pgrep -cxf 'sleep 4321' || true"); n != "0" {
			return fmt.Errorf("%s run", n)
		}
		return nil
	})
}

func testCopy(t *testing.T, l *Lab) {
	dir := t.TempDir()
	blob := make([]byte, 5<<20)
	_, _ = rand.Read(blob)
	for name, mode := range map[string]os.FileMode{"tree/bin/prog": 0o755, "tree/data": 0o640} {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, blob, mode); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("data", filepath.Join(dir, "tree/link")); err != nil {
		t.Fatal(err)
	}
	if err := l.Copy(t.Context(), "worker01", filepath.Join(dir, "tree"), "/opt/a b/copied"); err != nil {
		t.Fatal(err)
	}
	got := sh(t, l, "worker01", `cd "/opt/a b/copied"; stat -c '%n %a %U' bin/prog data; readlink link; cmp bin/prog data && echo same; sha256sum <data`)
	out, err := exec.Command("sha256sum", filepath.Join(dir, "tree/data")).Output()
	if err != nil {
		t.Fatal(err)
	}
	want := "bin/prog 755 root\ndata 640 root\ndata\nsame\n" + strings.Fields(string(out))[0] + "  -"
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	// LayOver keeps the modes of folders that exist.
	sh(t, l, "worker01", "install -d -m 711 /opt/there")
	stage := filepath.Join(dir, "stage/opt/there")
	if err := errors.Join(os.MkdirAll(stage, 0o700), os.WriteFile(filepath.Join(stage, "file"), nil, 0o600), l.LayOver(t.Context(), "worker01", filepath.Join(dir, "stage"))); err != nil {
		t.Error(err)
	}
	if got := sh(t, l, "worker01", "stat -c %a /opt /opt/there /opt/there/file"); got != "755\n711\n600" {
		t.Errorf("modes %q", got)
	}
	// A program that runs is replaced.
	sh(t, l, "worker01", "cp /bin/sleep /opt/x; /opt/x 3 >/dev/null 2>&1 </dev/null &")
	if err := l.Copy(t.Context(), "worker01", filepath.Join(dir, "tree/data"), "/opt/x"); err != nil {
		t.Error(err)
	}
	if err := l.Copy(t.Context(), "worker01", filepath.Join(dir, "absent"), "/opt/x"); err == nil {
		t.Error("an absent file was copied")
	}
}

// bringUp makes two VFs on each PF of a node, with an address on the first
// VF of each, and on VLAN 77 above it.
const bringUp = `set -e
sysctl -q net.ipv4.conf.all.arp_ignore=1 # PF and VF are on one wire: each answers for itself
for pf in enp1s0 enp2s0; do ip link set $pf mtu 9000 up; done
for pf in enp1s0 enp2s0; do
	for i in $(seq 1200); do [ "$(cat /sys/class/net/$pf/carrier)" = 1 ] && break; sleep 0.05; done
	echo 2 >/sys/class/net/$pf/device/sriov_numvfs
done
udevadm settle
for n in 1 2; do
	ip link set enp${n}s0v0 up
	ip address add 10.0.$n.$1/24 dev enp${n}s0v0
	ip link add link enp${n}s0v0 name tag$n type vlan id 77
	ip link set tag$n up
	ip address add 10.77.$n.$1/24 dev tag$n
done
for n in 1 2; do
	for i in $(seq 600); do [ "$(cat /sys/class/net/enp${n}s0v0/carrier)" = 1 ] && break; sleep 0.1; done
done`

func testWires(t *testing.T, l *Lab) {
	var g errgroup.Group
	for i, node := range []string{"worker01", "worker02"} {
		g.Go(func() error {
			exit, err := l.Exec(t.Context(), node, Cmd{Argv: []string{"sh", "-c", bringUp, "sh", fmt.Sprint(i + 1)}, Stderr: os.Stderr})
			if err == nil && exit != 0 {
				err = fmt.Errorf("exit %d", exit)
			}
			return err
		})
	}
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	for _, addr := range []string{"10.0.1.2", "10.0.2.2", "10.77.1.2", "10.77.2.2"} {
		sh(t, l, "worker01", "ping -c 3 -i 0.2 -w 60 "+addr)
	}
	sh(t, l, "worker02", "ip address add 10.9.1.2/24 dev enp1s0")
	sh(t, l, "worker01", "ip address add 10.9.1.1/24 dev enp1s0; ping -c 3 -i 0.3 -w 60 -M do -s 8000 10.9.1.2")
}

func testVFIO(t *testing.T, l *Lab) {
	got := sh(t, l, "worker01", `set -e
modprobe vfio-pci
vf=$(basename $(readlink /sys/class/net/enp2s0/device/virtfn1))
echo $vf >/sys/bus/pci/devices/$vf/driver/unbind
echo vfio-pci >/sys/bus/pci/devices/$vf/driver_override
echo $vf >/sys/bus/pci/drivers_probe
basename $(readlink /sys/bus/pci/devices/$vf/driver)
group=$(basename $(readlink /sys/bus/pci/devices/$vf/iommu_group))
ls /sys/kernel/iommu_groups/$group/devices | wc -l
test -c /dev/vfio/$group && echo there`)
	if got != "vfio-pci\n1\nthere" {
		t.Errorf("driver, size of the IOMMU group, device: %q", got)
	}
}

func testLink(t *testing.T, l *Lab) {
	if err := l.Link("worker01", "pf9", false); err == nil {
		t.Error("a cable of no PF was pulled")
	}
	for _, up := range []bool{false, true} {
		if err := l.Link("worker01", "enp2s0", up); err != nil {
			t.Fatal(err)
		}
		want := "0"
		if up {
			want = "1"
		}
		sh(t, l, "worker01", `for i in $(seq 1200); do [ "$(cat /sys/class/net/enp2s0/carrier)" = `+want+` ] && exit 0; sleep 0.05; done; exit 1`)
		nodes, err := l.Nodes()
		if err != nil || nodes[0].PFs[1].Cable != up || !nodes[0].PFs[0].Cable {
			t.Errorf("status after link %v: %+v, %v", up, nodes[0].PFs, err)
		}
	}
}

func bootID(t *testing.T, l *Lab, node string) string {
	return sh(t, l, node, "cat /proc/sys/kernel/random/boot_id")
}

func testReboot(t *testing.T, l *Lab) {
	before := bootID(t, l, "worker01")
	sh(t, l, "worker01", "echo kept >/root/note")
	if err := l.Link("worker01", "pf1", false); err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	if err := l.Reboot(t.Context(), "worker01"); err != nil {
		t.Fatal(err)
	}
	t.Logf("reboot in %.1f s", time.Since(start).Seconds())
	if bootID(t, l, "worker01") == before {
		t.Error("the node did not reboot")
	}
	if got := sh(t, l, "worker01", `cat /root/note; ip link set enp1s0 up; ip link set enp2s0 up
for i in $(seq 600); do [ "$(cat /sys/class/net/enp2s0/carrier)" = 1 ] && break; sleep 0.1; done
sleep 4 # in which enp1s0 would get a carrier, too
cat /sys/class/net/enp1s0/carrier /sys/class/net/enp2s0/carrier`); got != "kept\n0\n1" {
		t.Errorf("the file, and the carriers with a pulled cable: %q", got)
	}
	if err := l.Link("worker01", "pf1", true); err != nil {
		t.Error(err)
	}
}

func testOwnReboot(t *testing.T, l *Lab) {
	before := bootID(t, l, "worker02")
	_, _ = l.Exec(t.Context(), "worker02", Cmd{Argv: []string{"sh", "-c", "echo b >/proc/sysrq-trigger"}})
	for end := time.Now().Add(bootTime); time.Now().Before(end); time.Sleep(200 * time.Millisecond) {
		var out bytes.Buffer
		_, err := l.Exec(t.Context(), "worker02", Cmd{Argv: []string{"cat", "/proc/sys/kernel/random/boot_id"}, Stdout: &out})
		if err == nil && strings.TrimSpace(out.String()) != before {
			return
		}
	}
	t.Error("the node did not come back")
}

func testKillStart(t *testing.T, l *Lab) {
	// The file system would write the last file after 5 s by itself.
	sh(t, l, "worker02", "mount -o remount,commit=600 /; echo synced >/root/synced; sync; echo lost >/root/lost")
	if err := l.Kill("worker02"); err != nil {
		t.Fatal(err)
	}
	nodes, err := l.Nodes()
	if err != nil || nodes[1].State != Off || nodes[1].PID != 0 || nodes[1].Reason != "its power was cut" {
		t.Errorf("%+v, %v", nodes[1], err)
	}
	if _, err := l.Exec(t.Context(), "worker02", Cmd{Argv: []string{"true"}}); err == nil || !strings.Contains(err.Error(), "lab start") {
		t.Errorf("a command on a dead node: %v", err)
	}
	if err := l.Kill("worker02"); err == nil {
		t.Error("a dead node was killed")
	}
	if err := l.Start(t.Context(), "worker02"); err != nil {
		t.Fatal(err)
	}
	if got := sh(t, l, "worker02", "cat /root/synced; ls /root"); got != "synced\nsynced" {
		t.Errorf("the disk after a power cut: %q", got)
	}
	if err := l.Start(t.Context(), "worker02"); err == nil {
		t.Error("a running node was started")
	}
}

func testUpAgain(t *testing.T, l *Lab) {
	again, err := Up(t.Context(), Options{Name: "t-life", Nodes: 2})
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	sh(t, again, "worker01", "true")
	if _, err := Up(t.Context(), Options{Name: "t-life", Nodes: 3}); err == nil {
		t.Error("a lab of two nodes passed for one of three")
	}
}

func TestUpRefusesTooManyNodes(t *testing.T) {
	if _, err := Up(t.Context(), Options{Name: "t-many", Nodes: 5}); err == nil {
		t.Error("five nodes came up")
	}
}

// TestUpCancelled is Ctrl-C while the nodes boot.
func TestUpCancelled(t *testing.T) {
	soak.Only(t, "labs that boot")
	leavesNothing(t, "t-cancel")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	steps := stepWriter{on: "booting", do: func() { time.AfterFunc(3*time.Second, cancel) }}
	if _, err := Up(ctx, Options{Name: "t-cancel", Nodes: 2, NoSnapshot: true, Progress: steps}); !errors.Is(err, context.Canceled) {
		t.Errorf("up was cancelled: %v", err)
	}
}

// TestSnapshotCancelled: when a command ends while it takes a snapshot, neither the lab that it is
// taken of nor a part of the snapshot is left.
func TestSnapshotCancelled(t *testing.T) {
	soak.Only(t, "a lab that boots")
	leavesNothing(t, "t-cancel")
	emptyCache(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	steps := stepWriter{on: "for a snapshot", do: func() { time.AfterFunc(3*time.Second, cancel) }}
	if _, err := Up(ctx, Options{Name: "t-cancel", Nodes: 1, Progress: steps}); !errors.Is(err, context.Canceled) {
		t.Errorf("up was cancelled: %v", err)
	}
	cache, err := cacheDir()
	if err != nil {
		t.Fatal(err)
	}
	for _, left := range []string{filepath.Join(cache, "snapshots", "*"), filepath.Join(cache, "labs", "*")} {
		if files, err := filepath.Glob(left); err != nil || len(files) > 0 {
			t.Errorf("left %q, %v", files, err)
		}
	}
	eventually(t, "the lab of the snapshot goes", func() error {
		configs, err := filepath.Glob(filepath.Join(runDir(), "snapshot-lab-*", "*"))
		for _, file := range configs { // other tests take snapshots, too, for the usual cache
			if text, _ := os.ReadFile(file); bytes.Contains(text, []byte(cache)) {
				err = errors.Join(err, fmt.Errorf("left %s", file))
			}
		}
		return err
	})
}

// stepWriter calls do when a progress line holds the word.
type stepWriter struct {
	on string
	do func()
}

func (w stepWriter) Write(b []byte) (int, error) {
	if bytes.Contains(b, []byte(w.on)) {
		w.do()
	}
	return len(b), nil
}

// TestStarterKilled is kill -9 of the command that brings a lab up: its
// supervisor takes the lab down by itself.
func TestStarterKilled(t *testing.T) {
	soak.Only(t, "a lab that boots")
	killStarter(t, "t-starter", "booting")
}

// TestBoundStarterKilled is kill -9 of the process that a lab is bound to, when the
// lab is up.
func TestBoundStarterKilled(t *testing.T) {
	soak.Only(t, "a lab that boots")
	killStarter(t, "t-bound", "is up")
}

// killStarter kills a process that brings a lab up, a little after it said a word.
func killStarter(t *testing.T, name, when string) {
	leavesNothing(t, name)
	cmd := exec.Command("/proc/self/exe", "-test.run=^TestStarter$")
	cmd.Env = append(os.Environ(), "CULVERT_LAB_TEST_STARTER="+name)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for lines := bufio.NewScanner(out); lines.Scan() && !strings.Contains(lines.Text(), when); {
	}
	time.Sleep(2 * time.Second)
	p, err := labPaths(name)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(p.run); err != nil {
		t.Errorf("before the starter is killed: %v", err)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	eventually(t, "the supervisor ends with its starter", func() error {
		if _, err := os.Stat(p.run); !os.IsNotExist(err) {
			return fmt.Errorf("%s is there: %w", p.run, err)
		}
		return nil
	})
}

// TestStarter runs in the process that killStarter kills.
func TestStarter(t *testing.T) {
	name := os.Getenv("CULVERT_LAB_TEST_STARTER")
	if name == "" {
		t.Skip("runs in a process of its own")
	}
	boot := name == "t-starter" // is killed while its node boots
	if _, err := Up(t.Context(), Options{Name: name, Nodes: 1, NoSnapshot: boot, Progress: os.Stdout, Bound: true}); err != nil {
		t.Fatal(err)
	}
	time.Sleep(time.Minute)
}

// TestSupervisorKilled is kill -9 of the supervisor: the machines go with it,
// and the next up or down clears the rest away.
func TestSupervisorKilled(t *testing.T) {
	soak.Only(t, "a lab that boots")
	leavesNothing(t, "t-killed")
	l := upLab(t, Options{Name: "t-killed", Nodes: 1})
	killSupervisor(t, l)
	if _, err := Open("t-killed"); !errors.Is(err, ErrDown) {
		t.Errorf("a lab without its supervisor opens: %v", err)
	}
	l = upLab(t, Options{Name: "t-killed", Nodes: 1})
	sh(t, l, "worker01", "true")
	killSupervisor(t, l)
	if err := Down(t.Context(), "t-killed"); err != nil {
		t.Error(err)
	}
}

func killSupervisor(t *testing.T, l *Lab) {
	t.Helper()
	st, err := l.Status()
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(st.Supervisor, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the machine ends with its supervisor", func() error {
		if p, err := findProcess(st.Nodes[0].PID); err == nil {
			return fmt.Errorf("%+v runs", p)
		}
		return nil
	})
}

func TestSideBySide(t *testing.T) {
	soak.Only(t, "two labs at once")
	leavesNothing(t, "t-left", "t-right")
	var labs [2]*Lab
	var g errgroup.Group
	for i, name := range []string{"t-left", "t-right"} {
		g.Go(func() (err error) {
			labs[i], err = Up(t.Context(), Options{Name: name, Nodes: 1})
			return err
		})
	}
	err := g.Wait()
	for _, l := range labs {
		if l != nil {
			defer l.Down(context.Background())
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	sh(t, labs[0], "worker01", "echo left >/root/side")
	if got := sh(t, labs[1], "worker01", "ls /root"); got != "" {
		t.Errorf("the right lab sees %q", got)
	}
	if err := labs[0].Down(t.Context()); err != nil {
		t.Error(err)
	}
	sh(t, labs[1], "worker01", "true")
}

func TestFast(t *testing.T) {
	leavesNothing(t)
	data := filepath.Join(t.TempDir(), "data")
	if err := os.WriteFile(data, []byte("copied in"), 0o644); err != nil {
		t.Fatal(err)
	}
	var out, errs bytes.Buffer
	var ready time.Duration
	exit, err := Fast(t.Context(), FastOptions{
		Argv: []string{"sh", "-c", `
cat "/opt/the data"; echo; cat; echo "$WORD"; pwd
cat /sys/class/net/eth0/carrier /sys/class/net/eth1/carrier
ip -V | cut -d' ' -f1,2
echo 2 >/sys/bus/pci/devices/0000:01:00.0/sriov_numvfs; echo $?
ls /sys/bus/pci/devices/0000:01:00.0 | grep -c virtfn
ip link add link eth0 name tag type vlan id 5 && ip link add bridge0 type bridge && ip link add vx type vxlan id 7 dstport 4789 && modprobe vfio-pci && echo modules
echo err >&2; exit 11`},
		Files: map[string]string{"/opt/the data": data}, Env: []string{"WORD=a 'word'"}, Dir: "/opt",
		Stdin: strings.NewReader("input\n"), Stdout: &out, Stderr: &errs,
		OnReady: func(d time.Duration) { ready = d },
	})
	if err != nil || exit != 11 {
		t.Errorf("exit %d, %v", exit, err)
	}
	want := "copied in\ninput\na 'word'\n/opt\n1\n1\nip utility,\n0\n2\nmodules\n"
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Error(diff)
	}
	if errs.String() != "err\n" {
		t.Errorf("standard error: %q", errs.String())
	}
	t.Logf("the command began %.1f s after the call", ready.Seconds())
}

func TestFastCancelled(t *testing.T) {
	leavesNothing(t)
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	if _, err := Fast(ctx, FastOptions{Argv: []string{"sleep", "1000"}}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a fast node beyond its time: %v", err)
	}
}

// TestRootless brings a lab up as a user without rights, in a user namespace.
// Root becomes one for it: with a home that holds the image, and, in a mount
// namespace, a /dev/net/tun that is open to all.
func TestRootless(t *testing.T) {
	soak.Only(t, "two nodes that boot without a snapshot")
	if os.Geteuid() == 0 {
		asNobody(t)
		return
	}
	if err := unix.Access("/dev/net/tun", unix.R_OK|unix.W_OK); err != nil {
		t.Skipf("/dev/net/tun is not open to this user: %v", err)
	}
	leavesNothing(t, "t-rootless")
	l := upLab(t, Options{Name: "t-rootless", Nodes: 2})
	if got := sh(t, l, "worker01", "ping -c 1 -w 60 worker02 >/dev/null && id -u"); got != "0" {
		t.Errorf("%q", got)
	}
	nodes, err := l.Nodes()
	if err != nil || slices.ContainsFunc(nodes, func(n Node) bool { return n.State != Ready }) {
		t.Errorf("%+v, %v", nodes, err)
	}
}

const asNobodyScript = `set -e
mount --bind "$1/tun" /dev/net/tun
cd "$1"
exec setpriv --reuid 65534 --regid 65534 --clear-groups env HOME="$1" XDG_RUNTIME_DIR="$1/run" XDG_CACHE_HOME= TMPDIR="$1" \
	"$1/test" -test.v -test.run '^TestRootless$'`

func asNobody(t *testing.T) {
	img, err := findImage(t.Context(), nil, "")
	if err != nil {
		t.Fatal(err)
	}
	home, err := os.MkdirTemp("", "home-") //nolint:usetesting // the test's own folder is closed to others
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(home)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	script := `set -e
mkdir -p "$1/.cache/culvert/images" "$1/run"
cp -a --reflink=auto "$2" "$1/.cache/culvert/images/"
rm -f "$1"/.cache/culvert/images/*/accel.json
cp "$3" "$1/test"
mknod -m 666 "$1/tun" c 10 200
chown -R 65534:65534 "$1"; chmod 666 "$1/tun"`
	if out, err := exec.Command("sh", "-c", script, "sh", home, img.dir, self).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	cmd := exec.Command("unshare", "-m", "sh", "-c", asNobodyScript, "sh", home)
	out, err := cmd.CombinedOutput()
	if err != nil || !bytes.Contains(out, []byte("--- PASS: TestRootless")) {
		t.Errorf("as nobody: %v\n%s", err, out)
	}
	left, _ := filepath.Glob(filepath.Join(home, "run", "*"))
	if len(left) > 0 {
		t.Errorf("left: %q", left)
	}
}
