package kernel

import (
	"errors"
	"fmt"
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"golang.org/x/sys/unix"

	"github.com/culvert-net/culvert/internal/kernel/rtnl"
	"github.com/culvert-net/culvert/internal/vf"
)

// podAt is the netns of a pod in these tests.
const podAt = "/run/netns/c1"

// podHost returns a Kernel of host.txtar, whose VF 01:10.2 is not on the host. pod has the links of
// podAt, and err is the error of a look there.
func podHost(t *testing.T, pod reader, err error) *Kernel {
	t.Helper()
	admins := map[int]vf.Admin{0: {}, 1: {Trust: vf.Yes}}
	host := told{{Index: 2, Name: "enp1s0", PermMAC: vf.MAC{2}, VFs: admins}}
	k := New(Options{SysRoot: treeOf(t, "host.txtar").root})
	k.see = func(path string, fn func(reader) error) error {
		switch {
		case path == "":
			return fn(host)
		case err != nil:
			return err
		}
		return fn(pod)
	}
	return k
}

// VF finds a netdevice in a pod by its PCI function, whatever its name and index are there. It is
// no representor. Addresses that the kernel does not use yet, or never will, are marked.
func TestVFInAPod(t *testing.T) {
	address := func(s string, flags uint32) rtnl.Addr {
		return rtnl.Addr{Index: 4, Prefix: netip.MustParsePrefix(s), Flags: flags}
	}
	const parent = "0000:01:10.2"
	pod := addressed{
		told{
			{Index: 1, Name: "lo", Up: true},
			{Index: 2, Name: "eth0", Parent: "0000:01:10.0"},
			{Index: 3, Name: "rep", Parent: parent, PortName: "pf0vf1"},
			{Index: 4, Name: "net1", Parent: parent, MAC: vf.MAC{4}, MTU: 1400, Up: true},
		},
		[]rtnl.Addr{
			{Index: 1, Prefix: netip.MustParsePrefix("127.0.0.1/8")},
			address("10.0.0.1/24", unix.IFA_F_PERMANENT),
			address("fd00::1/64", unix.IFA_F_TENTATIVE),
			address("fd00::2/64", unix.IFA_F_TENTATIVE|unix.IFA_F_DADFAILED),
		},
	}
	prefixes := func(all ...string) (out []netip.Prefix) {
		for _, s := range all {
			out = append(out, netip.MustParsePrefix(s))
		}
		return out
	}
	want := &vf.Link{
		Netns: podAt, Index: 4, Name: "net1", MAC: vf.MAC{4}, MTU: 1400, Up: true,
		Addrs:     prefixes("10.0.0.1/24", "fd00::1/64", "fd00::2/64"),
		Tentative: prefixes("fd00::1/64"), Duplicates: prefixes("fd00::2/64"),
	}
	st, err := podHost(t, pod, nil).VF(t.Context(), pciAddr(t, parent), podAt)
	options := cmp.Options{
		cmpopts.IgnoreFields(vf.Link{}, "Attributes"), cmpopts.EquateComparable(netip.Prefix{}),
	}
	if diff := cmp.Diff(want, st.Link, options); diff != "" || err != nil {
		t.Errorf("%v -want +got:\n%s", err, diff)
	}
	id := vf.ID{PF: vf.PFID{MAC: vf.MAC{2}}, Index: 1}
	if st.ID != id || st.Admin.Trust != vf.Yes || st.Vendor != "8086" {
		t.Errorf("%+v", st)
	}
}

// I7: a netns that has ended, or that has no netdevice of the VF, hides nothing else of the VF.
// Another error is not taken for that.
func TestI7VFWithoutItsPod(t *testing.T) {
	addr := pciAddr(t, "01:10.2")
	for _, tt := range []struct {
		name      string
		path      string
		err, want error
	}{
		{"read from the host alone", "", unix.EPERM, nil},
		{"a netns that has ended", podAt, vf.ErrNetnsGone, nil},
		{"a netns without it", podAt, nil, nil},
		{"a netns that may not be seen", podAt, unix.EPERM, unix.EPERM},
	} {
		st, err := podHost(t, told{{Index: 1, Name: "lo"}}, tt.err).VF(t.Context(), addr, tt.path)
		isRead := st.Link == nil && st.Admin.Trust == vf.Yes && st.PCI == addr
		if !errors.Is(err, tt.want) || !isRead {
			t.Errorf("%s: %v, %+v", tt.name, err, st)
		}
	}
	_, err := podHost(t, told{}, nil).VF(t.Context(), pciAddr(t, "09:00.0"), podAt)
	if !errors.Is(err, vf.ErrNotFound) {
		t.Errorf("no VF: %v", err)
	}
}

// The addresses of a PF are those of its netdevice, and above it those of its bond and of the bridge
// that the bond is a member of.
func TestAddressesAboveALink(t *testing.T) {
	prefix := func(s string) []netip.Prefix { return []netip.Prefix{netip.MustParsePrefix(s)} }
	s := sight{
		links: map[int]rtnl.Link{2: {Index: 2, Name: "enp1s0", Master: 11}, 11: {Index: 11, Name: "bond0", Master: 10}, 10: {Index: 10, Name: "br0"}, 3: {Index: 3, Name: "enp2s0"}},
		addrs: map[int][]netip.Prefix{2: prefix("10.0.0.1/24"), 11: prefix("10.0.1.1/24"), 10: prefix("10.0.2.1/24"), 3: prefix("10.0.3.1/24")},
		own:   map[int][]netip.Prefix{2: prefix("10.0.0.1/24")},
	}
	for name, want := range map[string]string{
		"enp1s0": "[10.0.0.1/24] [10.0.0.1/24] [10.0.1.1/24 10.0.2.1/24]", "bond0": "[10.0.1.1/24] [] [10.0.2.1/24]", "enp2s0": "[10.0.3.1/24] [] []", "none": "[] [] []",
	} {
		all, own, above := s.addrsOf(name)
		if got := fmt.Sprint(all, own, above); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
}
