package lab

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
)

// Copy copies the host's file or tree src to dest on a node, with its modes
// and owned by root. A dest that ends with "/" is the folder to copy into.
// Folders are made, files replaced even while they run.
func (l *Lab) Copy(ctx context.Context, node, src, dest string) error {
	if strings.HasSuffix(dest, "/") {
		dest = path.Join(dest, filepath.Base(src))
	}
	if err := l.copy(ctx, node, src, path.Clean(dest)); err != nil {
		return fmt.Errorf("copy %s to %s:%s: %w", src, node, dest, err)
	}
	return nil
}

// unpack runs on the node: the archive is in the folder that it shares with
// the host. The mount lasts as long as the script, since its cache, which makes
// it several times faster, knows a file by its inode number only. QEMU allows
// one mount at a time.
const unpack = `exec flock /run/lab.lock unshare --mount sh -c '
set -e
mkdir -p /run/lab "$1"
mount -t 9p -o trans=virtio,version=9p2000.L,ro,msize=512000,cache=loose lab /run/lab
tar --extract --file "/run/lab/$0" --blocking-factor 1024 --directory "$1" \
	--no-same-owner --preserve-permissions
' "$0" "$1"`

func (l *Lab) copy(ctx context.Context, node, src, dest string) error {
	if !path.IsAbs(dest) {
		return errors.New("the destination is not an absolute path")
	}
	f, err := os.CreateTemp(l.paths.share(), "copy-")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	if err := errors.Join(writeTar(f, src, path.Base(dest)), f.Close()); err != nil {
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

// writeTar writes the file or tree src as name.
func writeTar(w io.Writer, src, name string) error {
	out := tar.NewWriter(w)
	err := filepath.WalkDir(src, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(src, p)
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err == nil && p == src {
			info, err = os.Stat(src)
		}
		if err != nil {
			return err
		}
		return tarOne(out, path.Join(name, filepath.ToSlash(rel)), p, info)
	})
	return errors.Join(err, out.Close())
}

func tarOne(out *tar.Writer, name, src string, info fs.FileInfo) error {
	target := ""
	if info.Mode()&fs.ModeSymlink != 0 {
		var err error
		if target, err = os.Readlink(src); err != nil {
			return err
		}
	}
	head, err := tar.FileInfoHeader(info, target)
	if err != nil {
		return err
	}
	head.Name, head.Uid, head.Gid, head.Uname, head.Gname = name, 0, 0, "", ""
	if err := out.WriteHeader(head); err != nil || !info.Mode().IsRegular() {
		return err
	}
	f, err := os.Open(src)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = io.Copy(out, f)
	return err
}
