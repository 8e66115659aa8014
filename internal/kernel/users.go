package kernel

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/culvert-net/culvert/internal/vf"
)

// searchBound is how long a caller waits for a search through the open files of all processes, if
// its context does not end before, and briefBound if sysfs says what the search would. A search
// takes 9 us for each open file.
const (
	searchBound = 20 * time.Second
	briefBound  = 2 * time.Second
)

// Users returns the processes that have VFs open through vfio, by VF. QEMU has a VF open as long
// as the guest has it. The kernel does not unbind vfio-pci before these processes close the VF,
// and asks QEMU to take the device out of the guest (drivers/vfio/vfio_main.c,
// vfio_unregister_group_dev). Users misses processes that culvertd may not look at, by its
// capabilities or a security module.
//
// If the search through the processes does not end in time, Users believes sysfs: a VF that the
// kernel has enabled is open by a process that is not known (the zero Process), and one that it
// has not enabled is not open. Only a process that has opened the group and not yet the VF is missed
// then. If sysfs does not say, Users returns an error that wraps vf.ErrTimeout, with what it has
// found.
//
// Users identifies a file by its device number and not by its name: a container may give its
// device nodes any name, and udev may have removed the node. A VF's own file from
// VFIO_GROUP_GET_DEVICE_FD is an anonymous inode, and older kernels do not say which VF it
// belongs to. While the kernel has a VF open and its process is unknown, every process with such
// a file is a user of it.
func (k *Kernel) Users(ctx context.Context, vfs ...vf.PCIAddr) (map[vf.PCIAddr][]vf.Process, error) {
	files, err := k.listVFIOFiles(vfs)
	if err != nil {
		return nil, fmt.Errorf("look who has VFs open: %w", err)
	}
	if len(files.isOpen) == 0 {
		return map[vf.PCIAddr][]vf.Process{}, nil
	}
	openers, err := k.searches.search(ctx, files.bound(), k.findOpeners)
	out := files.usersAmong(openers)
	if err == nil {
		return out, nil
	}
	for addr, isOpen := range files.isOpen {
		switch {
		case len(out[addr]) > 0 || isOpen == vf.No:
		case isOpen == vf.Yes:
			out[addr] = []vf.Process{{}}
		default:
			return out, fmt.Errorf("look who has VFs open: %w", err)
		}
	}
	return out, nil
}

// usersAmong returns the processes among the openers that have a VF open.
func (f vfioFiles) usersAmong(openers []opener) map[vf.PCIAddr][]vf.Process {
	out := map[vf.PCIAddr][]vf.Process{}
	var unidentified []vf.Process
	for _, o := range openers {
		if o.unidentified {
			unidentified = append(unidentified, o.process)
		}
		for addr := range f.vfsOf(o) {
			out[addr] = append(out[addr], o.process)
		}
	}
	for addr := range f.isOpen {
		if f.isBound[addr] && f.isOpen[addr] != vf.No && len(out[addr]) == 0 && len(unidentified) > 0 {
			out[addr] = slices.Clone(unidentified)
		}
	}
	return out
}

// vfioFiles are the files through which VFs are opened.
type vfioFiles struct {
	numbers map[uint64][]vf.PCIAddr // by device number
	// unnumbered has, by path, the VFs whose device has no number in sysfs. names has all VFs by
	// path, for open files whose device number cannot be read.
	unnumbered, names map[string][]vf.PCIAddr
	// isBound says of each VF whether a vfio driver is bound to it, so that a process may have it
	// open.
	isBound map[vf.PCIAddr]bool
	// isOpen has the VFs that a process may have open, and whether one has, as far as sysfs shows.
	isOpen map[vf.PCIAddr]vf.Tri
}

// bound returns how long to wait for the search.
func (f vfioFiles) bound() time.Duration {
	for _, isOpen := range f.isOpen {
		if isOpen == vf.Unknown {
			return searchBound
		}
	}
	return briefBound
}

// listVFIOFiles lists the files of VFs. A VF has the file of its IOMMU group
// (Documentation/driver-api/vfio.rst), which has another name if there is no IOMMU, and since
// Linux 6.6 a file of its own. VFs of one group share its file. None of these reads waits for a
// driver.
func (k *Kernel) listVFIOFiles(vfs []vf.PCIAddr) (vfioFiles, error) {
	f := vfioFiles{
		numbers: map[uint64][]vf.PCIAddr{}, unnumbered: map[string][]vf.PCIAddr{}, names: map[string][]vf.PCIAddr{},
		isBound: map[vf.PCIAddr]bool{}, isOpen: map[vf.PCIAddr]vf.Tri{},
	}
	add := func(addr vf.PCIAddr, name, numberFile string) {
		f.names[name] = append(f.names[name], addr)
		if number, ok := deviceNumber(numberFile); ok {
			f.numbers[number] = append(f.numbers[number], addr)
		} else {
			f.unnumbered[name] = append(f.unnumbered[name], addr)
		}
	}
	for _, addr := range vfs {
		group, err := linkTarget(k.sys.pciPath(addr, "iommu_group"))
		if err != nil {
			return f, err
		}
		if group != "" {
			for _, name := range []string{group, "noiommu-" + group} {
				add(addr, "/dev/vfio/"+name, filepath.Join(k.sys.root, "class/vfio", name, "dev"))
			}
		}
		own, err := listNames(k.sys.pciPath(addr, "vfio-dev"))
		if err != nil {
			return f, err
		}
		for _, name := range own {
			add(addr, "/dev/vfio/devices/"+name, k.sys.pciPath(addr, "vfio-dev", name, "dev"))
		}
		driver, err := linkTarget(k.sys.pciPath(addr, "driver"))
		if err != nil {
			return f, err
		}
		f.isBound[addr] = len(own) > 0 || strings.Contains(driver, "vfio") // vfio-pci, mlx5_vfio_pci
		switch {
		case f.isBound[addr]:
			f.isOpen[addr] = k.isEnabled(addr)
		case k.sharesGroup(addr): // a process that has another function of the group open has the group's file
			f.isOpen[addr] = vf.Unknown
		}
	}
	return f, nil
}

// isEnabled reports whether a function is enabled. The vfio drivers enable it when the VF is
// opened, and disable it when it is closed for the last time (drivers/vfio/pci/vfio_pci_core.c,
// vfio_pci_core_enable).
func (k *Kernel) isEnabled(addr vf.PCIAddr) vf.Tri {
	enabled, err := readLine(k.sys.pciPath(addr, "enable"))
	if err != nil {
		return vf.Unknown
	}
	return vf.TriOf(enabled != "0")
}

// sharesGroup reports whether other functions are in the IOMMU group of a VF, or whether that is
// unknown. It is false without an IOMMU.
func (k *Kernel) sharesGroup(addr vf.PCIAddr) bool {
	group := k.sys.pciPath(addr, "iommu_group")
	if !fileExists(group) {
		return false
	}
	members, err := listNames(filepath.Join(group, "devices"))
	return err != nil || len(members) != 1
}

// deviceNumber reads a file of sysfs that has a device number, as "511:3".
func deviceNumber(path string) (uint64, bool) {
	line, err := readLine(path)
	major, minor, both := strings.Cut(line, ":")
	a, majorErr := strconv.ParseUint(major, 10, 32)
	b, minorErr := strconv.ParseUint(minor, 10, 32)
	return unix.Mkdev(uint32(a), uint32(b)), both && errors.Join(err, majorErr, minorErr) == nil
}

// An opener is a process with the files that may be devices of VFs.
type opener struct {
	process vf.Process
	numbers map[uint64]string   // paths of open character devices, by device number
	names   map[string]bool     // paths of open files whose device number cannot be read
	devices map[vf.PCIAddr]bool // whose own file it has open
	// unidentified is true if the process has a vfio device open, and the kernel does not show
	// which.
	unidentified bool
}

// findOpeners looks through the open files of all processes once.
func (k *Kernel) findOpeners() ([]opener, error) {
	all, err := listNames(k.proc)
	var out []opener
	for _, name := range all {
		pid, notOne := strconv.Atoi(name)
		if notOne != nil {
			continue
		}
		o, openErr := k.readOpened(name)
		err = errors.Join(err, openErr)
		if len(o.numbers)+len(o.names)+len(o.devices) == 0 && !o.unidentified {
			continue
		}
		comm, _ := readLine(filepath.Join(k.proc, name, "comm")) // it may have ended: then it has no name
		o.process = vf.Process{PID: pid, Name: comm, Guest: k.readGuest(name)}
		out = append(out, o)
	}
	return out, err
}

// readOpened reads the open files of a process; none when it has ended.
func (k *Kernel) readOpened(pid string) (opener, error) {
	o := opener{numbers: map[uint64]string{}, names: map[string]bool{}, devices: map[vf.PCIAddr]bool{}}
	dir := filepath.Join(k.proc, pid, "fd")
	all, err := listNames(dir)
	if errors.Is(err, unix.ESRCH) || errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
		return o, nil
	}
	for _, fd := range all {
		path := filepath.Join(dir, fd)
		to, linkErr := os.Readlink(path)
		switch {
		case linkErr != nil: // closed since
		case to == "anon_inode:[vfio-device]":
			device, ok := readDeviceName(filepath.Join(k.proc, pid, "fdinfo", fd))
			o.unidentified = o.unidentified || !ok
			if addr, err := vf.ParsePCIAddr(device); err == nil {
				o.devices[addr] = true
			}
		case strings.HasPrefix(to, "/"):
			o.addFile(path, strings.TrimSuffix(to, " (deleted)"))
		}
	}
	return o, err
}

// addFile adds an open file if it is a character device, or if it may be one.
// AT_STATX_DONT_SYNC prevents a wait for a file server that does not answer (statx(2)).
func (o *opener) addFile(path, name string) {
	var st unix.Statx_t
	err := unix.Statx(unix.AT_FDCWD, path, unix.AT_STATX_DONT_SYNC, unix.STATX_TYPE, &st)
	switch {
	case err != nil:
		o.names[name] = true
	case st.Mode&unix.S_IFMT == unix.S_IFCHR:
		o.numbers[unix.Mkdev(st.Rdev_major, st.Rdev_minor)] = name
	}
}

// vfsOf returns those of the VFs that a process has open: by the device number of a file, or by
// its name if the number cannot be read or sysfs has none.
func (f vfioFiles) vfsOf(o opener) map[vf.PCIAddr]bool {
	out := map[vf.PCIAddr]bool{}
	add := func(vfs []vf.PCIAddr) {
		for _, addr := range vfs {
			if _, mayBe := f.isOpen[addr]; mayBe {
				out[addr] = true
			}
		}
	}
	for number, name := range o.numbers {
		if vfs := f.numbers[number]; len(vfs) > 0 {
			add(vfs)
		} else {
			add(f.unnumbered[name])
		}
	}
	for name := range o.names {
		add(f.names[name])
	}
	add(slices.Collect(maps.Keys(o.devices)))
	return out
}

// readDeviceName reads the name of the device behind an anonymous inode of vfio, if the kernel
// shows it: a PCI address, or another bus's name (Documentation/filesystems/proc.rst, "VFIO
// Device files").
func readDeviceName(fdinfo string) (string, bool) {
	all, err := readLine(fdinfo)
	if err != nil {
		return "", false
	}
	for line := range strings.Lines(all) {
		if device, ok := strings.CutPrefix(line, "vfio-device-syspath:"); ok {
			return filepath.Base(strings.TrimSpace(device)), true
		}
	}
	return "", false
}
