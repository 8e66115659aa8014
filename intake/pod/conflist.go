package pod

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/culvert-net/culvert/api"
	"github.com/culvert-net/culvert/netconf"
	"github.com/culvert-net/culvert/vf"
)

// Conflist is the file by which the runtime comes to Culvert first.
const Conflist = "00-culvert.conflist"

// Mode says who sets up the networks of pods.
type Mode string

// The modes.
const (
	Auto   Mode = "auto"   // Culvert, unless Multus is there
	Always Mode = "always" // Culvert
	Never  Mode = "never"  // somebody else, whose delegate Culvert may be
)

// ParseMode reads the flag --pod-networks.
func ParseMode(s string) (Mode, error) {
	switch m := Mode(s); m {
	case Auto, Always, Never:
		return m, nil
	}
	return "", fmt.Errorf("--pod-networks %q: %w: want auto, always or never", s, vf.ErrInvalid)
}

// ours is the content of Conflist. A runtime that knows only 1.0.0 takes that.
// The capabilities are those that a default network may have; each of its plugins
// gets what it declares itself.
func ours() []byte {
	capabilities := map[string]bool{}
	for _, c := range []string{"portMappings", "bandwidth", "ipRanges", "ips", "mac", "dns", "aliases", "cgroupPath", "infinibandGUID"} {
		capabilities[c] = true
	}
	raw, _ := json.MarshalIndent(map[string]any{ // texts only
		"cniVersion": "1.0.0", "cniVersions": []string{"1.0.0", api.CNINewest}, "name": "culvert",
		"plugins": []any{map[string]any{"type": netconf.TypeCulvert, "podNetworks": true, "capabilities": capabilities}},
	}, "", "  ")
	return append(raw, '\n')
}

// multusIn is the file by which the runtime comes to Multus; empty when there is
// none.
func multusIn(dir string) (string, error) {
	all, err := files(dir)
	if err != nil {
		return "", err
	}
	for _, file := range all {
		raw, err := os.ReadFile(file)
		if err != nil {
			continue // it has just gone, or says nothing
		}
		types, err := netconf.Types(raw)
		if err == nil && slices.ContainsFunc(types, netconf.IsMultus) {
			return file, nil
		}
	}
	return "", nil
}

// Take makes the folder say what the mode means: Conflist is there, as a whole, or
// not. It is not made before there is a default network: the runtime would call a
// node ready that is not. why says what keeps it away; it is empty when it is there.
func Take(dir string, mode Mode) (why string, err error) {
	multus := ""
	if mode == Auto {
		if multus, err = multusIn(dir); err != nil {
			return "", err
		}
	}
	switch {
	case mode == Never:
		return "--pod-networks is never", Leave(dir)
	case multus != "":
		return "Multus is there (" + filepath.Base(multus) + "), and Culvert is its delegate", Leave(dir)
	}
	path := filepath.Join(dir, Conflist)
	have, err := os.ReadFile(path)
	switch {
	case err == nil && bytes.Equal(have, ours()):
		return "", nil
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return "", fmt.Errorf("%s: %w", path, err)
	case err != nil:
		if _, err := defaultIn(dir); err != nil {
			return err.Error(), nil //nolint:nilerr // it is waited for
		}
	}
	return "", write(path, ours())
}

// Leave removes Conflist: the runtime goes to the default network by itself again.
// Pods that are there keep what they have; the DEL of their VFs no longer comes, so
// Culvert is uninstalled when no pod has one.
func Leave(dir string) error {
	if err := os.Remove(filepath.Join(dir, Conflist)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove %s: %w", Conflist, err)
	}
	return nil
}

// How soon a changed folder is looked at once more, since a file that has just
// appeared may not be written yet; and how often one that is not there.
const (
	lookAgain = 2 * time.Second
	lookFor   = 5 * time.Second
)

// Follow calls Take at once and whenever the folder changes, until ctx ends. watch
// is dirwatch.Watch.
func Follow(ctx context.Context, dir string, mode Mode, watch func(context.Context, string) (<-chan struct{}, error), log *slog.Logger) {
	f := follower{dir: dir, mode: mode, log: log, last: "not looked yet"}
	for ctx.Err() == nil {
		changed, err := watch(ctx, dir)
		if err != nil {
			f.say(err.Error())
			f.wait(ctx, nil, lookFor)
			continue
		}
		for there := true; there && ctx.Err() == nil; {
			f.look()
			if there = f.wait(ctx, changed, 0); there {
				f.look()
				f.wait(ctx, nil, lookAgain)
			}
		}
	}
}

type follower struct {
	dir  string
	mode Mode
	log  *slog.Logger
	last string // what was said
}

func (f *follower) look() {
	why, err := Take(f.dir, f.mode)
	if err != nil {
		why = err.Error()
	}
	f.say(why)
}

// say logs what is new.
func (f *follower) say(why string) {
	switch why {
	case f.last:
	case "":
		f.log.Info("the networks of pods are Culvert's", "file", filepath.Join(f.dir, Conflist))
	default:
		f.log.Warn("the networks of pods are not Culvert's", "why", why)
	}
	f.last = why
}

// wait waits for a change, or for some time where that is not 0. It is false when
// the channel was closed.
func (f *follower) wait(ctx context.Context, changed <-chan struct{}, bound time.Duration) bool {
	var over <-chan time.Time
	if bound > 0 {
		t := time.NewTimer(bound)
		defer t.Stop()
		over = t.C
	}
	select {
	case <-ctx.Done():
		return false
	case <-over:
		return true
	case _, ok := <-changed:
		return ok
	}
}
