package desired

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/culvert-net/culvert/internal/vf"
)

func TestParse(t *testing.T) {
	content, err := os.ReadFile("testdata/host.yaml")
	if err != nil {
		t.Fatal(err)
	}
	got, err := Parse("host.yaml", content)
	if err != nil {
		t.Fatal(err)
	}
	want := Spec{
		PFs: []PFRule{
			{Name: "enp1s0f0", Want: PFSpec{VFs: 7, MTU: 9000, Autoprobe: true, NeedCarrier: true, From: "host.yaml:2"}},
			{Vendor: "8086", Driver: "i40e", Want: PFSpec{VFs: AllVFs, From: "host.yaml:5"}},
			{MAC: vf.MAC{0x90, 0xe2, 0xba, 0, 0, 1}, Want: PFSpec{Autoprobe: true, NeedCarrier: true, From: "host.yaml:10"}},
		},
		Pools: []Pool{
			{
				Name: "intel_sriov_netdevice", Prefix: "intel.com", DeviceType: NetDevice, From: "host.yaml:13",
				Selectors: []Selector{{
					Vendors: []string{"8086"}, Devices: []string{"10ca", "154c"}, LinkTypes: []string{"ether"},
					PFNames: []Part[string]{
						{PF: "enp1s0f0", Indexes: []Range{{0, 0}, {2, 5}}},
						{PF: "enp1s0f1"},
					},
				}},
			},
			{
				Name: "dpdk", Prefix: DefaultPrefix, DeviceType: VFIO, From: "host.yaml:20",
				Selectors: []Selector{
					{Drivers: []string{vf.DriverVFIO}, RootDevices: []Part[vf.PCIAddr]{{PF: vf.PCIAddr{Bus: 0x3b}, Indexes: []Range{{0, 3}}}}},
					{Drivers: []string{vf.DriverVFIO}, PCIAddresses: []vf.PCIAddr{{Bus: 1, Device: 0x10, Function: 2}}},
				},
			},
			{Name: "rest", Prefix: DefaultPrefix, DeviceType: NetDevice, From: "host.yaml:27"},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("Parse (-want +got):\n%s", diff)
	}
}

func TestParseEmptyWantsNothing(t *testing.T) {
	for _, text := range []string{"", "\n", "# nothing\n", "---\n", "---\n...\n", "null\n", "{}\n", "pfs:\npools: []\n"} {
		got, err := Parse("host.yaml", []byte(text))
		if err != nil {
			t.Errorf("%q: %v", text, err)
		}
		if diff := cmp.Diff(Spec{}, got); diff != "" {
			t.Errorf("%q wants something: %s", text, diff)
		}
	}
}

// TestParseErrors compares every message of every bad file in testdata/bad.txt:
// "== name", the file, "--", the messages.
func TestParseErrors(t *testing.T) {
	text, err := os.ReadFile("testdata/bad.txt")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range strings.Split("\n"+string(text), "\n== ")[1:] {
		name, rest, _ := strings.Cut(c, "\n")
		content, want, _ := strings.Cut("\n"+rest, "\n--\n")
		content = strings.TrimPrefix(content, "\n")
		t.Run(name, func(t *testing.T) {
			spec, err := Parse("host.yaml", []byte(content+"\n"))
			if err == nil {
				t.Fatalf("parsed as %+v", spec)
			}
			if !errors.Is(err, vf.ErrInvalid) {
				t.Errorf("%v is no vf.ErrInvalid", err)
			}
			if diff := cmp.Diff(strings.TrimSpace(want), err.Error()); diff != "" {
				t.Errorf("messages (-want +got):\n%s", diff)
			}
		})
	}
}

func TestParseTooLarge(t *testing.T) {
	_, err := Parse("host.yaml", make([]byte, maxSize+1))
	if err == nil || !strings.Contains(err.Error(), "too many") {
		t.Errorf("got %v", err)
	}
}

// A pool says how pods get its VFs.
func TestOffer(t *testing.T) {
	spec, err := Parse("host.yaml", []byte("pools: [{name: a}, {name: b, offer: resource}, {name: c, offer: claims}]"))
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []Offer{OfferResource, OfferResource, OfferClaims} {
		if got := spec.Pools[i].Offer; got != want {
			t.Errorf("pool %s has offer %q, want %q", spec.Pools[i].Name, got, want)
		}
	}
	const want = `host.yaml:1: pools[0].offer "dra": want resource (by the device plugin) or claims (by ResourceSlices)`
	if _, err := Parse("host.yaml", []byte("pools: [{name: a, offer: dra}]")); err == nil || err.Error() != want {
		t.Errorf("%v; want %s", err, want)
	}
	if got := (Pool{DeviceType: NetDevice, Offer: OfferClaims}).describePool(); got != "netdevice, offer claims, every VF" {
		t.Error(got)
	}
}
