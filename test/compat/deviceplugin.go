package compat

import (
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/culvert-net/culvert/internal/node/desired"
	"github.com/culvert-net/culvert/internal/vf"
)

// testHardware returns the NICs of a node on which the configurations of the device
// plugin are tried:
//
//	ens1f0  8086:1572 i40e       VFs 154c: 0 to 5 bound to iavf, 6 and 7 to vfio-pci
//	ens1f1  8086:1572 i40e       VFs 154c: 0 to 3 bound to vfio-pci
//	ens2f0  15b3:1017 mlx5_core  VFs 1018: 0 to 3 bound to mlx5_core, each with an RDMA device
//	ens3f0  19e5:0222 hns3       VFs a22f: 0 and 1 bound to igb_uio
//	ens4f0  1dd8:1002 ionic      no VFs
func testHardware() []vf.PF {
	pf := func(name, pci, vendor, device, driver string) vf.PF {
		a, _ := vf.ParsePCIAddr(pci)
		return vf.PF{PCI: a, Name: name, Vendor: vendor, Device: device, Driver: driver, TotalVFs: 64, Up: true, Carrier: true}
	}
	add := func(p vf.PF, first, device string, drivers ...string) vf.PF {
		a, _ := vf.ParsePCIAddr(first)
		for i, driver := range drivers {
			p.VFs = append(p.VFs, vf.State{ID: vf.ID{Index: i}, PCI: a, Vendor: p.Vendor, Device: device, Driver: driver})
			if a.Function++; a.Function > 7 {
				a.Device, a.Function = a.Device+1, 0
			}
		}
		p.NumVFs = len(drivers)
		return p
	}
	return []vf.PF{
		add(pf("ens1f0", "0000:3b:00.0", "8086", "1572", "i40e"), "0000:3b:02.0", "154c", "iavf", "iavf", "iavf", "iavf", "iavf", "iavf", vf.DriverVFIO, vf.DriverVFIO),
		add(pf("ens1f1", "0000:3b:00.1", "8086", "1572", "i40e"), "0000:3b:0a.0", "154c", vf.DriverVFIO, vf.DriverVFIO, vf.DriverVFIO, vf.DriverVFIO),
		withRDMA(add(pf("ens2f0", "0000:5e:00.0", "15b3", "1017", "mlx5_core"), "0000:5e:00.2", "1018", "mlx5_core", "mlx5_core", "mlx5_core", "mlx5_core")),
		add(pf("ens3f0", "0000:7d:00.0", "19e5", "0222", "hns3"), "0000:7d:01.0", "a22f", "igb_uio", "igb_uio"),
		pf("ens4f0", "0000:81:00.0", "1dd8", "1002", "ionic"),
	}
}

// withRDMA gives a PF and its VFs RDMA devices.
func withRDMA(pf vf.PF) vf.PF {
	pf.RDMA = true
	for i := range pf.VFs {
		pf.VFs[i].RDMA = &vf.RDMA{Device: fmt.Sprintf("mlx5_%d", i+1), Nodes: []string{fmt.Sprintf("/dev/infiniband/uverbs%d", i+1), "/dev/infiniband/rdma_cm"}}
	}
	return pf
}

// devicePlugin reads a config.json and says which VFs of the hardware are in which pool.
func devicePlugin(input *yaml.Node) (Outcome, error) {
	var text string
	if err := input.Decode(&text); err != nil {
		return nil, err
	}
	read, err := desired.ParseDevicePlugin("config.json", []byte(text), "")
	if err != nil {
		return nil, err
	}
	spec := desired.Spec{Pools: read.Pools}
	vfs := map[string][]string{}
	for _, pf := range testHardware() {
		for _, v := range pf.VFs {
			if p, ok := spec.PoolOf(pf, v.ID.Index, v); ok {
				vfs[p.FullName()] = append(vfs[p.FullName()], fmt.Sprintf("%s#%d", pf.Name, v.ID.Index))
			}
		}
	}
	var out Outcome
	for _, p := range read.Pools {
		if len(vfs[p.FullName()]) > 0 {
			out = append(out, describePool(p, vfs[p.FullName()]))
		}
	}
	if len(out) == 0 {
		return Outcome{"no pools"}, nil
	}
	return out, nil
}

// describePool says which VFs a pool has, and what pods get with them.
func describePool(p desired.Pool, vfs []string) string {
	out := p.FullName() + ": " + strings.Join(vfs, " ")
	if slices.ContainsFunc(p.Selectors, func(s desired.Selector) bool { return s.NeedVhostNet }) {
		out += ", vhost-net"
	}
	if slices.ContainsFunc(p.Selectors, func(s desired.Selector) bool { return s.IsRDMA }) {
		out += ", rdma"
	}
	if p.ExcludeTopology {
		out += ", no topology"
	}
	return out
}
