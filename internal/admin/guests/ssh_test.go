package guests

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/guest/libvirt"
	"github.com/culvert-net/culvert/internal/rpc"
	"github.com/culvert-net/culvert/test/rpcserver"
)

// TestMain runs as the program ssh if it is called by that name.
func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) == "ssh" {
		os.Exit(fakeSSH())
	}
	os.Exit(m.Run())
}

// fakeSSH forwards sockets to those in the folder that FAKE_HOST names, and runs the
// script, to which that folder's sockets are the host's.
func fakeSSH() int {
	root := os.Getenv("FAKE_HOST")
	var forwards [][2]string
	args := os.Args[1:]
	for len(args) > 0 && args[0] != "--" {
		if args[0] == "-L" {
			here, there, _ := strings.Cut(args[1], ":")
			forwards = append(forwards, [2]string{here, filepath.Join(root, filepath.Base(there))})
		}
		args = args[2:]
	}
	if args[1] != "root@there" {
		os.Stderr.WriteString("ssh: connect to host " + args[1] + ": no route\n")
		return 255
	}
	for _, f := range forwards {
		l, err := net.Listen("unix", f[0])
		if err != nil {
			panic(err)
		}
		go forward(l, f[1])
	}
	script := strings.NewReplacer("/run/libvirt/", root+"/", "/proc/sys/kernel/random/", root+"/").Replace(args[2])
	cmd := exec.Command("sh", "-c", script)
	cmd.Env = append(os.Environ(), "SSH_CONNECTION=10.0.0.1 50000 fd00::2 22")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	if cmd.Run() != nil {
		return 1
	}
	return 0
}

func forward(l net.Listener, to string) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			defer c.Close()
			there, err := net.Dial("unix", to)
			if err != nil {
				return
			}
			go func() { _, _ = io.Copy(there, c) }()
			_, _ = io.Copy(c, there)
		}()
	}
}

// there makes a host for ssh, whose culvertd answers a status.
func there(t *testing.T, sockets ...string) (root string) {
	t.Helper()
	root, err := os.MkdirTemp("", "there") //nolint:usetesting // t.TempDir is too long for a socket's name
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(root) })
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	bin := t.TempDir()
	if err := errors.Join(os.Symlink(self, filepath.Join(bin, "ssh")), os.WriteFile(filepath.Join(root, "boot_id"), []byte("17\n"), 0o600)); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	t.Setenv("FAKE_HOST", root)
	for _, s := range sockets {
		l, err := net.Listen("unix", filepath.Join(root, s))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { l.Close() })
	}
	rpcserver.Serve(t, filepath.Join(root, filepath.Base(rpc.DefaultSocket)), func(srv *rpc.Server) {
		srv.Handle(api.MethodGuestXML, func(context.Context, json.RawMessage) (any, error) { return api.GuestXML{Device: "<there/>"}, nil })
	})
	return root
}

func TestOpen(t *testing.T) {
	root := there(t, "virtqemud-sock")
	r, err := Open(t.Context(), "root@there")
	if err != nil {
		t.Fatal(err)
	}
	name, _ := os.Hostname()
	if r.name != name || r.boot != "17" || filepath.Base(r.libvirt) != "virtqemud-sock" {
		t.Errorf("host %s of boot %s, libvirt at %s", r.name, r.boot, r.libvirt)
	}
	want := Route{Libvirt: "qemu+unix:///system?socket=" + r.libvirt, Data: "tcp://[fd00::2]"}
	if diff := cmp.Diff(want, r.route); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	odd := filepath.Join(root, "a 'b' $c")
	if err := os.WriteFile(odd, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		missing, err := r.Missing(t.Context(), []string{odd, root + "/none", root})
		if diff := cmp.Diff([]string{root + "/none"}, missing); diff != "" || err != nil {
			t.Errorf("%v -want +got:\n%s", err, diff)
		}
	}
	got, err := r.Lease(t.Context(), api.GuestXMLRequest{})
	if err != nil || got.Device != "<there/>" {
		t.Errorf("its culvertd: %+v, %v", got, err)
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(r.dir); !os.IsNotExist(err) {
		t.Errorf("%s is left: %v", r.dir, err)
	}
	if _, err := r.Missing(t.Context(), []string{"/"}); err == nil || !strings.Contains(err.Error(), "the connection has broken") {
		t.Errorf("when it is closed: %v", err)
	}
}

func TestOpenSaysWhatIsWrong(t *testing.T) {
	there(t)
	for name, says := range map[string]string{"nobody": "no route", "-oProxyCommand=x": "want what ssh takes", "": "want what ssh takes", "a b": "want what ssh takes"} {
		if _, err := Open(t.Context(), name); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v; want %q", name, err, says)
		}
	}
	if _, err := Open(t.Context(), "root@there"); !errors.Is(err, libvirt.ErrNone) {
		t.Errorf("no libvirt there: %v", err)
	}
	t.Setenv("PATH", t.TempDir())
	if _, err := Open(t.Context(), "root@there"); err == nil || !strings.Contains(err.Error(), "install OpenSSH") {
		t.Errorf("no ssh: %v", err)
	}
}

// Here returns a host that reports which files it has. Without libvirt, its methods return
// libvirt.ErrNone.
func TestHere(t *testing.T) {
	h, err := Here("/nowhere")
	if err != nil {
		t.Fatal(err)
	}
	missing, err := h.Missing(t.Context(), []string{"/", "/none/such"})
	if diff := cmp.Diff([]string{"/none/such"}, missing); diff != "" || err != nil || h.boot == "" {
		t.Errorf("%v -want +got:\n%s", err, diff)
	}
	h.libvirt = filepath.Join(t.TempDir(), "none")
	if _, err := h.See(t.Context(), "db1"); !errors.Is(err, libvirt.ErrNone) {
		t.Errorf("without libvirt: %v", err)
	}
	if err := h.Do(t.Context(), Undefine{"db1"}); !errors.Is(err, libvirt.ErrNone) {
		t.Errorf("without libvirt: %v", err)
	}
}
