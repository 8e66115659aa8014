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
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
)

func main() {
	r, rest, err := parseArgs(os.Args[1:])
	switch {
	case errors.Is(err, flag.ErrHelp):
		return
	case err != nil: // package flag has printed it
		os.Exit(2)
	}
	if err := runArguments(r, rest); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

// parseArgs reads the flags, and returns the arguments after them.
func parseArgs(args []string) (release, []string, error) {
	r := release{Top: ".", Programs: everyProgram}
	var archs string
	f := flag.NewFlagSet("release", flag.ContinueOnError)
	f.StringVar(&r.Out, "out", "build/release", "the folder for the release; it must not have one of the same version")
	f.StringVar(&r.Version, "version", "", "the version, v0.1.0")
	f.StringVar(&r.Image, "image", "", "the image's name in your registry, without a tag (default localhost/culvert, which nodes import)")
	f.StringVar(&r.URL, "url", "", "the URL of the folder from which people will download the files; without it there is no manifest for krew")
	f.StringVar(&r.Key, "key", "", "the SSH key that signs the checksums (ssh-keygen -Y sign); without it they are not signed")
	f.StringVar(&r.VulnDB, "vulndb", os.Getenv("GOVULNDB"), `the database of govulncheck, a URL, or "none" to check nothing`)
	f.StringVar(&archs, "arch", "amd64,arm64", "for which architectures")
	f.StringVar(&r.Go, "go", "", `the Go version that must build it, or "any" (default IMAGE_GO of tools/versions)`)
	err := f.Parse(args)
	r.Archs = strings.Split(archs, ",")
	return r, f.Args(), err
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
