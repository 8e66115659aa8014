// Command packages builds Culvert's packages for distributions, .deb and .rpm. The package culvert
// is for hosts: it has the files of `culvert host install` and the service, and its scripts install
// the CNI plugin and the hook of libvirt. The packages culvert-bench, culvert-esxi and culvert-lab
// have that one program. The folder description has one description of each package, of which nfpm
// (test/tools/nfpm) makes both forms. The same sources give the same bytes, with the same Go.
//
//	tools/go run ./tools/packages deb               build/deb/culvert*_VERSION_amd64.deb
//	tools/go run ./tools/packages -arch arm64 rpm   build/rpm/culvert*-VERSION-1.aarch64.rpm
//
// `make deb` and `make rpm` run it. It needs the programs of `make build`, whose help becomes the
// manual pages.
package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/culvert-net/culvert/internal/program"
	"github.com/culvert-net/culvert/tools/linked"
	"github.com/culvert-net/culvert/tools/programs"
)

func main() {
	var o options
	flag.StringVar(&o.Out, "out", "", "the folder where the packages go (default build/FORMAT)")
	flag.StringVar(&o.Version, "version", "unknown", "what the programs say of themselves, as git describe does")
	flag.StringVar(&o.Arch, "arch", runtime.GOARCH, "for which architecture, as Go calls it")
	flag.StringVar(&o.Bin, "bin", "", "a folder with the programs (default: build them)")
	flag.Parse()
	o.Formats = flag.Args()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := buildPackages(ctx, o, os.Getenv("SOURCE_DATE_EPOCH"))
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "packages:", err)
		os.Exit(1)
	}
}

type options struct {
	Out, Version, Arch, Bin string
	Formats                 []string // deb, rpm
}

// packages has the packages to build: the programs that run as root on hosts, the program that
// measures, the program for ESXi hosts, and the program that boots machines.
var packages = []string{hostPackage, program.Bench, program.ESXi, program.Lab}

const hostPackage = "culvert"

// programsOf returns the programs of a package.
func programsOf(name string) []string {
	if name == hostPackage {
		return []string{"culvert", "culvertd", "culvert-cni", "culvert-hook"}
	}
	return []string{name}
}

// buildPackages builds the programs, lays them out and packs them.
func buildPackages(ctx context.Context, o options, epoch string) error {
	if len(o.Formats) == 0 || slices.ContainsFunc(o.Formats, func(f string) bool { return f != "deb" && f != "rpm" }) {
		return fmt.Errorf("formats %q: want deb, rpm or both", o.Formats)
	}
	when, err := changeTime(ctx, epoch)
	if err != nil {
		return err
	}
	nfpm, err := findNFPM(ctx, ".")
	if err != nil {
		return err
	}
	work, err := os.MkdirTemp("", "culvert-packages-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	if o.Bin == "" {
		o.Bin = filepath.Join(work, "bin")
		var all []string
		for _, name := range packages {
			all = append(all, programsOf(name)...)
		}
		if err := programs.Compile(ctx, o.Bin, o.Arch, o.Version, all...); err != nil {
			return err
		}
	}
	changes, err := os.ReadFile("CHANGELOG.md")
	if err != nil {
		return err
	}
	for _, name := range packages {
		p := pkg{name: name, version: packageVersion(o.Version, when), arch: o.Arch, when: when, changes: changes, nfpm: nfpm, squeeze: "zstd"}
		if err := buildPackage(ctx, p, o, filepath.Join(work, name)); err != nil {
			return fmt.Errorf("package %s: %w", name, err)
		}
	}
	return nil
}

// buildPackage lays one package out in stage and packs it in each format.
func buildPackage(ctx context.Context, p pkg, o options, stage string) error {
	if err := layOut(ctx, p.name, o.Bin, stage); err != nil {
		return err
	}
	var files []string
	for _, name := range programsOf(p.name) {
		files = append(files, filepath.Join(o.Bin, name))
	}
	var err error
	if p.licences, err = linked.Texts(ctx, ".", files); err != nil {
		return err
	}
	if err := writeManuals(ctx, p, "build/bin", filepath.Join(stage, prefix, "share/man")); err != nil {
		return err
	}
	for _, format := range o.Formats {
		out := o.Out
		if out == "" {
			out = filepath.Join("build", format)
		}
		file, err := p.packStage(ctx, stage, out, format)
		if err != nil {
			return err
		}
		info, err := os.Stat(file)
		if err != nil {
			return err
		}
		fmt.Printf("%s  %.1f MB\n  %s\n", file, float64(info.Size())/1e6, installCommand(format, file))
	}
	return nil
}

// installCommand returns the command that installs a package's file. apt-get takes a name without
// a slash for that of a package in its archive.
func installCommand(format, file string) string {
	if !filepath.IsAbs(file) {
		file = "./" + file
	}
	if format == "rpm" {
		return "dnf install " + file
	}
	return "apt-get install " + file
}

// layOut puts the programs of a package, and the files of a host, into stage.
func layOut(ctx context.Context, name, bin, stage string) error {
	if name != hostPackage {
		body, err := os.ReadFile(filepath.Join(bin, name))
		if err != nil {
			return err
		}
		return putFile(filepath.Join(stage, prefix, "bin", name), body, 0o755)
	}
	out, err := exec.CommandContext(ctx, "build/bin/culvert", "host", "install", "--root", stage, "--prefix", prefix, "--from", bin, "--parts", "programs").CombinedOutput()
	if err != nil {
		return fmt.Errorf("%w\n%s", err, out)
	}
	return nil
}

// findNFPM returns the program nfpm, which tools/part builds once.
func findNFPM(ctx context.Context, top string) (string, error) {
	cmd := exec.CommandContext(ctx, filepath.Join(top, "tools/part"), "nfpm")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("tools/part nfpm: %w", err)
	}
	return filepath.Join(string(bytes.TrimSpace(out)), "nfpm"), nil
}

// changeTime returns when the sources changed last: SOURCE_DATE_EPOCH, else the time of
// the commit.
func changeTime(ctx context.Context, epoch string) (time.Time, error) {
	if epoch == "" {
		out, err := exec.CommandContext(ctx, "git", "log", "-1", "--format=%ct").Output()
		if err != nil {
			return time.Time{}, fmt.Errorf("the time of the commit: %w: where there is no git, set SOURCE_DATE_EPOCH", err)
		}
		epoch = string(bytes.TrimSpace(out))
	}
	s, err := strconv.ParseInt(epoch, 10, 64)
	if err != nil {
		return time.Time{}, fmt.Errorf("SOURCE_DATE_EPOCH %q: want seconds since 1970", epoch)
	}
	return time.Unix(s, 0).UTC(), nil
}

// packageVersion returns the version of git describe in a form that dpkg and rpm order. Commits
// after a release come after that release. Commits without a release come before the first one, in
// the order of their time.
func packageVersion(describe string, when time.Time) string {
	v, dirty := strings.CutSuffix(describe, "-dirty")
	if tag, ok := strings.CutPrefix(v, "v"); ok && tag != "" && tag[0] >= '0' && tag[0] <= '9' {
		v = strings.Replace(tag, "-", "+", 1) // v1.2.3-4-gabc: the fourth commit after it
		v = strings.ReplaceAll(v, "-", ".")
	} else {
		v = "0~" + when.Format("20060102150405") + "." + v
	}
	if dirty {
		v += "+dirty"
	}
	return v
}
