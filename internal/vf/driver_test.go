package vf

import (
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// P13, P-by-P: each driver accepts, refuses or rounds a rate as the table of drivers says.
func TestRatesOfDrivers(t *testing.T) {
	u := func(n uint32) *uint32 { return &n }
	const refused = uint32(1 << 31)
	for _, tt := range []struct {
		driver string
		link   int // 0: no carrier
		ask    uint32
		want   uint32 // effective
	}{
		{"ixgbe", 10000, 10, refused},
		{"ixgbe", 10000, 11, 11},
		{"ixgbe", 10000, 10000, 10000},
		{"ixgbe", 10000, 10001, refused},
		{"ixgbe", 1000, 500, refused},
		{"ixgbe", 0, 500, refused},
		{"i40e", 10000, 1, 50},
		{"i40e", 10000, 50, 50},
		{"i40e", 10000, 99, 50},
		{"i40e", 10000, 170, 150},
		{"i40e", 10000, 10001, refused},
		{"i40e", 0, 100, refused},
		{"igb", 1000, 1, 1},
		{"igb", 1000, 1001, refused},
		{"igb", 0, 100, refused},
		{"ice", 25000, 1, 1},
		{"ice", 25000, 25001, refused},
		{"ice", 0, 100, 100}, // the table has no limit; the kernel decides
		{"cxgb4", 100000, 99999, 99999},
		{"cxgb4", 100000, 100001, refused},
		{"cxgb4", 0, 100, refused},
		{"bnxt_en", 25000, 25001, refused},
		{"bnxt_en", 0, 100, 100},
		{"mlx5_core", 25000, 30000, 30000},
		{"something_else", 1000, 4000000, 4000000},
		{"ixgbe", 0, 0, 0}, // unlimited is not a rate
	} {
		pf := PF{Name: "p0", Driver: tt.driver, SpeedMbps: tt.link, Carrier: tt.link > 0}
		err := pf.Fits(Spec{MaxTxRate: u(tt.ask)}, Admin{}, "")
		got := DriverOf(tt.driver).Effective(Admin{MaxTxRate: tt.ask}).MaxTxRate
		if errors.Is(err, ErrUnable) {
			got = refused
		}
		if got != tt.want || (err != nil) != (tt.want == refused) {
			t.Errorf("%s at %d asked for %d: %d, want %d (%v)", tt.driver, tt.link, tt.ask, got, tt.want, err)
		}
	}
}

func TestFitsSaysWhatTheDriverTakes(t *testing.T) {
	u := func(n uint32) *uint32 { return &n }
	for _, tt := range []struct {
		driver string
		link   int
		spec   Spec
		want   string
	}{
		{"ixgbe", 1000, Spec{MaxTxRate: u(200)}, "max_tx_rate 200: not supported by the driver: PF p0 (driver ixgbe) takes 11 to 10000 Mb/s, and only while its link runs at 10000 Mb/s; no min_tx_rate; it runs at 1000 Mb/s now"},
		{"igb", 0, Spec{MinTxRate: u(5)}, "min_tx_rate 5: not supported by the driver: PF p0 (driver igb) has no min_tx_rate: leave it out"},
		{"ixgbe", 10000, Spec{MaxTxRate: u(7)}, "max_tx_rate 7: not supported by the driver: PF p0 (driver ixgbe) takes 11 to 10000 Mb/s, and only while its link runs at 10000 Mb/s; no min_tx_rate; ask for 11 or more"},
		{"i40e", 10000, Spec{MaxTxRate: u(20000)}, "max_tx_rate 20000: not supported by the driver: PF p0 (driver i40e) takes 50 to 10000 Mb/s (its link), in steps of 50, less counts as 50; no min_tx_rate; ask for 10000 or less"},
		{"i40e", 10000, Spec{MinTxRate: u(5)}, "min_tx_rate 5: not supported by the driver: PF p0 (driver i40e) has no min_tx_rate: leave it out"},
		{"ice", 25000, Spec{MinTxRate: u(500), MaxTxRate: u(100)}, "min_tx_rate 500: invalid: want at most the maximum, 100 Mb/s"},
		{"ice", 25000, Spec{MinTxRate: u(500), MaxTxRate: u(1000)}, ""},
		{"bnxt_en", 25000, Spec{MinTxRate: u(30000)}, "min_tx_rate 30000: not supported by the driver: PF p0 (driver bnxt_en) takes no more than the speed of its link, 25000 Mb/s"},
		{"cxgb4", 100000, Spec{VLAN: &VLAN{ID: 5, QoS: 3}}, "vlanQoS 3: not supported by the driver: PF p0 (driver cxgb4) takes a VLAN without priority only: leave vlanQoS out"},
		{"cxgb4", 100000, Spec{VLAN: &VLAN{ID: 5}}, ""},
	} {
		pf := PF{Name: "p0", Driver: tt.driver, SpeedMbps: tt.link, Carrier: tt.link > 0}
		got := ""
		if err := pf.Fits(tt.spec, Admin{}, ""); err != nil {
			got = err.Error()
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.driver, diff)
		}
	}
}

// I6: an effective setting stays effective when it is requested again. A requested
// limit never becomes no limit. The effective value is never more than the requested
// one, unless the driver raises it.
func TestEffectiveIsSettled(t *testing.T) {
	for _, driver := range []string{"igb", "ixgbe", "i40e", "ice", "mlx5_core", "cxgb4", "bnxt_en", "bnx2x", "hns3", "ionic", "unknown"} {
		r := DriverOf(driver)
		for asked := range uint32(2000) {
			once := r.Effective(Admin{MaxTxRate: asked})
			if r.Effective(once) != once || (once.MaxTxRate == 0) != (asked == 0) || once.MaxTxRate > asked && once.MaxTxRate != r.Lowest {
				t.Errorf("%s: %d becomes %d", driver, asked, once.MaxTxRate)
			}
		}
	}
}

// igb_ndo_set_vf_bw and ixgbe_ndo_set_vf_bw look at the link before they look at
// the rate.
func TestClearingRates(t *testing.T) {
	for driver, want := range map[string][3]bool{ // at 10 Gb/s, at 1 Gb/s, without link
		"igb": {true, true, false}, "ixgbe": {true, false, false}, "i40e": {true, true, true}, "ice": {true, true, true},
		"mlx5_core": {true, true, true}, "cxgb4": {true, true, true}, "bnxt_en": {true, true, true}, "something_else": {true, true, true},
	} {
		for i, speed := range []int{10000, 1000, 0} {
			if got := (PF{Driver: driver, SpeedMbps: speed, Carrier: speed > 0}).CanClearRates(); got != want[i] {
				t.Errorf("%s at %d Mb/s: %t", driver, speed, got)
			}
		}
	}
}

// docs/hardware.md agrees with the table: it lists each driver whose rates the table has, the
// driver of its VFs and the settings that it lacks.
func TestHardwarePageShowsTheTable(t *testing.T) {
	page, err := os.ReadFile("../../docs/hardware.md")
	if err != nil {
		t.Fatal(err)
	}
	words := map[string]Setting{
		"link state": SetLinkState, "min rate": SetMinTxRate, "max rate": SetMaxTxRate, "802.1ad": SetVLANProto, "RSS query": SetRSSQuery, "spoof check": SetSpoofChk, "trust": SetTrust,
		"VLAN priority": setVLANQoS, "statistics": "", "VLAN in switchdev mode": "", // not asked for by a network; of a mode
	}
	for _, d := range drivers {
		if len(d.Lacks) == 0 {
			continue
		}
		_, row, _ := strings.Cut(string(page), "\n| `"+d.Name+"` |")
		cells := strings.Split(row, "|")
		if len(cells) < 4 || strings.TrimSpace(cells[1]) != "`"+d.VFDrivers[0]+"`" {
			t.Errorf("%s has no row with VF driver %s", d.Name, d.VFDrivers[0])
			continue
		}
		want := slices.Clone(d.Lacks)
		if d.NoQoS {
			want = append(want, setVLANQoS)
		}
		var got []Setting
		for _, cell := range strings.FieldsFunc(cells[2], func(r rune) bool { return r == ',' || r == ';' }) {
			word, _, _ := strings.Cut(cell, "(")
			s, known := words[strings.TrimSpace(word)]
			if !known {
				t.Errorf("%s lacks %q, which is no setting", d.Name, cell)
			}
			if s != "" {
				got = append(got, s)
			}
		}
		slices.Sort(want)
		slices.Sort(got)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s lacks (-table +page):\n%s", d.Name, diff)
		}
	}
}

func TestModels(t *testing.T) {
	for _, tt := range []struct {
		nic      NIC
		vf, pf   bool
		switchOn string
	}{
		{NIC{Driver: "iavf", Vendor: "8086", Device: "154c"}, true, false, ""},
		{NIC{Driver: "i40evf"}, true, false, ""},
		{NIC{Driver: "nfp_netvf", Vendor: "19ee"}, true, false, ""},
		{NIC{Driver: "mlx5_core", Vendor: "15b3", Device: "1018"}, true, false, ""},
		{NIC{Vendor: "15b3", Device: "1018"}, true, false, ""}, // no driver bound
		{NIC{Driver: "fm10k", Vendor: "8086", Device: "15a5"}, true, false, ""},
		{NIC{Driver: "fm10k", Vendor: "8086", Device: "15a4"}, false, false, ""},
		{NIC{Vendor: "14e4", Device: "1018"}, false, false, ""}, // of another vendor
		{NIC{Driver: "i40e", Vendor: "8086", Device: "1572"}, false, true, "in the machine's firmware setup (SR-IOV) and in the card's own"},
		{NIC{Driver: "igb", Vendor: "8086", Device: "10c9"}, false, true, "in the machine's firmware setup (SR-IOV) and in the card's own"},
		{NIC{Driver: "igb", Vendor: "8086", Device: "1533"}, false, false, ""}, // I210
		{NIC{Vendor: "15b3", Device: "1017", PCI: PCIAddr{Bus: 3}}, false, true, "with mlxconfig -d 0000:03:00.0 set SRIOV_EN=1 NUM_OF_VFS=8"},
		{NIC{Driver: "bnx2x", Vendor: "14e4", Device: "16a9"}, true, false, ""}, // a VF of a 57800
		{NIC{Driver: "bnx2x", Vendor: "14e4", Device: "168a"}, false, true, "in the machine's firmware setup (SR-IOV) and in the card's own"},
		{NIC{Driver: "sfc", Vendor: "1924", Device: "1b03"}, true, false, ""},
		{NIC{Driver: "qede", Vendor: "1077", Device: "8090"}, true, false, ""},
		{NIC{Vendor: "1da8", Device: "6003"}, true, false, ""},
		{NIC{Driver: "mlx4_core", Vendor: "15b3", Device: "1004"}, true, false, ""},
		{NIC{Vendor: "15b3", Device: "1007", PCI: PCIAddr{Bus: 3}}, false, true, "with mlxconfig -d 0000:03:00.0 set SRIOV_EN=1 NUM_OF_VFS=8, and with the parameter num_vfs=8 of mlx4_core"},
		{NIC{}, false, false, ""},
	} {
		how, pf := tt.nic.HowToSwitchOn()
		if tt.nic.IsVF() != tt.vf || pf != tt.pf || how != tt.switchOn {
			t.Errorf("%+v: VF %t, PF %t, %q", tt.nic, tt.nic.IsVF(), pf, how)
		}
	}
}

// Configurations of the device plugin may select PFs, by their models or their drivers.
func TestIsPFModel(t *testing.T) {
	for _, tt := range []struct {
		vendor, device string
		want           bool
	}{
		{"15b3", "1017", true}, {"", "1017", true}, {"15b3", "1018", false}, {"8086", "1017", false}, {"8086", "1572", true},
		{"8086", "1592", true}, {"8086", "154c", false}, {"8086", "1889", false}, {"1dd8", "1002", true}, {"1dd8", "1003", false}, {"", "", false},
	} {
		if got := IsPFModel(tt.vendor, tt.device); got != tt.want {
			t.Errorf("%s:%s is a PF: %t", tt.vendor, tt.device, got)
		}
	}
	for name, want := range map[string]bool{"ixgbe": true, "i40e": true, "ionic": false, "mlx5_core": false, "iavf": false, DriverVFIO: false, "": false} {
		if got := DrivesOnlyPFs(name); got != want {
			t.Errorf("%q drives only PFs: %t", name, got)
		}
	}
}

// No model is both a PF's and a VF's.
func TestModelsAreDistinct(t *testing.T) {
	for _, d := range drivers {
		for _, device := range d.PFDevices {
			for _, vendor := range d.Vendors {
				if (NIC{Vendor: vendor, Device: device}).IsVF() {
					t.Errorf("%s:%s is a PF and a VF", vendor, device)
				}
			}
		}
	}
}

func TestIsUIO(t *testing.T) {
	for name, want := range map[string]bool{"uio": true, "igb_uio": true, "uio_pci_generic": true, "uiox": false, DriverVFIO: false, "igbvf": false, "": false} {
		if got := IsUIO(name); got != want {
			t.Errorf("%q is a driver of UIO: %t", name, got)
		}
	}
}

// host.yaml may bind a driver to a VF by its name. The name of a PF driver is no such name, except
// for drivers that serve both.
func TestDrivesVFs(t *testing.T) {
	for name, want := range map[string]bool{
		"igbvf": true, "iavf": true, "i40evf": true, "mlx5_core": true, "bnx2x": true,
		"igb": false, "i40e": false, "ice": false, DriverVFIO: false, "e1000e": false, "": false,
	} {
		if got := DrivesVFs(name); got != want {
			t.Errorf("%q drives VFs: %t", name, got)
		}
	}
}
