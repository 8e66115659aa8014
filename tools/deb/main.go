// Command deb builds Debian packages of Culvert. The package culvert is for hosts: it has the
// files of `culvert host install`, starts the service, and its scripts install the CNI plugin and
// the hook of libvirt. The packages culvert-bench, culvert-esxi and culvert-lab have that one program.
// The same sources give the same bytes, with the same Go and dpkg-deb.
//
//	tools/go run ./tools/deb               build/deb/culvert*_VERSION_amd64.deb
//	tools/go run ./tools/deb -arch arm64
//
// `make deb` runs it. It needs dpkg-deb 1.21.9 or newer, and build/bin/culvert.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/culvert-net/culvert/internal/program"
)

func main() {
	var o options
	flag.StringVar(&o.Out, "out", "build/deb", "the folder where the packages go")
	flag.StringVar(&o.Version, "version", "unknown", "what the programs say of themselves, as git describe does")
	flag.StringVar(&o.Arch, "arch", runtime.GOARCH, "for which architecture, as Go calls it")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := buildPackages(ctx, o, os.Getenv("SOURCE_DATE_EPOCH"))
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "deb:", err)
		os.Exit(1)
	}
}

type options struct{ Out, Version, Arch string }

// buildPackages builds the programs, lays them out and packs them.
func buildPackages(ctx context.Context, o options, epoch string) error {
	when, err := changeTime(ctx, epoch)
	if err != nil {
		return err
	}
	work, err := os.MkdirTemp("", "culvert-deb-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	bin := filepath.Join(work, "bin")
	if err := compilePrograms(ctx, bin, o); err != nil {
		return err
	}
	changes, err := os.ReadFile("CHANGELOG.md")
	if err != nil {
		return err
	}
	for _, name := range packages {
		stage := filepath.Join(work, name)
		if err := layOut(ctx, name, bin, stage); err != nil {
			return fmt.Errorf("lay out the package %s: %w", name, err)
		}
		p := pkg{name: name, version: debianVersion(o.Version, when), arch: o.Arch, when: when, changes: changes}
		file, err := p.packStage(ctx, stage, o.Out)
		if err != nil {
			return err
		}
		info, err := os.Stat(file)
		if err != nil {
			return err
		}
		fmt.Printf("%s  %.1f MB\n  apt-get install ./%s\n", file, float64(info.Size())/1e6, file)
	}
	return nil
}

// packages has the packages to build: the programs that run as root on hosts, the program that
// measures, the program for ESXi hosts, and the program that boots machines.
var packages = []string{hostPackage, program.Bench, program.ESXi, program.Lab}

const hostPackage = "culvert"

// layOut puts the files of a package into stage.
func layOut(ctx context.Context, name, bin, stage string) error {
	if name != hostPackage {
		body, err := os.ReadFile(filepath.Join(bin, name))
		return errors.Join(err, putFile(filepath.Join(stage, prefix, "bin", name), body, 0o755))
	}
	out, err := exec.CommandContext(ctx, "build/bin/culvert", "host", "install", "--root", stage, "--prefix", prefix, "--from", bin, "--parts", "programs").CombinedOutput()
	if err != nil {
		return fmt.Errorf("%w\n%s", err, out)
	}
	return nil
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

// compilePrograms builds the programs of all packages, static, without paths of the machine that
// builds them.
func compilePrograms(ctx context.Context, bin string, o options) error {
	args := []string{"build", "-trimpath", "-ldflags", "-s -w -X main.version=" + o.Version, "-o", bin + "/"}
	for _, name := range []string{"culvert", "culvertd", "culvert-cni", "culvert-hook", program.Bench, program.ESXi, program.Lab} {
		args = append(args, "./cmd/"+name)
	}
	cmd := exec.CommandContext(ctx, "tools/go", args...)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH="+o.Arch)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build the programs for %s: %w\n%s", o.Arch, err, out)
	}
	return nil
}

// debianVersion returns the version of git describe in a form that Debian orders. Commits after a
// release come after that release. Commits without a release come before the first one, in the
// order of their time.
func debianVersion(describe string, when time.Time) string {
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
