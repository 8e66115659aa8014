package doctor

import (
	"fmt"
	"slices"
	"strings"

	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/kernel/survey"
	"github.com/culvert-net/culvert/internal/node/desired"
	"github.com/culvert-net/culvert/internal/screen"
	"github.com/culvert-net/culvert/internal/vf"
)

// hasArgument reports whether the kernel was started with an argument, alone or
// in a list: iommu=pt, intel_iommu=on,sm_on.
func hasArgument(h survey.Host, key, value string) bool {
	return slices.ContainsFunc(h.Cmdline, func(a string) bool {
		k, list, ok := strings.Cut(a, "=")
		return ok && k == key && slices.Contains(strings.Split(list, ","), value)
	})
}

// bootArgument returns the commands that add an argument to this host's kernel command line.
func bootArgument(h survey.Host, args string) []string {
	switch {
	case hasProgram(h, "grubby"):
		return []string{fmt.Sprintf("grubby --update-kernel=ALL --args=%q && reboot", args)}
	case hasProgram(h, "update-grub"):
		return []string{fmt.Sprintf("add %s to GRUB_CMDLINE_LINUX in /etc/default/grub", args), "update-grub && reboot"}
	}
	return []string{fmt.Sprintf("add %s to the kernel's command line in the boot loader, and reboot", args)}
}

// checkArguments reports kernel arguments that take an ability from VFs.
func checkArguments(e *examination) {
	bad := 0
	for _, a := range []struct{ key, value, why string }{
		{"intel_iommu", "off", "without an IOMMU no VF can go to a VM"},
		{"amd_iommu", "off", "without an IOMMU no VF can go to a VM"},
		{"iommu", "off", "without an IOMMU no VF can go to a VM"},
		{"pci", "nomsi", "without MSI a VF gets no interrupt"},
	} {
		if !hasArgument(e.Host, a.key, a.value) {
			continue
		}
		bad++
		severity := api.SeverityWarning
		if _, vfio := e.vfioPool(); vfio || a.key == "pci" {
			severity = api.SeverityError
		}
		e.addFinding(finding{check: "arguments", severity: severity, object: host, why: a.why,
			mend: []string{fmt.Sprintf("take %s=%s off the kernel's command line, and reboot", a.key, a.value)}},
			"the kernel was started with %s=%s", a.key, a.value)
	}
	if bad == 0 {
		e.addOK("arguments", host, "no argument of the kernel's is in the way")
	}
}

// checkIOMMU checks the IOMMU, which VMs and DPDK need and containers do not.
func checkIOMMU(e *examination) {
	if e.Host.IOMMUGroups == 0 {
		e.noIOMMU()
		return
	}
	e.addOK("iommu", host, "%s%s", screen.Plural(e.Host.IOMMUGroups, "IOMMU group"), ofModules(e.Host.IOMMUs))
	for _, pf := range e.PFs {
		if d := e.Devices[pf.PCI]; strings.HasPrefix(d.GroupType, "DMA") {
			e.addFinding(finding{check: "iommu", severity: api.SeverityNote, object: pfName(pf),
				why:  "each packet that the host or a container sends costs a mapping; a VF in a VM is translated either way",
				mend: bootArgument(e.Host, "iommu=pt")}, "its memory accesses are translated (group type %s)", d.GroupType)
		}
	}
}

func ofModules(names []string) string {
	if len(names) == 0 {
		return ""
	}
	return " of " + strings.Join(names, ", ")
}

func (e *examination) noIOMMU() {
	f := finding{check: "iommu", severity: api.SeverityNote, object: host, why: "containers do not need one; VMs and DPDK do"}
	if p, ok := e.vfioPool(); ok {
		f.severity = api.SeverityError
		f.why = fmt.Sprintf("the VFs of pool %s (%s) cannot be bound to vfio-pci safely", p.FullName(), p.From)
	}
	what := "no IOMMU is in use"
	switch {
	case e.Host.CPUVendor == "GenuineIntel" && !slices.Contains(e.Host.ACPITables, "DMAR"):
		what += ": the firmware shows none (no DMAR table)"
		f.mend = append([]string{"switch VT-d on in the machine's firmware setup"}, bootArgument(e.Host, "intel_iommu=on iommu=pt")...)
	case e.Host.CPUVendor == "GenuineIntel":
		f.mend = bootArgument(e.Host, "intel_iommu=on iommu=pt")
	case e.Host.CPUVendor == "AuthenticAMD":
		what += ": on AMD it is on when the firmware shows it"
		f.mend = []string{"switch IOMMU (AMD-Vi) on in the machine's firmware setup"}
	default:
		f.mend = []string{"switch the IOMMU on in the machine's firmware setup"}
	}
	e.addFinding(f, "%s", what)
}

// checkModules looks for the drivers of VFs, and for VFIO if a pool needs it.
func checkModules(e *examination) {
	seen := map[string]bool{}
	for _, pf := range e.PFs {
		drivers := vf.DriverOf(pf.Driver).VFDrivers
		if len(drivers) == 0 || seen[drivers[0]] {
			continue
		}
		seen[drivers[0]] = true
		e.vfDriver(pf, drivers)
	}
	e.checkVFIOIDs()
	p, ok := e.vfioPool()
	if !ok {
		return
	}
	for _, module := range []string{"vfio-pci", "vfio_iommu_type1"} {
		e.checkVFIO(module, p.FullName())
	}
}

// checkVFIOIDs names the models of VFs that vfio-pci takes by its parameter ids=. Culvert binds the
// driver that it knows in its place.
func (e *examination) checkVFIOIDs() {
	seen := map[string]bool{}
	for _, pf := range e.PFs {
		for _, v := range pf.VFs {
			model := v.Vendor + ":" + v.Device
			where, ok := e.Host.Modules.VFIOIDs[model]
			if !ok || seen[model] {
				continue
			}
			seen[model] = true
			f := finding{check: "modules", severity: api.SeverityNote, object: host, mend: []string{"leave " + model + " out of ids=, unless all VFs go to VMs and DPDK"}}
			if drivers := vf.DriverOf(pf.Driver).VFDrivers; len(drivers) > 0 {
				f.why = "Culvert binds " + drivers[0] + " where a pool wants an interface; no one else gets one"
			} else {
				f.severity, f.why = api.SeverityWarning, "Culvert does not know the driver of these VFs, so they get no interface"
			}
			e.addFinding(f, "vfio-pci takes VFs of model %s by %s", model, where)
		}
	}
}

func (e *examination) vfDriver(pf vf.PF, drivers []string) {
	m := e.Host.Modules
	for _, d := range drivers {
		if where, blocked := m.Blocked[strings.ReplaceAll(d, "-", "_")]; blocked && !m.Has(d) {
			f := finding{check: "modules", severity: api.SeverityNote, object: host,
				why: "VFs have no netdevice without it: they can go to VMs and DPDK, not to containers", mend: []string{"remove that line, unless all VFs go to VMs"}}
			if slices.ContainsFunc(e.Spec.Pools, func(p desired.Pool) bool { return p.DeviceType == desired.NetDevice }) {
				f.severity = api.SeverityWarning
			}
			e.addFinding(f, "%s is kept from loading by %s", d, where)
			return
		}
		if m.Can(d) {
			state := "can be loaded"
			if m.Has(d) {
				state = "is loaded"
			}
			e.addOK("modules", host, "%s, which drives VFs of %s, %s", d, pf.Driver, state)
			return
		}
	}
	e.addFinding(finding{check: "modules", severity: api.SeverityWarning, object: host, why: "its VFs can go to VMs and DPDK, not to containers",
		mend: []string{e.extraModules()}}, "no module %s for the kernel %s drives VFs of %s", strings.Join(drivers, " or "), e.Host.Release, pf.Driver)
}

// extraModules returns the command that installs modules which the distribution's small kernel
// lacks.
func (e *examination) extraModules() string {
	switch {
	case hasProgram(e.Host, "apt-get"):
		return "apt-get install linux-image-amd64    # or linux-modules-extra-" + e.Host.Release + " (Ubuntu)"
	case hasProgram(e.Host, "dnf"):
		return "dnf install kernel-modules-extra"
	}
	return "install the distribution's full kernel"
}

func (e *examination) checkVFIO(module, pool string) {
	m := e.Host.Modules
	switch where, blocked := m.Blocked[strings.ReplaceAll(module, "-", "_")]; {
	case m.Has(module):
		e.addOK("modules", host, "%s is loaded", module)
	case blocked:
		e.addFinding(finding{check: "modules", severity: api.SeverityError, object: host, why: "pool " + pool + " is of type vfio-pci", mend: []string{"remove that line"}},
			"%s is kept from loading by %s", module, where)
	case !m.Can(module):
		e.addFinding(finding{check: "modules", severity: api.SeverityError, object: host, why: "pool " + pool + " is of type vfio-pci", mend: []string{e.extraModules()}},
			"there is no module %s for the kernel %s", module, e.Host.Release)
	default:
		f := finding{check: "modules", severity: api.SeverityNote, object: host, why: "pool " + pool + " is of type vfio-pci; culvertd's unit loads it when culvertd starts",
			mend: []string{"modprobe " + module}, change: &Change{Module: module}}
		if e.Status != nil { // culvertd has started, and may load no module itself
			f.severity, f.why = api.SeverityWarning, "pool "+pool+" is of type vfio-pci, and its VFs cannot be used"
		}
		e.addFinding(f, "%s is not loaded", module)
	}
}
