package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/culvert-net/culvert/internal/durable"
)

// texts has the descriptions of the packages, and the scripts that their managers run.
//
//go:embed description scripts copyright
var texts embed.FS

// prefix is the folder below which a package of a distribution has its programs.
const prefix = "/usr"

const maintainer = "the authors of Culvert <authors@culvert.invalid>"

// pkg is one package.
type pkg struct {
	name     string
	version  string
	arch     string    // Go's name
	when     time.Time // of everything in it
	changes  []byte    // the changelog
	licences []byte    // of what the programs link
	nfpm     string    // the program
	squeeze  string    // how a .deb is compressed
}

// packStage adds the package's documents to a copy of stage, makes a package of it, and returns
// the package's file. The file has its final name only when it is whole.
func (p pkg) packStage(ctx context.Context, stage, out, format string) (string, error) {
	if err := p.addDocuments(stage, format); err != nil {
		return "", fmt.Errorf("lay out the package: %w", err)
	}
	if err := os.MkdirAll(out, 0o755); err != nil {
		return "", err
	}
	work, err := os.MkdirTemp(out, ".culvert-*.tmp") // on the same file system as the package
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(work)
	if err := os.CopyFS(work, texts); err != nil {
		return "", err
	}
	description, err := p.describe(stage, format)
	if err != nil {
		return "", err
	}
	if err := os.WriteFile(filepath.Join(work, "nfpm.yaml"), description, 0o600); err != nil {
		return "", err
	}
	cmd := exec.CommandContext(ctx, p.nfpm, "package", "--config", "nfpm.yaml", "--packager", format, "--target", "package")
	cmd.Dir = work
	cmd.Env = append(os.Environ(), "SOURCE_DATE_EPOCH="+strconv.FormatInt(p.when.Unix(), 10))
	if said, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("nfpm: %w\n%s", err, said)
	}
	file := filepath.Join(out, p.fileName(format))
	made := filepath.Join(work, "package")
	return file, errors.Join(os.Chmod(made, 0o644), durable.Rename(made, file))
}

// fileName returns the name of the package's file by the rules of its format.
func (p pkg) fileName(format string) string {
	if format == "deb" {
		return fmt.Sprintf("%s_%s_%s.deb", p.name, p.version, p.arch)
	}
	arch, known := map[string]string{"amd64": "x86_64", "arm64": "aarch64"}[p.arch]
	if !known {
		arch = p.arch
	}
	return fmt.Sprintf("%s-%s-1.%s.rpm", p.name, p.version, arch)
}

// describe returns the package's description for nfpm, with the files of stage.
func (p pkg) describe(stage, format string) ([]byte, error) {
	text, err := texts.ReadFile("description/" + p.name + ".yaml")
	if err != nil {
		return nil, err
	}
	var d map[string]any
	if err := yaml.Unmarshal(text, &d); err != nil {
		return nil, err
	}
	d["version"], d["version_schema"], d["arch"], d["platform"] = p.version, "none", p.arch, "linux"
	d["mtime"] = p.when.Format(time.RFC3339)
	d["maintainer"], d["section"], d["priority"] = maintainer, "net", "optional"
	d["homepage"] = "https://github.com/culvert-net/culvert"
	if format == "rpm" { // dpkg has no such field
		d["license"] = "Apache-2.0"
	}
	d["disable_globbing"] = true
	deb, _ := d["deb"].(map[string]any)
	if deb == nil {
		deb = map[string]any{}
	}
	deb["compression"] = p.squeeze
	d["deb"] = deb
	d["rpm"] = map[string]any{"compression": "zstd", "buildhost": "culvert.invalid", "packager": maintainer}
	if d["contents"], err = p.listContents(stage, format); err != nil {
		return nil, err
	}
	return yaml.Marshal(d)
}

// content is a file of a package as nfpm reads it.
type content struct {
	Source string   `json:"src,omitempty"`
	Place  string   `json:"dst"`
	Type   string   `json:"type,omitempty"`
	Info   fileInfo `json:"file_info"`
}

type fileInfo struct {
	Mode  int    `json:"mode"`
	Owner string `json:"owner"`
	Group string `json:"group"`
	MTime string `json:"mtime"`
}

// listContents returns the files of stage, with modes that no umask changes. A folder that is
// Culvert's own is listed too, so that rpm removes it with the package.
func (p pkg) listContents(stage, format string) ([]content, error) {
	var all []content
	err := filepath.WalkDir(stage, func(at string, d fs.DirEntry, err error) error {
		if err != nil || at == stage {
			return err
		}
		place := strings.TrimPrefix(at, stage)
		c := content{Source: at, Place: place, Info: fileInfo{0o644, "root", "root", p.when.Format(time.RFC3339)}}
		info, err := d.Info()
		if err != nil {
			return err
		}
		switch {
		case d.IsDir() && strings.HasPrefix(path.Base(place), "culvert"):
			c.Source, c.Type, c.Info.Mode = "", "dir", 0o755
		case d.IsDir():
			return nil
		case d.Type()&fs.ModeSymlink != 0:
			c.Type, c.Info.Mode = "symlink", 0o777
			if c.Source, err = os.Readlink(at); err != nil {
				return err
			}
		case strings.HasPrefix(place, "/etc/"):
			c.Type = "config|noreplace"
		case info.Mode()&0o100 != 0:
			c.Info.Mode = 0o755
		}
		c.Place = placeIn(format, place)
		all = append(all, c)
		return nil
	})
	return all, err
}

// placeIn returns where a distribution with that format has a file. Debian's zsh looks for
// completions of packages in a folder of its own.
func placeIn(format, place string) string {
	if format == "deb" {
		return strings.Replace(place, "/share/zsh/site-functions/", "/share/zsh/vendor-completions/", 1)
	}
	return place
}

// addDocuments adds the documents that a package of that format has besides its programs and the
// files of a host. It replaces those of another format.
func (p pkg) addDocuments(stage, format string) error {
	doc := filepath.Join(stage, prefix, "share/doc", p.name)
	overrides := filepath.Join(stage, prefix, "share/lintian")
	if err := errors.Join(os.RemoveAll(doc), os.RemoveAll(overrides)); err != nil {
		return err
	}
	copyright, err := texts.ReadFile("copyright")
	if err != nil {
		return err
	}
	if err := putFile(filepath.Join(doc, "copyright"), copyright, 0o644); err != nil {
		return err
	}
	documents := map[string][]byte{"LICENSES.linked.gz": p.licences, "NEWS.gz": p.changes}
	if format == "deb" {
		documents["changelog.gz"] = p.debianChangelog()
		if err := putFile(filepath.Join(overrides, "overrides", p.name), p.lintianOverrides(), 0o644); err != nil {
			return err
		}
	}
	for name, body := range documents {
		if err := putCompressed(filepath.Join(doc, name), body); err != nil {
			return err
		}
	}
	return nil
}

// debianChangelog returns a changelog in the form of deb-changelog(5), which dpkg's tools parse.
// NEWS.gz has the changes themselves.
func (p pkg) debianChangelog() []byte {
	return fmt.Appendf(nil, "%s (%s) unstable; urgency=medium\n\n  * New version. NEWS.gz lists the changes.\n\n -- %s  %s\n",
		p.name, p.version, maintainer, p.when.Format(time.RFC1123Z))
}

// lintianOverrides returns the tags of lintian that the package has on purpose: Go links programs
// statically, so that they run on every distribution.
func (p pkg) lintianOverrides() []byte {
	return fmt.Appendf(nil, "# Go links the programs statically: they run on every distribution.\n%s: statically-linked-binary *\n", p.name)
}

// putCompressed writes a document as Debian's policy wants it: by gzip -9, without a date.
func putCompressed(at string, body []byte) error {
	var b bytes.Buffer
	z, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err != nil {
		return err
	}
	if _, err := z.Write(body); err != nil {
		return err
	}
	if err := z.Close(); err != nil {
		return err
	}
	return putFile(at, b.Bytes(), 0o644)
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
