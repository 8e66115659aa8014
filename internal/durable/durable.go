// Package durable writes a file whole or not at all, even if the power fails. It writes a temporary
// file beside the target, syncs it, renames it and syncs the folder. A write that fails leaves the
// target as it was and no temporary file.
package durable

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// step is a part of a write, as errors name it.
type step string

const (
	create     step = "create a temporary file beside it"
	fillFile   step = "write its content"
	setMode    step = "set its mode"
	syncFile   step = "sync it"
	closeFile  step = "close it"
	renameFile step = "rename the temporary file"
	syncFolder step = "sync its folder (the file is written)"
)

// before is called before each step of a write; its error is that step's. Only tests have a before
// that fails.
type before func(step) error

func isReady(step) error { return nil }

// WriteFile makes or replaces the file at path. Its mode is perm regardless of the umask, and its
// owner is the caller. A symbolic link at path is replaced, not followed; a device, folder or pipe
// is refused. The folder must exist (MkdirAll).
func WriteFile(path string, content []byte, perm fs.FileMode) error {
	return Write(path, perm, func(w io.Writer) error {
		_, err := w.Write(content)
		return err
	})
}

// Write replaces a file like WriteFile, with the content that fill writes.
func Write(path string, perm fs.FileMode, fill func(io.Writer) error) error {
	return writeFile(path, perm, fill, isReady)
}

func writeFile(path string, perm fs.FileMode, fill func(io.Writer) error, ask before) (err error) {
	at := create
	defer func() {
		if err != nil {
			err = fmt.Errorf("write %s: %s: %w", path, at, causeOf(err))
		}
	}()
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return fmt.Errorf("it exists and is no regular file (%s)", info.Mode())
	}
	if err := ask(at); err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), temporaryPattern(path))
	if err != nil {
		return err
	}
	closed := false
	defer func() {
		if !closed {
			_ = f.Close()
		}
		if err != nil && at != syncFolder {
			_ = os.Remove(f.Name())
		}
	}()
	steps := []struct {
		step step
		do   func() error
	}{
		{fillFile, func() error { return fill(f) }},
		{setMode, func() error { return f.Chmod(perm) }},
		{syncFile, f.Sync},
		{closeFile, func() error { closed = true; return f.Close() }},
		{renameFile, func() error { return os.Rename(f.Name(), path) }},
		{syncFolder, func() error { return SyncFolder(filepath.Dir(path)) }},
	}
	for _, s := range steps {
		at = s.step
		if err := ask(at); err != nil {
			return err
		}
		if err := s.do(); err != nil {
			return err
		}
	}
	return nil
}

// temporaryPattern returns the pattern of the temporary files of path. They are hidden and end in
// .tmp, so that readers of *.conf, *.json or *.yaml in that folder skip them.
func temporaryPattern(path string) string { return "." + filepath.Base(path) + "-*.tmp" }

// RemoveTemporary removes the temporary files that a writer of path left when it was
// killed. No write of path may be under way.
func RemoveTemporary(path string) error {
	left, err := filepath.Glob(filepath.Join(filepath.Dir(path), temporaryPattern(path)))
	errs := []error{err}
	for _, name := range left {
		errs = append(errs, os.Remove(name))
	}
	return errors.Join(errs...)
}

// Symlink makes path a symbolic link to target, in place of a file or link there.
func Symlink(target, path string) error {
	f, err := os.CreateTemp(filepath.Dir(path), temporaryPattern(path)) // its name is free for the link
	if err != nil {
		return fmt.Errorf("link %s: %w", path, causeOf(err))
	}
	name := f.Name()
	if err := errors.Join(f.Close(), os.Remove(name), os.Symlink(target, name)); err != nil {
		return fmt.Errorf("link %s: %w", path, err)
	}
	if err := os.Rename(name, path); err != nil {
		return fmt.Errorf("link %s: %w", path, errors.Join(causeOf(err), os.Remove(name)))
	}
	return SyncFolder(filepath.Dir(path))
}

// Rename renames a file within its folder or to another of the same file system.
func Rename(from, to string) error {
	if err := os.Rename(from, to); err != nil {
		return err
	}
	errs := []error{SyncFolder(filepath.Dir(to))}
	if filepath.Dir(from) != filepath.Dir(to) {
		errs = append(errs, SyncFolder(filepath.Dir(from)))
	}
	return errors.Join(errs...)
}

// Remove removes the file at path, if there is one.
func Remove(path string) error {
	if err := os.Remove(path); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	}
	return SyncFolder(filepath.Dir(path))
}

// SyncFolder makes the names in a folder durable.
func SyncFolder(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// MkdirAll makes folders like os.MkdirAll; new folders survive a power cut.
func MkdirAll(dir string, perm fs.FileMode) error {
	var made []string
	for at := filepath.Clean(dir); ; at = filepath.Dir(at) {
		_, err := os.Stat(at)
		if !errors.Is(err, fs.ErrNotExist) || at == filepath.Dir(at) {
			break
		}
		made = append(made, at)
	}
	if err := os.MkdirAll(dir, perm); err != nil {
		return err
	}
	var errs []error
	for _, at := range made {
		errs = append(errs, SyncFolder(filepath.Dir(at)))
	}
	return errors.Join(errs...)
}

// MakeWritable gives the owner of a folder all rights to it where it lacks some: root without
// CAP_DAC_OVERRIDE needs them too. Multus makes the folder of device-info files with mode 0
// (k8snetworkplumbingwg/network-attachment-definition-client, SaveDeviceInfoForCNI).
func MakeWritable(dir string) error {
	info, err := os.Stat(dir)
	if err != nil || info.Mode().Perm()&0o700 == 0o700 {
		return err
	}
	return os.Chmod(dir, info.Mode().Perm()|0o700)
}

// causeOf returns an error of package os without the name of the temporary file.
func causeOf(err error) error {
	var path *fs.PathError
	var link *os.LinkError
	switch {
	case errors.As(err, &path) && err == error(path): //nolint:errorlint // not one that a caller's fill has wrapped
		return path.Err
	case errors.As(err, &link) && err == error(link): //nolint:errorlint // as above
		return link.Err
	}
	return err
}
