package kernel

import (
	"encoding/binary"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"
)

// nicsOf returns the result of NICs as text, one line for each NIC.
func nicsOf(t *testing.T, k *Kernel) string {
	t.Helper()
	nics, err := k.NICs(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for _, n := range nics {
		line := fmt.Sprintf("%s %s:%s driver %q netdevice %q SR-IOV %s, %d of %d VFs: %s", n.PCI, n.Vendor, n.Device, n.Driver, n.Name, n.SRIOV, n.NumVFs, n.TotalVFs, n.Why)
		fmt.Fprintln(&b, strings.TrimSuffix(line, ": "))
	}
	return b.String()
}

func TestNICs(t *testing.T) {
	for _, tt := range []struct{ name, tree, want string }{
		{"no PCI network device at all", "-- 0000:00:1f.2 --\nclass 0x010601\nvendor 0x8086\ndevice 0x2922\n", ""},
		{
			"VFs are not listed", "-- 0000:01:00.0 --\nclass 0x020000\nvendor 0x8086\ndevice 0x10c9\ndriver -> ../drivers/igb\nsriov_totalvfs 7\nsriov_numvfs 1\n" +
				"-- 0000:01:10.0 --\nclass 0x020000\nvendor 0x8086\ndevice 0x10ca\nphysfn -> ../0000:01:00.0\n",
			"0000:01:00.0 8086:10c9 driver \"igb\" netdevice \"\" SR-IOV yes, 1 of 7 VFs\n",
		},
		{
			"no driver", "-- 0000:01:00.0 --\nclass 0x020000\nvendor 0x8086\ndevice 0x1572\nsriov_totalvfs 64\nsriov_numvfs 0\n",
			"0000:01:00.0 8086:1572 driver \"\" netdevice \"\" SR-IOV yes, 0 of 64 VFs: no driver is bound: load the driver of 8086:1572\n",
		},
		{
			"the driver allows none", "-- 0000:01:00.0 --\nclass 0x020000\nvendor 0x19ee\ndevice 0x4000\ndriver -> ../drivers/nfp\nsriov_totalvfs 0\nsriov_numvfs 0\n",
			"0000:01:00.0 19ee:4000 driver \"nfp\" netdevice \"\" SR-IOV off, 0 of 0 VFs: the device has SR-IOV, and driver nfp allows it no VF: see the driver's messages in dmesg, and allow VFs in the card's firmware settings\n",
		},
		{
			"a VF that a hypervisor handed over", "-- 0000:00:05.0 --\nclass 0x020000\nvendor 0x15b3\ndevice 0x1018\ndriver -> ../drivers/mlx5_core\nnet/eth1/ifindex 3\n",
			"0000:00:05.0 15b3:1018 driver \"mlx5_core\" netdevice \"eth1\" SR-IOV virtual, 0 of 0 VFs: a hypervisor made it, so it has no VFs of its own: to try Culvert here, run culvert lab\n",
		},
		{
			"unreadable", "-- 0000:01:00.0 --\nclass 0x020000\nvendor 0x8086\ndevice 0x1572\nsriov_totalvfs many\n",
			"0000:01:00.0 8086:1572 driver \"\" netdevice \"\" SR-IOV unknown, 0 of 0 VFs: ROOT/bus/pci/devices/0000:01:00.0/sriov_totalvfs: strconv.Atoi: parsing \"many\": invalid syntax\n",
		},
		{
			"a capability with 0 VFs, seen by root", "-- 0000:01:00.0 --\nclass 0x020000\nvendor 0x14e4\ndevice 0x16d7\ndriver -> ../drivers/bnxt_en\nconfig hex " + space(t, 0x0010) + "\n",
			"0000:01:00.0 14e4:16d7 driver \"bnxt_en\" netdevice \"\" SR-IOV off, 0 of 0 VFs: the device has SR-IOV with 0 VFs: switch it on in the machine's firmware setup (SR-IOV) and in the card's (number of VFs), then power-cycle\n",
		},
		{
			"the same, seen by others", "-- 0000:01:00.0 --\nclass 0x020000\nvendor 0x14e4\ndevice 0x16d7\nconfig hex e414d716\n",
			"0000:01:00.0 14e4:16d7 driver \"\" netdevice \"\" SR-IOV no, 0 of 0 VFs: it shows no SR-IOV (seen without root, who sees more)\n",
		},
	} {
		sys := layOut(t, txtar.Parse([]byte(tt.tree)))
		got := strings.ReplaceAll(nicsOf(t, New(Options{SysRoot: sys.root})), sys.root, "ROOT")
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
	}
}

// space is a configuration space, in hexadecimal, with a capability that is not
// the last before the one with the given ID.
func space(t *testing.T, id uint16) string {
	t.Helper()
	b := make([]byte, 4096)
	binary.LittleEndian.PutUint32(b[0x100:], 0x0001|1<<16|0x148<<20)
	binary.LittleEndian.PutUint32(b[0x148:], uint32(id)|1<<16)
	return fmt.Sprintf("%x", b)
}

func TestExtendedCapability(t *testing.T) {
	loop := make([]byte, 4096)
	binary.LittleEndian.PutUint32(loop[0x100:], 0x0001|1<<16|0x100<<20)
	gone := []byte(strings.Repeat("\xff", 4096)) // a device that has left the bus
	for _, tt := range []struct {
		name   string
		config []byte
		at     int
		found  bool
	}{
		{"none", nil, 0, false},
		{"plain PCI", make([]byte, 256), 0, false},
		{"empty list", make([]byte, 4096), 0, false},
		{"a list that bites its tail", loop, 0, false},
		{"gone", gone, 0, false},
		{"second", unhex(t, space(t, capSRIOV)), 0x148, true},
		{"cut off within", unhex(t, space(t, capSRIOV))[:0x14a], 0, false},
	} {
		if at, found := extendedCapability(tt.config, capSRIOV); at != tt.at || found != tt.found {
			t.Errorf("%s: %#x %t", tt.name, at, found)
		}
	}
}

func unhex(t *testing.T, s string) []byte {
	t.Helper()
	b := make([]byte, len(s)/2)
	if _, err := fmt.Sscanf(s, "%x", &b); err != nil {
		t.Fatal(err)
	}
	return b
}

func FuzzExtendedCapability(f *testing.F) {
	f.Add([]byte(nil), uint16(capSRIOV))
	f.Add(make([]byte, 4096), uint16(0))
	f.Fuzz(func(t *testing.T, config []byte, id uint16) {
		at, found := extendedCapability(config, id)
		if found && (at < plainConfig || at+4 > len(config) || binary.LittleEndian.Uint16(config[at:]) != id) {
			t.Errorf("capability %#x at %#x of %d bytes", id, at, len(config))
		}
	})
}
