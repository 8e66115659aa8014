package kernel

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/culvert-net/culvert/internal/vf"
)

// For every text in the files of sysfs about a PF and its VF, the kernel's reader returns numbers in
// range and names that are the last part of a path, or an error that names the file. A record of udev counts as done only without ID_RENAMING.
func FuzzTree(f *testing.F) {
	f.Add("2", "7", "0x8086", "0x020000", "0", "../0000:01:10.0", "../../../bus/pci/drivers/igb", "virtfn0", "2", "p0", "E:ID_RENAMING=1\n")
	f.Add("", "", "", "", "-1", "", "", "virtfn-1", "", "", "")
	f.Add("-5", "99999999999999999999", "8086\x00\x1b", "0x03", "x", "/", "..", "virtfn0x", "-1", "pf0vf1", "I:1")
	f.Add("65536", "-1", "\n\n", "0x02", "2147483648", "0000:01:10.8", ".", "virtfn00", "00", "c1pf0sf7", "\xff")
	f.Fuzz(func(t *testing.T, numVFs, totalVFs, vendor, class, numa, virtfn, driver, entry, ifindex, port, record string) {
		root := t.TempDir()
		pf := vf.PCIAddr{Bus: 1}
		sys := tree{root}
		for file, text := range map[string]string{
			"sriov_numvfs": numVFs, "sriov_totalvfs": totalVFs, "vendor": vendor, "device": vendor, "class": class, "numa_node": numa,
			"sriov_offset": numVFs, "sriov_stride": totalVFs, "sriov_drivers_autoprobe": numVFs,
			"net/eth0/ifindex": ifindex, "net/eth0/phys_port_name": port, "net/eth1/ifindex": ifindex,
		} {
			lay(t, sys.pciPath(pf, file), text)
		}
		for link, to := range map[string]string{"driver": driver, "iommu_group": numa, "physfn": virtfn, entry: virtfn} {
			if link == "" || to == "" || strings.ContainsAny(link, "/\x00") || strings.Contains(to, "\x00") {
				continue
			}
			_ = os.Symlink(to, sys.pciPath(pf, link)) // a name that a file has, or that is too long: there is none then
		}
		lay(t, filepath.Join(root, "record"), record)
		if isRecorded(filepath.Join(root, "record")) && strings.Contains(record, "E:ID_RENAMING=1\n") {
			t.Error("a netdevice that is being renamed is done")
		}
		look1(t, sys, pf)
	})
}

func lay(t *testing.T, path, text string) {
	t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)); err != nil {
		t.Fatal(err)
	}
}

// look1 reads a PF in every way.
func look1(t *testing.T, sys tree, pf vf.PCIAddr) {
	t.Helper()
	sys.isPF(pf)
	fn, ferr := sys.readFunction(pf)
	if strings.Contains(fn.Driver, "/") || fn.Driver == "." || fn.Driver == ".." {
		t.Errorf("driver %q", fn.Driver)
	}
	s, serr := sys.readSRIOV(pf)
	if s.NumVFs < 0 || s.NumVFs > 0xffff || s.TotalVFs < 0 || s.TotalVFs > 0xffff {
		t.Errorf("%d of %d VFs", s.NumVFs, s.TotalVFs)
	}
	for index, addr := range s.VFs {
		if index < 0 || index > 0xffff || addr.IsZero() {
			t.Errorf("vf %d at %s", index, addr)
		}
	}
	_, index, perr := sys.findPF(pf)
	if perr == nil && index < 0 {
		t.Errorf("vf %d", index)
	}
	n, found, nerr := sys.findNetdev(pf)
	if found && (n.Index <= 0 || n.Name == "") {
		t.Errorf("netdevice %+v", n)
	}
	for _, err := range []error{ferr, serr, nerr} {
		var path *fs.PathError
		if err != nil && !errors.As(err, &path) && !strings.Contains(err.Error(), pf.String()) && !strings.Contains(err.Error(), sys.root) && !strings.Contains(err.Error(), "eth") {
			t.Errorf("%v does not say where", err)
		}
		if err != nil && len(err.Error()) > 64<<10 {
			t.Errorf("an error of %d bytes", len(err.Error()))
		}
	}
}
