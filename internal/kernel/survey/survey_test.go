package survey

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseCmdline(t *testing.T) {
	got := ParseCmdline([]byte("BOOT_IMAGE=/v root=UUID=x  dyndbg=\"file a.c +p\" \"b c\"=d quiet\n"))
	want := []string{"BOOT_IMAGE=/v", "root=UUID=x", "dyndbg=file a.c +p", "b c=d", "quiet"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestParseInterrupts(t *testing.T) {
	const text = `           CPU0       CPU1
   0:         43          0   IO-APIC   2-edge      timer
  24:          0        123  IR-PCI-MSIX-0000:01:00.0   1-edge      enp1s0-TxRx-0
  25:          7
 NMI:          0          0   Non-maskable interrupts
 ERR:          0
`
	want := map[int]IRQ{
		0:  {Name: "timer", Counts: []uint64{43, 0}},
		24: {Name: "enp1s0-TxRx-0", Counts: []uint64{0, 123}},
		25: {Counts: []uint64{7}},
	}
	if diff := cmp.Diff(want, ParseInterrupts([]byte(text))); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestParseLimits(t *testing.T) {
	const text = `Limit                     Soft Limit           Hard Limit           Units
Max cpu time              unlimited            unlimited            seconds
Max open files            1024                 524288               files
Max locked memory         unlimited            unlimited            bytes
`
	if diff := cmp.Diff(Limits{OpenFiles: 1024, LockedMemory: Unlimited}, ParseLimits([]byte(text))); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if diff := cmp.Diff(Limits{OpenFiles: -1, LockedMemory: -1}, ParseLimits(nil)); diff != "" {
		t.Errorf("nothing (-want +got):\n%s", diff)
	}
}

func TestModules(t *testing.T) {
	got := ParseModuleList([]byte("kernel/drivers/vfio/pci/vfio-pci.ko.zst: kernel/drivers/vfio/vfio.ko.zst\nkernel/fs/overlayfs/overlay.ko\nmodules.order\n\n"))
	if diff := cmp.Diff([]string{"vfio_pci", "overlay"}, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	blocked := ParseBlocked([]byte("# blacklist a\nblacklist igbvf\n  install vfio-pci   /bin/true\ninstall snd /sbin/modprobe x\noptions igb max_vfs=7\nalias a b\n"))
	if diff := cmp.Diff(map[string]string{"igbvf": "blacklist igbvf", "vfio_pci": "install vfio-pci /bin/true"}, blocked); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	m := Modules{Loaded: []string{"vfio_pci"}, Available: []string{"igbvf"}}
	for name, want := range map[string][2]bool{"vfio-pci": {true, true}, "igbvf": {false, true}, "iavf": {false, false}} {
		if got := [2]bool{m.Has(name), m.Can(name)}; got != want {
			t.Errorf("%s: %v", name, got)
		}
	}
	if !(Modules{}).Can("iavf") {
		t.Error("where nothing is known, no module is missing")
	}
}

// TestSysctl: SetSysctl reads the value back, and returns an error if the kernel did not keep it.
func TestSysctl(t *testing.T) {
	root := t.TempDir()
	file := filepath.Join(root, "proc/sys/net/ipv4/ip_forward")
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := SetSysctl(Root(root), IPForward, "1"); err == nil {
		t.Error("a sysctl that is not there was set")
	}
	if err := os.WriteFile(file, []byte("0\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	before, err := SetSysctl(Root(root), IPForward, "1")
	after, readErr := os.ReadFile(file)
	if before != "0" || err != nil || readErr != nil || string(after) != "1\n" {
		t.Errorf("%q %v %q %v", before, err, after, readErr)
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/dev/null", file); err != nil {
		t.Fatal(err)
	}
	if _, err := SetSysctl(Root(root), IPForward, "1"); err == nil || !strings.Contains(err.Error(), "reads back") {
		t.Errorf("a value that does not stick: %v", err)
	}
}

func TestDisk(t *testing.T) {
	dir := t.TempDir()
	d := ReadDisk(dir)
	if d.Missing || d.ReadOnly || d.SyncErr != "" || d.Free == 0 || d.Type == "" {
		t.Errorf("a folder for what is temporary: %+v", d)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Errorf("left behind: %v %v", left, err)
	}
	if d := ReadDisk(filepath.Join(dir, "gone")); !d.Missing {
		t.Errorf("no folder: %+v", d)
	}
}

// TestHost reads the machine of the test, which has processors, a kernel, modules and file systems.
// Files that do not exist are no error, and a file that cannot be read is one.
func TestHost(t *testing.T) {
	h := Read("/")
	if len(h.CPUs) == 0 || h.Release == "" || len(h.Modules.Loaded) == 0 || len(h.FileSystems) == 0 {
		t.Errorf("this machine: %d CPUs, kernel %q, %d modules, %d file systems", len(h.CPUs), h.Release, len(h.Modules.Loaded), len(h.FileSystems))
	}
	if empty := Read(Root(t.TempDir())); len(empty.Errs) != 0 {
		t.Errorf("an empty root: %v", empty.Errs)
	}
	root := t.TempDir()
	if err := os.MkdirAll(filepath.Join(root, "proc/cmdline"), 0o755); err != nil { // a folder cannot be read as a file
		t.Fatal(err)
	}
	if broken := Read(Root(root)); len(broken.Errs) != 1 || !strings.Contains(broken.Errs[0], "cmdline") {
		t.Errorf("a broken file: %v", broken.Errs)
	}
}

// FuzzParse gives every parser the same text.
func FuzzParse(f *testing.F) {
	for _, name := range []string{"/proc/interrupts", "/proc/cmdline", "/proc/self/limits", "/proc/self/status", "/proc/swaps", "/proc/filesystems", "/proc/cpuinfo", "/sys/devices/system/cpu/online"} {
		if text, err := os.ReadFile(name); err == nil {
			f.Add(text)
		}
	}
	f.Add([]byte("kernel/a.ko.xz: b.ko\nblacklist a\ninstall a /bin/false\n"))
	f.Add([]byte("0x00 0x1f 0x1\n0x0 0x0 0x0\n"))
	f.Add([]byte("/dev/a none swap sw\n<zone><port port='1-2' protocol='tcp'/></zone>DefaultZone=a\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		for n, irq := range ParseInterrupts(text) {
			if n < 0 || len(irq.Counts) > len(text) {
				t.Errorf("%d: %+v", n, irq)
			}
		}
		for _, a := range ParseCmdline(text) {
			if a == "" {
				t.Error("an empty argument")
			}
		}
		if l := ParseLimits(text); l.OpenFiles < -1 || l.LockedMemory < -1 {
			t.Errorf("%+v", l)
		}
		for _, s := range append(ParseSwaps(text), ParseModuleList(text)...) {
			if strings.ContainsAny(s, "\n") {
				t.Errorf("%q", s)
			}
		}
		ParseBlocked(text)
		parseUID(text)
		cpuVendor(text)
		parseFileSystems(text)
		noMemory(text)
		if zone := defaultZone(text); zone == "" || strings.Contains(zone, "/") {
			t.Errorf("zone %q", zone)
		}
		ParseZone(text)
		ParseFstabSwaps(text)
	})
}
