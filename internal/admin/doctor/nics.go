package doctor

import (
	"slices"
	"strings"

	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/screen"
	"github.com/culvert-net/culvert/internal/vf"
)

// checkNICs reports for each NIC whether it can have VFs, or why not.
func checkNICs(e *examination) {
	if e.NICErr != "" {
		e.addFinding(finding{check: "sriov", severity: api.SeverityError, object: host, mend: []string{"sudo culvert doctor"}}, "the NICs could not be listed: %s", e.NICErr)
		return
	}
	able := 0
	for _, n := range e.NICs {
		if n.SRIOV == vf.SRIOVYes && (n.Driver == "" || n.Why == "") {
			able++
		}
		e.checkNIC(n)
	}
	if able > 0 {
		return
	}
	f := finding{
		check: "sriov", severity: api.SeverityWarning, object: host, why: "Culvert has nothing to give out here",
		mend: []string{"culvert lab up    # nodes with emulated SR-IOV NICs, to see it and to develop"},
	}
	if len(e.Spec.PFs) > 0 {
		f.severity = api.SeverityError
		f.why = "host.yaml asks for VFs"
	}
	e.addFinding(f, "no NIC of this machine can have VFs")
}

func (e *examination) checkNIC(n vf.NIC) {
	object := "NIC " + n.PCI.String()
	if n.Name != "" {
		object = "NIC " + n.Name
	}
	if isPort(n, e.Facts) {
		e.addFinding(warnOfPort(object), "it is a port of OpenStack, which drops packets from addresses that it does not know")
	}
	switch n.SRIOV {
	case vf.SRIOVYes:
		if n.Driver == "" {
			e.addFinding(finding{
				check: "sriov", severity: api.SeverityError, object: object, why: "VFs are made by the PF's driver",
				mend: []string{"lspci -nnk -s " + n.PCI.String() + "    # names the module; then: modprobe MODULE"},
			}, "it can have %s, and no driver is bound", screen.Plural(n.TotalVFs, "VF"))
			return
		}
		if n.Why != "" {
			e.addFinding(finding{check: "sriov", severity: api.SeverityWarning, object: object, why: "Culvert has nothing to give out of it"}, "%s", n.Why)
			return
		}
		e.addOK("sriov", object, "it can have %s (%s, driver %s), and has %d", screen.Plural(n.TotalVFs, "VF"), n.PCI, n.Driver, n.NumVFs)
	case vf.SRIOVOff:
		e.addFinding(finding{check: "sriov", severity: api.SeverityWarning, object: object, why: "it could have VFs", mend: []string{remedyOf(n)}},
			"SR-IOV is switched off: %s", causeOf(n))
	case vf.SRIOVUnknown:
		e.addFinding(finding{check: "sriov", severity: api.SeverityWarning, object: object, mend: []string{"dmesg | grep " + n.PCI.String()}}, "it could not be read: %s", n.Why)
	case vf.SRIOVVirtual:
		e.addNote("sriov", object, "no VFs: %s", causeOf(n)) // the way to the lab stands below, where no other NIC has any
	default:
		e.addNote("sriov", object, "no VFs: %s", n.Why)
	}
}

// causeOf and remedyOf return the halves of Why, "it is so: do that".
func causeOf(n vf.NIC) string {
	c, _, _ := strings.Cut(n.Why, ": ")
	return c
}

func remedyOf(n vf.NIC) string {
	_, r, ok := strings.Cut(n.Why, ": ")
	if !ok {
		return "dmesg | grep " + n.PCI.String()
	}
	return r
}

// checkPFs checks each PF, and whether it is as host.yaml wants it.
func checkPFs(e *examination) {
	for _, pf := range e.PFs {
		if pf.Driver == "" {
			continue // its NIC says so
		}
		if pf.Err != "" {
			e.addFinding(finding{check: "link", severity: api.SeverityWarning, object: pfName(pf), why: "what is not known cannot be judged",
				mend: []string{"dmesg | grep " + pf.PCI.String()}}, "not all of it could be read: %s", pf.Err)
		}
		if pf.Name == "" {
			continue
		}
		e.checkLink(pf)
		e.checkMaster(pf)
		e.checkNUMA(pf)
		e.checkRoom(pf)
	}
}

func (e *examination) checkLink(pf vf.PF) {
	want, wanted := e.wantsVFs(pf)
	f := finding{check: "link", severity: api.SeverityNote, object: pfName(pf)}
	switch {
	case !pf.Up:
		f.why = "VFs have no link while their PF is down"
		f.mend = []string{"ip link set " + pf.Name + " up"}
		if wanted {
			f.severity = api.SeverityWarning
			f.mend = []string{"systemctl restart culvertd    # it brings the PFs of host.yaml up"}
		}
		e.addFinding(f, "it is down")
	case !pf.Carrier:
		f.why = "VFs that are made without link stay unusable on some NICs"
		f.mend = []string{"plug the cable in, or look at the switch port: ethtool " + pf.Name}
		if wanted {
			f.severity = api.SeverityWarning
			if want.NeedCarrier && pf.NumVFs == 0 {
				f.severity = api.SeverityError
				f.why += ", so none are made (needCarrier)"
			}
		}
		e.addFinding(f, "it has no carrier")
	case pf.SpeedMbps > 0:
		e.addOK("link", pfName(pf), "up, %d Mb/s", pf.SpeedMbps)
	default:
		e.addOK("link", pfName(pf), "up, with carrier")
	}
}

// checkMaster reports the bond or other interface of the host of which a PF is a member.
func (e *examination) checkMaster(pf vf.PF) {
	if pf.Master == nil {
		return
	}
	e.addFinding(finding{check: "link", severity: api.SeverityNote, object: pfName(pf), why: pf.Master.FailOver()}, "it is a member of %s of the host", *pf.Master)
}

func (e *examination) checkNUMA(pf vf.PF) {
	f := finding{check: "numa", severity: api.SeverityNote, object: pfName(pf)}
	nodes := len(e.Host.Nodes)
	switch cpus := e.Host.NodeCPUs[pf.NUMA]; {
	case nodes <= 1:
		e.addOK("numa", pfName(pf), "the machine has one NUMA node")
	case pf.NUMA < 0:
		f.why = "pods and VMs cannot be placed near it"
		f.mend = []string{"look for NUMA or \"node interleaving\" in the machine's firmware setup"}
		e.addFinding(f, "the firmware does not tell on which of %d NUMA nodes it is", nodes)
	case !slices.Contains(e.Host.Nodes, pf.NUMA):
		f.severity = api.SeverityWarning
		f.why = "every packet crosses to memory of another node"
		f.mend = []string{"put the card into a slot of a processor with memory; the nodes online are " + vf.Numbers(e.Host.Nodes)}
		e.addFinding(f, "it is on NUMA node %d, which is not online", pf.NUMA)
	case len(cpus) == 0:
		f.severity = api.SeverityWarning
		f.why = "every interrupt is taken by a processor of another node"
		f.mend = []string{"bring processors of node " + vf.Numbers([]int{pf.NUMA}) + " online, or move the card"}
		e.addFinding(f, "its NUMA node %d has no processor online", pf.NUMA)
	default:
		e.addOK("numa", pfName(pf), "on NUMA node %d, with processors %s", pf.NUMA, vf.Numbers(cpus))
	}
}

// checkRoom checks the memory and the bus numbers that the machine's firmware gave the VFs.
func (e *examination) checkRoom(pf vf.PF) {
	d := e.Devices[pf.PCI]
	if d.NoMemory && pf.TotalVFs > 0 {
		e.addFinding(finding{check: "sriov", severity: api.SeverityError, object: pfName(pf), why: "writing sriov_numvfs fails with \"not enough MMIO resources for SR-IOV\"",
			mend: bootArgument(e.Host, "pci=realloc")}, "the firmware gave its VFs no memory space")
	}
	if d.BusEnd > 0 && d.LastBus > d.BusEnd {
		e.addFinding(finding{check: "sriov", severity: api.SeverityWarning, object: pfName(pf), why: "the VFs beyond cannot be made (\"bus number out of range\")",
			mend: bootArgument(e.Host, "pci=assign-busses")}, "its last VF is on bus %02x, and the bridge above reaches bus %02x", d.LastBus, d.BusEnd)
	}
}
