package main

import (
	"archive/tar"
	"bytes"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	v1spec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/culvert-net/culvert/internal/durable"
)

// platform is the image for one architecture.
type platform struct {
	arch  string
	image v1.Image
	size  int64 // bytes, compressed
}

// unprivileged is the user of the programs unless the pod sets another one. The DaemonSet
// sets root, which culvertd needs; the controller does not need it.
const unprivileged = "65532"

// epoch is the date of all files in the image. A real date would add nothing to a file's
// digest, and would change the bytes of each build.
var epoch = time.Unix(0, 0).UTC()

// labelsOf returns the labels of an image. The names are those of the OCI's image-spec
// (annotations.md), and one of Culvert.
func labelsOf(version, revision, goVersion string) map[string]string {
	labels := map[string]string{
		v1spec.AnnotationTitle: "Culvert", v1spec.AnnotationSource: "https://github.com/culvert-net/culvert",
		v1spec.AnnotationLicenses: "Apache-2.0", v1spec.AnnotationVersion: version, "dev.culvert.go": goVersion,
	}
	if revision != "" {
		labels[v1spec.AnnotationRevision] = revision
	}
	return labels
}

// packImage makes an image of those programs in bin that an image has. They are in /usr/local/bin,
// and the image has no other files, not even a shell. Each program is a layer of its own: a node
// that has the image fetches only the layers of programs that changed.
func packImage(bin, arch string, labels map[string]string) (platform, error) {
	image := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	entries, err := os.ReadDir(bin) // sorted by name
	if err != nil {
		return platform{}, err
	}
	var size int64
	for _, e := range entries {
		if !slices.Contains(inImage, e.Name()) {
			continue
		}
		layer, err := packLayer(filepath.Join(bin, e.Name()))
		if err != nil {
			return platform{}, err
		}
		compressed, err := layer.Size()
		if err != nil {
			return platform{}, err
		}
		size += compressed
		image, err = mutate.Append(image, mutate.Addendum{Layer: layer, History: v1.History{Created: v1.Time{Time: epoch}, CreatedBy: "tools/image: " + e.Name()}})
		if err != nil {
			return platform{}, err
		}
	}
	config, err := image.ConfigFile()
	if err != nil {
		return platform{}, err
	}
	config = config.DeepCopy()
	config.OS, config.Architecture, config.Created = "linux", arch, v1.Time{Time: epoch}
	config.Config = v1.Config{
		User: unprivileged, Entrypoint: []string{"/usr/local/bin/culvertd"}, Env: []string{"PATH=/usr/local/bin"}, Labels: labels,
	}
	image, err = mutate.ConfigFile(image, config)
	return platform{arch: arch, image: image, size: size}, err
}

// packLayer makes a layer that has one program, in /usr/local/bin.
func packLayer(program string) (v1.Layer, error) {
	body, err := os.ReadFile(program)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, dir := range []string{"usr/", "usr/local/", "usr/local/bin/"} {
		if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: dir, Mode: 0o755, ModTime: epoch}); err != nil {
			return nil, err
		}
	}
	h := &tar.Header{Typeflag: tar.TypeReg, Name: "usr/local/bin/" + filepath.Base(program), Mode: 0o755, Size: int64(len(body)), ModTime: epoch}
	if err := w.WriteHeader(h); err != nil {
		return nil, err
	}
	if _, err := w.Write(body); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(b.Bytes())), nil },
		tarball.WithMediaType(types.OCILayer))
}

// indexOf returns the index of the images for all platforms.
func indexOf(images []platform) v1.ImageIndex {
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, p := range images {
		index = mutate.AppendManifests(index, mutate.IndexAddendum{
			Add: p.image, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: p.arch}},
		})
	}
	return index
}

// writeArchive writes an OCI archive (image-spec, image-layout.md): one index, under
// the image's name, with an image for each platform. It replaces the file in
// one step.
func writeArchive(file, name string, index v1.ImageIndex) error {
	dir, err := os.MkdirTemp(filepath.Dir(file), ".layout-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	place, err := layout.Write(dir, empty.Index)
	if err != nil {
		return err
	}
	// containerd takes the name from its own annotation, others from the
	// specification's.
	err = place.AppendIndex(index, layout.WithAnnotations(map[string]string{
		"io.containerd.image.name": name, v1spec.AnnotationRefName: name,
	}))
	if err != nil {
		return err
	}
	return packFolder(dir, file)
}

// packFolder writes an archive of a folder. The file has its name only when it is whole.
func packFolder(dir, file string) error {
	return durable.Write(file, 0o644, func(w io.Writer) error { return tarOf(dir, w) })
}

// tarOf packs a folder, in the order of names and without dates.
func tarOf(dir string, to io.Writer) error {
	w := tar.NewWriter(to)
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		body, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644, Size: int64(len(body)), ModTime: epoch}); err != nil {
			return err
		}
		_, err = w.Write(body)
		return err
	})
	if err != nil {
		return err
	}
	return w.Close()
}
