package lab

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
)

// suite is the Debian release of a node's root.
const suite = "trixie"

// diskSize is what a node sees as its disk. The file is sparse.
const diskSize = "16G"

//go:embed all:image
var imageFiles embed.FS

//go:embed boot
var bootFiles embed.FS

// A recipe is all that decides what is in the image. It is a tree of files:
// packages, excludes, modules, tools, container, customize.sh, and tree/, which
// is laid over the root.
type recipe struct{ files fs.FS }

func defaultRecipe() (recipe, error) {
	files, err := fs.Sub(imageFiles, "image")
	return recipe{files}, err
}

// hash identifies the recipe: 12 hex digits of SHA-256 over the names and
// bodies of its files, the suite and the disk's size.
func (r recipe) hash() (string, error) {
	sum := sha256.New()
	fmt.Fprintf(sum, "%s %s\n", suite, diskSize)
	err := fs.WalkDir(r.files, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		body, err := fs.ReadFile(r.files, name)
		fmt.Fprintf(sum, "%s %d\n%s\n", name, len(body), body)
		return err
	})
	return hex.EncodeToString(sum.Sum(nil))[:12], err
}

// lines returns the lines of a list file, without comments and blanks.
func (r recipe) lines(name string) ([]string, error) {
	body, err := fs.ReadFile(r.files, name)
	if err != nil {
		return nil, err
	}
	var out []string
	for line := range strings.Lines(string(body)) {
		if line = strings.TrimSpace(line); line != "" && line[0] != '#' {
			out = append(out, line)
		}
	}
	return out, nil
}

// write lays the recipe out in dir, for the tools that want files.
func (r recipe) write(dir string) error {
	return fs.WalkDir(r.files, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		dest := filepath.Join(dir, filepath.FromSlash(name))
		if d.IsDir() {
			return os.MkdirAll(dest, 0o755)
		}
		body, err := fs.ReadFile(r.files, name)
		if err != nil {
			return err
		}
		return os.WriteFile(dest, body, fileMode(name))
	})
}

// fileMode makes up for the modes that go:embed drops.
func fileMode(name string) fs.FileMode {
	if strings.HasSuffix(name, ".sh") || path.Base(path.Dir(name)) == "bin" {
		return 0o755
	}
	return 0o644
}
