// Command image builds Culvert's container image without a Docker daemon: one OCI archive
// that has an image for each architecture. The same sources give the same bytes on every
// machine and at any time. For that it must be built by the Go version that tools/versions
// pins, and refuses to run otherwise. `make image` fetches that version. The image records
// the version in its label dev.culvert.go.
//
// Beside the archive it writes the manifests of dist/kubernetes with the name of the image. The
// default name is localhost/culvert:VERSION. A build of sources that are not committed adds a part
// of its digest, so that two builds never share a name.
//
//	make image                                     build/image/culvert.tar, for amd64 and arm64
//	tools/go run ./tools/image -arch amd64 -name registry.example.org/culvert:v1
//	tools/go run ./tools/image -bin FOLDER         of the programs in FOLDER/ARCH
//	tools/go run ./tools/image -go any             by the Go that is there
//
// `ctr images import`, `podman load`, `skopeo copy oci-archive:...` and registries'
// own tools read the archive.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"

	"github.com/culvert-net/culvert/tools/linked"
	"github.com/culvert-net/culvert/tools/manifests"
	"github.com/culvert-net/culvert/tools/programs"
)

// repository is the default name of the image without its tag. A node looks for a name below
// localhost only on itself.
const repository = "localhost/culvert"

func main() {
	var o options
	var archs string
	flag.StringVar(&o.Out, "out", "build/image/culvert.tar", "where the OCI archive goes")
	flag.StringVar(&o.Name, "name", "", "what the image is called (default "+repository+":VERSION)")
	flag.StringVar(&o.Version, "version", "unknown", "what its programs say of themselves")
	flag.StringVar(&o.Revision, "revision", "", "the commit of the sources, for a label of the image")
	flag.StringVar(&o.Bin, "bin", "", "a folder that has the programs in a folder for each architecture (default: build them)")
	flag.StringVar(&o.Go, "go", "", `the Go version that must build it, or "any" (default IMAGE_GO of tools/versions)`)
	flag.StringVar(&archs, "arch", "amd64,arm64", "for which architectures")
	flag.Parse()
	o.Archs = strings.Split(archs, ",")
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := buildImage(ctx, o)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(1)
	}
}

type options struct {
	Out, Name, Version, Revision, Go, Bin string
	Archs                                 []string
}

// buildImage builds the programs for each architecture and packs them.
func buildImage(ctx context.Context, o options) error {
	if o.Go == "" {
		var err error
		if o.Go, err = pinnedGo("tools/versions"); err != nil {
			return err
		}
	}
	// This program compresses the layers by Go's standard library. The check also saves
	// compiling programs that checkPrograms would refuse.
	if err := checkGo("tools/image", runtime.Version(), o.Go); err != nil {
		return err
	}
	images, err := packImages(ctx, o)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(o.Out), 0o755); err != nil {
		return err
	}
	index := indexOf(images)
	digest, err := index.Digest()
	if err != nil {
		return err
	}
	if o.Name == "" {
		o.Name = nameImage(o.Version, digest.Hex)
	}
	if err := writeArchive(o.Out, o.Name, index); err != nil {
		return fmt.Errorf("write %s: %w", o.Out, err)
	}
	if err := manifests.Write("dist/kubernetes", filepath.Dir(o.Out), o.Name); err != nil {
		return err
	}
	fmt.Printf("%s  %s\n  %s\n", o.Out, o.Name, digest)
	for _, p := range images {
		fmt.Printf("  %-6s %.1f MB\n", p.arch, float64(p.size)/1e6)
	}
	return nil
}

// packImages packs the image for each architecture. It compiles the programs unless a folder has
// them.
func packImages(ctx context.Context, o options) ([]platform, error) {
	bins := o.Bin
	if bins == "" {
		var err error
		if bins, err = os.MkdirTemp("", "culvert-image-"); err != nil {
			return nil, err
		}
		defer os.RemoveAll(bins)
		for _, arch := range o.Archs {
			if err := programs.Compile(ctx, filepath.Join(bins, arch), arch, o.Version, inImage...); err != nil {
				return nil, err
			}
		}
	}
	var images []platform
	for _, arch := range o.Archs {
		bin := filepath.Join(bins, arch)
		goVersion, err := checkPrograms(bin, o.Go)
		if err != nil {
			return nil, err
		}
		licences, err := findLicences(ctx, bin)
		if err != nil {
			return nil, fmt.Errorf("find the licences of the programs for %s: %w", arch, err)
		}
		p, err := packImage(bin, arch, licences, labelsOf(o.Version, o.Revision, goVersion))
		if err != nil {
			return nil, fmt.Errorf("pack the image for %s: %w", arch, err)
		}
		images = append(images, p)
	}
	return images, nil
}

// findLicences returns the licences of all that the programs of the image in bin link.
func findLicences(ctx context.Context, bin string) ([]byte, error) {
	found, err := findPrograms(bin)
	if err != nil {
		return nil, err
	}
	return linked.Texts(ctx, ".", found)
}

// nameImage returns the default name of the image. Sources that are not committed can give many
// images for one version, so their name also has a part of the digest.
func nameImage(version, digest string) string {
	name := repository + ":" + version
	if version == "unknown" || strings.HasSuffix(version, "-dirty") {
		name += "-" + digest[:min(12, len(digest))]
	}
	return name
}

// inImage has the programs of a node, of the controller, and culvert-bench, which
// measurements run in pods of their own. It leaves out culvert-lab, since no cluster boots
// a lab, and culvert-esxi, which people run.
var inImage = []string{"culvert", "culvertd", "culvert-cni", "culvert-hook", "culvert-controller", "culvert-bench"}
