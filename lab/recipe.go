package lab

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// suite is the Debian release of a node's root.
const suite = "trixie"

// diskSize is the size of a node's disk. The file is sparse.
const diskSize = "16G"

//go:embed all:image
var imageFiles embed.FS

//go:embed all:guests
var guestFiles embed.FS

//go:embed boot initramfs.go
var bootFiles embed.FS

// A recipe determines the content of the image. It is a tree of files: packages, excludes,
// modules, tools, container, customize.sh, and tree/, which is laid over the root.
type recipe struct {
	files fs.FS
	// guests has the packages, customize.sh and tree/ that are added for nodes which run guests
	// of their own; it is nil for other nodes.
	guests fs.FS
}

func newRecipe(guests bool) (r recipe, err error) {
	if r.files, err = fs.Sub(imageFiles, "image"); err == nil && guests {
		r.guests, err = fs.Sub(guestFiles, "guests")
	}
	return r, err
}

// guestsPlace is the path of guests below the folder that writeFiles makes.
const guestsPlace = "guests"

// fileTrees returns the trees of files, by their paths below that folder.
func (r recipe) fileTrees() map[string]fs.FS {
	if r.guests == nil {
		return map[string]fs.FS{".": r.files}
	}
	return map[string]fs.FS{".": r.files, guestsPlace: r.guests}
}

// hashFiles identifies the recipe: 12 hex digits of SHA-256 over the names and
// bodies of its files, the suite and the disk's size.
func (r recipe) hashFiles() (string, error) {
	sum := sha256.New()
	fmt.Fprintf(sum, "%s %s\n", suite, diskSize)
	err := r.walkFiles(func(name string, body []byte) error {
		fmt.Fprintf(sum, "%s %d\n%s\n", name, len(body), body)
		return nil
	})
	return hex.EncodeToString(sum.Sum(nil))[:12], err
}

// walkFiles calls do for every file, in an order that is always the same.
func (r recipe) walkFiles(do func(name string, body []byte) error) error {
	parts := r.fileTrees()
	for _, place := range slices.Sorted(maps.Keys(parts)) {
		err := fs.WalkDir(parts[place], ".", func(name string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			body, err := fs.ReadFile(parts[place], name)
			if err != nil {
				return err
			}
			return do(path.Join(place, name), body)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// readList returns the lines of a list file of each part that has it, without
// comments and blanks.
func (r recipe) readList(list string) ([]string, error) {
	var out []string
	err := r.walkFiles(func(name string, body []byte) error {
		if name != list && name != path.Join(guestsPlace, list) {
			return nil
		}
		for line := range strings.Lines(string(body)) {
			if line = strings.TrimSpace(line); line != "" && line[0] != '#' {
				out = append(out, line)
			}
		}
		return nil
	})
	return out, err
}

// writeFiles writes the recipe's files to dir, for tools that need files.
func (r recipe) writeFiles(dir string) error {
	return r.walkFiles(func(name string, body []byte) error {
		dest := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(dest), 0o755); err != nil {
			return err
		}
		return os.WriteFile(dest, body, fileMode(name))
	})
}

// fileMode returns the mode of a file of the recipe, since go:embed drops modes.
func fileMode(name string) fs.FileMode {
	if strings.HasSuffix(name, ".sh") || path.Base(path.Dir(name)) == "bin" {
		return 0o755
	}
	return 0o644
}
