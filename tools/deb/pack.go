package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/md5" //nolint:gosec // the format of md5sums in a package; it protects nothing
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

//go:embed debian
var debian embed.FS

// prefix is the folder below which a package of a distribution has its programs.
const prefix = "/usr"

// pkg is one package. Its description and its scripts are in debian/NAME.
type pkg struct {
	name    string
	version string
	arch    string    // Debian's name; for amd64 and arm64 it is Go's name, too
	when    time.Time // of everything in it
	changes []byte    // the changelog
}

// formatControl returns the package's entry in dpkg's lists, as deb-control(5) has it.
func (p pkg) formatControl(kib int64) ([]byte, error) {
	text, err := debian.ReadFile("debian/" + p.name + "/control")
	r := strings.NewReplacer("@VERSION@", p.version, "@ARCH@", p.arch, "@SIZE@", strconv.FormatInt(kib, 10))
	return []byte(r.Replace(string(text))), err
}

// packStage adds the package's own files to stage, makes a package of it, and returns
// the package's file.
func (p pkg) packStage(ctx context.Context, stage, out string) (string, error) {
	if err := p.completeStage(stage); err != nil {
		return "", fmt.Errorf("lay out the package: %w", err)
	}
	if err := os.MkdirAll(out, 0o755); err != nil {
		return "", err
	}
	file := filepath.Join(out, fmt.Sprintf("%s_%s_%s.deb", p.name, p.version, p.arch))
	// One thread, since the number of threads would change the bytes.
	cmd := exec.CommandContext(ctx, "dpkg-deb", "--root-owner-group", "-Zxz", "--threads-max=1", "--build", stage, file)
	cmd.Env = append(os.Environ(), "SOURCE_DATE_EPOCH="+strconv.FormatInt(p.when.Unix(), 10))
	if said, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("dpkg-deb: %w\n%s", err, said)
	}
	return file, nil
}

// completeStage adds the files that a package has besides its programs and the files
// of a host.
func (p pkg) completeStage(stage string) error {
	doc := filepath.Join(stage, prefix, "share/doc", p.name)
	var changes bytes.Buffer
	z, err := gzip.NewWriterLevel(&changes, gzip.BestCompression)
	if err != nil {
		return err
	}
	_, err = z.Write(p.changes)
	if err := errors.Join(err, z.Close(), putFile(filepath.Join(doc, "changelog.gz"), changes.Bytes(), 0o644), copyFile("copyright", doc, 0o644)); err != nil {
		return err
	}
	// Debian's zsh looks for completions of packages there.
	err = os.Rename(filepath.Join(stage, prefix, "share/zsh/site-functions"), filepath.Join(stage, prefix, "share/zsh/vendor-completions"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	sums, kib, err := listSums(stage)
	if err != nil {
		return err
	}
	control, err := p.formatControl(kib)
	if err != nil {
		return err
	}
	meta := filepath.Join(stage, "DEBIAN")
	return errors.Join(putFile(filepath.Join(meta, "control"), control, 0o644), putFile(filepath.Join(meta, "md5sums"), sums, 0o644), p.copyMeta(meta), openFolders(stage))
}

// copyMeta copies the files that dpkg reads besides control. Scripts are executable.
func (p pkg) copyMeta(meta string) error {
	all, err := debian.ReadDir("debian/" + p.name)
	if err != nil {
		return err
	}
	for _, e := range all {
		mode := fs.FileMode(0o644)
		switch e.Name() {
		case "control":
			continue
		case "postinst", "prerm", "postrm":
			mode = 0o755
		}
		if err := copyFile(p.name+"/"+e.Name(), meta, mode); err != nil {
			return err
		}
	}
	return nil
}

// listSums returns the sums of the files, as `dpkg --verify` checks them, and the disk
// space that they need.
func listSums(stage string) (sums []byte, kib int64, err error) {
	err = filepath.WalkDir(stage, func(at string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		kib++ // for a folder, a link, and the last block of a file
		if !d.Type().IsRegular() {
			return nil
		}
		body, err := os.ReadFile(at)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(stage, at)
		kib += int64(len(body)) / 1024
		if !strings.HasPrefix(name, "etc/") { // dpkg itself lists the sums of conffiles
			sums = fmt.Appendf(sums, "%x  %s\n", md5.Sum(body), name) //nolint:gosec // see the import
		}
		return err
	})
	return sums, kib, err
}

// copyFile puts one of the files of debian/ into a folder.
func copyFile(name, dir string, mode fs.FileMode) error {
	body, err := debian.ReadFile("debian/" + name)
	if err != nil {
		return err
	}
	return putFile(filepath.Join(dir, filepath.Base(name)), body, mode)
}

// putFile writes a file with that mode under every umask.
func putFile(at string, body []byte, mode fs.FileMode) error {
	if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(at, body, mode); err != nil {
		return err
	}
	return os.Chmod(at, mode)
}

// openFolders lets all users enter the folders, under every umask.
func openFolders(stage string) error {
	return filepath.WalkDir(stage, func(at string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			err = os.Chmod(at, 0o755)
		}
		return err
	})
}
