package pod

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/culvert-net/culvert/internal/node/journal"
	"github.com/culvert-net/culvert/internal/vf"
)

type pfs []vf.PF

func (p pfs) PFs() []vf.PF { return p }

func TestDeviceInfoNamesTheRDMADevice(t *testing.T) {
	pf, other := vf.PFID{MAC: vf.MAC{2, 1}}, vf.PFID{MAC: vf.MAC{2, 2}}
	h := &Handler{Config: Config{Hardware: pfs{
		{ID: other, PCI: vf.PCIAddr{Bus: 1}, VFs: []vf.State{{RDMA: &vf.RDMA{Device: "mlx5_8"}}}},
		{ID: pf, PCI: vf.PCIAddr{Bus: 2}, VFs: []vf.State{{RDMA: &vf.RDMA{Device: "mlx5_9"}}, {ID: vf.ID{PF: pf, Index: 1}}}},
	}}}
	for index, rdma := range []string{"mlx5_9", ""} {
		r := journal.Record{ID: vf.ID{PF: pf, Index: index}, PCI: vf.PCIAddr{Bus: 2, Function: 2}}
		want := pciDevice{Address: "0000:02:00.2", RDMA: rdma, PFAddress: "0000:02:00.0"}
		if diff := cmp.Diff(want, h.describeDevice(r)); diff != "" {
			t.Errorf("VF %d (-want +got):\n%s", index, diff)
		}
	}
}

// Multus leaves a folder of mode 0, to which culvertd may not write without CAP_DAC_OVERRIDE.
func TestDeviceInfoInTheFolderOfMultus(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "cni")
	file := filepath.Join(dir, "a-net1-device.json")
	if err := errors.Join(os.Mkdir(dir, 0o700), os.Chmod(dir, 0), writeFile(file, []byte("{}"))); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the folder has %v, %v", info.Mode(), err)
	}
}
