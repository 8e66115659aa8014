package lab

import (
	"archive/tar"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"time"
)

// walkTree visits the file or tree src of this host, with the names of its parts in an archive in
// which src is called name. If src is a link, walkTree visits its target.
func walkTree(src, name string, visit func(name, file string, info fs.FileInfo) error) error {
	return filepath.WalkDir(src, func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(src, file)
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err == nil && file == src {
			info, err = os.Stat(src)
		}
		if err != nil {
			return err
		}
		return visit(path.Join(name, filepath.ToSlash(rel)), file, info)
	})
}

// AddTree adds the file or tree src of this host to an archive, as name, with its modes and owned
// by root. Without dates the same files make the same archive. If name is empty, only the content
// of src is added.
func AddTree(out *tar.Writer, src, name string, withDates bool) error {
	return walkTree(src, name, func(name, file string, info fs.FileInfo) error {
		target := ""
		if info.Mode()&fs.ModeSymlink != 0 {
			var err error
			if target, err = os.Readlink(file); err != nil {
				return err
			}
		}
		from, err := tar.FileInfoHeader(info, target)
		if err != nil || name == "." {
			return err
		}
		head := &tar.Header{Typeflag: from.Typeflag, Name: name, Linkname: target, Mode: from.Mode, Size: from.Size}
		if info.IsDir() {
			head.Name += "/"
		}
		if withDates {
			head.ModTime = from.ModTime.Truncate(time.Second) // package tar would round it, perhaps into the future
		}
		if err := out.WriteHeader(head); err != nil || !info.Mode().IsRegular() {
			return err
		}
		f, err := os.Open(file)
		if err != nil {
			return err
		}
		defer f.Close()
		_, err = io.Copy(out, f)
		return err
	})
}
