// Package scenario tells stories about a node, from host.yaml to CNI results,
// in testdata/*.txtar. The same stories run on the fake kernel, with
//
//	go test ./test/scenario
//
// and on Linux with the stock igb and igbvf drivers, in a fast lab node that is
// started with CULVERT_LAB_NODE=1 (make test-lab does).
//
// A story names PFs, VFs and netns by aliases: $pf0, $pf0v1, $a. In the output that it
// compares, the machine's own names are replaced by these aliases. commands_test.go lists
// the commands.
//
// On the fake kernel each story runs once for every model of NIC. A line that starts with
// [can:vlan] or [!can:trust] is for NICs whose driver has, or has not, that setting. The
// names of settings are those of a network's configuration, and vlanQoS. In a file,
// $settings stands for every setting that the NIC has; in compared output, SETTINGS stands
// for the same settings as read back. To write the expected output of a new story, run with
// -update -run TestOnTheFakeKernel/igb, and read it.
package scenario

import (
	"context"
	"embed"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/rogpeppe/go-internal/testscript"
	"golang.org/x/sys/unix"

	"github.com/culvert-net/culvert/internal/kernel"
	"github.com/culvert-net/culvert/internal/kernel/fake"
	"github.com/culvert-net/culvert/internal/kernel/guard"
	"github.com/culvert-net/culvert/internal/kernel/netns"
	"github.com/culvert-net/culvert/internal/kernel/step"
	"github.com/culvert-net/culvert/internal/kernel/uevent"
	"github.com/culvert-net/culvert/internal/node"
	"github.com/culvert-net/culvert/internal/vf"
)

var update = flag.Bool("update", false, "rewrite the expected output in testdata")

//go:embed testdata/*.txtar
var stories embed.FS

// machine is a machine on which stories run.
type machine interface {
	node.Kernel
	others
	owner
	VFTraffic(ctx context.Context, pf vf.PCIAddr) (map[int]vf.Traffic, error)
	// Netdevices returns how many interfaces have appeared on the host since its last call.
	Netdevices() (int, error)
}

// others has the changes that runtimes, QEMU and the host's tools make to a machine.
type others interface {
	AddNetns(path string) error
	DelNetns(path string) error
	// AddOthersAddress gives a PF an address as the host's own tools do.
	AddOthersAddress(a vf.PCIAddr, address netip.Prefix) error
	// Open makes a process open a VF through vfio. Without a process, it closes the VF.
	Open(a vf.PCIAddr, by ...vf.Process) error
}

// owner has the actions of a VF's owner in its netns.
type owner interface {
	// Tune changes all attributes of an interface in a netns that the owner of a VF can
	// change.
	Tune(a vf.PCIAddr, path, ifname string) error
	// Looks returns how an interface in a netns is set up, as the machine's own tools print
	// it.
	Looks(a vf.PCIAddr, path, ifname string) (string, error)
}

// fakeMachine adapts the fake kernel.
type fakeMachine struct {
	*fake.Kernel
	shown *int
}

func (m fakeMachine) Netdevices() (int, error) {
	before := *m.shown
	*m.shown = m.Shown()
	return *m.shown - before, nil
}

func (m fakeMachine) AddNetns(path string) error { m.Kernel.AddNetns(path); return nil }
func (m fakeMachine) DelNetns(path string) error { m.Kernel.DelNetns(path); return nil }

// linux is the machine that the test runs on.
type linux struct {
	*kernel.Kernel
	open   map[vf.PCIAddr][]*os.File
	events *uevent.Conn
}

// Netdevices counts the kernel's uevents for new interfaces.
func (l linux) Netdevices() (shown int, err error) {
	for {
		ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond) // the event comes before the call that makes the interface returns
		e, err := l.events.Next(ctx)
		cancel()
		if errors.Is(err, context.DeadlineExceeded) {
			return shown, nil
		}
		if err != nil {
			return shown, err
		}
		if e.Action == "add" && e.Subsystem == "net" && e.Index > 0 && !e.FromUdev {
			shown++
		}
	}
}

// Open opens the VF in this process, whatever process is given.
func (l linux) Open(a vf.PCIAddr, by ...vf.Process) (err error) {
	if len(by) == 0 {
		for _, f := range l.open[a] {
			err = errors.Join(err, f.Close())
		}
		return err
	}
	st, err := l.VF(context.Background(), a, "")
	if err != nil {
		return err
	}
	l.open[a], err = openVFIO(a, st.IOMMUGroup)
	return err
}

// The calls by which a program opens a VF (include/uapi/linux/vfio.h).
const (
	vfioSetIOMMU          = 0x3b66
	vfioGroupSetContainer = 0x3b68
	vfioGroupGetDevice    = 0x3b6a
	vfioType1v2           = 3
)

// openVFIO opens a VF as QEMU does: its group, a container with the group, and in it the VF. It returns
// them in the order in which they are to be closed.
func openVFIO(a vf.PCIAddr, group int) (files []*os.File, err error) {
	g, err := os.OpenFile(fmt.Sprintf("/dev/vfio/%d", group), os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	c, err := os.OpenFile("/dev/vfio/vfio", os.O_RDWR, 0)
	if err != nil {
		return nil, errors.Join(err, g.Close())
	}
	files = []*os.File{g, c}
	name, err := unix.BytePtrFromString(a.String())
	if err != nil {
		return files, err
	}
	if err := unix.IoctlSetPointerInt(int(g.Fd()), vfioGroupSetContainer, int(c.Fd())); err != nil {
		return files, fmt.Errorf("put the group into a container: %w", err)
	}
	if err := unix.IoctlSetInt(int(c.Fd()), vfioSetIOMMU, vfioType1v2); err != nil {
		return files, fmt.Errorf("set the IOMMU: %w", err)
	}
	fd, _, errno := unix.Syscall(unix.SYS_IOCTL, g.Fd(), vfioGroupGetDevice, uintptr(unsafe.Pointer(name)))
	if errno != 0 {
		return files, fmt.Errorf("open VF %s: %w", a, errno)
	}
	return append([]*os.File{os.NewFile(fd, a.String())}, files...), nil
}

// AddOthersAddress runs ip, which marks no address as Culvert's.
func (l linux) AddOthersAddress(a vf.PCIAddr, address netip.Prefix) error {
	pfs, err := l.PFs(context.Background())
	if err != nil {
		return err
	}
	for _, pf := range pfs {
		if pf.PCI == a {
			out, err := exec.Command("ip", "address", "add", address.String(), "dev", pf.Name).CombinedOutput()
			if err != nil {
				return fmt.Errorf("ip address add: %w: %s", err, out)
			}
		}
	}
	return nil
}

func (linux) AddNetns(path string) error { return netns.New(path) }
func (linux) DelNetns(path string) error { return netns.Delete(path) }

// bare brings a machine to the state in which every story starts: PFs up, no VFs.
func bare(ctx context.Context, m machine) error {
	pfs, err := m.PFs(ctx)
	if err != nil {
		return err
	}
	for _, pf := range pfs {
		steps := []step.Step{step.SetNumVFs{PF: pf.PCI, N: 0}, step.SetAutoprobe{PF: pf.PCI, On: true}, step.SetPFUp{PF: pf.PCI}}
		for _, s := range steps {
			if err := m.Do(ctx, s); err != nil {
				return err
			}
		}
	}
	return nil
}

func TestOnTheFakeKernel(t *testing.T) {
	for name, nic := range fake.Profiles() {
		t.Run(name, func(t *testing.T) {
			tell(t, []string{"*"}, nic, func(t *testing.T) (machine, error) {
				m := fakeMachine{fake.New(nic, 2), new(int)}
				return m, bare(t.Context(), m)
			})
		})
	}
}

// inShort has the stories that make test tells on Linux, one or more for each way by which a VF
// comes and goes. What the others compare is Culvert's own, and the fake kernel shows it as well.
// make soak tells all.
var inShort = []string{"attach", "bond", "drift", "guard", "guest", "guest-open", "netns-gone", "outside", "takeover", "tune", "undo", "vfio"}

func TestOnLinux(t *testing.T) {
	if os.Getenv("CULVERT_LAB_NODE") != "1" {
		t.Skip("needs a lab node: make test-lab runs it there")
	}
	if err := flag.Set("test.parallel", "1"); err != nil { // one story at a time: they share the NICs
		t.Fatal(err)
	}
	names := []string{"*"}
	if testing.Short() {
		names = inShort
	}
	tell(t, names, fake.IGB, func(t *testing.T) (machine, error) {
		events, err := uevent.Listen()
		if err != nil {
			return nil, err
		}
		t.Cleanup(func() { _ = events.Close() })
		m := linux{kernel.New(kernel.Options{Guards: guard.Tables{}}), map[vf.PCIAddr][]*os.File{}, events}
		return m, bare(t.Context(), m)
	})
}

// tell tells the stories whose names have one of the patterns of path.Match.
func tell(t *testing.T, names []string, nic fake.Profile, boot func(*testing.T) (machine, error)) {
	var files []string
	dir := extract(t)
	for _, name := range names {
		found, err := filepath.Glob(filepath.Join(dir, name+".txtar"))
		if err != nil || len(found) == 0 {
			t.Fatalf("no story has the name %s (%v)", name, err)
		}
		files = append(files, found...)
	}
	testscript.Run(t, testscript.Params{
		Files: files, UpdateScripts: *update, Cmds: commands,
		Condition: func(cond string) (bool, error) {
			setting, ok := strings.CutPrefix(cond, "can:")
			if !ok || !slices.Contains(append(vf.Settings(), vlanQoS), vf.Setting(setting)) {
				return false, fmt.Errorf("no condition %q", cond)
			}
			return can(nic, vf.Setting(setting)), nil
		},
		Setup: func(env *testscript.Env) error {
			m, err := boot(t)
			if err != nil {
				return err
			}
			w, err := newWorld(m, nic, env.WorkDir)
			if err != nil {
				return err
			}
			env.Values[worldKey{}] = w
			env.Defer(w.close)
			for _, kv := range w.aliases() {
				env.Setenv(kv[0], kv[1])
			}
			return nil
		},
	})
}

// vlanQoS is no ability by itself: a driver that has VLANs may refuse a priority.
const vlanQoS vf.Setting = "vlanQoS"

func can(nic fake.Profile, s vf.Setting) bool {
	if s == vlanQoS {
		return can(nic, vf.SetVLAN) && !vf.DriverOf(nic.Driver).NoQoS
	}
	return nic.Abilities[s] == vf.Yes
}

// everySetting returns all settings that a network can request of the NIC, as JSON members.
// It also returns them as the command show prints them, for a VF made with the NIC's own
// settings.
func everySetting(nic fake.Profile) (asked, shown string) {
	var ask, show []string
	add := func(s vf.Setting, a, b string) {
		if can(nic, s) {
			ask, show = append(ask, a), append(show, b)
		}
	}
	if can(nic, vlanQoS) {
		add(vf.SetVLAN, `"vlan": 100, "vlanQoS": 3`, "vlan 100 qos 3")
	} else {
		add(vf.SetVLAN, `"vlan": 100`, "vlan 100")
	}
	add(vf.SetSpoofChk, fmt.Sprintf(`"spoofchk": %q`, map[bool]string{true: "off", false: "on"}[nic.SpoofChk]), "spoofchk "+vf.TriOf(!nic.SpoofChk).String())
	add(vf.SetTrust, `"trust": "on"`, "trust yes")
	add(vf.SetLinkState, `"link_state": "enable"`, "link_state enable")
	add(vf.SetMinTxRate, `"min_tx_rate": 50`, "min_tx_rate 50")
	add(vf.SetMaxTxRate, `"max_tx_rate": 200`, "max_tx_rate 200")
	return strings.Join(ask, ", "), strings.Join(show, ", ")
}

// extract returns a folder with the stories for testscript: that of the source tree if
// there is one (for -update), else a copy of the embedded stories.
func extract(t *testing.T) string {
	if _, err := os.Stat("testdata"); err == nil {
		return "testdata"
	}
	dir := t.TempDir()
	names, err := fs.Glob(stories, "testdata/*.txtar")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		text, err := stories.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, filepath.Base(name)), text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// pfAlias names PFs and VFs as stories do.
func pfAlias(i int) string { return "pf" + string(rune('0'+i)) }
