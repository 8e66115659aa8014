package evidence

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/culvert-net/culvert/internal/kernel/rtnl"
	"github.com/culvert-net/culvert/internal/vf"
)

// TestVFs: VFs without a MAC address are left out, and without a PF there are none. Only the lab
// has a PF with VFs.
func TestVFs(t *testing.T) {
	r := writeTree(t, "host.txtar")
	pf := rtnl.Link{Name: "enp1s0", VFs: map[int]vf.Admin{0: {MAC: vf.MAC{2, 0, 0, 0, 0, 1}}, 1: {MAC: vf.MAC{2, 0, 0, 0, 0, 2}}, 2: {}, 9: {MAC: vf.MAC{2, 0, 0, 0, 0, 9}}}}
	want := []VF{{"02:00:00:00:00:01", "enp1s0", "0000:01:00.0", 0, "0000:01:10.0"}, {"02:00:00:00:00:02", "enp1s0", "0000:01:00.0", 1, "0000:01:10.2"}}
	if diff := cmp.Diff(want, r.addressedVFs("0000:01:00.0", pf)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if got, err := (Reader{Root: t.TempDir()}).VFs(); err != nil || len(got) != 0 {
		t.Errorf("%v, %v", got, err)
	}
}
