package cni

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"

	"golang.org/x/sys/unix"

	"github.com/culvert-net/culvert/internal/api"
)

// addResolving attaches to a network whose resolvConf is file. The handler allows files below dir.
func addResolving(t *testing.T, dir, file string) api.CNIResponse {
	t.Helper()
	raw := with(`"ipam":{"type":"static","addresses":[{"address":"10.0.0.5/24"}],"resolvConf":` + quoted(t, file) + `}`)
	params, err := json.Marshal(api.CNIRequest{Command: cmdAdd, ContainerID: "c1", IfName: "net1", Netns: "/run/netns/x", Config: []byte(raw)})
	if err != nil {
		t.Fatal(err)
	}
	v, err := (&Handler{node: partsOf(newMemory(1)), resolvDirs: []string{dir}}).Serve(t.Context(), params, nil)
	if err != nil {
		t.Fatal(err)
	}
	return v.(api.CNIResponse)
}

func quoted(t *testing.T, s string) string {
	t.Helper()
	b, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestResolvConf(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "resolv.conf")
	write(t, path, "# comment\nnameserver 10.0.0.53\nnameserver fd00::53\nnameserver root:$y$j9T$secret\ndomain a.b\nsearch a.b c.d\noptions ndots:5\nsearch \x1b[2J\nsortlist\n")
	golden(t, "resolvconf.json", addResolving(t, dir, path).Stdout)
	link := filepath.Join(dir, "link.conf")
	if err := os.Symlink("resolv.conf", link); err != nil {
		t.Fatal(err)
	}
	golden(t, "resolvconf.json", addResolving(t, dir, link).Stdout)
}

// A network cannot make culvertd, which is root, read any other file. It cannot make culvertd open
// a file that blocks, or that has an effect when it is opened.
func TestResolvConfIsNowhereElse(t *testing.T) {
	top := t.TempDir()
	dir, secret := filepath.Join(top, "etc"), filepath.Join(top, "secret")
	write(t, filepath.Join(dir, "resolv.conf"), "nameserver 10.0.0.53\n")
	write(t, secret, "nameserver 10.6.6.6\n")
	for name, to := range map[string]string{"out": secret, "up": "../secret", "dangling": "nothing"} {
		if err := os.Symlink(to, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(dir, "folder"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mkfifo(filepath.Join(dir, "fifo"), 0o600); err != nil {
		t.Fatal(err)
	}
	for path, says := range map[string]string{
		secret:                                   "below " + dir,
		dir + "/../secret":                       "below " + dir,
		dir + "x/resolv.conf":                    "below " + dir,
		"etc/resolv.conf":                        "below " + dir,
		"../../etc/shadow":                       "below " + dir,
		filepath.Join(dir, "out"):                "below " + dir,
		filepath.Join(dir, "up"):                 "below " + dir,
		filepath.Join(dir, "fifo"):               "no regular file",
		dir + "/.":                               "below " + dir,
		filepath.Join(dir, "dangling"):           "no such file",
		filepath.Join(dir, "none"):               "no such file",
		filepath.Join(dir, "folder"):             "no regular file",
		dir + "/a\x00b":                          "invalid",
		dir + "/" + strings.Repeat("long/", 900): "",
	} {
		resp := addResolving(t, dir, path)
		if resp.Exit == 0 || !strings.Contains(string(resp.Stdout), "ipam.resolvConf") || !strings.Contains(string(resp.Stdout), says) || strings.Contains(string(resp.Stdout), "10.6.6.6") {
			t.Errorf("%.100q: exit %d: %s", path, resp.Exit, resp.Stdout)
		}
	}
}

// A file that can be read only in part counts as unreadable.
func TestResolvConfThatBreaksOff(t *testing.T) {
	if _, err := readResolvConf(iotest.ErrReader(io.ErrUnexpectedEOF)); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("%v", err)
	}
}
