package guest

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/culvert-net/culvert/internal/guest/moving"
	"github.com/culvert-net/culvert/internal/vf"
)

// A device that With puts in and Without takes out again leaves nothing behind, whatever else the
// definition has.
func TestWithoutTakesOutWhatWithPutIn(t *testing.T) {
	for _, w := range []Way{Interface, Hostdev, Network} {
		whole, err := db1(t).With(device(w))
		if err != nil {
			t.Fatal(err)
		}
		d := parsed(t, []byte(whole))
		element, found := d.Device("net1")
		if !found || !strings.HasPrefix(element, "<") || !strings.Contains(whole, element) || strings.Count(element, "ua-culvert-net1") != 1 {
			t.Errorf("%s: the device is %q", w, element)
		}
		got, err := d.Without("net1")
		if err != nil {
			t.Fatal(err)
		}
		bare := func(s string) string { return strings.Join(strings.Fields(s), " ") }
		if diff := cmp.Diff(bare(string(read(t, "db1.xml"))), bare(got)); diff != "" {
			t.Errorf("%s: -before +after:\n%s", w, diff)
		}
		again, err := parsed(t, []byte(got)).Without("net1")
		if err != nil || again != got {
			t.Errorf("%s: taken out twice: %v\n%s", w, err, cmp.Diff(got, again))
		}
	}
	// Another device's settings stay.
	both := parsed(t, bare(ours(`<c:vf device="net1" trust="on"/><c:vf device="net2" trust="off"/>`)))
	got, err := both.Without("net1")
	if err != nil || strings.Contains(got, "net1") || !strings.Contains(got, `device="net2" trust="off"`) {
		t.Errorf("%v\n%s", err, got)
	}
	if _, found := both.Device("net2"); found {
		t.Error("a device that there are only settings of")
	}
}

// P16: Replaced makes a device pass another VF, and changes nothing else of it.
func TestP16Replaced(t *testing.T) {
	for _, w := range []Way{Interface, Hostdev} {
		dev := device(w)
		before, err := db1(t).With(dev)
		if err != nil {
			t.Fatal(err)
		}
		at, pool := dev, "culvert.dev/other"
		at.PCI, at.Pool = vf.PCIAddr{Domain: 0xa, Bus: 2, Device: 0x1f, Function: 7}, pool
		after, err := parsed(t, []byte(before)).Replaced(at)
		if err != nil {
			t.Fatal(err)
		}
		was, _, err := parsed(t, []byte(before)).Of("net1")
		if err != nil {
			t.Fatal(err)
		}
		is, _, err := parsed(t, []byte(after)).Of("net1")
		if err != nil {
			t.Fatal(err)
		}
		was.VF, was.Pool = at.PCI, pool
		if diff := cmp.Diff(was, is); diff != "" {
			t.Errorf("%s: -want +got:\n%s", w, diff)
		}
		back := dev
		same, err := parsed(t, []byte(after)).Replaced(back)
		if again := parsed(t, []byte(before)); err != nil || cmp.Diff(again.Uses, parsed(t, []byte(same)).Uses) != "" {
			t.Errorf("%s: there and back: %v", w, err)
		}
		at.MAC[5]++
		if _, err := parsed(t, []byte(before)).Replaced(at); w == Interface && !errors.Is(err, vf.ErrHeld) {
			t.Errorf("another MAC address: %v", err)
		}
	}
	overNetwork, err := db1(t).With(device(Network))
	if err != nil {
		t.Fatal(err)
	}
	for text, name := range map[string]string{overNetwork: "net1", string(read(t, "db1.xml")): "net2"} {
		if _, err := parsed(t, []byte(text)).Replaced(Device{Name: name}); !errors.Is(err, vf.ErrNotFound) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The mark of a guest that is on its way is put in, read and taken out again.
func TestMarked(t *testing.T) {
	settings := ours(`<c:vf device="net1" trust="on"/>`)
	for _, metadata := range []string{"", settings} {
		d := parsed(t, bare(metadata))
		for _, m := range []Move{{From: `a"b<c`}, {To: "host-b"}, {To: "host-b", Autostart: true}} {
			text, err := d.Marked(m)
			if err != nil {
				t.Fatal(err)
			}
			marked := parsed(t, []byte(text))
			if got, err := marked.Move(); got != m || err != nil {
				t.Errorf("%v, %v; want %v", got, err, m)
			}
			if got, err := moving.Read([]byte(text)); got != m || err != nil || got.Refusal("db1") == "" {
				t.Errorf("the hook reads %v, %v; want %v", got, err, m)
			}
			want, _ := d.Wants()
			if got, err := marked.Wants(); err != nil || cmp.Diff(want, got) != "" {
				t.Errorf("the settings: %v\n%s", err, cmp.Diff(want, got))
			}
			if strings.Count(text, m.From+m.To) > 1 {
				t.Errorf("it is there twice:\n%s", text)
			}
			unmarked, err := marked.Marked(Move{})
			if got, readErr := moving.Read([]byte(unmarked)); got != (Move{}) || readErr != nil {
				t.Errorf("the hook reads %v, %v of one without a mark", got, readErr)
			}
			if err != nil || strings.Contains(unmarked, "moving-") || metadata == "" && strings.Contains(unmarked, Namespace) {
				t.Errorf("taken out: %v\n%s", err, unmarked)
			}
		}
	}
	odd := strings.Replace(settings, "<c:guest", "<c:guest moved='b'", 1)
	if _, err := parsed(t, bare(odd)).Move(); !errors.Is(err, vf.ErrInvalid) {
		t.Errorf("an attribute that nobody knows: %v", err)
	}
}

// FuzzMove: libvirt's hook, which reads nothing but the mark, and culvertd find the same mark in
// each definition that culvertd can read.
func FuzzMove(f *testing.F) {
	for _, metadata := range []string{"", ours(`<c:vf device="net1" trust="on"/>`), "<a:b xmlns:a='a:' moving-to='x'/>"} {
		text, err := parsed(f, bare(metadata)).Marked(Move{To: "host-b", Autostart: true})
		if err != nil {
			f.Fatal(err)
		}
		f.Add(bare(metadata))
		f.Add([]byte(text))
		f.Add([]byte(text + "<moving-to"))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		d, err := Parse(text)
		if err != nil {
			return
		}
		want, err := d.Move()
		if err != nil {
			return
		}
		if got, err := moving.Read(text); got != want || err != nil {
			t.Fatalf("the hook reads %v, %v; want %v", got, err, want)
		}
	})
}

func TestFiles(t *testing.T) {
	text := strings.NewReplacer("<os>", `<os><kernel> /boot/vmlinux </kernel><loader>/fw/code</loader><nvram>/fw/vars</nvram>`, "<devices>", `<devices>
		<disk type='file'><source file='/disks/a'/></disk><disk type='file'><source file='/disks/a'/></disk>
		<disk type='block'><source dev='/dev/vg/b'/></disk><disk type='network'><source protocol='rbd' name='pool/c'/></disk>
		<disk type='file' device='cdrom'/><filesystem><source dir='/srv'/></filesystem>`).Replace(string(bare("")))
	got, err := parsed(t, []byte(text)).Files()
	if diff := cmp.Diff([]string{"/boot/vmlinux", "/dev/vg/b", "/disks/a", "/fw/code", "/fw/vars", "/srv"}, got); diff != "" || err != nil {
		t.Errorf("%v -want +got:\n%s", err, diff)
	}
	lines := strings.Replace(text, "/disks/a", "/disks&#10;a", 1)
	if _, err := parsed(t, []byte(lines)).Files(); !errors.Is(err, vf.ErrInvalid) {
		t.Errorf("a path of two lines: %v", err)
	}
}

// libvirt keeps the state of an emulated TPM below the guest's UUID, unless the definition says
// otherwise.
func TestTPMState(t *testing.T) {
	for tpm, want := range map[string]string{
		"": "",
		"<tpm model='tpm-tis'><backend type='passthrough'><device path='/dev/tpm0'/></backend></tpm>":           "",
		"<tpm model='tpm-crb'><backend type='emulator' version='2.0'/></tpm>":                                   "/var/lib/libvirt/swtpm/6695eb01-f6a4-8304-79aa-97f2502e193f",
		"<tpm model='tpm-crb'><backend type='emulator'><source type='dir' path='/shared/tpm'/></backend></tpm>": "/shared/tpm",
	} {
		text := strings.Replace(string(bare("")), "<devices>", "<devices>"+tpm, 1)
		if got := parsed(t, []byte(text)).TPMState(); got != want {
			t.Errorf("%s: %q, want %q", tpm, got, want)
		}
	}
}

// P16: only devices that Culvert made can be made anew on another host.
func TestP16CanMove(t *testing.T) {
	err := db1(t).CanMove()
	if !errors.Is(err, vf.ErrInvalid) || !strings.Contains(err.Error(), "device hostdev0 of guest db1 (PCI function 0000:01:10.2) was put there by hand, with managed='yes'") {
		t.Errorf("by hand: %v", err)
	}
	if strings.Contains(err.Error(), "net9") || strings.Contains(err.Error(), "passthrough") {
		t.Errorf("it is about another device, too: %v", err)
	}
	unmanaged := strings.Replace(string(read(t, "db1.xml")), "type='hostdev' managed='yes'", "type='hostdev' managed='no'", 1)
	if err := parsed(t, []byte(unmanaged)).CanMove(); err == nil || strings.Contains(err.Error(), "managed") {
		t.Errorf("by hand, not managed: %v", err)
	}
	clean, err := parsed(t, []byte(strings.Replace(unmanaged, "<alias name='hostdev0'/>", "<alias name='ua-culvert-net1'/>", 1))).With(Device{Name: "net2", Way: Hostdev, PCI: vf.PCIAddr{Bus: 3}})
	if err != nil {
		t.Fatal(err)
	}
	if err := parsed(t, []byte(clean)).CanMove(); err != nil {
		t.Error(err)
	}
	net, err := db1(t).With(device(Network))
	if err != nil {
		t.Fatal(err)
	}
	if err := parsed(t, []byte(net)).CanMove(); err == nil || !strings.Contains(err.Error(), "has a VF of this host alone") {
		t.Errorf("a network of one VF: %v", err)
	}
}
