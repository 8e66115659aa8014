package fake

import (
	"errors"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/culvert-net/culvert/internal/kernel/step"
	"github.com/culvert-net/culvert/internal/vf"
)

// TestAttributes: the owner of a netdevice may change each attribute. The change is shown, moves
// along with the netdevice, and ends with it: the netdevice of the next bind is as its driver makes
// it. Attributes of the link (RTM_GETLINK of uapi linux/rtnetlink.h) show everywhere, those of
// tools on the host only, and some nowhere.
func TestAttributes(t *testing.T) {
	for _, name := range slices.Concat(AttributeNames(), UnreadAttributeNames()) {
		_, ofLink := shownByLink[name]
		hidden := slices.Contains(UnreadAttributeNames(), name)
		k, v, _, _ := inPod(t)
		fresh := podLink(t, k, v).Attributes.Value(name)
		must(t, k.SetAttribute(v, name, "other"))
		shown := func(where string, want bool) {
			t.Helper()
			if got := podLink(t, k, v).Attributes.Value(name) == "other"; got != want {
				t.Errorf("%s: the change shows %s: %t", name, where, got)
			}
			if want := " " + name + ` "other"`; k.ChangedAttributes(v) != want {
				t.Errorf("%s %s: changed are %q, want %q", name, where, k.ChangedAttributes(v), want)
			}
		}
		shown("in the pod", ofLink)
		doSteps(t, k, step.Move{VF: v, From: podNetns, Name: "enp1s0v0"})
		shown("on the host", !hidden)
		if got := first(t, k).VFs[0].Link.Attributes.Value(name) == "other"; got != ofLink {
			t.Errorf("%s: the change shows in a listing: %t", name, got)
		}
		doSteps(t, k, step.Unbind{VF: v})
		if got := k.ChangedAttributes(v); got != "" {
			t.Errorf("%s: without a netdevice, changed are %q", name, got)
		}
		doSteps(t, k, step.Bind{VF: v})
		if got := podLink(t, k, v).Attributes.Value(name); ofLink && got != fresh || got == "other" || k.ChangedAttributes(v) != "" {
			t.Errorf("%s: after the next bind: %q, changed are %q", name, got, k.ChangedAttributes(v))
		}
	}
}

// TestNewAttributes: another version of a driver makes netdevices with other attributes, from the
// next bind on. The owner of the netdevice has changed nothing.
func TestNewAttributes(t *testing.T) {
	k, v, _, _ := inPod(t)
	doSteps(t, k, step.Move{VF: v, From: podNetns, Name: "enp1s0v0"})
	k.SetNewAttribute("rings", "4096")
	if got := podLink(t, k, v).Attributes.Value("rings"); got != "256" {
		t.Errorf("before the bind: %q", got)
	}
	doSteps(t, k, step.Unbind{VF: v}, step.Bind{VF: v})
	if got := podLink(t, k, v).Attributes.Value("rings"); got != "4096" || k.ChangedAttributes(v) != "" {
		t.Errorf("after the bind: %q, changed are %q", got, k.ChangedAttributes(v))
	}
}

// TestAltname: an alternative name is taken where its netdevice is (IFLA_ALT_IFNAME of uapi
// linux/if_link.h; netdev_name_node_alt_create and __dev_change_net_namespace of net/core/dev.c).
// When a netns ends, the kernel removes alternative names that are taken on the host
// (default_device_exit_net).
func TestAltname(t *testing.T) {
	k, a, b, c := inPod(t)
	must(t, k.SetAttribute(a, altnames, "uplink"))
	if err := k.SetAttribute(b, altnames, "uplink"); !errors.Is(err, syscall.EEXIST) {
		t.Errorf("a second one in the pod: %v", err)
	}
	must(t, k.SetAttribute(c, altnames, "uplink")) // another netns, so another name
	for name, s := range map[string]step.Step{
		"a name like it":          step.Rename{VF: b, Netns: podNetns, Name: "uplink"},
		"a move to where it is":   step.Move{VF: c, To: podNetns, Name: "net3"},
		"a move home":             step.Move{VF: a, From: podNetns, Name: "enp1s0v0"},
		"a move under that name":  step.Move{VF: b, From: podNetns, Name: "uplink"},
		"a bond of the same name": step.AddBond{Netns: podNetns, Name: "uplink", Mark: "m", Bond: vf.Bond{Mode: vf.BondActiveBackup}},
	} {
		if err := k.Do(t.Context(), s); !errors.Is(err, syscall.EEXIST) {
			t.Errorf("%s: %v", name, err)
		}
	}
	k.DelNetns(podNetns)
	for v, want := range map[vf.PCIAddr]string{a: "", b: "", c: "uplink"} {
		if got := podLink(t, k, v).Attributes.Value(altnames); got != want {
			t.Errorf("VF %s, after its netns ended: %q, want %q", v, got, want)
		}
	}
}

// TestAltnameOfPod: each pod has an interface eth0, so no netdevice with that alternative name can
// move there.
func TestAltnameOfPod(t *testing.T) {
	k, _, _, v := inPod(t)
	must(t, k.SetAttribute(v, altnames, sandboxHas))
	if err := k.Do(t.Context(), step.Move{VF: v, To: podNetns, Name: "net3"}); !errors.Is(err, syscall.EEXIST) {
		t.Errorf("moved: %v", err)
	}
	must(t, k.SetAttribute(v, altnames, ""))
	doSteps(t, k, step.Move{VF: v, To: podNetns, Name: "net3"})
}

// TestSetAttributeOfNone: a VF without a netdevice has no attributes, and an unknown name is an
// error, so that a test cannot set an attribute that the fake does not have.
func TestSetAttributeOfNone(t *testing.T) {
	k, v, _, _ := inPod(t)
	if err := k.SetAttribute(v, "colour", "red"); !errors.Is(err, vf.ErrUnable) {
		t.Errorf("an unknown attribute: %v", err)
	}
	doSteps(t, k, step.Unbind{VF: v})
	if err := k.SetAttribute(v, "rings", "1"); !errors.Is(err, vf.ErrNotFound) {
		t.Errorf("without a netdevice: %v", err)
	}
	if err := k.SetAttribute(vf.PCIAddr{Bus: 99}, "rings", "1"); !errors.Is(err, vf.ErrNotFound) || k.ChangedAttributes(vf.PCIAddr{Bus: 99}) != "" {
		t.Errorf("of no VF: %v", err)
	}
}

// The page of failures names what culvertd does not read. The test is here and not in test/failure,
// whose results Go's cache can then keep for every clone.
func TestPageNamesUnreadAttributes(t *testing.T) {
	page, err := os.ReadFile("../../../docs/failures.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range UnreadAttributeNames() {
		if !strings.Contains(string(page), "`"+name+"`") {
			t.Errorf("docs/failures.md does not say that %s is not read", name)
		}
	}
}
