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

	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/network/netconf"
	"github.com/culvert-net/culvert/internal/vf"
)

// Conflist is the configuration file that makes the runtime call Culvert first.
const Conflist = "00-culvert.conflist"

// Mode says who sets up the networks of pods.
type Mode string

// The modes.
const (
	Auto   Mode = "auto"   // Culvert, unless Multus is there
	Always Mode = "always" // Culvert
	Never  Mode = "never"  // another program does, and Culvert may be its delegate
)

// ParseMode reads the flag --pod-networks.
func ParseMode(s string) (Mode, error) {
	switch m := Mode(s); m {
	case Auto, Always, Never:
		return m, nil
	}
	return "", fmt.Errorf("--pod-networks %q: %w: want auto, always or never", s, vf.ErrInvalid)
}

// formatConflist returns the content of Conflist. A runtime that knows only version 1.0.0 of the
// specification takes that version. The capabilities are those that a default network may have;
// each of its plugins gets only those that it declares itself.
//
// The network has the name of the default network, and no CHECK, for CRI-O (docs/design/0043-cri-o.md).
// When CRI-O starts, it calls GC of each network in the folder, and reports all pods as those of the
// first one. Under another name it would so take the default network away from pods of before
// Culvert. It calls CHECK for each pod then, too, and a pod whose CHECK fails gets a new sandbox, for
// instance because culvertd is away.
func formatConflist(name string) []byte {
	capabilities := map[string]bool{}
	for _, c := range []string{"portMappings", "bandwidth", "ipRanges", "ips", "mac", "dns", "aliases", "cgroupPath", "infinibandGUID"} {
		capabilities[c] = true
	}
	raw, _ := json.MarshalIndent(map[string]any{ // texts only
		"cniVersion": "1.0.0", "cniVersions": []string{"1.0.0", api.CNINewest}, "name": name, "disableCheck": true,
		"plugins": []any{map[string]any{"type": netconf.TypeCulvert, "podNetworks": true, "capabilities": capabilities}},
	}, "", "  ")
	return append(raw, '\n')
}

// multusIn returns the configuration file that makes the runtime call Multus, or "" if there is
// none.
func multusIn(dir string) (string, error) {
	all, err := listFiles(dir)
	if err != nil {
		return "", err
	}
	for _, file := range all {
		raw, err := os.ReadFile(file)
		if err != nil {
			continue // the file is gone, or cannot be read
		}
		types, err := netconf.Types(raw)
		if err == nil && slices.ContainsFunc(types, netconf.IsMultus) {
			return file, nil
		}
	}
	return "", nil
}

// Take writes or removes Conflist in the folder, as the mode wants it. It writes Conflist as a
// whole, and not before there is a default network, since the runtime would otherwise report a
// node as ready that is not. why is the reason why Conflist is missing; it is empty if Conflist
// is there.
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
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("%s: %w", path, err)
	}
	there := err == nil
	d, err := defaultIn(dir)
	switch {
	case err != nil && there: // pods that run are deleted by it
		return "", nil
	case err != nil:
		return err.Error(), nil //nolint:nilerr // the reason why there is no file
	}
	if want := formatConflist(d.Name); !bytes.Equal(have, want) {
		return "", writeFile(path, want)
	}
	return "", nil
}

// Leave removes Conflist, so that the runtime calls the default network itself again. Existing
// pods keep their networks. The DEL of their VFs no longer reaches Culvert, so uninstall Culvert
// only when no pod has a VF.
func Leave(dir string) error {
	if err := os.Remove(filepath.Join(dir, Conflist)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove %s: %w", Conflist, err)
	}
	return nil
}

// lookAgain is how soon a changed folder is read once more, since a new file may not be complete
// yet. lookFor is how often culvertd looks for a folder that does not exist.
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
			f.logNews(err.Error())
			f.awaitChange(ctx, nil, lookFor)
			continue
		}
		for there := true; there && ctx.Err() == nil; {
			f.takeConflist()
			if there = f.awaitChange(ctx, changed, 0); there {
				f.takeConflist()
				f.awaitChange(ctx, nil, lookAgain)
			}
		}
	}
}

type follower struct {
	dir  string
	mode Mode
	log  *slog.Logger
	last string // the last state that was logged
}

func (f *follower) takeConflist() {
	why, err := Take(f.dir, f.mode)
	if err != nil {
		why = err.Error()
	}
	f.logNews(why)
}

// logNews logs a state that has changed.
func (f *follower) logNews(why string) {
	switch why {
	case f.last:
	case "":
		f.log.Info("the networks of pods are Culvert's", "file", filepath.Join(f.dir, Conflist))
	default:
		f.log.Warn("the networks of pods are not Culvert's", "why", why)
	}
	f.last = why
}

// awaitChange waits for a change, or for the given time if that is not 0. It returns false if the
// channel was closed.
func (f *follower) awaitChange(ctx context.Context, changed <-chan struct{}, bound time.Duration) bool {
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
