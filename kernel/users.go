package kernel

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/culvert-net/culvert/vf"
)

// Users are the processes that have VFs open through vfio, for those that somebody
// has: QEMU for as long as it has the VF. The kernel does not unbind vfio-pci before
// they let go, and asks QEMU to take the device out of the guest
// (drivers/vfio/vfio_main.c, vfio_unregister_group_dev). Processes that culvertd may not
// look at, by its capabilities or a security module, are not told.
func (k *Kernel) Users(ctx context.Context, vfs ...vf.PCIAddr) (map[vf.PCIAddr][]vf.Process, error) {
	return readBounded(ctx, &k.hangs, "the open files of processes", func() (map[vf.PCIAddr][]vf.Process, error) {
		out, err := k.users(vfs)
		if err != nil {
			return out, fmt.Errorf("look who has VFs open: %w", err)
		}
		return out, nil
	})
}

// users looks through the open files of all processes once.
func (k *Kernel) users(vfs []vf.PCIAddr) (map[vf.PCIAddr][]vf.Process, error) {
	files := map[string]vf.PCIAddr{}
	for _, addr := range vfs {
		if err := k.vfioFiles(addr, files); err != nil {
			return nil, err
		}
	}
	out := map[vf.PCIAddr][]vf.Process{}
	if len(files) == 0 {
		return out, nil
	}
	all, err := names(k.proc)
	for _, name := range all {
		pid, notOne := strconv.Atoi(name)
		if notOne != nil {
			continue
		}
		opened, openErr := k.opens(name, files)
		err = errors.Join(err, openErr)
		for addr := range opened {
			comm, _ := text(filepath.Join(k.proc, name, "comm")) // it may have ended: then it has no name
			out[addr] = append(out[addr], vf.Process{PID: pid, Name: comm})
		}
	}
	return out, err
}

// vfioFiles adds the files through which a VF is opened: that of its IOMMU group
// (Documentation/driver-api/vfio.rst), with another name where there is no IOMMU,
// and since Linux 6.6 one of its own.
func (k *Kernel) vfioFiles(addr vf.PCIAddr, files map[string]vf.PCIAddr) error {
	group, err := target(k.sys.pci(addr, "iommu_group"))
	if err != nil {
		return err
	}
	if group != "" {
		files["/dev/vfio/"+group] = addr
		files["/dev/vfio/noiommu-"+group] = addr
	}
	own, err := names(k.sys.pci(addr, "vfio-dev"))
	for _, name := range own {
		files["/dev/vfio/devices/"+name] = addr
	}
	return err
}

// opens are those of the VFs that a process has open; none when it has ended.
func (k *Kernel) opens(pid string, files map[string]vf.PCIAddr) (map[vf.PCIAddr]bool, error) {
	dir := filepath.Join(k.proc, pid, "fd")
	all, err := names(dir)
	if errors.Is(err, unix.ESRCH) || errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
		return nil, nil
	}
	var out map[vf.PCIAddr]bool
	for _, fd := range all {
		to, linkErr := os.Readlink(filepath.Join(dir, fd))
		if addr, ok := files[to]; ok && linkErr == nil {
			if out == nil {
				out = map[vf.PCIAddr]bool{}
			}
			out[addr] = true
		}
	}
	return out, err
}
