package kernel

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/culvert-net/culvert/internal/excerpt"
	"github.com/culvert-net/culvert/internal/vf"
)

// NICs lists the network functions on the PCI bus, in bus order, and says of each whether it can
// have VFs and, if not, why. It leaves out VFs of this host. It reads only sysfs, so it works
// without root. An unprivileged reader does not see the whole configuration space, so SR-IOV that
// is switched off then looks like no SR-IOV.
//
// A function that cannot be read is listed as vf.SRIOVUnknown with the error in Why (I7). NICs
// returns an error only if it cannot list the PCI bus at all. A machine without a PCI bus has no
// NICs, which is no error.
func (k *Kernel) NICs(ctx context.Context) ([]vf.NIC, error) {
	return readBounded(ctx, &k.hangs, "the PCI bus", func() ([]vf.NIC, error) {
		all, err := k.sys.listFunctions()
		if err != nil {
			return nil, fmt.Errorf("list PCI devices: %w", err)
		}
		var out []vf.NIC
		for _, addr := range all {
			if k.sys.isNetwork(addr) && !fileExists(k.sys.pciPath(addr, "physfn")) {
				out = append(out, k.sys.readNIC(addr))
			}
		}
		for i := range out {
			explainSplit(&out[i], out)
		}
		return out, nil
	})
}

func (t tree) readNIC(addr vf.PCIAddr) vf.NIC {
	f, ferr := t.readFunction(addr)
	s, serr := t.readSRIOV(addr)
	n := vf.NIC{
		PCI: addr, Name: t.netdevName(addr), Vendor: f.Vendor, Device: f.Device, Driver: f.Driver,
		TotalVFs: s.TotalVFs, NumVFs: s.NumVFs,
	}
	n.SRIOV, n.Why = t.sriovSupport(n)
	if err := errors.Join(ferr, serr); err != nil {
		n.SRIOV, n.Why = vf.SRIOVUnknown, excerpt.Error(err)
	}
	return n
}

// netdevName finds the name of a function's netdevice, also if it belongs to a device below the
// function (virtio: <function>/virtio0/net/eth0).
func (t tree) netdevName(addr vf.PCIAddr) string {
	all, _ := listNames(t.pciPath(addr, "net"))
	for _, name := range all {
		if !t.isControl(addr, name) {
			return name
		}
	}
	_, nested := t.findNested(addr)
	return nested
}

// sriovSupport says whether a function can have VFs, and if not, why. The kernel has the file
// sriov_totalvfs for a function whose SR-IOV capability allows at least one VF
// (drivers/pci/iov.c, sriov_init, which gives up at TotalVFs 0). Its value is the number that the
// driver allows (pci_sriov_set_totalvfs).
func (t tree) sriovSupport(n vf.NIC) (vf.SRIOV, string) {
	hasFile := fileExists(t.pciPath(n.PCI, "sriov_totalvfs"))
	capable, capErr := t.hasSRIOV(n.PCI)
	how, hidden := n.HowToSwitchOn()
	switch {
	case n.TotalVFs > 0 && n.Driver == "":
		return vf.SRIOVYes, fmt.Sprintf("no driver is bound: load the driver of %s:%s", n.Vendor, n.Device)
	case n.TotalVFs > 0:
		if _, nested := t.findNested(n.PCI); nested != "" && nested == n.Name {
			return vf.SRIOVYes, t.explainNoNetdev(n.PCI, n.Driver).Error()
		}
		return vf.SRIOVYes, ""
	case hasFile && n.Driver == "":
		return vf.SRIOVOff, "the device has SR-IOV, it allows no VF, and no driver is bound that could say why"
	case hasFile:
		return vf.SRIOVOff, fmt.Sprintf("the device has SR-IOV, and driver %s allows it no VF: see the driver's messages in dmesg, and allow VFs in the card's firmware settings", n.Driver)
	case capable:
		return vf.SRIOVOff, "the device has SR-IOV with 0 VFs: switch it on in the machine's firmware setup (SR-IOV) and in the card's (number of VFs), then power-cycle"
	case isVirtual(n):
		return vf.SRIOVVirtual, "a hypervisor made it, so it has no VFs of its own: to try Culvert here, run culvert lab"
	case hidden:
		return vf.SRIOVOff, fmt.Sprintf("NICs of this model (%s:%s) have SR-IOV and this one does not show it: switch it on %s, then power-cycle", n.Vendor, n.Device, how)
	case errors.Is(capErr, fs.ErrPermission):
		return vf.SRIOVNone, "it shows no SR-IOV (seen without root, who sees more)"
	}
	return vf.SRIOVNone, "the device has no SR-IOV"
}

// isVirtual reports whether the function comes from a hypervisor: it is emulated, or a VF, which
// a guest sees without its PF.
func isVirtual(n vf.NIC) bool {
	switch n.Vendor {
	case "1af4", "15ad", "1ab8", "5853", "1d0f", "1ae0", "1414": // virtio, VMware, Parallels, Xen, Amazon, Google, Microsoft
		return true
	}
	return n.IsVF()
}

// explainSplit sets Why of the function that has the ports of a Chelsio card. The card's VFs
// belong to its functions 0 to 3.
func explainSplit(n *vf.NIC, all []vf.NIC) {
	if !vf.DriverOf(n.Driver).Split || n.SRIOV == vf.SRIOVYes {
		return
	}
	for _, o := range all {
		if o.SRIOV == vf.SRIOVYes && sameSlot(o.PCI, n.PCI) {
			n.SRIOV = vf.SRIOVElsewhere
			n.Why = fmt.Sprintf("it has the card's ports; the VFs hang on the card's other functions, from %s on", o.PCI)
			return
		}
	}
}

// hasSRIOV looks for the SR-IOV capability in the configuration space. An unprivileged reader
// gets only the first 64 bytes.
func (t tree) hasSRIOV(addr vf.PCIAddr) (bool, error) {
	config, err := os.ReadFile(t.pciPath(addr, "config"))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err == nil && len(config) <= plainConfig {
		err = fs.ErrPermission
	}
	_, found := extendedCapability(config, capSRIOV)
	return found, err
}

const (
	plainConfig = 256    // bytes without extended capabilities
	capSRIOV    = 0x0010 // linux/pci_regs.h PCI_EXT_CAP_ID_SRIOV
)

// extendedCapability walks the list of extended capabilities in a PCI function's
// configuration space (PCI Express base specification, 7.6.3): a header of 32
// bits has the ID in bits 0-15 and the next one's offset in 20-31.
func extendedCapability(config []byte, id uint16) (offset int, found bool) {
	at := plainConfig
	for range (4096 - plainConfig) / 8 { // bounded, since a broken list may be a cycle
		if at < plainConfig || at+4 > len(config) {
			return 0, false
		}
		header := uint32(config[at]) | uint32(config[at+1])<<8 | uint32(config[at+2])<<16 | uint32(config[at+3])<<24
		if header == 0 || header == 0xffffffff {
			return 0, false
		}
		if header&0xffff == uint32(id) {
			return at, true
		}
		at = int(header>>20) &^ 3
	}
	return 0, false
}
