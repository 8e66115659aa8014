package pod_test

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/containernetworking/cni/libcni"
	"golang.org/x/sync/errgroup"

	"github.com/culvert-net/culvert/internal/node/intake/pod"
)

const multus = `{"cniVersion":"1.0.0","name":"multus-cni-network","type":"multus-shim"}`

func folder(t *testing.T, contents map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range contents {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestTake(t *testing.T) {
	for name, tc := range map[string]struct {
		files map[string]string
		mode  pod.Mode
		taken bool
		why   string
	}{
		"the usual":                 {map[string]string{"10-flannel.conflist": flannel}, pod.Auto, true, ""},
		"again":                     {map[string]string{"10-flannel.conflist": flannel, pod.Conflist: "half a fi"}, pod.Auto, true, ""},
		"no default network yet":    {map[string]string{}, pod.Auto, false, "install one"},
		"Multus":                    {map[string]string{"10-flannel.conflist": flannel, "00-multus.conf": multus}, pod.Auto, false, "00-multus.conf"},
		"Multus came later":         {map[string]string{"10-flannel.conflist": flannel, "00-multus.conf": multus, pod.Conflist: "x"}, pod.Auto, false, "delegate"},
		"Multus, and Culvert first": {map[string]string{"10-flannel.conflist": flannel, "00-multus.conf": multus}, pod.Always, true, ""},
		"never":                     {map[string]string{"10-flannel.conflist": flannel, pod.Conflist: "x"}, pod.Never, false, "never"},
		"Multus in a list":          {map[string]string{"10-flannel.conflist": flannel, "00-m.conflist": `{"cniVersion":"1.0.0","name":"m","plugins":[` + multus + `]}`}, pod.Auto, false, "00-m.conflist"},
	} {
		dir := folder(t, tc.files)
		why, err := pod.Take(dir, tc.mode)
		if err != nil || !strings.Contains(why, tc.why) || (why == "") != tc.taken {
			t.Errorf("%s: %q, %v", name, why, err)
		}
		list, err := libcni.NetworkConfFromFile(filepath.Join(dir, pod.Conflist))
		if (err == nil) != tc.taken {
			t.Errorf("%s: %v", name, err)
		}
		if tc.taken && (list.CNIVersion != "1.1.0" || list.Name != "cbr0" || !list.DisableCheck || !list.Plugins[0].Network.Capabilities["portMappings"] || list.Plugins[0].Network.Type != "culvert") {
			t.Errorf("%s: %+v", name, list)
		}
		if left, _ := filepath.Glob(filepath.Join(dir, ".*")); len(left) > 0 {
			t.Errorf("%s: %v is left", name, left)
		}
		if err := pod.Leave(dir); err != nil {
			t.Error(err)
		}
		if err := pod.Leave(dir); err != nil { // again
			t.Error(err)
		}
	}
}

// The network of pods has the name of the default network, also of another one that comes later. It
// stays while there is none, since pods that run are deleted by it.
func TestTakeFollowsTheDefaultNetwork(t *testing.T) {
	dir := folder(t, map[string]string{"10-flannel.conflist": flannel})
	for _, step := range []struct {
		change func() error
		name   string
	}{
		{func() error { return nil }, "cbr0"},
		{func() error {
			return os.WriteFile(filepath.Join(dir, "05-other.conflist"), []byte(strings.ReplaceAll(flannel, "cbr0", "other")), 0o644)
		}, "other"},
		{func() error { return os.Remove(filepath.Join(dir, "05-other.conflist")) }, "cbr0"},
		{func() error { return os.Remove(filepath.Join(dir, "10-flannel.conflist")) }, "cbr0"},
	} {
		if err := step.change(); err != nil {
			t.Fatal(err)
		}
		if why, err := pod.Take(dir, pod.Auto); why != "" || err != nil {
			t.Errorf("%q, %v", why, err)
		}
		list, err := libcni.NetworkConfFromFile(filepath.Join(dir, pod.Conflist))
		if err != nil {
			t.Fatal(err)
		}
		if list.Name != step.name {
			t.Errorf("the network's name is %s, want %s", list.Name, step.name)
		}
	}
}

// Follow notices a default network that is installed, and a Multus that is installed and removed.
func TestFollow(t *testing.T) {
	dir := folder(t, nil)
	ctx, stop := context.WithCancel(t.Context())
	wake := make(chan struct{})
	var g errgroup.Group
	g.Go(func() error {
		pod.Follow(ctx, dir, pod.Auto, func(context.Context, string) (<-chan struct{}, error) { return wake, nil }, slog.New(slog.DiscardHandler))
		return nil
	})
	defer func() { stop(); _ = g.Wait() }()
	step := func(what string, change func() error, there bool) {
		t.Helper()
		if err := change(); err != nil {
			t.Fatal(err)
		}
		wake <- struct{}{}
		for end := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
			_, err := os.Stat(filepath.Join(dir, pod.Conflist))
			if (err == nil) == there {
				return
			}
			if time.Now().After(end) {
				t.Fatalf("%s: %v", what, err)
			}
		}
	}
	put := func(name, content string) func() error {
		return func() error { return os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644) }
	}
	step("Flannel comes", put("10-flannel.conflist", flannel), true)
	step("Multus comes", put("00-multus.conf", multus), false)
	step("Multus goes", func() error { return os.Remove(filepath.Join(dir, "00-multus.conf")) }, true)
}

func TestParseMode(t *testing.T) {
	for s, ok := range map[string]bool{"auto": true, "always": true, "never": true, "": false, "on": false} {
		if m, err := pod.ParseMode(s); (err == nil) != ok || ok && string(m) != s {
			t.Errorf("%q: %q, %v", s, m, err)
		}
	}
}
