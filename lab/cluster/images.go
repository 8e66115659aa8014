package cluster

import (
	"archive/tar"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
)

// An Image is a container image made from files of this host.
type Image struct {
	// Name is what the CRI calls it: with registry and tag, such as
	// docker.io/library/busybox:latest.
	Name       string
	Entrypoint []string
	Cmd        []string
	// Layers are folders of this host, or files, from the lowest to the highest.
	Layers []Layer
}

// A Layer puts a file or tree of this host at a place of the image.
type Layer struct{ From, To string }

// The media types and files of an image layout: OCI image specification 1.1,
// image-layout.md and media-types.md.
const (
	typeIndex    = "application/vnd.oci.image.index.v1+json"
	typeManifest = "application/vnd.oci.image.manifest.v1+json"
	typeConfig   = "application/vnd.oci.image.config.v1+json"
	typeLayer    = "application/vnd.oci.image.layer.v1.tar"
)

type descriptor struct {
	MediaType   string            `json:"mediaType"`
	Digest      string            `json:"digest"`
	Size        int64             `json:"size"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

// WriteImages writes an archive that containerd imports (ctr images import). A
// layer that several images have is in it once. The same files make the same
// archive, whatever their dates. Each layer is read and hashed once, which is why
// go-containerregistry does not do this: it reads a layer for each digest, and
// takes two to four times as long.
func WriteImages(w io.Writer, images ...Image) error {
	scratch, err := os.MkdirTemp("", "culvert-images-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(scratch)
	l := &layout{dir: scratch, layers: make(map[Layer]descriptor)}
	var index struct {
		SchemaVersion int          `json:"schemaVersion"`
		MediaType     string       `json:"mediaType"`
		Manifests     []descriptor `json:"manifests"`
	}
	index.SchemaVersion, index.MediaType = 2, typeIndex
	for _, image := range images {
		d, err := l.image(image)
		if err != nil {
			return fmt.Errorf("make the image %s: %w", image.Name, err)
		}
		index.Manifests = append(index.Manifests, d)
	}
	body, err := json.Marshal(index)
	if err != nil {
		return err
	}
	return l.write(w, map[string][]byte{"index.json": body, "oci-layout": []byte(`{"imageLayoutVersion":"1.0.0"}`)})
}

// layout is an image layout while it is made: dir has its blobs, each named by
// the hexadecimal digits of its SHA-256.
type layout struct {
	dir    string
	layers map[Layer]descriptor
}

func (l *layout) image(image Image) (descriptor, error) {
	type config struct {
		Entrypoint []string `json:"Entrypoint,omitempty"`
		Cmd        []string `json:"Cmd,omitempty"`
		Env        []string `json:"Env"`
	}
	type rootFS struct {
		Type    string   `json:"type"`
		DiffIDs []string `json:"diff_ids"`
	}
	about := struct {
		Architecture string `json:"architecture"`
		OS           string `json:"os"`
		Config       config `json:"config"`
		RootFS       rootFS `json:"rootfs"`
	}{runtime.GOARCH, "linux", config{
		image.Entrypoint, image.Cmd, []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"},
	}, rootFS{Type: "layers"}}
	manifest := struct {
		SchemaVersion int          `json:"schemaVersion"`
		MediaType     string       `json:"mediaType"`
		Config        descriptor   `json:"config"`
		Layers        []descriptor `json:"layers"`
	}{SchemaVersion: 2, MediaType: typeManifest}
	for _, from := range image.Layers {
		d, err := l.layer(from)
		if err != nil {
			return d, err
		}
		manifest.Layers = append(manifest.Layers, d)
		about.RootFS.DiffIDs = append(about.RootFS.DiffIDs, d.Digest) // it is not compressed
	}
	var err error
	if manifest.Config, err = l.json(typeConfig, about); err != nil {
		return descriptor{}, err
	}
	d, err := l.json(typeManifest, manifest)
	d.Annotations = map[string]string{"io.containerd.image.name": image.Name, "org.opencontainers.image.ref.name": image.Name}
	return d, err
}

func (l *layout) layer(from Layer) (descriptor, error) {
	if d, ok := l.layers[from]; ok {
		return d, nil
	}
	d, err := l.blob(typeLayer, func(w io.Writer) error { return writeLayer(w, from) })
	l.layers[from] = d
	return d, err
}

func (l *layout) json(mediaType string, v any) (descriptor, error) {
	return l.blob(mediaType, func(w io.Writer) error { return json.NewEncoder(w).Encode(v) })
}

func (l *layout) blob(mediaType string, fill func(io.Writer) error) (descriptor, error) {
	f, err := os.CreateTemp(l.dir, "new-")
	if err != nil {
		return descriptor{}, err
	}
	sum := sha256.New()
	err = fill(io.MultiWriter(f, sum))
	size, seekErr := f.Seek(0, io.SeekCurrent)
	if err := errors.Join(err, seekErr, f.Close()); err != nil {
		return descriptor{}, err
	}
	digest := hex.EncodeToString(sum.Sum(nil))
	return descriptor{MediaType: mediaType, Digest: "sha256:" + digest, Size: size}, os.Rename(f.Name(), filepath.Join(l.dir, digest))
}

// write writes the layout's blobs and some files more as one archive.
func (l *layout) write(w io.Writer, files map[string][]byte) error {
	out := tar.NewWriter(w)
	for _, name := range []string{"oci-layout", "index.json"} {
		if err := out.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(files[name]))}); err != nil {
			return err
		}
		if _, err := out.Write(files[name]); err != nil {
			return err
		}
	}
	blobs, err := os.ReadDir(l.dir)
	if err != nil {
		return err
	}
	for _, blob := range blobs {
		info, err := blob.Info()
		if err != nil {
			return err
		}
		if err := writeEntry(out, &tar.Header{Name: "blobs/sha256/" + blob.Name(), Mode: 0o644, Size: info.Size()}, filepath.Join(l.dir, blob.Name())); err != nil {
			return err
		}
	}
	return out.Close()
}

// writeLayer writes a file or tree as an image's layer: all of it is root's,
// and no older or newer than any other.
func writeLayer(w io.Writer, from Layer) error {
	out := tar.NewWriter(w)
	for _, dir := range parents(from.To) {
		if err := out.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: dir + "/", Mode: 0o755}); err != nil {
			return err
		}
	}
	err := filepath.WalkDir(from.From, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from.From, p)
		if err != nil {
			return err
		}
		name := path.Join(from.To, filepath.ToSlash(rel))[1:]
		info, err := d.Info()
		if err != nil || name == "" {
			return err
		}
		target := ""
		if info.Mode()&fs.ModeSymlink != 0 {
			if target, err = os.Readlink(p); err != nil {
				return err
			}
		}
		head := &tar.Header{Typeflag: tar.TypeReg, Name: name, Linkname: target, Mode: int64(info.Mode().Perm()), Size: info.Size()}
		switch {
		case target != "":
			head.Typeflag, head.Size = tar.TypeSymlink, 0
		case d.IsDir():
			head.Typeflag, head.Name, head.Size = tar.TypeDir, name+"/", 0
		}
		return writeEntry(out, head, p)
	})
	return errors.Join(err, out.Close())
}

// parents are the folders above a place, the uppermost first.
func parents(place string) []string {
	var out []string
	for dir := path.Dir(path.Clean(place)); dir != "/" && dir != "."; dir = path.Dir(dir) {
		out = append(out, dir[1:])
	}
	slices.Reverse(out)
	return out
}

func writeEntry(out *tar.Writer, head *tar.Header, body string) error {
	if err := out.WriteHeader(head); err != nil || head.Typeflag == tar.TypeDir || head.Typeflag == tar.TypeSymlink {
		return err
	}
	f, err := os.Open(body)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = io.Copy(out, f)
	return err
}
