package libvirt_test

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/culvert-net/culvert/internal/guest/libvirt"
	"github.com/culvert-net/culvert/internal/vf"
)

const webUUID = "11111111-1111-1111-1111-111111111111"

// guests has a guest that runs, a guest that is off, and a guest that is not defined.
func guests(t *testing.T) *server {
	return serve(t,
		domain{id: 0x11, name: "web", state: 1, autostart: 1, persistent: 1},
		domain{id: 0x22, name: "db", state: 5, persistent: 1},
		domain{id: 0x33, name: "passing", state: 3})
}

func TestGuestsAreListed(t *testing.T) {
	c := guests(t).dial()
	got, err := c.Guests(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := []libvirt.Guest{
		{UUID: webUUID, Name: "web", State: libvirt.Running, Autostart: true, Persistent: true},
		{UUID: "22222222-2222-2222-2222-222222222222", Name: "db", State: libvirt.Off, Persistent: true},
		{UUID: "33333333-3333-3333-3333-333333333333", Name: "passing", State: libvirt.Paused},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if byUUID, err := c.Find(t.Context(), webUUID); err != nil || byUUID != want[0] {
		t.Errorf("by its UUID: %v, %v", byUUID, err)
	}
	live, err1 := c.XML(t.Context(), "web", libvirt.Live)
	inactive, err2 := c.XML(t.Context(), webUUID, libvirt.Inactive)
	if err := errors.Join(err1, err2); err != nil || live != "<domain flags='0'/>" || inactive != "<domain flags='3'/>" {
		t.Errorf("definitions: %q, %q, %v", live, inactive, err)
	}
}

func TestGuestsAreChanged(t *testing.T) {
	s := guests(t)
	c, ctx := s.dial(), t.Context()
	defined, err := c.Define(ctx, "<domain/>")
	if err != nil || defined.Name != "web" {
		t.Errorf("defined %v, %v", defined, err)
	}
	err = errors.Join(
		c.Attach(ctx, "web", "<hostdev/>", true, false),
		c.Attach(ctx, "web", "<hostdev/>", true, true),
		c.Detach(ctx, "web", "<hostdev/>", false, true),
		c.Start(ctx, "db"), c.Shutdown(ctx, "web"), c.Destroy(ctx, "web"),
		c.SetAutostart(ctx, "db", true), c.SetAutostart(ctx, "db", false), c.Undefine(ctx, "db"))
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"define <domain/>", "attach web <hostdev/> 1", "attach web <hostdev/> 3", "detach web <hostdev/> 2",
		"start db", "shutdown web 0", "destroy web 0", "autostart db 1", "autostart db 0", "undefine db 72",
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if diff := cmp.Diff(want, s.calls); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// A libvirt before 8.9 cannot keep the state of a TPM. Undefine deletes the definition
// nevertheless.
func TestUndefineOnOldLibvirt(t *testing.T) {
	s := guests(t)
	s.unknown = 64
	if err := s.dial().Undefine(t.Context(), "db"); err != nil {
		t.Fatal(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if diff := cmp.Diff([]string{"undefine db 8"}, s.calls); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestErrorsNameTheGuestAndAStep(t *testing.T) {
	s := guests(t)
	s.refuses[create] = "the VF is bound to iavf"
	c := s.dial()
	_, missing := c.XML(t.Context(), "gone", libvirt.Live)
	for name, check := range map[string]struct {
		err  error
		is   error
		says []string
	}{
		"no such guest": {missing, vf.ErrNotFound, []string{"guest gone", "virsh list --all"}},
		"refused":       {c.Start(t.Context(), "db"), nil, []string{"start guest db: libvirt refuses: the VF is bound to iavf", "journalctl"}},
	} {
		if check.is != nil && !errors.Is(check.err, check.is) {
			t.Errorf("%s: %v", name, check.err)
		}
		for _, s := range check.says {
			if check.err == nil || !strings.Contains(check.err.Error(), s) {
				t.Errorf("%s: %v does not say %q", name, check.err, s)
			}
		}
	}
}

func TestDialWhereThereIsNone(t *testing.T) {
	dir := t.TempDir()
	if _, err := libvirt.Dial(t.Context(), filepath.Join(dir, "none")); !errors.Is(err, libvirt.ErrNone) {
		t.Errorf("no socket: %v", err)
	}
	stale := filepath.Join(dir, "stale")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: stale})
	if err != nil {
		t.Fatal(err)
	}
	l.SetUnlinkOnClose(false)
	_ = l.Close()
	if _, err := libvirt.Dial(t.Context(), stale); !errors.Is(err, vf.ErrNotReady) || errors.Is(err, libvirt.ErrNone) {
		t.Errorf("a socket that nobody serves: %v", err)
	}
	if _, err := libvirt.Dial(t.Context(), "qemu+ssh://far/system"); !errors.Is(err, vf.ErrInvalid) {
		t.Errorf("another host's: %v", err)
	}
}

// A libvirt that takes calls and never answers delays no caller beyond the end of its context.
func TestCallsAreBounded(t *testing.T) {
	hung := guests(t)
	hung.hangs = authList
	brief := func() context.Context {
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		t.Cleanup(cancel)
		return ctx
	}
	if _, err := libvirt.Dial(brief(), hung.path); !errors.Is(err, vf.ErrTimeout) {
		t.Errorf("dial: %v", err)
	}
	s := guests(t)
	s.hangs = listAll
	c := s.dial()
	if _, err := c.Guests(brief()); !errors.Is(err, vf.ErrTimeout) {
		t.Errorf("list: %v", err)
	}
	if _, err := c.Find(t.Context(), "web"); err == nil {
		t.Error("a connection that was given up answers")
	}
}

func TestEvents(t *testing.T) {
	s := guests(t)
	events, err := s.dial().Events(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	web := s.domains[0]
	next := func(want libvirt.Event) {
		t.Helper()
		if got := <-events; got != want {
			t.Errorf("event %+v, want %+v", got, want)
		}
	}
	s.say(lifecycleMessage, uint32(100), web, uint32(2), uint32(0))
	next(libvirt.Event{UUID: webUUID, Name: "web", Change: libvirt.Started})
	s.say(lifecycleMessage, uint32(100), web, uint32(3), uint32(0)) // suspended: not an event of the client
	s.say(lifecycleMessage, uint32(100), web, uint32(5), uint32(0))
	next(libvirt.Event{UUID: webUUID, Name: "web", Change: libvirt.Stopped})
	s.say(removedMessage, uint32(115), web, "ua-net1")
	next(libvirt.Event{UUID: webUUID, Name: "web", Change: libvirt.DeviceRemoved, Device: "ua-net1"})
	s.drop()
	if e, open := <-events; open {
		t.Errorf("after the connection: %+v", e)
	}
}

func TestRuns(t *testing.T) {
	for _, name := range []string{"libvirtd", "virtqemud"} {
		root := t.TempDir()
		if libvirt.Runs(root) {
			t.Errorf("none runs below %s", root)
		}
		if err := os.Mkdir(filepath.Join(root, "run"), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(root, "run", name+".pid"), nil, 0o644); err != nil {
			t.Fatal(err)
		}
		if !libvirt.Runs(root) {
			t.Errorf("%s runs", name)
		}
	}
}
