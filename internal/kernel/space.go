package kernel

import (
	"fmt"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// FileSpace returns the size of a file, and how many bytes root may still write to its file system.
func FileSpace(path string) (size, free uint64, err error) {
	info, err := os.Stat(path)
	if err != nil {
		return 0, 0, err
	}
	var st unix.Statfs_t
	if err := unix.Statfs(path, &st); err != nil {
		return 0, 0, fmt.Errorf("read the free space: %w", &fs.PathError{Op: "statfs", Path: path, Err: err})
	}
	return uint64(info.Size()), st.Bfree * uint64(st.Bsize), nil
}
