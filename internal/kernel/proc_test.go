package kernel

import (
	"errors"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/culvert-net/culvert/internal/kernel/netns"
	"github.com/culvert-net/culvert/internal/vf"
)

// TestNetnsOfHostProcess has the host's /proc elsewhere, as a pod without the host's PID
// namespace has: a netns that the runtime names by a process is found there, and not under
// the pod's own process of that number.
func TestNetnsOfHostProcess(t *testing.T) {
	proc := t.TempDir()
	// No process of Linux has this number: PID_MAX_LIMIT is 4194304.
	path := "/proc/4194305/ns/net"
	if err := netns.New(filepath.Join(proc, "4194305/ns/net")); errors.Is(err, unix.EPERM) {
		t.Skip("needs the right to make network namespaces")
	} else if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = netns.Delete(filepath.Join(proc, "4194305/ns/net")) })
	elsewhere := New(Options{ProcRoot: proc})
	c, err := elsewhere.dialNetns(path)
	if err != nil {
		t.Fatal(err)
	}
	c.Close()
	f, err := elsewhere.openNetns(path)
	if err != nil {
		t.Fatal(err)
	}
	f.Close()
	a, err := openAnnouncer(elsewhere.netnsFile(path))
	a.closeSockets()
	if err != nil {
		t.Error(err)
	}
	if _, err := New(Options{}).dialNetns(path); !errors.Is(err, vf.ErrNetnsGone) {
		t.Errorf("the host's own /proc has %s: %v", path, err)
	}
}

func TestNetnsFile(t *testing.T) {
	for _, tt := range []struct{ proc, path, want string }{
		{"/host/proc", "/proc/7/ns/net", "/host/proc/7/ns/net"},
		{"/host/proc", "/proc//7/ns/net", "/host/proc/7/ns/net"},
		{"/host/proc", "/proc/7/task/8/ns/net", "/host/proc/7/task/8/ns/net"},
		{"/host/proc", "/run/netns/cni-1", "/run/netns/cni-1"},
		{"/host/proc", "/process/1", "/process/1"},
		{"/host/proc", "", ""},
		{"", "/proc/7/ns/net", "/proc/7/ns/net"},
	} {
		if got := New(Options{ProcRoot: tt.proc}).netnsFile(tt.path); got != tt.want {
			t.Errorf("with %q: %s is %s, want %s", tt.proc, tt.path, got, tt.want)
		}
	}
}
