package guests

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/vf"
)

// fakeVirsh is a virsh that notes its arguments and the definition that it gets, and fails
// where the file "fails" is.
func fakeVirsh(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	script := `#!/bin/sh
cd "` + dir + `"
printf '%s\n' "$@" >args
cat "$6" >xml
if [ -e fails ]; then echo "error: no certificate" >&2; exit 1; fi
`
	if err := os.WriteFile(filepath.Join(dir, "virsh"), []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	return dir
}

// The process that migrates a guest may be killed, and virsh goes on. Until virsh ends, no other
// command changes the guest. The test runs itself again as that process.
func TestP16VirshKeepsTheLock(t *testing.T) {
	const ofChild = "CULVERT_TEST_LOCKS"
	if locks := os.Getenv(ofChild); locks != "" {
		h := &Host{locks: locks}
		if _, err := h.Lock(uuid); err != nil {
			t.Fatal(err)
		}
		t.Fatal("not killed: ", h.Do(t.Context(), Send{Guest: uuid, XML: definition, Transport: SSH}))
	}
	dir, locks := fakeVirsh(t), t.TempDir()
	pipe := filepath.Join(dir, "xml") // this virsh waits until the test reads the pipe
	if err := unix.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	child := exec.CommandContext(t.Context(), "/proc/self/exe", "-test.run=^"+t.Name()+"$")
	child.Env = append(os.Environ(), ofChild+"="+locks)
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	await(t, func() bool {
		info, err := os.Stat(filepath.Join(dir, "args"))
		return err == nil && info.Size() > 0
	})
	if err := child.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := child.Wait(); err == nil {
		t.Fatal("it was not killed")
	}
	if f, err := lockGuest(locks, uuid); !errors.Is(err, vf.ErrHeld) {
		t.Errorf("while virsh runs: %v, %v", f, err)
	}
	if _, err := os.ReadFile(pipe); err != nil {
		t.Fatal(err)
	}
	await(t, func() bool {
		f, err := lockGuest(locks, uuid)
		if err == nil {
			f.Close()
		}
		return err == nil
	})
}

// await waits up to a minute until is returns true.
func await(t *testing.T, is func() bool) {
	t.Helper()
	for end := time.Now().Add(5 * time.Minute); !is(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("not after a minute")
		}
	}
}

// P16: each transport asks virsh for what it promises, and plain TCP is never a fallback.
func TestP16Transports(t *testing.T) {
	dir := fakeVirsh(t)
	to := Route{Libvirt: "qemu+unix:///system?socket=/tmp/x/libvirt-sock", Data: "tcp://[fd00::2]"}
	for transport, want := range map[Transport][]string{
		SSH: {"--p2p", "--tunnelled"},
		TLS: {"--migrateuri", "tcp://[fd00::2]", "--tls", "--tls-destination", "b.example"},
		TCP: {"--migrateuri", "tcp://[fd00::2]"},
	} {
		t.Run(string(transport), func(t *testing.T) {
			send := Send{Guest: uuid, XML: "<there/>", To: to, Transport: transport, TLSName: "b.example"}
			if err := (&Host{}).Do(t.Context(), send); err != nil {
				t.Fatal(err)
			}
			args, err1 := os.ReadFile(filepath.Join(dir, "args"))
			xml, err2 := os.ReadFile(filepath.Join(dir, "xml"))
			if err := errors.Join(err1, err2); err != nil || string(xml) != "<there/>" {
				t.Errorf("virsh got the definition %q: %v", xml, err)
			}
			got := strings.Fields(string(args))
			file := slices.Index(got, "--persistent-xml") + 1
			got = slices.Delete(got, file, file+1)
			want = slices.Concat([]string{"--quiet", "migrate", "--live", "--persistent", "--persistent-xml"}, want, []string{uuid, to.Libvirt})
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
	if err := os.WriteFile(filepath.Join(dir, "fails"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	err := (&Host{}).Do(t.Context(), Send{Transport: TLS, TLSName: "b.example"})
	if err == nil || !strings.Contains(err.Error(), "--tls-destination b.example: exit status 1: error: no certificate; QEMU's certificates have to be on both hosts") {
		t.Errorf("without certificates: %v", err)
	}
}

// P16: the result names the transport of the guest's memory. A guest that is off sends none.
func TestP16SaysTheTransport(t *testing.T) {
	for name, tc := range map[string]struct {
		live bool
		ask  Transport
		did  string
		want string
	}{
		"by default": {true, "", "a: migrate the running guest over ssh", "ssh"},
		"tls":        {true, TLS, "a: migrate the running guest over tls", "tls"},
		"tcp":        {true, TCP, "a: migrate the running guest over tcp", "tcp"},
		"off":        {false, "", "a: undefine the guest", ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := &world{}
			a, b := hosts(t, w, func(req *api.GuestXMLRequest) { req.Failover = "ua-slow" })
			if tc.live {
				a.Live = a.Defined
			}
			got, err := Migrate(t.Context(), a, b, Migration{Guest: "db1", Live: tc.live, Transport: tc.ask}, func(string) {})
			want := api.GuestMigrated{Guest: "db1", Host: "b", Transport: tc.want}
			if diff := cmp.Diff(want, got); diff != "" || err != nil || !slices.Contains(w.done, tc.did) {
				t.Errorf("%v, after %q; -want +got:\n%s", err, w.done, diff)
			}
			again, err := Migrate(t.Context(), a, b, Migration{Guest: "db1", Live: tc.live, Transport: tc.ask}, func(string) {})
			want.Transport = ""
			if diff := cmp.Diff(want, again); diff != "" || err != nil {
				t.Errorf("asked again, it has arrived: %v -want +got:\n%s", err, diff)
			}
		})
	}
}
