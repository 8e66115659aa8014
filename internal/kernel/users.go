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

	"golang.org/x/sys/unix"

	"github.com/culvert-net/culvert/internal/vf"
)

// Users returns the processes that have VFs open through vfio, by VF. QEMU has a VF open as long
// as the guest has it. The kernel does not unbind vfio-pci before these processes close the VF,
// and asks QEMU to take the device out of the guest (drivers/vfio/vfio_main.c,
// vfio_unregister_group_dev). Users misses processes that culvertd may not look at, by its
// capabilities or a security module.
//
// Users identifies a file by its device number and not by its name: a container may give its
// device nodes any name, and udev may have removed the node. A VF's own file from
// VFIO_GROUP_GET_DEVICE_FD is an anonymous inode, and older kernels do not say which VF it
// belongs to. While the kernel has a VF open and its process is unknown, every process with such
// a file is a user of it.
func (k *Kernel) Users(ctx context.Context, vfs ...vf.PCIAddr) (map[vf.PCIAddr][]vf.Process, error) {
	return readBounded(ctx, &k.hangs, "the open files of processes", func() (map[vf.PCIAddr][]vf.Process, error) {
		out, err := k.findUsers(vfs)
		if err != nil {
			return out, fmt.Errorf("look who has VFs open: %w", err)
		}
		return out, nil
	})
}

// findUsers looks through the open files of all processes once.
func (k *Kernel) findUsers(vfs []vf.PCIAddr) (map[vf.PCIAddr][]vf.Process, error) {
	files, err := k.listVFIOFiles(vfs)
	if err != nil {
		return nil, err
	}
	out := map[vf.PCIAddr][]vf.Process{}
	if files.isEmpty() {
		return out, nil
	}
	var unidentified []vf.Process
	all, err := listNames(k.proc)
	for _, name := range all {
		pid, notOne := strconv.Atoi(name)
		if notOne != nil {
			continue
		}
		opened, openErr := k.readOpened(name, files)
		err = errors.Join(err, openErr)
		if len(opened.vfs) == 0 && !opened.unidentified {
			continue
		}
		comm, _ := readLine(filepath.Join(k.proc, name, "comm")) // it may have ended: then it has no name
		process := vf.Process{PID: pid, Name: comm}
		for addr := range opened.vfs {
			out[addr] = append(out[addr], process)
		}
		if opened.unidentified {
			unidentified = append(unidentified, process)
		}
	}
	for addr, isBound := range files.isBound {
		if isBound && len(unidentified) > 0 && len(out[addr]) == 0 && k.mayBeOpen(addr) {
			out[addr] = slices.Clone(unidentified)
		}
	}
	return out, err
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
}

func (f vfioFiles) isEmpty() bool {
	return len(f.names) == 0 && !slices.Contains(slices.Collect(maps.Values(f.isBound)), true)
}

// listVFIOFiles lists the files of VFs. A VF has the file of its IOMMU group
// (Documentation/driver-api/vfio.rst), which has another name if there is no IOMMU, and since
// Linux 6.6 a file of its own. VFs of one group share its file.
func (k *Kernel) listVFIOFiles(vfs []vf.PCIAddr) (vfioFiles, error) {
	f := vfioFiles{
		numbers: map[uint64][]vf.PCIAddr{}, unnumbered: map[string][]vf.PCIAddr{}, names: map[string][]vf.PCIAddr{},
		isBound: map[vf.PCIAddr]bool{},
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
	}
	return f, nil
}

// deviceNumber reads a file of sysfs that has a device number, as "511:3".
func deviceNumber(path string) (uint64, bool) {
	line, err := readLine(path)
	major, minor, both := strings.Cut(line, ":")
	a, majorErr := strconv.ParseUint(major, 10, 32)
	b, minorErr := strconv.ParseUint(minor, 10, 32)
	return unix.Mkdev(uint32(a), uint32(b)), both && errors.Join(err, majorErr, minorErr) == nil
}

// mayBeOpen reports whether a process may have a VF open through vfio: the vfio drivers enable
// the function when the VF is opened, and disable it when it is closed for the last time
// (drivers/vfio/pci/vfio_pci_core.c, vfio_pci_core_enable). If sysfs does not show whether the
// function is enabled, the VF may be open.
func (k *Kernel) mayBeOpen(addr vf.PCIAddr) bool {
	enabled, err := readLine(k.sys.pciPath(addr, "enable"))
	return err != nil || enabled != "0"
}

// openedVFs are the VFs that a process has open.
type openedVFs struct {
	vfs          map[vf.PCIAddr]bool
	unidentified bool // the process has a vfio device open, and the kernel does not show which
}

// readOpened reads which of the VFs a process has open; none when it has ended.
func (k *Kernel) readOpened(pid string, files vfioFiles) (openedVFs, error) {
	var out openedVFs
	dir := filepath.Join(k.proc, pid, "fd")
	all, err := listNames(dir)
	if errors.Is(err, unix.ESRCH) || errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
		return out, nil
	}
	for _, fd := range all {
		path := filepath.Join(dir, fd)
		to, linkErr := os.Readlink(path)
		var opened []vf.PCIAddr
		switch {
		case linkErr != nil: // closed since
		case to == "anon_inode:[vfio-device]":
			device, ok := readDeviceName(filepath.Join(k.proc, pid, "fdinfo", fd))
			out.unidentified = out.unidentified || !ok
			if addr, err := vf.ParsePCIAddr(device); err == nil {
				opened = []vf.PCIAddr{addr}
			}
		case strings.HasPrefix(to, "/"):
			opened = files.vfsOfFile(path, strings.TrimSuffix(to, " (deleted)"))
		}
		for _, addr := range opened {
			if _, isAsked := files.isBound[addr]; !isAsked {
				continue
			}
			if out.vfs == nil {
				out.vfs = map[vf.PCIAddr]bool{}
			}
			out.vfs[addr] = true
		}
	}
	return out, err
}

// vfsOfFile returns the VFs that an open file belongs to: by its device number, or by its name if
// the number cannot be read or sysfs has none. AT_STATX_DONT_SYNC prevents a wait for a file
// server that does not answer (statx(2)).
func (f vfioFiles) vfsOfFile(path, name string) []vf.PCIAddr {
	var st unix.Statx_t
	err := unix.Statx(unix.AT_FDCWD, path, unix.AT_STATX_DONT_SYNC, unix.STATX_TYPE, &st)
	switch {
	case err != nil:
		return f.names[name]
	case st.Mode&unix.S_IFMT != unix.S_IFCHR:
		return nil
	}
	if vfs := f.numbers[unix.Mkdev(st.Rdev_major, st.Rdev_minor)]; len(vfs) > 0 {
		return vfs
	}
	return f.unnumbered[name]
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
