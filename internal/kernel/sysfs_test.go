package kernel

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/culvert-net/culvert/internal/vf"
)

func pciAddr(t *testing.T, s string) vf.PCIAddr {
	t.Helper()
	a, err := vf.ParsePCIAddr(s)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func TestFindPFs(t *testing.T) {
	sys := treeOf(t, "host.txtar")
	all, err := sys.listFunctions()
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, a := range all {
		if sys.isPF(a) {
			got = append(got, a.String())
		}
	}
	want := []string{"0000:01:00.0", "0000:02:00.0", "0000:05:00.0", "0000:06:00.0"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("PFs (-want +got):\n%s", diff)
	}
}

func TestFunction(t *testing.T) {
	sys := treeOf(t, "host.txtar")
	for _, want := range []function{
		{pciAddr(t, "01:00.0"), "8086", "10c9", "igb", -1, 3, 0},
		{pciAddr(t, "01:10.2"), "8086", "10ca", "", -1, -1, 101},
		{pciAddr(t, "02:00.0"), "15b3", "1019", "", 1, 9, 0},
		{pciAddr(t, "05:00.2"), "15b3", "101e", "vfio-pci", 0, -1, 0},
	} {
		got, err := sys.readFunction(want.PCI)
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("%s (-want +got):\n%s\n%v", want.PCI, diff, err)
		}
	}
	if _, err := sys.readFunction(pciAddr(t, "09:00.0")); !errors.Is(err, vf.ErrNotFound) {
		t.Errorf("a function that is not there: %v", err)
	}
}

func TestSRIOV(t *testing.T) {
	sys := treeOf(t, "host.txtar")
	got, err := sys.readSRIOV(pciAddr(t, "01:00.0"))
	want := sriov{NumVFs: 2, TotalVFs: 7, Autoprobe: vf.No, VFs: map[int]vf.PCIAddr{
		0: pciAddr(t, "01:10.0"), 1: pciAddr(t, "01:10.2"),
	}}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("igb (-want +got):\n%s\n%v", diff, err)
	}
	got, err = sys.readSRIOV(pciAddr(t, "02:00.0"))
	if diff := cmp.Diff(sriov{TotalVFs: 8, VFs: map[int]vf.PCIAddr{}}, got); diff != "" || err != nil {
		t.Errorf("an old kernel without autoprobe (-want +got):\n%s\n%v", diff, err)
	}
	if _, err = sys.readSRIOV(pciAddr(t, "06:00.0")); err == nil {
		t.Error("a broken PF read without an error")
	}
}

func TestPhysfn(t *testing.T) {
	sys := treeOf(t, "host.txtar")
	for _, tt := range []struct {
		vf, pf string
		index  int
		fails  bool
	}{
		{"01:10.0", "0000:01:00.0", 0, false},
		{"01:10.2", "0000:01:00.0", 1, false},
		{"05:00.2", "0000:05:00.0", 0, false},
		{"01:00.0", "", 0, true}, // a PF
		{"09:00.0", "", 0, true},
	} {
		pf, index, err := sys.findPF(pciAddr(t, tt.vf))
		if pf.String() != tt.pf || index != tt.index || errors.Is(err, vf.ErrNotFound) != tt.fails || (err != nil) != tt.fails {
			t.Errorf("physfn(%s) = %s, %d, %v", tt.vf, pf, index, err)
		}
	}
}

func TestNetdev(t *testing.T) {
	sys := treeOf(t, "host.txtar")
	for _, tt := range []struct {
		pci  string
		want netdev
		ok   bool
	}{
		{"01:00.0", netdev{"enp1s0", 2}, true},
		{"01:10.0", netdev{"enp1s0v0", 7}, true},
		{"01:10.2", netdev{}, false},
		{"05:00.0", netdev{"eth1", 10}, true}, // eth0 is a representor
	} {
		got, ok, err := sys.findNetdev(pciAddr(t, tt.pci))
		if got != tt.want || ok != tt.ok || err != nil {
			t.Errorf("netdev(%s) = %+v, %v, %v; want %+v, %v", tt.pci, got, ok, err, tt.want, tt.ok)
		}
	}
}

// Files and folders of any length are read whole.
func TestTextAndNamesOfAnyLength(t *testing.T) {
	for _, n := range []int{0, 1, 255, 256, 257, 1024, 5000} {
		dir := t.TempDir()
		want := strings.Repeat("x", n)
		if err := os.WriteFile(filepath.Join(dir, "file"), []byte(want+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		if got, err := readLine(filepath.Join(dir, "file")); got != want || err != nil {
			t.Errorf("%d bytes: read %d, %v", n, len(got), err)
		}
	}
	dir := t.TempDir()
	var want []string
	for i := range 200 {
		name := fmt.Sprintf("virtfn%03d", i)
		want = append(want, name)
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := listNames(dir)
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v\n%s", err, diff)
	}
	if got, err := listNames(filepath.Join(dir, "nowhere")); got != nil || err != nil {
		t.Errorf("a folder that is not there: %v, %v", got, err)
	}
	if _, err := listNames(filepath.Join(dir, "virtfn000")); err == nil {
		t.Error("a file was listed")
	}
}

// I5, I7: a function of the bus that cannot be read has not gone. A PF is listed all the same. The
// error of a VF is not that it was not found. A symbolic link to itself stands for a file that
// cannot be opened (ELOOP).
func TestUnreadIsNotAbsent(t *testing.T) {
	loop := func(path string) {
		t.Helper()
		if err := errors.Join(os.RemoveAll(path), os.Symlink(filepath.Base(path), path)); err != nil {
			t.Fatal(err)
		}
	}
	addr := pciAddr(t, "01:10.0")
	for what, c := range map[string]struct {
		hide func(sys tree)
		read func(sys tree) error
	}{
		"the folder of a VF": {func(sys tree) { loop(sys.pciPath(addr)) }, func(sys tree) error { _, err := sys.readFunction(addr); return err }},
		"the place of a VF":  {func(sys tree) { loop(sys.pciPath(addr)) }, func(sys tree) error { _, _, err := sys.findPF(addr); return err }},
		"the links of a PF": {func(sys tree) {
			pf := pciAddr(t, "01:00.0")
			for _, file := range []string{"virtfn0", "virtfn1", "sriov_stride"} {
				_ = os.Remove(sys.pciPath(pf, file))
			}
			if err := os.WriteFile(sys.pciPath(pf, "virtfn0"), nil, 0o600); err != nil { // EINVAL: no link
				t.Fatal(err)
			}
		}, func(sys tree) error { _, _, err := sys.findPF(addr); return err }},
	} {
		t.Run(what, func(t *testing.T) {
			sys := treeOf(t, "host.txtar")
			c.hide(sys)
			if err := c.read(sys); err == nil || errors.Is(err, vf.ErrNotFound) {
				t.Errorf("the answer is %v", err)
			}
		})
	}
	sys := treeOf(t, "host.txtar")
	pf := pciAddr(t, "01:00.0")
	for _, file := range []string{"class", "net", "sriov_totalvfs"} {
		loop(sys.pciPath(pf, file))
	}
	if !sys.isPF(pf) {
		t.Error("a PF whose files cannot be opened is no PF")
	}
}
