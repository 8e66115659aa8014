package claims

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/rogpeppe/go-internal/txtar"
)

// seed adds the files of the archives whose names have one of the endings.
func seed(f *testing.F, endings ...string) {
	f.Helper()
	archives, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(archives) == 0 {
		f.Fatal(archives, err)
	}
	for _, name := range archives {
		a, err := txtar.ParseFile(name)
		if err != nil {
			f.Fatal(err)
		}
		for _, file := range a.Files {
			for _, e := range endings {
				if strings.HasSuffix(file.Name, e) || e == "network/" && strings.HasPrefix(file.Name, "etc/network/") {
					f.Add(file.Data)
				}
			}
		}
	}
}

// check fails the test unless the claims of a file, for any text, are about lines of the file,
// quote them in one line, and name devices that exist.
func check(t *testing.T, root fstest.MapFS, text []byte) {
	t.Helper()
	rules, err := Read(root)
	if err != nil && len(text) <= maxFile {
		t.Fatal(err)
	}
	lines := strings.Count(string(text), "\n") + 1
	for _, c := range rules.On(host()) {
		switch {
		case c.PF != "" && c.PF != "enp1s0f0" && c.PF != "enp1s0f1":
			t.Errorf("no such PF: %+v", c)
		case c.Line < 0 || c.Line > lines:
			t.Errorf("no such line: %+v", c)
		case strings.ContainsAny(c.Says, "\n\r"):
			t.Errorf("more than a line: %+v", c)
		}
		for _, h := range c.HandOver {
			if strings.ContainsAny(h, "\n\r\x1b") {
				t.Errorf("control characters in a command: %q", h)
			}
		}
	}
}

func FuzzNetworkd(f *testing.F) {
	seed(f, ".network", ".link")
	f.Fuzz(func(t *testing.T, text []byte) {
		check(t, fstest.MapFS{
			"run/systemd/netif/state":       {},
			"etc/systemd/network/a.network": {Data: text},
			"etc/systemd/network/a.link":    {Data: text},
		}, text)
	})
}

func FuzzNetworkManager(f *testing.F) {
	seed(f, ".nmconnection", ".conf")
	f.Fuzz(func(t *testing.T, text []byte) {
		check(t, fstest.MapFS{
			"run/NetworkManager/devices":                           {Mode: os.ModeDir},
			"etc/NetworkManager/conf.d/a.conf":                     {Data: text},
			"etc/NetworkManager/system-connections/a.nmconnection": {Data: text},
		}, text)
	})
}

func FuzzNetplan(f *testing.F) {
	seed(f, ".yaml")
	f.Fuzz(func(t *testing.T, text []byte) {
		check(t, fstest.MapFS{"etc/netplan/a.yaml": {Data: text}}, text)
	})
}

func FuzzInterfaces(f *testing.F) {
	seed(f, "network/")
	f.Fuzz(func(t *testing.T, text []byte) {
		check(t, fstest.MapFS{"run/network": {Mode: os.ModeDir}, "etc/network/interfaces": {Data: text}}, text)
	})
}

func FuzzByHand(f *testing.F) {
	seed(f, ".rules", ".service", "sysfs.conf", "rc.local", "vfs.conf")
	f.Fuzz(func(t *testing.T, text []byte) {
		check(t, fstest.MapFS{
			"etc/udev/rules.d/a.rules": {Data: text},
			"etc/modprobe.d/a.conf":    {Data: text},
			"etc/rc.local":             {Data: text},
		}, text)
	})
}
