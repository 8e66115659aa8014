package kernel

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/culvert-net/culvert/internal/kernel/netns"
	"github.com/culvert-net/culvert/internal/kernel/rtnl"
	"github.com/culvert-net/culvert/internal/kernel/step"
	"github.com/culvert-net/culvert/internal/vf"
)

func TestSortDetected(t *testing.T) {
	address := func(text string, flags uint32) rtnl.Addr {
		return rtnl.Addr{Prefix: netip.MustParsePrefix(text), Flags: flags}
	}
	wanted := []netip.Prefix{netip.MustParsePrefix("fd00::1/64"), netip.MustParsePrefix("fd00::2/64"), netip.MustParsePrefix("fd00::3/64"), netip.MustParsePrefix("fd00::4/64")}
	tentative, duplicates := sortDetected([]rtnl.Addr{
		address("fd00::1/64", unix.IFA_F_TENTATIVE),
		address("fd00::2/64", unix.IFA_F_TENTATIVE|unix.IFA_F_DADFAILED),
		address("fd00::3/64", unix.IFA_F_PERMANENT),
		address("fd00::9/64", unix.IFA_F_TENTATIVE), // the owner's own
	}, wanted)
	if diff := cmp.Diff(wanted[:1], tentative, cmpopts.EquateComparable(netip.Prefix{})); diff != "" {
		t.Errorf("tentative: %s", diff)
	}
	if diff := cmp.Diff([]netip.Addr{netip.MustParseAddr("fd00::2")}, duplicates, cmpopts.EquateComparable(netip.Addr{})); diff != "" {
		t.Errorf("duplicates: %s", diff)
	}
}

// Culvert does not turn detection on for a network that turned it off. After the wait, it restores
// the kernel's parameters.
func TestDetectionSettings(t *testing.T) {
	proc := t.TempDir()
	write := func(path, value string) {
		t.Helper()
		path = filepath.Join(proc, "sys/net/ipv6", path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(value+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	read := func() (out []string) {
		for _, s := range detectionSettings() {
			text, err := readLine(filepath.Join(proc, "sys/net/ipv6", s.dir, "net1", s.file))
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, text)
		}
		return out
	}
	k := New(Options{ProcRoot: proc})
	for transmits, quick := range map[string]string{"1": "3", "0": "0"} {
		for _, name := range []string{"default", "net1"} {
			write("conf/"+name+"/router_solicitation_delay", "1")
			write("conf/"+name+"/dad_transmits", transmits)
			write("neigh/"+name+"/retrans_time_ms", "1000")
		}
		k.quickenDetection("net1")
		if diff := cmp.Diff([]string{"0", quick, "100"}, read()); diff != "" {
			t.Errorf("dad_transmits %s, while Culvert waits: %s", transmits, diff)
		}
		if err := k.restoreDetection(step.DetectDuplicates{}, "net1"); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]string{"1", transmits, "1000"}, read()); diff != "" {
			t.Errorf("dad_transmits %s, afterwards: %s", transmits, diff)
		}
	}
}

// An interface in a netns announces its addresses when it comes up again. A kernel without IPv6 has only
// the file of IPv4.
func TestNotifyNeighbours(t *testing.T) {
	proc := t.TempDir()
	v4, v6 := filepath.Join(proc, "sys/net/ipv4/conf/net1/arp_notify"), filepath.Join(proc, "sys/net/ipv6/conf/net1/ndisc_notify")
	k := New(Options{ProcRoot: proc})
	for _, files := range [][]string{{v4}, {v4, v6}} {
		for _, path := range files {
			if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte("0\n"), 0o644)); err != nil {
				t.Fatal(err)
			}
		}
		k.notifyNeighbours("", "net1")
		for _, path := range files {
			if got, err := readLine(path); err != nil || got != "1" {
				t.Errorf("%s is %q, %v", path, got, err)
			}
		}
	}
}

// The kernel finds the addresses that the other end of a wire has, in one wait for all of them. The
// wait is much shorter than with the kernel's own parameters. TestLabDetectDuplicates does the same
// with VFs.
func TestAwaitDetection(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pod")
	if err := netns.New(path); errors.Is(err, unix.EPERM) {
		t.Skip("needs the right to make network namespaces")
	} else if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = netns.Delete(path) })
	k, usual := New(Options{}), ""
	parameters := func() (out string) {
		for _, s := range detectionSettings() {
			text, err := readLine(k.sysctlIPv6(s.dir, "net1", s.file))
			out += fmt.Sprintln(s.file, text, err)
		}
		return out
	}
	var (
		c      *rtnl.Conn
		w      *rtnl.Watcher
		index  int
		wanted []netip.Prefix
	)
	err := netns.Run(path, func() (err error) {
		if err := veth("far", "net1", "fd00::1/64", "fd00::3/64"); err != nil {
			return err
		}
		l, err := netlink.LinkByName("net1")
		if err != nil {
			return err
		}
		index, usual = l.Attrs().Index, parameters()
		if c, err = rtnl.Dial(); err != nil {
			return err
		}
		if w, err = rtnl.WatchAddresses(); err != nil {
			return err
		}
		if err := k.prepareIPv6("net1", true); err != nil {
			return err
		}
		for i := range 4 {
			a := netip.MustParsePrefix(fmt.Sprintf("fd00::%d/64", i+1))
			wanted = append(wanted, a)
			if err := c.AddAddr(rtnl.Addr{Index: index, Prefix: a}); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	defer w.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	start := time.Now()
	err = awaitDetection(ctx, c, w, index, wanted)
	t.Logf("%s", time.Since(start))
	var found vf.DuplicateError
	if !errors.As(err, &found) {
		t.Fatalf("no duplicate: %v", err)
	}
	slices.SortFunc(found.Addresses, netip.Addr.Compare)
	if want := "address fd00::1, fd00::3: duplicate"; !strings.HasPrefix(found.Error(), want) {
		t.Errorf("%s, want %s", found, want)
	}
	if err := k.restoreDetection(step.DetectDuplicates{Netns: path}, "net1"); err != nil {
		t.Fatal(err)
	}
	if err := netns.Run(path, func() error {
		if now := parameters(); now != usual {
			return fmt.Errorf("parameters afterwards\n%s, before\n%s", now, usual)
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
	short, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	err = awaitDetection(short, seesTentative{}, w, index, wanted[:1])
	if !errors.Is(err, vf.ErrTimeout) || !strings.Contains(err.Error(), "no carrier") {
		t.Errorf("an address that stays tentative: %v", err)
	}
}

// seesTentative shows a link without carrier and an address that stays tentative.
type seesTentative struct{ reader }

func (seesTentative) Addrs(index int) (rtnl.List[rtnl.Addr], error) {
	return rtnl.List[rtnl.Addr]{Kept: []rtnl.Addr{{Index: index, Prefix: netip.MustParsePrefix("fd00::1/64"), Flags: unix.IFA_F_TENTATIVE}}}, nil
}

func (seesTentative) Link(int, bool) (rtnl.Link, error) { return rtnl.Link{}, nil }
