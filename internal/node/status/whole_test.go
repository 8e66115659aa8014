package status

import (
	"testing"

	"github.com/culvert-net/culvert/internal/node/desired"
	"github.com/culvert-net/culvert/internal/vf"
)

// The problem of a pool that selects PFs says so: the device plugin gives out PFs without VFs.
func TestPoolOfPFs(t *testing.T) {
	read, err := desired.ParseDevicePlugin("config.json", []byte(`{"resourceList": [
		{"resourceName": "pf", "selectors": {"vendors": ["1af4"], "devices": ["1041"]}}, {"resourceName": "none", "selectors": {"vendors": ["1af5"]}}]}`), "")
	if err != nil {
		t.Fatal(err)
	}
	reasons := map[string]string{}
	for _, p := range Assemble(Input{PFs: []vf.PF{{Name: "enp9s0", Vendor: "1af4", Device: "1041"}}, Spec: desired.Spec{Pools: read.Pools}}).Problems {
		reasons[p.Object] = p.Reason
	}
	for object, want := range map[string]string{
		"pool intel.com/pf":   "it stays empty: it selects PFs (enp9s0), which the device plugin gives out while they have no VFs, and Culvert gives out VFs only (config.json:2)",
		"pool intel.com/none": "no VF of this host is in it (config.json:2)",
	} {
		if reasons[object] != want {
			t.Errorf("%s: %q, want %q", object, reasons[object], want)
		}
	}
}
