package guest

import (
	"encoding/xml"
	"errors"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/culvert-net/culvert/internal/vf"
)

var update = flag.Bool("update", false, "write the golden files")

func read(t testing.TB, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func db1(t testing.TB) Definition {
	t.Helper()
	d, err := Parse(read(t, "db1.xml"))
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// Parse finds VFs of all three ways, and passes over elements without a VF, even those of an
// unknown kind.
func TestParse(t *testing.T) {
	mac2, mac3 := vf.MAC{0x52, 0x54, 0, 0xaa, 0, 2}, vf.MAC{0x52, 0x54, 0, 0xaa, 0, 3}
	want := Definition{Name: "db1", UUID: "6695eb01-f6a4-8304-79aa-97f2502e193f", Uses: []Use{
		{Way: Interface, PCI: vf.PCIAddr{Bus: 1, Device: 0x10, Function: 2}, Alias: "hostdev0", MAC: &mac2, VLAN: &vf.VLAN{ID: 42}, Managed: true},
		{Way: Network, Network: "passthrough", MAC: &mac3, VLAN: &vf.VLAN{}, Failover: "ua-slow"},
		{Way: Hostdev, PCI: vf.PCIAddr{Bus: 1, Device: 0x10, Function: 4}, Alias: "ua-culvert-net9", Managed: true},
	}}
	if diff := cmp.Diff(want, db1(t), cmpopts.IgnoreUnexported(Definition{})); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// A definition that Parse refuses has no name or UUID that Culvert can use, or is no XML. ParseUses
// reads the devices of the former.
func TestParseRefuses(t *testing.T) {
	whole := string(read(t, "db1.xml"))
	for name, tc := range map[string]struct{ from, to, says string }{
		"no name":       {"<name>db1</name>", "", `<name> ""`},
		"a name's form": {"<name>db1</name>", "<name>a/b</name>", `<name> "a/b": want`},
		"no UUID":       {"<uuid>6695eb01-f6a4-8304-79aa-97f2502e193f</uuid>", "", "define it first"},
		"a network":     {whole, "<network><name>x</name></network>", "<network> at line 1: want <domain>"},
		"nothing":       {whole, "", "want what virsh dumpxml prints"},
		"cut off":       {"</domain>", "", "unexpected EOF"},
		"too long":      {"<vcpu>", strings.Repeat(" ", longest) + "<vcpu>", "want at most 524288"},
	} {
		t.Run(name, func(t *testing.T) {
			if !strings.Contains(whole, tc.from) {
				t.Fatal("not in db1.xml: " + tc.from)
			}
			text := []byte(strings.Replace(whole, tc.from, tc.to, 1))
			_, err := Parse(text)
			if !errors.Is(err, vf.ErrInvalid) || !strings.Contains(err.Error(), tc.says) {
				t.Errorf("got  %v\nwant %s", err, tc.says)
			}
			uses, err := ParseUses(text)
			if isText := !strings.HasPrefix(tc.from, "<name>") && !strings.HasPrefix(tc.from, "<uuid>"); isText != (err != nil) {
				t.Errorf("its devices: %v", err)
			} else if diff := cmp.Diff(db1(t).Uses, uses); diff != "" && !isText {
				t.Errorf("its devices: -want +got:\n%s", diff)
			}
		})
	}
}

// device returns a device of the given way.
func device(w Way) Device {
	return Device{
		Name: "net1", Way: w, PCI: vf.PCIAddr{Bus: 1, Device: 0x11, Function: 6}, MAC: vf.MAC{2, 0, 0, 0, 0, 7}, VLAN: vf.VLAN{ID: 100}, Failover: "ua-slow",
		Pool: "culvert.dev/fast", Spec: everything(),
	}
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(filepath.Join("testdata", name), []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(string(read(t, name)), got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", name, diff)
	}
}

// The XML of a device equals the golden file, means the same when Parse reads it again, and is
// valid by libvirt's own schemas.
func TestWays(t *testing.T) {
	for _, w := range []Way{Interface, Hostdev, Network} {
		t.Run(string(w), func(t *testing.T) {
			dev := device(w)
			text, err := dev.XML()
			if err != nil {
				t.Fatal(err)
			}
			golden(t, string(w)+".device.xml", text)
			whole, err := db1(t).With(dev)
			if err != nil {
				t.Fatal(err)
			}
			golden(t, string(w)+".domain.xml", whole)
			validate(t, "domain", strings.Replace(whole, "<interface type='novel'><source/></interface>", "", 1))
			again, err := Parse([]byte(whole))
			if err != nil {
				t.Fatal(err)
			}
			want := Use{Way: w, PCI: dev.PCI, Alias: "ua-culvert-net1", MAC: &dev.MAC, VLAN: &dev.VLAN, Failover: "ua-slow"}
			switch w {
			case Hostdev:
				want.MAC, want.VLAN = nil, nil
			case Network:
				want.PCI, want.Network = vf.PCIAddr{}, "culvert-0000-01-11-6"
			case Interface:
			}
			found := false
			for _, u := range again.Uses {
				found = found || cmp.Equal(u, want)
			}
			if !found || len(again.Uses) != 4 {
				t.Errorf("want %+v among %+v", want, again.Uses)
			}
			wants := Want{Device: "net1", VF: dev.PCI, Pool: dev.Pool, Spec: dev.Spec, Ours: true}
			if got, ok, err := again.Of("net1"); !ok || err != nil || !cmp.Equal(got, wants) {
				t.Errorf("%v %v, it wants (-want +got)\n%s", ok, err, cmp.Diff(wants, got))
			}
			other := dev
			other.VLAN.ID++
			if _, err := again.With(other); (err != nil) != (w != Hostdev) || err != nil && !strings.Contains(err.Error(), "which has VLAN 100, not 101") {
				t.Errorf("with another VLAN: %v", err)
			}
			other = dev
			other.MAC[5]++
			if _, err := again.With(other); (err != nil) != (w != Hostdev) || err != nil && !strings.Contains(err.Error(), "has MAC address 02:00:00:00:00:07, not") {
				t.Errorf("with another MAC address: %v", err)
			}
			if same, err := again.With(dev); err != nil || same != whole {
				t.Errorf("with the same device again: %v\n%s", err, same)
			}
		})
	}
	network, err := device(Network).NetworkXML()
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "network.xml", network)
	validate(t, "network", network)
}

// validate checks a text by libvirt's schemas, where they are installed.
func validate(t *testing.T, schema, text string) {
	t.Helper()
	program, err := exec.LookPath("virt-xml-validate")
	if err != nil {
		t.Log("not compared with libvirt's schemas: virt-xml-validate is not installed (tools/bootstrap test)")
		return
	}
	file := filepath.Join(t.TempDir(), "x.xml")
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), program, file, schema).CombinedOutput(); err != nil {
		t.Errorf("virt-xml-validate: %v\n%s\n%s", err, out, text)
	}
}

func TestWithRefuses(t *testing.T) {
	d := db1(t)
	for name, tc := range map[string]struct {
		change func(*Device)
		says   string
	}{
		"the name is another VF's": {func(d *Device) { d.Name = "net9" }, "guest db1 has a device net9 already (alias ua-culvert-net9), which has VF 0000:01:10.4, not 0000:01:11.6"},
		"the VF is there by hand":  {func(d *Device) { d.PCI = vf.PCIAddr{Bus: 1, Device: 0x10, Function: 2} }, "guest db1 has VF 0000:01:10.2 already, as hostdev0"},
		"nothing to fail over to":  {func(d *Device) { d.Failover = "ua-none" }, "<alias name='ua-none'/>"},
		"a part of an alias":       {func(d *Device) { d.Failover = "ua-slo" }, "<alias name='ua-slo'/>"},
	} {
		t.Run(name, func(t *testing.T) {
			dev := device(Interface)
			tc.change(&dev)
			if _, err := d.With(dev); err == nil || !strings.Contains(err.Error(), tc.says) {
				t.Errorf("got  %v\nwant %s", err, tc.says)
			}
		})
	}
	whole, err := d.With(device(Network))
	if err != nil {
		t.Fatal(err)
	}
	renamed, err := Parse([]byte(strings.Replace(whole, "ua-culvert-net1", "ua-mine", 1)))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := renamed.With(device(Hostdev)); err == nil || !strings.Contains(err.Error(), "guest db1 has VF 0000:01:11.6 already, as ua-mine") {
		t.Errorf("through a network of ours: %v", err)
	}
	for _, devices := range []string{"<devices/>", ""} {
		d, err := Parse([]byte("<domain><name>a</name><uuid>6695eb01-f6a4-8304-79aa-97f2502e193f</uuid>" + devices + "</domain>"))
		if err != nil {
			t.Fatal(err)
		}
		dev := device(Interface)
		dev.Failover = ""
		if _, err := d.With(dev); err == nil || !strings.Contains(err.Error(), "<devices> is") {
			t.Errorf("%q: %v", devices, err)
		}
	}
}

// P15: Fits refuses settings that libvirt would undo.
func TestFits(t *testing.T) {
	qos, stag := vf.Spec{VLAN: &vf.VLAN{ID: 5, QoS: 3}}, vf.Spec{VLAN: &vf.VLAN{ID: 5, Proto: vf.Dot1AD}}
	for _, w := range []Way{Interface, Network} {
		if err := w.Fits(qos); err == nil || !strings.Contains(err.Error(), "vlanQoS 3: invalid as "+string(w)) {
			t.Error(err)
		}
		if err := w.Fits(stag); err == nil || !strings.Contains(err.Error(), "vlanProto 802.1ad") {
			t.Error(err)
		}
	}
	if err := errors.Join(Hostdev.Fits(qos), Hostdev.Fits(stag), Interface.Fits(vf.Spec{VLAN: &vf.VLAN{ID: 5, Proto: vf.Dot1Q}})); err != nil {
		t.Error(err)
	}
	if _, err := ParseWay("hostdv"); err == nil || !strings.Contains(err.Error(), "did you mean hostdev") {
		t.Error(err)
	}
	for _, name := range []string{"", "a b", "é", strings.Repeat("a", 33)} {
		if err := CheckName(name); !errors.Is(err, vf.ErrInvalid) {
			t.Errorf("%q: %v", name, err)
		}
	}
}

// FuzzParse: a definition that Parse accepts has a name and a UUID. Parse knows the place of each
// of its devices, and reads it there alone as it reads it among the others. If the definition takes
// a device, Parse reads the result with that device and all it had; otherwise With says why not.
func FuzzParse(f *testing.F) {
	f.Add(read(f, "db1.xml"))
	f.Add(read(f, "hostdev.domain.xml"))
	f.Add([]byte("<domain><name>a</name><uuid>6695eb01-f6a4-8304-79aa-97f2502e193f</uuid><devices/></domain>"))
	f.Add([]byte("<domain><name>a</name><uuid>6695eb01-f6a4-8304-79aa-97f2502e193f</uuid><metadata/><devices>\n</devices></domain><x/>"))
	f.Add([]byte("<domain><name>a</name><uuid>6695eb01-f6a4-8304-79aa-97f2502e193f</uuid><devices><hostdev mode='subsystem' type='pci'/><!-- </devices> --></devices></domain>"))
	for _, tc := range unreadParts() {
		f.Add(tc.in(f))
	}
	for _, device := range foreignDevices() {
		f.Add(domain("<devices>" + device + "</devices>"))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		d, err := Parse(text)
		if err != nil {
			return
		}
		if d.Name == "" || len(d.UUID) != 36 {
			t.Fatalf("read as %+v", d)
		}
		for i, u := range d.Uses {
			if alone := readAlone(t, d.text[d.places[i].from:d.places[i].to]); isSameUse(alone, u) {
				continue
			}
			t.Fatalf("%+v is not at its place in\n%s", u, text)
		}
		before, wantsErr := d.Wants()
		dev := device(Interface)
		dev.Failover = ""
		whole, err := d.With(dev)
		if err != nil {
			return
		}
		again, err := Parse([]byte(whole))
		var syntax *xml.SyntaxError
		if errors.As(err, &syntax) || err == nil && len(again.Uses) != len(d.Uses)+1 && len(again.Uses) != len(d.Uses) {
			t.Fatalf("%d devices became %d: %v\n%s", len(d.Uses), len(again.Uses), err, whole)
		}
		if err != nil || wantsErr != nil || len(again.Uses) == len(d.Uses) {
			return
		}
		after, err := again.Wants()
		if err != nil || len(after) != len(before)+1 {
			t.Fatalf("wanted %v, then %v: %v\n%s", before, after, err, whole)
		}
	})
}

func TestIsName(t *testing.T) {
	for name, want := range map[string]bool{
		"": false, "db1": true, "a b": true, " a": false, "\u00a0a": false, "a/b": false, "/": false, "a\nb": false, "a\u200b": false, "\u0378": false, "é": true,
		strings.Repeat("é", longestGuestName): true, strings.Repeat("a", longestGuestName+1): false,
	} {
		if got := isName(name); got != want {
			t.Errorf("isName(%q) is %t, want %t", name, got, want)
		}
	}
}
