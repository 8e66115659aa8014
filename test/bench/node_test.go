package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/kernel/netns"
	"github.com/culvert-net/culvert/internal/rpc"
	"github.com/culvert-net/culvert/internal/vf"
	"github.com/culvert-net/culvert/test/child"
)

// node is a lab node with culvertd running in it.
type node struct {
	dir    string // culvertd's files
	socket string
	cmd    *exec.Cmd
	pfs    []string // names of the PFs' netdevices
	vfs    []api.VF // the VFs that culvertd made
	udev   bool
	turns  map[string][]*turns // by b.N and benchmark, in order
	calls  map[string]int
	made   []*makes // of VFCreate, in order
	tried  bool     // the ways to a pod's networks were tried, and work
	broken error    // why no turns can be taken
}

// perPF is how many VFs an emulated igb has.
const perPF = 7

// pods is how many attachments are made at once.
const pods = 8

func podNetns(i int) string { return fmt.Sprintf("/run/netns/bench-%d", i) }

func start(ctx context.Context) (n *node, err error) {
	n = &node{turns: map[string][]*turns{}, calls: map[string]int{}}
	// Not below /tmp or /run, where fsync costs nothing.
	if err := os.MkdirAll("/var/lib", 0o755); err != nil {
		return nil, err
	}
	if n.dir, err = os.MkdirTemp("/var/lib", "culvert-bench-"); err != nil {
		return nil, err
	}
	n.socket = filepath.Join(n.dir, "culvertd.sock")
	if cluster != "" { // libcni gives plugins no environment of our own
		n.socket = rpc.DefaultSocket
	}
	_, err = os.Stat("/run/udev/control")
	n.udev = err == nil
	devices, err := filepath.Glob("/sys/bus/pci/drivers/igb/0000:*/net/*")
	if err != nil || len(devices) != 2 {
		return nil, fmt.Errorf("%d igb PFs, want 2: is this a lab node? %w", len(devices), err)
	}
	for _, d := range devices {
		n.pfs = append(n.pfs, filepath.Base(d))
	}
	for i := range pods {
		if err := netns.New(podNetns(i)); err != nil {
			return nil, err
		}
	}
	if err := os.WriteFile(filepath.Join(n.dir, "host.yaml"), []byte(n.hostYAML(perPF, false)), 0o600); err != nil {
		return nil, err
	}
	if err := n.startDaemon(); err != nil {
		return nil, err
	}
	st, err := n.ready(ctx)
	if err != nil {
		return nil, errors.Join(err, n.stop())
	}
	n.vfs = st.VFs
	if cluster != "" {
		err = serveKubelet(n.vfs[0].PCI.String())
	}
	return n, err
}

// hostYAML requests so many VFs of the first PF. If kept is set, the host's driver is
// kept off them.
func (n *node) hostYAML(first int, kept bool) string {
	text := fmt.Sprintf(`pfs:
- {name: %s, vfs: %d, autoprobe: %t}
- {name: %s, vfs: %d}
pools:
`, n.pfs[0], first, !kept, n.pfs[1], perPF)
	if kept {
		text += fmt.Sprintf("- {name: guests, prefix: bench.dev, deviceType: vfio-pci, selectors: {pfNames: [%s]}}\n", n.pfs[0])
	}
	return text + "- {name: fast, prefix: bench.dev, selectors: {drivers: [igbvf]}}\n"
}

func (n *node) startDaemon() error {
	log, err := os.Create(filepath.Join(n.dir, "culvertd.log"))
	if err != nil {
		return err
	}
	defer log.Close()
	n.cmd = exec.Command(filepath.Join(programs, "culvertd"),
		"--host", filepath.Join(n.dir, "host.yaml"), "--ledger", filepath.Join(n.dir, "ledger.db"), "--socket", n.socket)
	if cluster != "" {
		n.cmd.Args = append(n.cmd.Args, "--kubernetes", "--kubeconfig", filepath.Join(cluster, "culvertd.kubeconfig"),
			"--node-name", "worker01", "--pod-networks", "always", "--cni-conf-dir", confDir)
	}
	if os.Getenv("CULVERT_BENCH_DEBUG") != "" {
		n.cmd.Args = append(n.cmd.Args, "--debug")
	}
	n.cmd.Stderr = log
	return child.Start(n.cmd)
}

// ready waits until culvertd has made all its VFs and all of them are free.
func (n *node) ready(ctx context.Context) (st api.NodeStatus, err error) {
	for range 1200 {
		if err = rpc.Call(ctx, n.socket, api.MethodStatus, nil, &st); err == nil && st.Ready && allFree(st.VFs) {
			return st, nil
		}
		time.Sleep(100 * time.Millisecond)
	}
	return st, fmt.Errorf("culvertd is not ready after two minutes: %w: problems %v\n%s", err, st.Problems, n.log())
}

func allFree(vfs []api.VF) bool {
	return len(vfs) == 2*perPF && !slices.ContainsFunc(vfs, func(v api.VF) bool {
		return v.Phase != string(vf.PhaseFree) || v.Netdevice == ""
	})
}

func (n *node) log() []byte {
	text, _ := os.ReadFile(filepath.Join(n.dir, "culvertd.log")) // only for a message
	return text[max(0, len(text)-4000):]
}

func (n *node) stop() error {
	errs := []error{n.cmd.Process.Signal(syscall.SIGTERM), n.cmd.Wait()}
	if path := os.Getenv("CULVERT_BENCH_DEBUG"); path != "" {
		text, _ := os.ReadFile(filepath.Join(n.dir, "culvertd.log"))
		errs = append(errs, os.WriteFile(path, text, 0o600))
	}
	for i := range pods {
		errs = append(errs, netns.Delete(podNetns(i)))
	}
	return errors.Join(append(errs, os.RemoveAll(n.dir))...)
}

// freeze stops culvertd while fn runs, so that culvertd's work on the devices that fn
// changes adds nothing to fn's time.
func (n *node) freeze(fn func() error) error {
	if err := n.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		return err
	}
	return errors.Join(fn(), n.cmd.Process.Signal(syscall.SIGCONT))
}

// quiet waits until the node is idle: udevd, culvertd's pass after an event and the
// kernel's clean-up have ended. So each timed action starts from the same state. A
// node of a busy host may never be idle, which is no failure if no figure is kept.
func (n *node) quiet() error {
	const (
		window = 150 * time.Millisecond
		calm   = 4 // windows: longer than culvertd waits for a burst to end
	)
	windows := 200
	if smoke {
		windows = 20
	}
	for since, i := 0, 0; i < windows; i++ {
		before, err := busy()
		if err != nil {
			return err
		}
		time.Sleep(window)
		after, err := busy()
		if err != nil {
			return err
		}
		if since++; after-before > window/6 {
			since = 0
		}
		if since == calm {
			return nil
		}
	}
	if smoke {
		return nil
	}
	return errors.New("the node does not come to rest within 30 s")
}

// busy returns how long the node's processors have worked (proc_stat(5)), at USER_HZ
// of 100.
func busy() (time.Duration, error) {
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0, err
	}
	line, _, _ := bytes.Cut(text, []byte("\n"))
	ticks := 0
	for i, f := range strings.Fields(string(line)) {
		if i == 0 || i == 4 || i == 5 || i == 8 { // name, idle, iowait, steal
			continue
		}
		t, err := strconv.Atoi(f)
		if err != nil {
			return 0, err
		}
		ticks += t
	}
	return time.Duration(ticks) * 10 * time.Millisecond, nil
}

// processorTime returns the processor time that culvertd has used, by its CPU clock
// (clock_getcpuclockid(3), MAKE_PROCESS_CPUCLOCK of the kernel).
func (n *node) processorTime() (time.Duration, error) {
	const sched = 2 // CPUCLOCK_SCHED
	var ts unix.Timespec
	if err := unix.ClockGettime(int32(^n.cmd.Process.Pid<<3|sched), &ts); err != nil {
		return 0, err
	}
	return time.Duration(ts.Nano()), nil
}

// memory reads a process's memory (proc_pid_statm(5)) and how many files it has open.
func memory(pid int) (size, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		return size{}, err
	}
	var all, resident, shared int
	if _, err := fmt.Sscan(string(text), &all, &resident, &shared); err != nil {
		return size{}, err
	}
	open, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	return size{rss: resident * os.Getpagesize(), own: (resident - shared) * os.Getpagesize(), files: len(open)}, err
}
