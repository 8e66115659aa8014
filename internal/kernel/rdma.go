package kernel

import (
	"errors"
	"io/fs"
	"path"

	"github.com/culvert-net/culvert/internal/vf"
)

// rdmaClasses are the classes of the character devices of an RDMA device, as folders of its
// PCI function (Documentation/ABI/stable/sysfs-class-infiniband), in the order in which the
// SR-IOV network device plugin gives them to a pod.
var rdmaClasses = []string{"infiniband_cm", "infiniband_mad", rdmaVerbs}

const rdmaVerbs = "infiniband_verbs"

// readRDMA reads the RDMA device of a PCI function; nil when it has none. With several it names
// the first and returns the nodes of all.
//
// A device in the netns of a pod ("rdma system set netns exclusive") is missing from the folder
// infiniband of the host's sysfs, since that class shows one netns. Its character devices stay
// visible, and the attribute ibdev of infiniband_verbs has its name.
func (t tree) readRDMA(addr vf.PCIAddr) (*vf.RDMA, error) {
	verbs, err := listNames(t.pciPath(addr, rdmaVerbs))
	if err != nil {
		return nil, err
	}
	devices, err := listNames(t.pciPath(addr, "infiniband"))
	if err != nil || len(devices)+len(verbs) == 0 {
		return nil, err
	}
	out := &vf.RDMA{}
	if len(devices) > 0 {
		out.Device = devices[0]
	} else if out.Device, err = readLine(t.pciPath(addr, rdmaVerbs, verbs[0], "ibdev")); errors.Is(err, fs.ErrNotExist) {
		return nil, nil // the device was removed meanwhile
	} else if err != nil {
		return nil, err
	}
	for _, class := range rdmaClasses {
		nodes, err := listNames(t.pciPath(addr, class))
		if err != nil {
			return nil, err
		}
		for _, n := range nodes {
			out.Nodes = append(out.Nodes, path.Join("/dev/infiniband", n))
		}
	}
	// One connection manager serves all RDMA devices (drivers/infiniband/core/ucma.c).
	if fileExists(t.root + "/class/misc/rdma_cm") {
		out.Nodes = append(out.Nodes, "/dev/infiniband/rdma_cm")
	}
	return out, nil
}
