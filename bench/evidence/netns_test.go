package evidence

import (
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/culvert-net/culvert/bench"
	"github.com/culvert-net/culvert/internal/kernel/netns"
)

// newNetns makes a network namespace of the test's own, and returns a function that calls another
// in it.
func newNetns(t *testing.T) (run func(do func() error)) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("making a network namespace needs root")
	}
	path := filepath.Join(t.TempDir(), "net")
	if err := netns.New(path); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := netns.Delete(path); err != nil {
			t.Error(err)
		}
	})
	return func(do func() error) {
		t.Helper()
		if err := netns.Run(path, do); err != nil {
			t.Fatal(err)
		}
	}
}

// runIP runs commands of ip(8) in the network namespace of the thread.
func runIP(commands ...string) error {
	for _, c := range commands {
		if out, err := exec.Command("ip", strings.Fields(c)...).CombinedOutput(); err != nil {
			return fmt.Errorf("ip %s: %w: %s", c, err, out)
		}
	}
	return nil
}

// TestCarriers: frames of a bridge go through its ports, and those of a veth pair through nothing
// else.
func TestCarriers(t *testing.T) {
	var got map[string][]string
	newNetns(t)(func() (err error) {
		if err := runIP("link add br0 type bridge", "link add v0 type veth peer name v1", "link set v1 master br0"); err != nil {
			return err
		}
		got, err = Reader{Root: t.TempDir()}.Carriers()
		return err
	})
	if diff := cmp.Diff(map[string][]string{"br0": {"v1"}}, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// TestNextHop: the router of a route is the gateway. A route to the link has none, and neither has
// an address without a route.
func TestNextHop(t *testing.T) {
	run := newNetns(t)
	run(func() error {
		return runIP("link add v0 type veth peer name v1", "link set v0 up", "link set v1 up",
			"addr add 10.98.0.1/24 dev v0", "addr add fd00:98::1/64 dev v0 nodad", "route add default via 10.98.0.254", "route add fd00:99::/64 via fd00:98::2")
	})
	for to, want := range map[string]string{
		"192.0.2.1": "v0 10.98.0.254", "10.98.0.7": "v0 invalid IP", "fd00:99::5": "v0 fd00:98::2", "fd00:98::9": "v0 invalid IP", "2001:db8::1": " invalid IP",
	} {
		run(func() error {
			out, gateway := NextHop(netip.MustParseAddr(to))
			if got := fmt.Sprint(out, " ", gateway); got != want {
				t.Errorf("to %s: %s, want %s", to, got, want)
			}
			return nil
		})
	}
}

// TestDowns: an interface on the path that lost its carrier in the window has one loss. The kernel
// counts it as IFLA_CARRIER_DOWN_COUNT (linux/if_link.h). Others are not asked.
func TestDowns(t *testing.T) {
	var got bench.Evidence
	newNetns(t)(func() error {
		if err := runIP("link add net1 type veth peer name eth0", "link set net1 up", "link set eth0 up"); err != nil {
			return err
		}
		before, err := writeTree(t, "before.txtar").Sample(watched)
		if err != nil {
			return err
		}
		if err := runIP("link set eth0 down"); err != nil {
			return err
		}
		after, err := writeTree(t, "after.txtar").Sample(watched)
		if err != nil {
			return err
		}
		got, err = before.Until(after)
		return err
	})
	for i, want := range []uint64{1, 0} {
		if i >= len(got.Interfaces) || got.Interfaces[i].Downs != want {
			t.Errorf("interface %d: %+v, want %d losses", i, got.Interfaces, want)
		}
	}
}
