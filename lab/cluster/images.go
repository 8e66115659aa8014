package cluster

import (
	"archive/tar"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	v1 "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/culvert-net/culvert/lab"
)

// An Image is a container image made from files of this host.
type Image struct {
	// Name is its name in the CRI, with registry and tag, such as
	// docker.io/library/busybox:latest.
	Name       string
	Entrypoint []string
	Cmd        []string
	// Layers are folders of this host, or files, from the lowest to the highest.
	Layers []Layer
}

// A Layer puts a file or tree of this host at a place of the image.
type Layer struct{ From, To string }

// WriteImages writes an archive that containerd imports (ctr images import). The archive
// has a layer of several images once. The same files make the same archive, also with other
// dates. Each layer is read and hashed once, which is why go-containerregistry does not do
// this: it reads a layer for each digest, and takes two to four times as long.
func WriteImages(w io.Writer, images ...Image) error {
	scratch, err := os.MkdirTemp("", "culvert-images-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(scratch)
	l := &layout{dir: scratch, layers: make(map[Layer]v1.Descriptor)}
	index := v1.Index{Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: v1.MediaTypeImageIndex}
	for _, image := range images {
		d, err := l.addImage(image)
		if err != nil {
			return fmt.Errorf("make the image %s: %w", image.Name, err)
		}
		index.Manifests = append(index.Manifests, d)
	}
	return l.writeArchive(w, index)
}

// layout is an image layout while it is made (OCI image specification 1.1,
// image-layout.md): dir has its blobs, each named by the hexadecimal digits of its SHA-256.
type layout struct {
	dir    string
	layers map[Layer]v1.Descriptor
}

func (l *layout) addImage(image Image) (v1.Descriptor, error) {
	about := v1.Image{
		Platform: v1.Platform{Architecture: runtime.GOARCH, OS: "linux"},
		Config: v1.ImageConfig{
			Entrypoint: image.Entrypoint, Cmd: image.Cmd, Env: []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"},
		},
		RootFS: v1.RootFS{Type: "layers"},
	}
	manifest := v1.Manifest{Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: v1.MediaTypeImageManifest}
	for _, from := range image.Layers {
		d, err := l.addLayer(from)
		if err != nil {
			return d, err
		}
		manifest.Layers = append(manifest.Layers, d)
		about.RootFS.DiffIDs = append(about.RootFS.DiffIDs, d.Digest) // it is not compressed
	}
	var err error
	if manifest.Config, err = l.addJSON(v1.MediaTypeImageConfig, about); err != nil {
		return v1.Descriptor{}, err
	}
	d, err := l.addJSON(v1.MediaTypeImageManifest, manifest)
	d.Annotations = map[string]string{"io.containerd.image.name": image.Name, v1.AnnotationRefName: image.Name}
	return d, err
}

func (l *layout) addLayer(from Layer) (v1.Descriptor, error) {
	if d, ok := l.layers[from]; ok {
		return d, nil
	}
	d, err := l.addBlob(v1.MediaTypeImageLayer, func(w io.Writer) error { return writeLayer(w, from) })
	l.layers[from] = d
	return d, err
}

func (l *layout) addJSON(mediaType string, v any) (v1.Descriptor, error) {
	return l.addBlob(mediaType, func(w io.Writer) error { return json.NewEncoder(w).Encode(v) })
}

func (l *layout) addBlob(mediaType string, fill func(io.Writer) error) (v1.Descriptor, error) {
	f, err := os.CreateTemp(l.dir, "new-")
	if err != nil {
		return v1.Descriptor{}, err
	}
	sum := sha256.New()
	err = fill(io.MultiWriter(f, sum))
	size, seekErr := f.Seek(0, io.SeekCurrent)
	if err := errors.Join(err, seekErr, f.Close()); err != nil {
		return v1.Descriptor{}, err
	}
	d := v1.Descriptor{MediaType: mediaType, Digest: digest.NewDigest(digest.SHA256, sum), Size: size}
	return d, os.Rename(f.Name(), filepath.Join(l.dir, d.Digest.Encoded()))
}

// writeArchive writes the layout, with all its blobs, as one archive.
func (l *layout) writeArchive(w io.Writer, index v1.Index) error {
	out := tar.NewWriter(w)
	for _, file := range []struct {
		name string
		body any
	}{
		{v1.ImageLayoutFile, v1.ImageLayout{Version: v1.ImageLayoutVersion}}, {v1.ImageIndexFile, index},
	} {
		body, err := json.Marshal(file.body)
		if err != nil {
			return err
		}
		if err := out.WriteHeader(&tar.Header{Name: file.name, Mode: 0o644, Size: int64(len(body))}); err != nil {
			return err
		}
		if _, err := out.Write(body); err != nil {
			return err
		}
	}
	blobs, err := os.ReadDir(l.dir)
	for _, blob := range blobs {
		err = errors.Join(err, lab.AddTree(out, filepath.Join(l.dir, blob.Name()), path.Join(v1.ImageBlobsDir, string(digest.SHA256), blob.Name()), false))
	}
	return errors.Join(err, out.Close())
}

// writeLayer writes a file or tree as an image's layer, in which all files belong to root
// and have the same date.
func writeLayer(w io.Writer, from Layer) error {
	out := tar.NewWriter(w)
	for _, dir := range parentFolders(from.To) {
		if err := out.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: dir + "/", Mode: 0o755}); err != nil {
			return err
		}
	}
	return errors.Join(lab.AddTree(out, from.From, strings.TrimPrefix(path.Clean(from.To), "/"), false), out.Close())
}

// parentFolders returns the folders above a place, the uppermost first.
func parentFolders(place string) []string {
	var out []string
	for dir := path.Dir(path.Clean(place)); dir != "/" && dir != "."; dir = path.Dir(dir) {
		out = append(out, dir[1:])
	}
	slices.Reverse(out)
	return out
}
