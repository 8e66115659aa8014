package survey

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// Disk is the file system of a folder whose content must last.
type Disk struct {
	Path      string
	Missing   bool
	Type      string // e.g. ext4; its number in hexadecimal when it has no name here
	Free      uint64 // bytes, for root
	FreeFiles uint64 // Unlimited where it does not count them
	ReadOnly  bool
	// SyncErr is the reason why no file can be made and made durable there; it is empty if that
	// works. Unknown says that it was not tried.
	SyncErr string
	Unknown bool
}

// fileSystems are the names of statfs(2)'s numbers (linux/magic.h).
var fileSystems = map[int64]string{
	unix.EXT4_SUPER_MAGIC: "ext4", unix.XFS_SUPER_MAGIC: "xfs", unix.BTRFS_SUPER_MAGIC: "btrfs", unix.TMPFS_MAGIC: "tmpfs",
	unix.OVERLAYFS_SUPER_MAGIC: "overlay", unix.NFS_SUPER_MAGIC: "nfs", unix.V9FS_MAGIC: "9p", unix.FUSE_SUPER_MAGIC: "fuse",
	unix.RAMFS_MAGIC: "ramfs", unix.CEPH_SUPER_MAGIC: "ceph", unix.CIFS_SUPER_MAGIC: "cifs", unix.F2FS_SUPER_MAGIC: "f2fs",
	0x2fc12fc1: "zfs",
}

// ReadDisk looks at a folder. It makes a file without a name there and syncs
// it, which leaves nothing behind (open(2), O_TMPFILE).
func ReadDisk(path string) Disk {
	d := Disk{Path: path}
	var st unix.Statfs_t
	if err := unix.Statfs(path, &st); err != nil {
		d.Missing = errors.Is(err, fs.ErrNotExist)
		d.SyncErr = (&fs.PathError{Op: "statfs", Path: path, Err: err}).Error()
		return d
	}
	d.Type = fileSystems[int64(st.Type)] //nolint:unconvert // another width on other architectures
	if d.Type == "" {
		d.Type = fmt.Sprintf("%#x", st.Type)
	}
	d.Free = st.Bfree * uint64(st.Bsize)
	d.FreeFiles = st.Ffree
	if st.Files == 0 {
		d.FreeFiles = Unlimited
	}
	d.ReadOnly = st.Flags&unix.ST_RDONLY != 0
	fd, err := unix.Open(path, unix.O_TMPFILE|unix.O_WRONLY|unix.O_CLOEXEC, 0o600)
	if errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.EISDIR) {
		d.Unknown = true
		return d
	}
	if err == nil {
		f := os.NewFile(uintptr(fd), path)
		defer f.Close()
		if _, err = f.Write(make([]byte, 4096)); err == nil {
			err = f.Sync()
		}
	}
	if err != nil {
		d.SyncErr = err.Error()
	}
	return d
}
