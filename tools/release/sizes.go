package main

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/culvert-net/culvert/internal/screen"
)

// part is a file of a release, or the image for one architecture.
type part struct {
	name string // with VERSION for the version
	size int64
	// blobs has the sizes of the pieces that an upgrade fetches one by one: the layers of an image,
	// or a whole file. The keys are their digests.
	blobs map[string]int64
}

// showSizes prints the size of each file of two releases, which are in the folders before and after,
// and the bytes that an upgrade from one to the other fetches.
func showSizes(w io.Writer, before, after string) error {
	was, err := measureRelease(before)
	if err != nil {
		return err
	}
	is, err := measureRelease(after)
	if err != nil {
		return err
	}
	old := map[string]part{}
	for _, p := range was {
		old[p.name] = p
	}
	table := screen.NewTable(">"+filepath.Base(before), ">"+filepath.Base(after), ">AN UPGRADE FETCHES", "FILE")
	for _, p := range is {
		table.Add(screen.Words(fmt.Sprint(old[p.name].size), fmt.Sprint(p.size), fmt.Sprint(p.countNew(old[p.name])), p.name)...)
	}
	var b strings.Builder
	table.Write(&b, screen.Look{})
	_, err = io.WriteString(w, b.String())
	return err
}

// countNew returns the bytes of p that old does not have.
func (p part) countNew(old part) int64 {
	var n int64
	for digest, size := range p.blobs {
		if _, is := old.blobs[digest]; !is {
			n += size
		}
	}
	return n
}

// measureRelease returns the parts of a release. The folder has the name of the version.
func measureRelease(dir string) ([]part, error) {
	version := filepath.Base(dir)
	names := strings.NewReplacer(version, "VERSION", strings.TrimPrefix(version, "v"), "VERSION")
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil {
		return nil, err
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("%s has no release", dir)
	}
	var all []part
	for _, file := range files {
		name := names.Replace(filepath.Base(file))
		sum, err := sumFile(file)
		if err != nil {
			return nil, err
		}
		info, err := os.Stat(file)
		if err != nil {
			return nil, err
		}
		all = append(all, part{name, info.Size(), map[string]int64{sum: info.Size()}})
		if !strings.HasSuffix(file, "-image.tar") {
			continue
		}
		images, err := measureImages(file)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		for _, p := range images {
			p.name = name + ", " + p.name
			all = append(all, p)
		}
	}
	return all, nil
}

// measureImages returns the images in an OCI archive, each by the name of its architecture. A node
// fetches the manifest, the configuration and the layers of its own.
func measureImages(file string) ([]part, error) {
	blobs, err := readDocuments(file)
	if err != nil {
		return nil, err
	}
	top, err := v1.ParseIndexManifest(bytes.NewReader(blobs["index.json"]))
	if err != nil {
		return nil, err
	}
	if len(top.Manifests) != 1 {
		return nil, fmt.Errorf("it has %d images, want 1", len(top.Manifests))
	}
	index, err := v1.ParseIndexManifest(bytes.NewReader(blobs[top.Manifests[0].Digest.Hex]))
	if err != nil {
		return nil, err
	}
	var all []part
	for _, d := range index.Manifests {
		manifest, err := v1.ParseManifest(bytes.NewReader(blobs[d.Digest.Hex]))
		if err != nil {
			return nil, err
		}
		p := part{name: d.Platform.Architecture, blobs: map[string]int64{}}
		for _, piece := range append(manifest.Layers, manifest.Config, d) {
			p.blobs[piece.Digest.Hex] = piece.Size
			p.size += piece.Size
		}
		all = append(all, p)
	}
	return all, nil
}

// largestDocument is more than an index or a manifest has, in bytes.
const largestDocument = 1 << 20

// readDocuments returns the small files of an OCI archive by the last parts of their names. Blobs are
// named by their digests.
func readDocuments(file string) (map[string][]byte, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	all, in := map[string][]byte{}, tar.NewReader(f)
	for {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return nil, err
		}
		if h.Size > largestDocument {
			continue
		}
		if all[filepath.Base(h.Name)], err = io.ReadAll(in); err != nil {
			return nil, err
		}
	}
}
