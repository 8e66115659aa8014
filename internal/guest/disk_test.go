package guest

import (
	"strings"
	"testing"

	"github.com/culvert-net/culvert/internal/vf"
)

// P10: a PCI function that is a disk, or the file below one, is among the uses. No disk has a name of
// Culvert's, whatever its alias is.
func TestP10Disks(t *testing.T) {
	address := "<address domain='0' bus='1' slot='0x10' function='2'/>"
	for name, tc := range map[string]struct {
		disk string
		want []vf.PCIAddr
	}{
		"nvme":            {"<disk type='nvme'><source type='pci' managed='yes'>" + address + "</source><alias name='ua-culvert-net1'/></disk>", []vf.PCIAddr{{Bus: 1, Device: 16, Function: 2}}},
		"below a file":    {"<disk type='file'><source file='/a'/><backingStore type='nvme'><format type='raw'/><source type='pci'>" + address + "</source></backingStore></disk>", []vf.PCIAddr{{Bus: 1, Device: 16, Function: 2}}},
		"not to be read":  {"<disk type='nvme'><source type='pci'><address bus='x'/></source></disk>", []vf.PCIAddr{{}}},
		"a file":          {"<disk type='file'><source file='/a'/><target dev='vda'/><address type='pci' bus='1' slot='2' function='0'/></disk>", nil},
		"a disk in a LUN": {"<disk type='block'><source dev='/dev/a'><reservations managed='yes'/></source></disk>", nil},
	} {
		d, err := Parse([]byte("<domain><name>a</name><uuid>11111111-f6a4-8304-79aa-97f2502e193f</uuid><devices>" + tc.disk + "</devices></domain>"))
		if err != nil || len(d.Uses) != len(tc.want) {
			t.Errorf("%s: %v, %v", name, d.Uses, err)
			continue
		}
		for i, u := range d.Uses {
			if u.PCI != tc.want[i] || u.Err == nil || !strings.Contains(u.Err.Error(), "<disk> at line 1") || u.Named() || !u.MayBe(vf.PCIAddr{Bus: 1, Device: 16, Function: 2}) {
				t.Errorf("%s: %+v", name, u)
			}
		}
	}
}
