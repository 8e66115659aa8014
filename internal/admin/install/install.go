// Package install installs Culvert on a host and removes it again, so that the host is as it
// was. It handles programs, the systemd unit, completions, an example host.yaml, and the files
// that container runtimes and libvirt exec, if the host has these. The host is this one, or a
// folder that becomes the root of another one or of a package.
//
// `culvert host install` and `uninstall` call it. Each file is replaced in one step, so a
// program that runs it meanwhile finds the old one or the new one.
package install

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/culvert-net/culvert/internal/excerpt"
	"github.com/culvert-net/culvert/internal/kernel/balance"
	"github.com/culvert-net/culvert/internal/network/netconf"
	"github.com/culvert-net/culvert/internal/node/intake/cni/place"
)

// Part is a part of an installation.
type Part string

// The parts. Only a host with software that runs them gets CNI and Libvirt.
const (
	Programs Part = "programs" // culvert, culvertd and the files that they need
	Bench    Part = "bench"    // culvert-bench, which measures
	CNI      Part = "cni"      // the plugin that container runtimes exec
	Libvirt  Part = "libvirt"  // the hook that libvirt execs
)

// Parts returns all parts.
func Parts() []Part { return []Part{Programs, Bench, CNI, Libvirt} }

// Host is the host on which Culvert is installed.
type Host struct {
	Root   string // of the host's files: "/" for this host
	Prefix string // of programs, as the host sees it: /usr/local
	Parts  []Part
	DryRun bool // print the changes, and make none
	// Systemctl runs systemctl; it is nil if the running systemd is not that of the host. An
	// error of is-active means that the unit is not active.
	Systemctl func(ctx context.Context, args ...string) error
	// Out receives a line for every file: + it is new, ~ it is replaced, = it is there already,
	// - it is gone.
	Out io.Writer
}

// Install installs the files that are missing or differ, from a folder of built programs. It
// keeps an existing host.yaml, which a person may have edited. completions has the completions
// of culvert by shell: bash, zsh, fish. It is idempotent.
func (h Host) Install(ctx context.Context, from string, completions map[string][]byte) error {
	if err := h.checkPrefix(); err != nil {
		return err
	}
	files, err := h.wantedFiles(from, completions)
	if err != nil {
		return err
	}
	h.printLine("installing into %s", h.Root)
	newHook := false
	for _, f := range files {
		sign, err := h.putFile(f)
		if err != nil {
			return fmt.Errorf("install %s: %w", f.place, err)
		}
		newHook = newHook || sign == signNew && strings.HasPrefix(f.place, hooks)
	}
	if err := h.putPlugin(from); err != nil {
		return err
	}
	for _, p := range h.Parts {
		if !h.wantsPart(p) {
			h.printLine("  no %s: there is no %s here; once there is, run this again", whatOf[p], strings.Join(signsOf[p], " or "))
		}
	}
	if newHook && h.Systemctl != nil {
		h.printLine("libvirt runs the hook after: systemctl restart libvirtd (or virtqemud); guests go on running")
	}
	return h.notifySystemd(ctx)
}

// notifySystemd makes systemd read the units, and prints the next steps for the person.
func (h Host) notifySystemd(ctx context.Context) error {
	if h.Systemctl == nil || h.DryRun || !h.hasPart(Programs) {
		return nil
	}
	if err := h.Systemctl(ctx, "daemon-reload"); err != nil {
		return err
	}
	if h.Systemctl(ctx, "is-active", "--quiet", unit) == nil {
		h.printLine("culvertd runs the old program until: systemctl restart culvertd")
	} else {
		h.printLine("now edit %s, then: systemctl enable --now culvertd", config)
	}
	return nil
}

// Uninstall stops culvertd and removes the files that Install installs. A host.yaml that a
// person wrote, the ledger and the VFs stay. It is idempotent.
func (h Host) Uninstall(ctx context.Context) error {
	if err := h.checkPrefix(); err != nil {
		return err
	}
	if err := h.stopCulvertd(ctx); err != nil {
		return err
	}
	h.printLine("removing from %s", h.Root)
	if h.hasPart(CNI) {
		// Remove conflist first: a runtime that finds conflist but not the plugin starts no pod.
		if err := h.removeFile(file{place: conflist}); err != nil {
			return err
		}
		if err := h.takePlugin(); err != nil {
			return err
		}
	}
	for _, f := range h.listPlaces() {
		if err := h.removeFile(f); err != nil {
			return fmt.Errorf("remove %s: %w", f.place, err)
		}
	}
	if !h.hasPart(Programs) {
		return nil
	}
	if err := h.takePinned(); err != nil {
		return err
	}
	for _, left := range []string{config, stateDir} {
		if h.fileExists(left) {
			h.printLine("left: %s", left)
		}
	}
	if h.Systemctl == nil || h.DryRun {
		return nil
	}
	return h.Systemctl(ctx, "daemon-reload")
}

// takePinned removes the pinned eBPF programs and maps that balance connections to Services.
func (h Host) takePinned() error {
	if !h.fileExists(balance.PinDir) {
		return nil
	}
	h.printLine("  - %s: the eBPF programs of Services; running pods lose the cluster IPs of VF networks", balance.PinDir)
	if h.DryRun {
		return nil
	}
	if err := os.RemoveAll(h.hostPath(balance.PinDir)); err != nil {
		return fmt.Errorf("remove the eBPF programs of Services: %w", err)
	}
	return nil
}

// stopCulvertd stops culvertd, and the timer that writes its metrics. Owners keep their VFs.
func (h Host) stopCulvertd(ctx context.Context) error {
	if h.Systemctl == nil || h.DryRun || !h.hasPart(Programs) || !h.fileExists(h.unitPlace(unit)) {
		return nil
	}
	if h.fileExists(h.unitPlace(timer)) {
		if err := h.Systemctl(ctx, "--quiet", "disable", "--now", timer); err != nil {
			return err
		}
	}
	if h.Systemctl(ctx, "is-active", "--quiet", unit) == nil {
		h.printLine("stopping culvertd; pods and virtual machines keep the VFs that they have")
		if err := h.Systemctl(ctx, "stop", unit); err != nil {
			return err
		}
	}
	return h.Systemctl(ctx, "--quiet", "disable", unit)
}

func (h Host) checkPrefix() error {
	if !path.IsAbs(h.Prefix) || path.Clean(h.Prefix) != h.Prefix || strings.ContainsAny(h.Prefix, " \t\n%\"'\\") {
		return fmt.Errorf("prefix %q: want a folder such as /usr/local, without spaces, quotes and a slash at its end", h.Prefix)
	}
	for _, p := range h.Parts {
		if !slices.Contains(Parts(), p) {
			return fmt.Errorf("part %q: want some of %s", p, excerpt.Join(Parts()))
		}
	}
	return nil
}

func (h Host) printLine(format string, args ...any) { fmt.Fprintf(h.Out, format+"\n", args...) }

func (h Host) hasPart(p Part) bool { return slices.Contains(h.Parts, p) }

// wantsPart reports whether the caller selected a part and the host has the software that uses
// it.
func (h Host) wantsPart(p Part) bool {
	return h.hasPart(p) && (len(signsOf[p]) == 0 || slices.ContainsFunc(signsOf[p], h.fileExists))
}

// putPlugin installs the CNI plugin, and its other name in place of a plugin that may have that
// name.
func (h Host) putPlugin(from string) error {
	if !h.wantsPart(CNI) {
		return nil
	}
	program, err := findProgram(from, "culvert-cni")
	if err != nil {
		return err
	}
	dir := h.hostPath(cniBin)
	sign, err := h.compareFile(file{place: cniBin + "/culvert", mode: 0o755, source: program})
	if err != nil {
		return err
	}
	h.printLine("%s %s/culvert", sign, cniBin)
	switch to, err := readLink(dir + "/sriov"); {
	case err == nil && to == netconf.TypeCulvert:
		h.printLine("%s %s/sriov -> culvert", signSame, cniBin)
	case errors.Is(err, fs.ErrNotExist):
		h.printLine("%s %s/sriov -> culvert", signNew, cniBin)
	default:
		h.printLine("%s %s/sriov -> culvert; the plugin that it was is kept as sriov.before-culvert, and uninstall puts it back", signOther, cniBin)
	}
	if h.DryRun {
		return nil
	}
	if err := makeFolder(dir); err != nil {
		return err
	}
	return place.Install(program, dir)
}

func (h Host) takePlugin() error {
	dir := h.hostPath(cniBin)
	to, err := readLink(dir + "/sriov")
	if err == nil && to == netconf.TypeCulvert {
		if h.fileExists(cniBin + "/sriov.before-culvert") {
			h.printLine("%s %s/sriov is again what it was before", signOther, cniBin)
		} else {
			h.printLine("%s %s/sriov", signGone, cniBin)
		}
	}
	if h.fileExists(cniBin + "/culvert") {
		h.printLine("%s %s/culvert", signGone, cniBin)
	}
	if h.DryRun {
		return nil
	}
	return errors.Join(place.Remove(dir), place.ForgetResults(h.hostPath(netconf.ResultsDir)))
}

// hostPath returns the path of a file of the host.
func (h Host) hostPath(name string) string { return filepath.Join(h.Root, name) }
