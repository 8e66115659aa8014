package doctor

import (
	"fmt"
	"slices"
	"strings"

	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/guest"
	"github.com/culvert-net/culvert/internal/screen"
	"github.com/culvert-net/culvert/internal/vf"
)

// ExamineGuest judges a guest's definition, as virsh dumpxml prints it, on the host of the facts:
// can the guest be as fast as its VFs with it (P18)? Each finding about a loss has the XML or the
// command that mends it. If in is not nil, ExamineGuest also judges what the guest sees of itself.
func ExamineGuest(f Facts, definition []byte, in *Inside) ([]Finding, error) {
	t, err := guest.ParseTuning(definition)
	if err != nil {
		return nil, err
	}
	g := &guestExam{exam: &examination{Facts: f}, Tuning: t, object: "guest " + t.Name}
	g.findVFs()
	for _, check := range []func(*guestExam){
		(*guestExam).checkPFs, (*guestExam).checkGroups, (*guestExam).checkSlots, (*guestExam).checkVirtIO, (*guestExam).hugePages, (*guestExam).checkPinning, (*guestExam).checkPlacement, (*guestExam).checkMemlock, (*guestExam).checkSpread, (*guestExam).checkWindows,
	} {
		check(g)
	}
	g.lookInside(in)
	return g.exam.found, nil
}

type guestExam struct {
	exam *examination
	guest.Tuning
	object string
	vfs    []vf.PCIAddr // its VFs that this host has
	pfs    []vf.PF      // the PFs of these VFs
}

// editCommand returns the command that edits the definition, followed by the elements to add.
func (g *guestExam) editCommand(elements ...string) []string {
	return append([]string{"virsh edit " + g.Name + "    # below <domain>, for the next start:"}, elements...)
}

// findVFs looks for the guest's VFs among those of this host.
func (g *guestExam) findVFs() {
	var has, others []string
	for _, u := range g.Uses {
		pci, known := u.VF(), false
		for _, pf := range g.exam.PFs {
			if !slices.ContainsFunc(pf.VFs, func(v vf.State) bool { return v.PCI == pci }) || pci.IsZero() {
				continue
			}
			known = true
			g.vfs = append(g.vfs, pci)
			if !slices.ContainsFunc(g.pfs, func(p vf.PF) bool { return p.PCI == pf.PCI }) {
				g.pfs = append(g.pfs, pf)
			}
			has = append(has, fmt.Sprintf("%s of PF %s", pci, pf.Label()))
		}
		if u.Err != nil && (known || pci.IsZero() || u.Named()) {
			g.exam.addFinding(finding{check: "guest", severity: api.SeverityError, object: g.object, why: "culvertd refuses to start it: it must know which VFs the guest uses, and how",
				mend: []string{"virsh edit " + g.Name + "    # correct the device, or take it out"}}, "%v", u.Err)
		}
		switch {
		case known, u.Err != nil && pci.IsZero():
		case slices.ContainsFunc(g.exam.PFs, func(pf vf.PF) bool { return pf.PCI == pci && !pci.IsZero() }): // checkPFs
		case pci.IsZero():
			others = append(others, "one of network "+u.Network+", which libvirt chooses at its start")
		default:
			others = append(others, pci.String()+", which is no VF of this host's")
		}
	}
	size := fmt.Sprintf("%s and %d MiB", screen.Plural(g.VCPUs, "vCPU"), g.Memory>>20)
	if len(has) > 0 {
		g.exam.addOK("guest", g.object, "%s; VF %s", size, strings.Join(has, ", "))
	} else {
		g.exam.addNote("guest", g.object, "%s, and no VF of this host's: what is said of NUMA nodes is of the host alone", size)
	}
	if len(others) > 0 {
		g.exam.addNote("guest", g.object, "PCI devices besides: %s", strings.Join(others, "; "))
	}
}

// checkGroups reports VFs that share their IOMMU group. The kernel gives user space whole
// groups, so a VF that goes to a guest needs one of its own.
func (g *guestExam) checkGroups() {
	members := map[int][]string{}
	for _, pf := range g.exam.PFs {
		members[pf.IOMMUGroup] = append(members[pf.IOMMUGroup], pf.PCI.String())
		for _, v := range pf.VFs {
			members[v.IOMMUGroup] = append(members[v.IOMMUGroup], v.PCI.String())
		}
	}
	for _, pf := range g.pfs {
		for _, v := range pf.VFs {
			if !slices.Contains(g.vfs, v.PCI) {
				continue
			}
			f := finding{check: "guest", severity: api.SeverityError, object: g.object, why: "VFIO gives a guest whole IOMMU groups"}
			switch all := members[v.IOMMUGroup]; {
			case v.IOMMUGroup < 0:
				f.mend = []string{"culvert doctor    # says how this host's IOMMU is switched on"}
				g.exam.addFinding(f, "VF %s is in no IOMMU group", v.PCI)
			case len(all) > 1:
				f.mend = []string{"put the card into a slot below a root port of its own: the ports above it do not isolate it (no ACS)"}
				g.exam.addFinding(f, "VF %s shares IOMMU group %d: %s", v.PCI, v.IOMMUGroup, strings.Join(all, ", "))
			}
		}
	}
}

// checkVirtIO reports interfaces with fewer queues than vCPUs. An interface has one queue unless
// the definition says more, and each queue belongs to one vCPU.
func (g *guestExam) checkVirtIO() {
	for _, v := range g.VirtIO {
		object := g.object + ", interface " + v.Label
		switch {
		case v.Queues == 0:
			g.exam.addFinding(finding{check: "virtio", severity: api.SeverityWarning, object: object, why: "libvirt takes a whole number",
				mend: []string{"virsh edit " + g.Name + "    # in this <interface>, for the next start:", fmt.Sprintf("<driver name='vhost' queues='%d'/>", min(g.VCPUs, goodQueues))}},
				"its number of queues cannot be read")
		case v.Queues < g.VCPUs && v.Queues == 1:
			g.exam.addFinding(finding{check: "virtio", severity: api.SeverityWarning, object: object, why: "one vCPU and one thread of the host take every packet of it",
				mend: []string{"virsh edit " + g.Name + "    # in this <interface>, for the next start:", fmt.Sprintf("<driver name='vhost' queues='%d'/>", min(g.VCPUs, goodQueues))}},
				"it has 1 queue, and the guest %d vCPUs", g.VCPUs)
		case v.Queues > g.VCPUs:
			g.exam.addFinding(finding{check: "virtio", severity: api.SeverityNote, object: object, why: "a queue without a vCPU of its own takes memory and gains nothing",
				mend: []string{"virsh edit " + g.Name + "    # in this <interface>, for the next start:", fmt.Sprintf("<driver name='vhost' queues='%d'/>", g.VCPUs)}},
				"it has %d queues, and the guest %s", v.Queues, screen.Plural(g.VCPUs, "vCPU"))
		default:
			g.exam.addOK("virtio", object, "%s for %s", screen.Plural(v.Queues, "queue"), screen.Plural(g.VCPUs, "vCPU"))
		}
	}
}

// goodQueues is enough for any link. More would cost the host: each queue is also a thread there.
const goodQueues = 16

// hugePages checks the memory of the guest, which VFIO pins as a whole when it starts.
func (g *guestExam) hugePages() {
	if len(g.HugePages) == 0 {
		if len(g.Uses) == 0 {
			return
		}
		g.exam.addFinding(finding{check: "hugepages", severity: api.SeverityNote, object: g.object,
			why:  "its memory is pinned and translated for the VF 4 KiB at a time: a slow start, and misses in the IOMMU's cache",
			mend: append([]string{fmt.Sprintf("sysctl -w vm.nr_hugepages=%d    # and into /etc/sysctl.d", g.exam.Host.HugePages[usualHuge]+pagesFor(g.Memory, usualHuge))}, g.editCommand("<memoryBacking><hugepages/></memoryBacking>")...)},
			"its memory is not backed by huge pages")
		return
	}
	for _, size := range g.HugePages {
		if size == 0 {
			size = usualHuge
		}
		there, known := g.exam.Host.HugePages[size]
		need := pagesFor(g.Memory, size)
		switch {
		case !known:
			g.exam.addFinding(finding{check: "hugepages", severity: api.SeverityError, object: g.object, why: "libvirt refuses to start it",
				mend: g.editCommand("<memoryBacking><hugepages/></memoryBacking>")}, "it wants huge pages of %d KiB, which this host has not", size>>10)
		case there < need && len(g.HugePages) == 1:
			g.exam.addFinding(finding{check: "hugepages", severity: api.SeverityError, object: g.object, why: "it does not start without all of them, also when another guest has the others",
				mend: []string{fmt.Sprintf("echo %d >/sys/kernel/mm/hugepages/hugepages-%dkB/nr_hugepages    # besides those of other guests", need, size>>10)}},
				"it needs %d huge pages of %d KiB, and the host keeps %d", need, size>>10, there)
		default:
			g.exam.addOK("hugepages", g.object, "huge pages of %d KiB, of which the host keeps %d", size>>10, there)
		}
	}
}

// usualHuge is the default size of huge pages, in bytes, if the kernel's command line sets no
// other.
const usualHuge = 2 << 20

func pagesFor(memory, size uint64) int { return int((memory + size - 1) / size) }

// checkPinning reports vCPUs that the host may move: the packets of their queues are then in
// another processor's cache.
func (g *guestExam) checkPinning() {
	loose, gone, shared := []int{}, []int{}, []int{}
	user := map[int]int{} // the vCPU that is pinned to one processor, by processor
	for n := range g.VCPUs {
		cpus := g.Pins[n]
		if len(cpus) == 0 {
			loose = append(loose, n)
			continue
		}
		if len(g.exam.Host.CPUs) > 0 && !slices.ContainsFunc(cpus, func(c int) bool { return slices.Contains(g.exam.Host.CPUs, c) }) {
			gone = append(gone, n)
		}
		if len(cpus) == 1 {
			if _, taken := user[cpus[0]]; taken {
				shared = append(shared, n)
			}
			user[cpus[0]] = n
		}
	}
	mend := g.editCommand(g.pinningXML()...)
	switch {
	case len(gone) > 0:
		g.exam.addFinding(finding{check: "pinning", severity: api.SeverityError, object: g.object, why: "libvirt refuses to start it", mend: mend},
			"vCPU %s is pinned to processors that are not online", vf.Numbers(gone))
	case len(shared) > 0:
		g.exam.addFinding(finding{check: "pinning", severity: api.SeverityWarning, object: g.object, why: "two vCPUs that share one processor wait for each other", mend: mend},
			"vCPU %s is pinned to the processor of another one", vf.Numbers(shared))
	case len(loose) > 0:
		g.exam.addFinding(finding{check: "pinning", severity: api.SeverityNote, object: g.object, why: "a vCPU that the host moves finds its packets in another processor's cache, and waits behind others", mend: mend},
			"vCPU %s is not pinned", vf.Numbers(loose))
	default:
		g.exam.addOK("pinning", g.object, "every vCPU is pinned")
	}
}

// nodeOfVFs returns the NUMA node of the guest's VFs; false if they are not all on one known node.
func (g *guestExam) nodeOfVFs() (int, bool) {
	for _, pf := range g.pfs {
		if pf.NUMA != g.pfs[0].NUMA || pf.NUMA < 0 {
			return 0, false
		}
	}
	if len(g.pfs) == 0 {
		return 0, false
	}
	return g.pfs[0].NUMA, true
}

// pinningXML returns the XML that pins the vCPUs near the VFs: to one processor each or, if there
// are too few, all to the processors of the VFs' node. If there are enough, the host keeps the
// first one for itself.
func (g *guestExam) pinningXML() []string {
	near := g.exam.Host.CPUs
	if n, ok := g.nodeOfVFs(); ok && len(g.exam.Host.NodeCPUs[n]) > 0 {
		near = g.exam.Host.NodeCPUs[n]
	}
	if len(near) < g.VCPUs {
		return []string{fmt.Sprintf("<vcpu placement='static' cpuset='%s'>%d</vcpu>    <!-- and no <vcpupin> -->", vf.Numbers(near), g.VCPUs)}
	}
	if len(near) > g.VCPUs {
		near = near[1:]
	}
	out := []string{"<cputune>"}
	for n := range g.VCPUs {
		out = append(out, fmt.Sprintf("  <vcpupin vcpu='%d' cpuset='%d'/>", n, near[n]))
	}
	return append(out, "</cputune>")
}

// checkPlacement reports vCPUs and memory that are not on the NUMA node of the VFs' PF.
func (g *guestExam) checkPlacement() {
	if len(g.exam.Host.Nodes) <= 1 {
		g.exam.addOK("placement", g.object, "the machine has one NUMA node")
		return
	}
	n, ok := g.nodeOfVFs()
	if !ok {
		if len(g.pfs) > 1 {
			g.exam.addFinding(finding{check: "placement", severity: api.SeverityNote, object: g.object, why: "the guest cannot be near all of them",
				mend: []string{"give it VFs of NICs of one node, unless the other one is for when a NIC fails"}}, "its VFs are not on one known NUMA node")
		}
		return
	}
	where := fmt.Sprintf("node %d, where its VF is (%s)", n, pfName(g.pfs[0]))
	far := []int{}
	for v := range g.VCPUs {
		if slices.ContainsFunc(g.Pins[v], func(c int) bool { return !slices.Contains(g.exam.Host.NodeCPUs[n], c) }) {
			far = append(far, v)
		}
	}
	if len(far) > 0 {
		g.exam.addFinding(finding{check: "placement", severity: api.SeverityWarning, object: g.object, why: "their packets cross between the processors", mend: g.editCommand(g.pinningXML()...)},
			"vCPU %s is pinned to processors that are not of NUMA %s", vf.Numbers(far), where)
	}
	memory := g.editCommand(fmt.Sprintf("<numatune><memory mode='strict' nodeset='%d'/></numatune>", n))
	switch {
	case len(g.Nodes) == 0:
		g.exam.addFinding(finding{check: "placement", severity: api.SeverityNote, object: g.object, why: "packets of memory on another node cross between the processors", mend: memory},
			"its memory may come from any NUMA node, not only from %s", where)
	case len(g.Nodes) > 1 || g.Nodes[0] != n:
		g.exam.addFinding(finding{check: "placement", severity: api.SeverityWarning, object: g.object, why: "packets of memory on another node cross between the processors", mend: memory},
			"its memory comes from NUMA node %s, not only from %s", vf.Numbers(g.Nodes), where)
	case len(far) == 0:
		g.exam.addOK("placement", g.object, "its memory is on NUMA %s", where)
	}
}

// checkMemlock compares the limit of locked memory with the memory that VFIO locks: all memory of
// the guest or, with an IOMMU in the guest, that much for each device.
func (g *guestExam) checkMemlock() {
	if len(g.Uses) == 0 {
		return
	}
	locked := g.Locks(len(g.Uses))
	f := finding{check: "memlock", severity: api.SeverityError, object: g.object, why: "VFIO locks all of its memory, and QEMU ends with \"cannot allocate memory\"",
		mend: []string{"virsh edit " + g.Name + "    # take <hard_limit> out, so that libvirt chooses; or:",
			fmt.Sprintf("<memtune><hard_limit unit='MiB'>%d</hard_limit></memtune>", (locked+guest.Beside)>>20)}}
	if g.VIOMMU {
		f.why = fmt.Sprintf("with an IOMMU of its own, VFIO locks its memory once for each of %s, and QEMU ends with \"cannot allocate memory\"", screen.Plural(len(g.Uses), "device"))
	}
	switch {
	case g.HardLimit == 0:
		g.exam.addOK("memlock", g.object, "libvirt lets QEMU lock what VFIO needs")
	case g.HardLimit < locked:
		g.exam.addFinding(f, "it may lock %d MiB, and VFIO locks %d MiB", g.HardLimit>>20, locked>>20)
	case g.HardLimit < locked+guest.Beside:
		f.severity = api.SeverityWarning
		f.why = "VFIO locks the memory of devices besides, and QEMU itself needs some"
		g.exam.addFinding(f, "it may lock %d MiB, of which its memory is %d MiB", g.HardLimit>>20, locked>>20)
	default:
		g.exam.addOK("memlock", g.object, "it may lock %d MiB, and VFIO locks %d MiB", g.HardLimit>>20, locked>>20)
	}
}

// checkSpread checks on which processors of the host the interrupts of the guest's VFs arrive while
// it runs. How the guest spreads them itself is not visible from the host.
func (g *guestExam) checkSpread() {
	if g.VCPUs == 1 || len(g.vfs) == 0 {
		return
	}
	cpus := map[int]bool{}
	known := 0
	for _, pci := range g.vfs {
		for _, n := range g.exam.Devices[pci].IRQs {
			if irq, ok := g.exam.Host.IRQs[n]; ok && len(irq.CPUs) > 0 {
				known++
				cpus[irq.CPUs[0]] = true
			}
		}
	}
	switch _, balanced := findRunning(g.exam.Host, "irqbalance"); {
	case known > 1 && len(cpus) == 1 && len(g.exam.Host.CPUs) > 1:
		f := finding{check: "spread", severity: api.SeverityWarning, object: g.object, why: "that processor is interrupted for every packet of the guest",
			mend: []string{installCommand(g.exam.Host, "irqbalance"), "systemctl enable --now irqbalance"}}
		if balanced {
			f.mend = []string{"journalctl -u irqbalance    # a ban, or a policy of one processor"}
		}
		g.exam.addFinding(f, "all %d interrupts of its VFs go to one processor of the host", known)
	case known > 0:
		g.exam.addOK("spread", g.object, "%s of its VFs, on %s of the host", screen.Plural(known, "interrupt"), screen.Plural(len(cpus), "processor"))
	default:
		g.exam.addNote("spread", g.object, "no interrupt of its VFs is in use: it does not run, or its driver has not started")
	}
}
