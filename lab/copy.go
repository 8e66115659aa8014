package lab

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"
)

// Copy copies the host's file or tree src to dest on a node, with its modes
// and owned by root. A dest that ends with "/" is the folder to copy into.
// Folders are made, and keep their modes if they are there; files are replaced even while
// they run.
func (l *Lab) Copy(ctx context.Context, node, src, dest string) error {
	if strings.HasSuffix(dest, "/") {
		dest = path.Join(dest, filepath.Base(src))
	}
	if err := l.copyToNode(ctx, node, src, path.Clean(dest)); err != nil {
		return fmt.Errorf("copy %s to %s:%s: %w", src, node, dest, err)
	}
	return nil
}

// unpack runs on the node and unpacks an archive in the folder that the node shares with the
// host. The folder is mounted only while the script runs, since the mount's cache identifies
// files by their inode numbers alone; it makes the copy several times faster. QEMU allows one
// mount at a time.
const unpack = `exec flock /run/lab.lock unshare --mount sh -c '
set -e
mkdir -p /run/lab "$1"
mount -t 9p -o trans=virtio,version=9p2000.L,ro,msize=512000,cache=loose lab /run/lab
` + untar + ` --file "/run/lab/$0" --directory "$1"
' "$0" "$1"`

const untar = `tar --extract --blocking-factor 1024 --no-same-owner --preserve-permissions --no-overwrite-dir`

func (l *Lab) copyToNode(ctx context.Context, node, src, dest string) error {
	if !path.IsAbs(dest) {
		return errors.New("the destination is not an absolute path")
	}
	f, err := os.CreateTemp(l.paths.sharePath(), "copy-")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	out := tar.NewWriter(f)
	if err := errors.Join(AddTree(out, src, path.Base(dest), true), out.Close(), f.Close()); err != nil {
		return err
	}
	var errs bytes.Buffer
	exit, err := l.Exec(ctx, node, Cmd{
		Argv: []string{"sh", "-c", unpack, filepath.Base(f.Name()), path.Dir(dest)}, Stderr: &errs,
	})
	if err == nil && exit != 0 {
		err = fmt.Errorf("tar: exit status %d: %s", exit, strings.TrimSpace(errs.String()))
	}
	return err
}

// LayOver copies the content of the host's folder stage over the root of a node.
func (l *Lab) LayOver(ctx context.Context, node, stage string) error {
	entries, err := os.ReadDir(stage)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if err := l.Copy(ctx, node, filepath.Join(stage, e.Name()), "/"+e.Name()); err != nil {
			return err
		}
	}
	return nil
}
