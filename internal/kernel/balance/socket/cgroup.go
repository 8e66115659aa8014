package socket

import (
	"errors"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// FindCgroup returns the root of the host's cgroup2 hierarchy: where systemd mounts it, alone
// or beside those of version 1, as culvertd sees it or as the host's first process does. A
// container runtime mounts the container's own cgroup in that place, which is not the root.
func FindCgroup(procRoot string) (string, error) {
	var candidates []string
	for _, root := range []string{"/", filepath.Join(procRoot, "1/root")} {
		candidates = append(candidates, filepath.Join(root, "sys/fs/cgroup"), filepath.Join(root, "sys/fs/cgroup/unified"))
	}
	for _, at := range candidates {
		if isRootCgroup(at) {
			return at, nil
		}
	}
	return "", errors.New("the host has no cgroup2 hierarchy at /sys/fs/cgroup or /sys/fs/cgroup/unified")
}

// isRootCgroup reports whether path is the root of cgroup2. Only the root has no cgroup.type
// (Linux, Documentation/admin-guide/cgroup-v2.rst).
func isRootCgroup(path string) bool {
	var fs unix.Statfs_t
	if err := unix.Statfs(path, &fs); err != nil || fs.Type != unix.CGROUP2_SUPER_MAGIC {
		return false
	}
	_, err := os.Stat(filepath.Join(path, "cgroup.type"))
	return errors.Is(err, os.ErrNotExist)
}
