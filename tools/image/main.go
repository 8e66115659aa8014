// Command image builds Culvert's container image without a Docker daemon: one OCI archive
// that has an image for each architecture. The same sources give the same bytes on every
// machine and at any time. For that it must be built by the Go version that tools/versions
// pins, and refuses to run otherwise. `make image` fetches that version. The image records
// the version in its label dev.culvert.go.
//
//	make image                                     build/image/culvert.tar, for amd64 and arm64
//	tools/go run ./tools/image -arch amd64 -name example.org/culvert:v1
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
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
)

// imageName is the name of the image in the manifest and the chart.
const imageName = "culvert.dev/culvert:v0.1.0"

func main() {
	var o options
	var archs string
	flag.StringVar(&o.Out, "out", "build/image/culvert.tar", "where the OCI archive goes")
	flag.StringVar(&o.Name, "name", imageName, "what the image is called")
	flag.StringVar(&o.Version, "version", "unknown", "what its programs say of themselves")
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
	Out, Name, Version, Go string
	Archs                  []string
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
	work, err := os.MkdirTemp("", "culvert-image-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	var images []platform
	for _, arch := range o.Archs {
		bin := filepath.Join(work, arch)
		if err := compilePrograms(ctx, bin, arch, o.Version); err != nil {
			return err
		}
		goVersion, err := checkPrograms(bin, o.Go)
		if err != nil {
			return err
		}
		p, err := packImage(bin, arch, goVersion)
		if err != nil {
			return fmt.Errorf("pack the image for %s: %w", arch, err)
		}
		images = append(images, p)
	}
	if err := os.MkdirAll(filepath.Dir(o.Out), 0o755); err != nil {
		return err
	}
	digest, err := writeArchive(o.Out, o.Name, images)
	if err != nil {
		return fmt.Errorf("write %s: %w", o.Out, err)
	}
	fmt.Printf("%s  %s\n  %s\n", o.Out, o.Name, digest)
	for _, p := range images {
		fmt.Printf("  %-6s %.1f MB\n", p.arch, float64(p.size)/1e6)
	}
	return nil
}

// programs has the programs of a node, of the controller, and culvert-bench, which
// measurements run in pods of their own. It leaves out culvert-lab, since no cluster boots
// a lab, and culvert-esxi, which people run.
var programs = []string{"culvert", "culvertd", "culvert-cni", "culvert-hook", "culvert-controller", "culvert-bench"}

// compilePrograms builds the programs for an architecture, static, without paths of the
// machine that builds them and without facts of git. The caller's flags for Go have no
// effect on them.
func compilePrograms(ctx context.Context, bin, arch, version string) error {
	args := []string{"build", "-trimpath", "-ldflags", "-s -w -X main.version=" + version, "-o", bin + "/"}
	for _, name := range programs {
		args = append(args, "./cmd/"+name)
	}
	cmd := exec.CommandContext(ctx, "tools/go", args...)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH="+arch,
		"GOAMD64=v1", "GOARM64=v8.0", "GOFIPS140=off", "GOWORK=off",
		"GOFLAGS=-buildvcs=false") // tools/go adds flags of its own
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build the programs for %s: %w\n%s", arch, err, out)
	}
	return nil
}
