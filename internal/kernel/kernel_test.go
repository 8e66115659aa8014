package kernel

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/txtar"
	"golang.org/x/sys/unix"

	"github.com/culvert-net/culvert/internal/kernel/step"
	"github.com/culvert-net/culvert/internal/vf"
)

func TestBounded(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	stuck := make(chan struct{})
	defer close(stuck)
	_, err := callBounded(ctx, func() (int, error) { <-stuck; return 0, nil })
	if !errors.Is(err, vf.ErrTimeout) || !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "stuck in the kernel") {
		t.Errorf("a call that does not come back: %v", err)
	}
	own := errors.New("no carrier")
	if _, err = callBounded(ctx, func() (int, error) { <-ctx.Done(); return 0, own }); !errors.Is(err, own) {
		t.Errorf("a wait that tells itself why it ended: %v", err)
	}
	given, giveUp := context.WithCancel(t.Context())
	giveUp()
	if _, err := callBounded(given, func() (int, error) { <-stuck; return 0, nil }); errors.Is(err, vf.ErrTimeout) && !errors.Is(err, context.Canceled) {
		t.Errorf("a caller that gave up: %v", err)
	}
}

// The kernel may hold a write forever; Do still returns an error to its caller. The test replaces
// the file by a FIFO without a reader. Hung names the step until the write comes back.
func TestHungWrite(t *testing.T) {
	sys := treeOf(t, "host.txtar")
	k := New(Options{SysRoot: sys.root})
	addr, pf := pciAddr(t, "01:10.2"), pciAddr(t, "01:00.0")
	probe := filepath.Join(sys.root, "bus/pci/drivers_probe")
	if err := errors.Join(
		os.WriteFile(sys.pciPath(addr, "driver_override"), []byte("(null)\n"), 0o600),
		os.Remove(probe), unix.Mkfifo(probe, 0o600),
	); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	err := k.Do(ctx, step.Bind{VF: addr})
	if !errors.Is(err, vf.ErrTimeout) || !strings.Contains(err.Error(), "stuck in the kernel") || !strings.Contains(err.Error(), addr.String()) {
		t.Fatalf("a probe that hangs: %v", err) // nothing writes to the FIFO, which is opened next
	}
	if got := fmt.Sprint(k.Hung()); got != "["+(step.Bind{VF: addr}).String()+"]" {
		t.Errorf("hung: %s", got)
	}
	// When the write returns at last, Do restores autoprobe.
	f, err := os.OpenFile(probe, os.O_RDONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		if s, err := readLine(sys.pciPath(pf, "sriov_drivers_autoprobe")); err == nil && s == "0" && len(k.Hung()) == 0 {
			return
		}
	}
	t.Errorf("autoprobe was not given back, or steps hang: %s", k.Hung())
}

// A write that hangs is not tried again.
func TestStuckWrite(t *testing.T) {
	sys := treeOf(t, "host.txtar")
	k := New(Options{SysRoot: sys.root})
	pf := pciAddr(t, "01:00.0")
	path := sys.pciPath(pf, "sriov_numvfs")
	k.writes.begun[path+"=4"] = time.Now().Add(-time.Hour)
	err := k.Do(t.Context(), step.SetNumVFs{PF: pf, N: 4})
	if !errors.Is(err, vf.ErrTimeout) || !strings.Contains(err.Error(), "stuck in the kernel since 1h0m") {
		t.Errorf("while a write is stuck: %v", err)
	}
	if err := k.Do(t.Context(), step.SetNumVFs{PF: pf, N: 3}); err != nil {
		t.Errorf("another write: %v", err)
	}
	if len(k.writes.begun) != 1 {
		t.Errorf("writes under way: %v", k.writes.begun)
	}
}

// TestExplainNumVFs: an errno of sriov_numvfs is explained by its causes. The firmware's limit is
// named for a driver whose cards have a command that shows it.
func TestExplainNumVFs(t *testing.T) {
	sys := layOut(t, txtar.Parse([]byte("-- 0000:01:00.0 --\nsriov_totalvfs 7\ndriver -> ../../bus/pci/drivers/ice\n"+
		"-- 0000:03:00.0 --\nsriov_totalvfs 8\ndriver -> ../../bus/pci/drivers/mlx5_core\n")))
	ice, mlx5 := pciAddr(t, "01:00.0"), pciAddr(t, "03:00.0")
	for _, tt := range []struct {
		errno  unix.Errno
		pf     vf.PCIAddr
		unable bool
		says   string
	}{
		{unix.EBUSY, ice, false, "there are 3 VFs and the kernel wants 0"},
		{unix.ERANGE, ice, true, "at most 7 VFs: "},
		{unix.ERANGE, mlx5, true, "at most 8 VFs; the card's firmware may allow fewer (mlxconfig -d 0000:03:00.0 query NUM_OF_VFS NUM_VF_MSIX): "},
		{unix.ENOENT, ice, true, "no driver"},
		{unix.EOPNOTSUPP, ice, true, "cxgb4: not before its ports"},
		{unix.ENOMEM, ice, false, "too few bus numbers for 4 VFs: switch on SR-IOV, ARI and above-4G decoding in the BIOS, or boot with pci=realloc or pci=assign-busses; dmesg has the cause: "},
		{unix.ENOMEM, mlx5, false, "dmesg has the cause; the card's firmware may allow fewer (mlxconfig -d 0000:03:00.0 query"},
		{unix.ENOSPC, ice, false, "driver ice has too few MSI-X vectors or queues left for 4 VFs: "},
		{unix.ENOSPC, mlx5, false, "NUM_VF_MSIX"},
		{unix.EACCES, ice, false, "permission denied"},
	} {
		err := sys.explainNumVFs(tt.errno, step.SetNumVFs{PF: tt.pf, N: 4}, 3)
		if !errors.Is(err, tt.errno) || errors.Is(err, vf.ErrUnable) != tt.unable || !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%v of %s: %v\nwant %s", tt.errno, tt.pf, err, tt.says)
		}
	}
}

func TestRefused(t *testing.T) {
	for errno, unable := range map[unix.Errno]bool{
		unix.EOPNOTSUPP: true, unix.EINVAL: true, unix.ERANGE: true, unix.EPROTONOSUPPORT: true,
		unix.EBUSY: false, unix.EPERM: false,
	} {
		err := explainRefusal("igb", errno)
		if errors.Is(err, vf.ErrUnable) != unable || !errors.Is(err, errno) {
			t.Errorf("%v: %v", errno, err)
		}
	}
}

// Autoprobe is on while binds run. The last bind restores the old value, or the value that a
// SetAutoprobe meanwhile asked for.
func TestBorrowAutoprobe(t *testing.T) {
	sys := treeOf(t, "host.txtar")
	k := New(Options{SysRoot: sys.root})
	pf, old := pciAddr(t, "01:00.0"), pciAddr(t, "02:00.0")
	reads := func(want string) {
		t.Helper()
		if got, err := readLine(sys.pciPath(pf, "sriov_drivers_autoprobe")); got != want || err != nil {
			t.Errorf("autoprobe is %s, %v; want %s", got, err, want)
		}
	}
	borrow := func() func() error {
		t.Helper()
		giveBack, err := k.borrowAutoprobe(pf)
		if err != nil {
			t.Fatal(err)
		}
		return giveBack
	}
	back := func(giveBack func() error) {
		t.Helper()
		if err := giveBack(); err != nil {
			t.Error(err)
		}
	}
	reads("0")
	one, two := borrow(), borrow()
	reads("1")
	back(one)
	reads("1")
	back(two)
	reads("0")

	one = borrow()
	for _, on := range []bool{false, true} {
		if err := k.Do(t.Context(), step.SetAutoprobe{PF: pf, On: on}); err != nil {
			t.Error(err)
		}
		reads("1")
	}
	back(one)
	reads("1")

	if giveBack, err := k.borrowAutoprobe(old); err != nil || giveBack() != nil {
		t.Errorf("a kernel without autoprobe: %v", err)
	}
	if err := k.Do(t.Context(), step.SetAutoprobe{PF: old}); !errors.Is(err, vf.ErrUnable) {
		t.Errorf("setting it there: %v", err)
	}
}

func TestOverride(t *testing.T) {
	sys := treeOf(t, "host.txtar")
	k := New(Options{SysRoot: sys.root})
	addr := pciAddr(t, "01:10.2")
	path := sys.pciPath(addr, "driver_override")
	for _, tt := range []struct{ have, driver, want string }{
		{"(null)\n", vf.DriverVFIO, "vfio-pci\n"},
		{"vfio-pci\n", vf.DriverDefault, "\n"},
		{"(null)\n", vf.DriverDefault, "(null)\n"}, // nothing to write
	} {
		if err := os.WriteFile(path, []byte(tt.have), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := k.setOverride(addr, tt.driver); err != nil {
			t.Error(err)
		}
		// A regular file, unlike one of sysfs, keeps its old bytes after the end of the written
		// text.
		if got, err := os.ReadFile(path); err != nil || !strings.HasPrefix(string(got), tt.want) {
			t.Errorf("from %q for %q: %q, %v", tt.have, tt.driver, got, err)
		}
	}
}

func TestSatisfies(t *testing.T) {
	for _, tt := range []struct {
		bound, wanted string
		want          bool
	}{
		{"igbvf", vf.DriverDefault, true},
		{"vfio-pci", vf.DriverDefault, false},
		{"vfio-pci", vf.DriverVFIO, true},
		{"igbvf", vf.DriverVFIO, false},
		{"uio_pci_generic", vf.DriverDefault, false},
	} {
		if got := driverSatisfies(tt.bound, tt.wanted); got != tt.want {
			t.Errorf("satisfies(%q, %q) = %v", tt.bound, tt.wanted, got)
		}
	}
}

func TestBootID(t *testing.T) {
	id, err := BootID("/proc")
	if err != nil || len(id) != 36 {
		t.Errorf("boot ID %q, %v", id, err)
	}
	if _, err := BootID(t.TempDir()); err == nil {
		t.Error("a boot ID from nowhere")
	}
}

func TestPeerCredentials(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c, err := net.DialUnix("unix", nil, l.Addr().(*net.UnixAddr))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	want := Peer{PID: os.Getpid(), UID: uint32(os.Getuid()), GID: uint32(os.Getgid())}
	if got, err := PeerCredentials(c); got != want || err != nil {
		t.Errorf("%+v, %v; want %+v", got, err, want)
	}
	if got := (Peer{UID: 7}).String(); got != "a process of another PID namespace" {
		t.Errorf("a peer without a PID is %q", got)
	}
}
