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

//go:embed all:guests crio
var additionFiles embed.FS

//go:embed boot initramfs.go
var bootFiles embed.FS

// A recipe determines the content of the image. It is a tree of files: packages, excludes,
// modules, tools, container, customize.sh, and tree/, which is laid over the root.
type recipe struct {
	files fs.FS
	// addition, unless it is empty, names what added has: further packages, a customize.sh and a
	// tree/.
	addition Addition
	added    fs.FS
}

// An Addition is what the image of some nodes has besides that of all nodes.
type Addition string

// The additions. Each is the name of its folder here.
const (
	Guests Addition = "guests" // libvirt, QEMU and a small guest (/boot/guest)
	CRIO   Addition = "crio"   // conmon for CRI-O, and podman, which loads images for it
)

func newRecipe(a Addition) (r recipe, err error) {
	r.addition = a
	if r.files, err = fs.Sub(imageFiles, "image"); err == nil && a != "" {
		r.added, err = fs.Sub(additionFiles, string(a))
	}
	return r, err
}

// fileTrees returns the trees of files, by their paths below the folder that writeFiles makes.
func (r recipe) fileTrees() map[string]fs.FS {
	if r.addition == "" {
		return map[string]fs.FS{".": r.files}
	}
	return map[string]fs.FS{".": r.files, string(r.addition): r.added}
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
		if name != list && name != path.Join(string(r.addition), list) {
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
