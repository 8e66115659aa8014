// Command release makes all that a publisher of Culvert uploads, in one folder: archives of the
// programs, packages, the image, manifests and the chart, a manifest for krew, a list of what is
// linked (SPDX), the provenance, notes, and a file of checksums that the publisher's key signs. The
// same commit gives the same bytes, with the same Go. docs/release.md is for publishers.
//
//	make release VERSION=v0.1.0 RELEASE='-key ~/.ssh/release -image registry.example.org/culvert'
//
// It refuses while SECURITY.md has no address for reports, while CHANGELOG.md has no section for the
// version, and for sources that are not committed.
//
//	tools/go run ./tools/release sizes build/release/v0.1.0 build/release/v0.1.1
//
// prints the sizes of the files of two releases, and the bytes that an upgrade fetches.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
)

func main() {
	r := release{Top: ".", Programs: everyProgram}
	var archs string
	flag.StringVar(&r.Out, "out", "build/release", "the folder for the release; it must not have one of the same version")
	flag.StringVar(&r.Version, "version", "", "the version, v0.1.0")
	flag.StringVar(&r.Image, "image", "", "the image's name in your registry, without a tag (default localhost/culvert, which nodes import)")
	flag.StringVar(&r.URL, "url", "", "the URL of the folder from which people will download the files; without it there is no manifest for krew")
	flag.StringVar(&r.Key, "key", "", "the SSH key that signs the checksums (ssh-keygen -Y sign); without it they are not signed")
	flag.StringVar(&r.VulnDB, "vulndb", os.Getenv("GOVULNDB"), `the database of govulncheck, a URL, or "none" to check nothing`)
	flag.StringVar(&archs, "arch", "amd64,arm64", "for which architectures")
	flag.StringVar(&r.Go, "go", "", `the Go version that must build it, or "any" (default IMAGE_GO of tools/versions)`)
	flag.Parse()
	r.Archs = strings.Split(archs, ",")
	if err := runArguments(r, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

// runArguments makes the release r, or shows the sizes of two.
func runArguments(r release, args []string) error {
	switch {
	case len(args) == 3 && args[0] == "sizes":
		return showSizes(os.Stdout, args[1], args[2])
	case len(args) > 0:
		return fmt.Errorf("arguments %q: want none, or sizes FOLDER FOLDER", args)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	return r.make(ctx)
}
