package main

import (
	"archive/tar"
	"bytes"
	"io"
	"io/fs"
	"os"
	"path"
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

// licencesFile has the licences of all that the programs of the image link.
const licencesFile = "usr/share/doc/culvert/LICENSES.linked"

// packImage makes an image of those programs in bin that an image has. They are in /usr/local/bin.
// The image has their licences and no other files, not even a shell. Each program is a layer of its
// own: a node that has the image fetches only the layers of programs that changed.
func packImage(bin, arch string, licences []byte, labels map[string]string) (platform, error) {
	image := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	programs, err := findPrograms(bin)
	if err != nil {
		return platform{}, err
	}
	files := []packed{{licencesFile, 0o644, licences}}
	for _, program := range programs {
		body, err := os.ReadFile(program)
		if err != nil {
			return platform{}, err
		}
		files = append(files, packed{"usr/local/bin/" + filepath.Base(program), 0o755, body})
	}
	var size int64
	for _, f := range files {
		layer, err := packLayer(f)
		if err != nil {
			return platform{}, err
		}
		compressed, err := layer.Size()
		if err != nil {
			return platform{}, err
		}
		size += compressed
		image, err = mutate.Append(image, mutate.Addendum{Layer: layer, History: v1.History{Created: v1.Time{Time: epoch}, CreatedBy: "tools/image: " + path.Base(f.name)}})
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

// findPrograms returns those programs in bin that an image has, by name.
func findPrograms(bin string) ([]string, error) {
	entries, err := os.ReadDir(bin)
	if err != nil {
		return nil, err
	}
	var found []string
	for _, e := range entries {
		if slices.Contains(inImage, e.Name()) {
			found = append(found, filepath.Join(bin, e.Name()))
		}
	}
	return found, nil
}

// packed is a file of the image.
type packed struct {
	name string // below /
	mode int64
	body []byte
}

// packLayer makes a layer that has one file, and the folders above it.
func packLayer(f packed) (v1.Layer, error) {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for i, c := range f.name {
		if c != '/' {
			continue
		}
		if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: f.name[:i+1], Mode: 0o755, ModTime: epoch}); err != nil {
			return nil, err
		}
	}
	h := &tar.Header{Typeflag: tar.TypeReg, Name: f.name, Mode: f.mode, Size: int64(len(f.body)), ModTime: epoch}
	if err := w.WriteHeader(h); err != nil {
		return nil, err
	}
	if _, err := w.Write(f.body); err != nil {
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
	err := filepath.WalkDir(dir, func(file string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, err := filepath.Rel(dir, file)
		if err != nil {
			return err
		}
		body, err := os.ReadFile(file)
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
