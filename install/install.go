// Package install puts Culvert onto a host and takes it away again, so that the
// host is as it was: programs, systemd unit, completions, an example host.yaml,
// and what container runtimes and libvirt exec where there are any. The host is
// this one, or a folder that becomes the root of another one or of a package.
//
// `culvert host install` and `uninstall` call it. Each file is replaced in one
// step, so whoever runs it meanwhile finds the old one or the new one.
package install

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/culvert-net/culvert/intake/cni/place"
	"github.com/culvert-net/culvert/netconf"
)

// Part is a part of what is installed.
type Part string

// The parts. CNI and Libvirt go only where there is something that runs them.
const (
	Programs Part = "programs" // culvert, culvertd and what they need
	Bench    Part = "bench"    // culvert-bench, which measures
	CNI      Part = "cni"      // what container runtimes exec
	Libvirt  Part = "libvirt"  // what libvirt execs
)

// Parts are all of them.
func Parts() []Part { return []Part{Programs, Bench, CNI, Libvirt} }

// Host is where Culvert is installed.
type Host struct {
	Root   string // of the host's files: "/" for this host
	Prefix string // of programs, as the host sees it: /usr/local
	Parts  []Part
	DryRun bool // say what would be done, and do nothing
	// Systemctl asks the system's systemd; nil where that is not the host's. The
	// error of is-active says that a unit is not.
	Systemctl func(ctx context.Context, args ...string) error
	// Out is told of every file: + it is new, ~ it is replaced, = it is there
	// already, - it is gone.
	Out io.Writer
}

// Install puts what is not there yet, from a folder of built programs; what a
// person may have edited stays. completions are those of culvert by shell: bash,
// zsh, fish. It is idempotent.
func (h Host) Install(ctx context.Context, from string, completions map[string][]byte) error {
	if err := h.check(); err != nil {
		return err
	}
	files, err := h.files(from, completions)
	if err != nil {
		return err
	}
	h.say("installing into %s", h.Root)
	newHook := false
	for _, f := range files {
		sign, err := h.put(f)
		if err != nil {
			return fmt.Errorf("install %s: %w", f.place, err)
		}
		newHook = newHook || sign == signNew && strings.HasPrefix(f.place, hooks)
	}
	if err := h.putPlugin(from); err != nil {
		return err
	}
	for _, p := range h.Parts {
		if !h.wants(p) {
			h.say("  no %s: there is no %s here; once there is, run this again", whatOf[p], strings.Join(signsOf[p], " or "))
		}
	}
	if newHook && h.Systemctl != nil {
		h.say("libvirt runs the hook after: systemctl restart libvirtd (or virtqemud); guests go on running")
	}
	return h.started(ctx)
}

// started tells systemd, and the person what is left to do.
func (h Host) started(ctx context.Context) error {
	if h.Systemctl == nil || h.DryRun || !h.has(Programs) {
		return nil
	}
	if err := h.Systemctl(ctx, "daemon-reload"); err != nil {
		return err
	}
	if h.Systemctl(ctx, "is-active", "--quiet", unit) == nil {
		h.say("culvertd runs the old program until: systemctl restart culvertd")
	} else {
		h.say("now edit %s, then: systemctl enable --now culvertd", config)
	}
	return nil
}

// Uninstall stops culvertd and removes what Install puts. A host.yaml that a
// person wrote, the ledger and the VFs stay. It is idempotent.
func (h Host) Uninstall(ctx context.Context) error {
	if err := h.check(); err != nil {
		return err
	}
	if err := h.stop(ctx); err != nil {
		return err
	}
	h.say("removing from %s", h.Root)
	if h.has(CNI) {
		// First: a runtime that finds it, and not the plugin, starts no pod.
		if err := h.take(file{place: conflist}); err != nil {
			return err
		}
		if err := h.takePlugin(); err != nil {
			return err
		}
	}
	for _, f := range h.places() {
		if err := h.take(f); err != nil {
			return fmt.Errorf("remove %s: %w", f.place, err)
		}
	}
	if !h.has(Programs) {
		return nil
	}
	for _, left := range []string{config, stateDir} {
		if h.exists(left) {
			h.say("left: %s", left)
		}
	}
	if h.Systemctl == nil || h.DryRun {
		return nil
	}
	return h.Systemctl(ctx, "daemon-reload")
}

// stop stops culvertd. Whoever has a VF keeps it.
func (h Host) stop(ctx context.Context) error {
	if h.Systemctl == nil || h.DryRun || !h.has(Programs) || !h.exists(h.unitPlace()) {
		return nil
	}
	if h.Systemctl(ctx, "is-active", "--quiet", unit) == nil {
		h.say("stopping culvertd; pods and virtual machines keep the VFs that they have")
		if err := h.Systemctl(ctx, "stop", unit); err != nil {
			return err
		}
	}
	return h.Systemctl(ctx, "--quiet", "disable", unit)
}

func (h Host) check() error {
	if !path.IsAbs(h.Prefix) || path.Clean(h.Prefix) != h.Prefix || strings.ContainsAny(h.Prefix, " \t\n%\"'\\") {
		return fmt.Errorf("prefix %q: want a folder such as /usr/local, without spaces, quotes and a slash at its end", h.Prefix)
	}
	for _, p := range h.Parts {
		if !slices.Contains(Parts(), p) {
			return fmt.Errorf("part %q: want some of %v", p, Parts())
		}
	}
	return nil
}

func (h Host) say(format string, args ...any) { fmt.Fprintf(h.Out, format+"\n", args...) }

func (h Host) has(p Part) bool { return slices.Contains(h.Parts, p) }

// wants reports whether a part is asked for, and the host has what runs it.
func (h Host) wants(p Part) bool {
	return h.has(p) && (len(signsOf[p]) == 0 || slices.ContainsFunc(signsOf[p], h.exists))
}

// putPlugin puts the CNI plugin and its other name, in place of the plugin that
// may have had that.
func (h Host) putPlugin(from string) error {
	if !h.wants(CNI) {
		return nil
	}
	program, err := find(from, "culvert-cni")
	if err != nil {
		return err
	}
	dir := h.on(cniBin)
	sign, err := h.sign(file{place: cniBin + "/culvert", mode: 0o755, source: program})
	if err != nil {
		return err
	}
	h.say("%s %s/culvert", sign, cniBin)
	switch to, err := readlink(dir + "/sriov"); {
	case err == nil && to == netconf.TypeCulvert:
		h.say("%s %s/sriov -> culvert", signSame, cniBin)
	case errors.Is(err, fs.ErrNotExist):
		h.say("%s %s/sriov -> culvert", signNew, cniBin)
	default:
		h.say("%s %s/sriov -> culvert; the plugin that it was is kept as sriov.before-culvert, and uninstall puts it back", signOther, cniBin)
	}
	if h.DryRun {
		return nil
	}
	if err := mkdir(dir); err != nil {
		return err
	}
	return place.Install(program, dir)
}

func (h Host) takePlugin() error {
	dir := h.on(cniBin)
	to, err := readlink(dir + "/sriov")
	if err == nil && to == netconf.TypeCulvert {
		if h.exists(cniBin + "/sriov.before-culvert") {
			h.say("%s %s/sriov is again what it was before", signOther, cniBin)
		} else {
			h.say("%s %s/sriov", signGone, cniBin)
		}
	}
	if h.exists(cniBin + "/culvert") {
		h.say("%s %s/culvert", signGone, cniBin)
	}
	if h.DryRun {
		return nil
	}
	return place.Remove(dir)
}

// on is where a file of the host is.
func (h Host) on(name string) string { return filepath.Join(h.Root, name) }
