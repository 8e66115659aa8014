package plan

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/culvert-net/culvert/internal/esxi/file"
	"github.com/culvert-net/culvert/internal/esxi/made"
	"github.com/culvert-net/culvert/internal/esxi/state"
)

// planVMs compares the VFs of the virtual machines. Those of the file come first, so that a VF that
// one of them keeps is not given to another.
func (p *planner) planVMs() {
	wanted := map[string][]file.VF{}
	for _, want := range p.spec.VMs {
		if vm := p.findVM(want.Name); vm != nil {
			wanted[vm.ID] = append([]file.VF{}, want.VFs...)
		}
	}
	missing := map[string][]file.VF{}
	for i := range p.host.VMs {
		vm := &p.host.VMs[i]
		want, isWanted := wanted[vm.ID]
		entry, isMade := p.madeFor(vm)
		if isWanted || isMade {
			missing[vm.ID] = p.matchVFs(vm, want, entry)
		}
		for _, use := range vm.VFs {
			if !slices.Contains(p.removing[vm.ID], use.Key) {
				p.demand[use.Port] = append(p.demand[use.Port], vm.Name)
			}
		}
	}
	for i := range p.host.VMs {
		vm := &p.host.VMs[i]
		want, isWanted := wanted[vm.ID]
		entry, isMade := p.madeFor(vm)
		if isWanted || isMade {
			p.changeVM(vm, entry, len(want), missing[vm.ID])
		}
	}
}

// madeFor returns the entry of a virtual machine, unless another one has its ID too.
func (p *planner) madeFor(vm *state.VM) (made.VM, bool) {
	entry, isMade := p.made.VMs[vm.ID]
	if isMade && p.countID(vm.ID) > 1 {
		p.refuse("virtual machine %s, which Culvert has changed, has the instance UUID of another one: give that one another", entry.Name)
		return made.VM{}, false
	}
	return entry, isMade
}

// noteAbsent names the virtual machines that Culvert has changed, and that have left the host.
func (p *planner) noteAbsent() {
	for _, id := range slices.Sorted(maps.Keys(p.made.VMs)) {
		if p.host.FindVM(id) == nil {
			p.addNote("virtual machine %s, which Culvert has given %s, is not on this host any more: apply does nothing to it, and remove forgets it", p.made.VMs[id].Name, countVFs(len(p.made.VMs[id].Uses)))
		}
	}
}

// findVM returns the one virtual machine of a name.
func (p *planner) findVM(name string) *state.VM {
	var found *state.VM
	var known []string
	for i := range p.host.VMs {
		known = append(known, p.host.VMs[i].Name)
		if p.host.VMs[i].Name != name {
			continue
		}
		if found != nil {
			p.refuse("host %s has two virtual machines %s: rename one", p.host.Name, name)
			return nil
		}
		found = &p.host.VMs[i]
	}
	switch {
	case found == nil:
		p.refuse("host %s has no virtual machine %s%s", p.host.Name, name, suggestName(name, known))
	case found.Unreadable != "":
		p.refuse("virtual machine %s is %s, so its devices are not known: look at its files and their datastore", name, found.Unreadable)
	case found.Template:
		p.refuse("virtual machine %s is a template, which has no VFs: convert it to a virtual machine, or name one that was made from it", name)
	case p.countID(found.ID) > 1 || found.ID == "":
		p.refuse("virtual machine %s has no instance UUID of its own, by which Culvert would know it again: give it one (uuid.action = \"create\" in its settings), or make it anew from its disks", name)
	default:
		return found
	}
	return nil
}

// countID returns how many virtual machines have an ID. Copied files may have that of another.
func (p *planner) countID(id string) (n int) {
	for _, vm := range p.host.VMs {
		if vm.ID == id {
			n++
		}
	}
	return n
}

// matchVFs finds the VFs of the file that a virtual machine has, notes those that Culvert gave it and
// that are wanted no more, and returns the missing ones.
func (p *planner) matchVFs(vm *state.VM, want []file.VF, entry made.VM) (missing []file.VF) {
	isOurs := func(u state.Use) bool {
		return slices.ContainsFunc(entry.Uses, func(e made.Use) bool { return e.Key == u.Key })
	}
	uses := vm.Uses()
	slices.SortStableFunc(uses, func(a, b state.Use) int { // those that Culvert gave are matched first
		switch {
		case isOurs(a) == isOurs(b):
			return 0
		case isOurs(a):
			return -1
		}
		return 1
	})
	for _, w := range want {
		i := slices.IndexFunc(uses, func(u state.Use) bool { return satisfies(u, w) })
		if i < 0 {
			missing = append(missing, w)
			continue
		}
		uses = slices.Delete(uses, i, i+1)
	}
	for _, u := range uses {
		if isOurs(u) {
			p.removing[vm.ID] = append(p.removing[vm.ID], u.Key)
		}
	}
	return missing
}

// satisfies reports whether a VF that a virtual machine has is the one that the file wants.
func satisfies(u state.Use, w file.VF) bool {
	if u.As != w.As || u.Port != w.Port {
		return false
	}
	if w.As == file.Device {
		return w.Address == "" || w.Address == u.Address
	}
	return u.PortGroup == w.PortGroup && (w.MAC == "" || w.MAC == u.MAC)
}

// changeVM plans the change of one virtual machine: one step takes VFs, and a later one gives them.
func (p *planner) changeVM(vm *state.VM, entry made.VM, wants int, missing []file.VF) {
	take, give := ChangeVM{VM: *vm}, ChangeVM{VM: *vm}
	var taken, given []Line
	for _, use := range vm.Uses() {
		if slices.Contains(p.removing[vm.ID], use.Key) {
			take.Remove = append(take.Remove, use)
			taken = append(taken, Line{"-", fmt.Sprintf("virtual machine %s: %s", vm.Name, describeUse(use))})
		}
	}
	all := state.Memory{Locked: true, MB: vm.MemoryMB}
	switch {
	case wants > 0 && !vm.Locked && vm.ReservedMB < vm.MemoryMB:
		give.Memory = &all
		given = append(given, Line{"~", fmt.Sprintf("virtual machine %s: reserved memory %d MB -> all %d MB", vm.Name, vm.ReservedMB, vm.MemoryMB)})
	case wants == 0 && entry.Before != nil && len(vm.Uses()) > len(take.Remove):
		p.addNote("virtual machine %s keeps its reserved memory for its other VFs and PCI devices", vm.Name)
	case wants == 0 && entry.Before != nil && vm.Locked:
		take.Memory = entry.Before
		taken = append(taken, Line{"~", fmt.Sprintf("virtual machine %s: reserved memory all -> %s", vm.Name, describeMemory(*entry.Before))})
	}
	for _, w := range missing {
		if use, ok := p.chooseVF(vm, w); ok {
			give.Add = append(give.Add, use)
			given = append(given, Line{"+", fmt.Sprintf("virtual machine %s: %s", vm.Name, describeNew(use))})
			p.demand[w.Port] = append(p.demand[w.Port], vm.Name)
			p.asked[w.Port] = true
		}
	}
	p.checkVM(vm, take, give, len(taken)+len(given) > 0)
	if len(taken) > 0 {
		p.addStep(takeVFs, take, nil, taken...)
	}
	if len(given) > 0 {
		p.addStep(giveVFs, give, nil, given...)
	}
}

// checkVM refuses a change of a virtual machine that is on, and devices for which it has no slot.
func (p *planner) checkVM(vm *state.VM, take, give ChangeVM, changes bool) {
	if changes && vm.On {
		p.refuse("virtual machine %s is %s, and changes only while it is off: shut it down", vm.Name, vm.Power)
	}
	cards, devices := vm.Cards, vm.Devices
	for _, u := range take.Remove {
		if u.As == file.NIC {
			cards--
		} else {
			devices--
		}
	}
	for _, u := range give.Add {
		if u.As == file.NIC {
			cards++
		} else {
			devices++
		}
	}
	if vm.MaxCards > 0 && cards > vm.MaxCards && len(give.Add) > 0 {
		p.refuse("virtual machine %s has no free slot: it would have %d network adapters, and can have %d", vm.Name, cards, vm.MaxCards)
	}
	if vm.MaxDevices > 0 && devices > vm.MaxDevices && len(give.Add) > 0 {
		p.refuse("virtual machine %s has no free slot: it would have %d PCI devices, and can have %d", vm.Name, devices, vm.MaxDevices)
	}
}

// chooseVF returns the device that a virtual machine gets. A PCI device has no address yet while its
// port has no VFs.
func (p *planner) chooseVF(vm *state.VM, want file.VF) (NewUse, bool) {
	use := NewUse{VF: want}
	port := p.host.FindPort(want.Port)
	if port == nil {
		p.refuse("virtual machine %s: host %s has no port %s%s", vm.Name, p.host.Name, want.Port, p.suggestPort(want.Port))
		return use, false
	}
	use.PF = *port
	if want.As == file.NIC {
		if p.host.FindGroup(want.PortGroup) == nil && !p.willHaveGroup(want.PortGroup) {
			p.refuse("virtual machine %s: there is no port group %s: add it to a switch of the file", vm.Name, want.PortGroup)
			return use, false
		}
		return use, true
	}
	if port.PresentVFs() == 0 {
		return use, true // the demand is checked against the VFs that will be there
	}
	for _, f := range port.VFs {
		holder := p.keeperOf(f.PCI)
		isFree := holder == nil
		switch {
		case want.Address == f.PCI && !isFree:
			p.refuse("virtual machine %s: VF %s belongs to virtual machine %s", vm.Name, f.PCI, holder.Name)
			return use, false
		case isFree && !p.chosen[f.PCI] && (want.Address == f.PCI || want.Address == "" && !p.isNamed(f.PCI)):
			p.chosen[f.PCI] = true
			use.Chosen = f
			return use, true
		}
	}
	switch {
	case want.Address != "":
		p.refuse("virtual machine %s: port %s has no VF %s%s", vm.Name, want.Port, want.Address, suggestName(want.Address, addressesOf(port.VFs)))
	case len(port.VFs) < port.PresentVFs():
		p.refuse("virtual machine %s: the host lists %d of the %s of port %s, so Culvert cannot choose one: write as: nic", vm.Name, len(port.VFs), countVFs(port.PresentVFs()), want.Port)
	default:
		return use, true // more VFs are asked for than there are; checkDemand says who has them
	}
	return use, false
}

// keeperOf returns a virtual machine that has a VF and keeps it, or nil.
func (p *planner) keeperOf(address string) *state.VM {
	for i, vm := range p.host.VMs {
		for _, u := range vm.VFs {
			if u.Address == address && !slices.Contains(p.removing[vm.ID], u.Key) {
				return &p.host.VMs[i]
			}
		}
	}
	return nil
}

// isNamed reports whether the file names a VF by its address.
func (p *planner) isNamed(address string) bool {
	return slices.ContainsFunc(p.spec.VMs, func(vm file.VM) bool {
		return slices.ContainsFunc(vm.VFs, func(f file.VF) bool { return f.Address == address })
	})
}

func addressesOf(vfs []state.VF) (all []string) {
	for _, f := range vfs {
		all = append(all, f.PCI)
	}
	return all
}

func (p *planner) willHaveGroup(name string) bool {
	return slices.ContainsFunc(p.spec.Switches, func(s file.Switch) bool {
		return slices.ContainsFunc(s.PortGroups, func(g file.PortGroup) bool { return g.Name == name })
	})
}

// checkDemand refuses more users of a port than it will have VFs.
func (p *planner) checkDemand() {
	for _, port := range p.host.Ports {
		will, isPlanned := p.ports[port.NIC]
		if !isPlanned {
			will = port.WantedVFs()
		}
		users := p.demand[port.NIC]
		if len(users) <= will || !isPlanned && !p.asked[port.NIC] {
			continue
		}
		if will == 0 && !isPlanned {
			p.refuse("port %s has no VFs: add it to ports in the file", port.NIC)
			continue
		}
		p.refuse("port %s has or gets %s, and %d are asked for, by %s", port.NIC, countVFs(will), len(users), strings.Join(users, ", "))
	}
}

func describeUse(u state.Use) string {
	if u.Port == "" {
		return fmt.Sprintf("PCI device %s, which was a VF", u.Address)
	}
	if u.As == file.Device {
		return fmt.Sprintf("VF %s of %s as a PCI device", u.Address, u.Port)
	}
	return fmt.Sprintf("network adapter on %s with a VF of %s", u.PortGroup, u.Port)
}

func describeNew(u NewUse) string {
	if u.As == file.Device {
		if u.Chosen.PCI == "" {
			return fmt.Sprintf("a VF of %s as a PCI device", u.Port)
		}
		return fmt.Sprintf("VF %s of %s as a PCI device", u.Chosen.PCI, u.Port)
	}
	text := fmt.Sprintf("network adapter on %s with a VF of %s", u.PortGroup, u.Port)
	if u.MAC != "" {
		text += ", MAC " + u.MAC
	}
	return text
}

func describeMemory(m state.Memory) string {
	if m.Locked {
		return "all"
	}
	return fmt.Sprintf("%d MB", m.MB)
}
