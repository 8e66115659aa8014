package vcsim

import (
	"slices"

	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/mo"
	"github.com/vmware/govmomi/vim25/soap"
	"github.com/vmware/govmomi/vim25/types"
)

const systemID = "5f0a2d1e-host"

// The simulator's objects, with the methods of the model.
type (
	passthru struct {
		mo.HostPciPassthruSystem
		m *Model
	}
	network struct {
		*simulator.HostNetworkSystem
		m *Model
	}
	host struct {
		*simulator.HostSystem
		m *Model
	}
	machine struct {
		*simulator.VirtualMachine
		m *Model
	}
	browser struct {
		*simulator.EnvironmentBrowser
		m *Model
	}
)

// chooseHandler gives each session the objects of the model. The simulator itself keeps its own ones, whose
// types it expects.
func (m *Model) chooseHandler(ctx *simulator.Context, method *simulator.Method) (mo.Reference, types.BaseMethodFault) {
	if ctx.Session == nil {
		return nil, nil
	}
	var own mo.Reference
	switch o := ctx.Map.Get(method.This).(type) {
	case *simulator.HostNetworkSystem:
		if o == m.network {
			own = &network{o, m}
		}
	case *simulator.HostSystem:
		if o == m.host {
			own = &host{o, m}
		}
	case *simulator.VirtualMachine:
		own = &machine{o, m}
	case *simulator.EnvironmentBrowser:
		own = &browser{o, m}
	}
	if own != nil {
		ctx.Session.Put(own)
	}
	return own, nil
}

func wrapFault(f types.BaseMethodFault) *soap.Fault { return simulator.Fault("", f) }

// runTask makes a task that has the fault as its error.
func runTask(ctx *simulator.Context, e mo.Reference, name string, f func() types.BaseMethodFault) types.ManagedObjectReference {
	return simulator.CreateTask(e, name, func(*simulator.Task) (types.AnyType, types.BaseMethodFault) { return nil, f() }).Run(ctx)
}

// UpdatePassthruConfig changes the configuration of all given devices, or of none.
func (p *passthru) UpdatePassthruConfig(req *types.UpdatePassthruConfig) soap.HasFault {
	body := &methods.UpdatePassthruConfigBody{}
	for _, config := range req.Config {
		pf, fault := p.m.knownDevice(config.GetHostPciPassthruConfig().Id)
		if c, ok := config.(*types.HostSriovConfig); ok && fault == nil {
			fault = pf.canHaveVFs(c)
		}
		if fault == nil && p.m.options.AppliesLive {
			fault = p.m.holdsNoVF(pf)
		}
		if fault != nil {
			body.Fault_ = wrapFault(fault)
			return body
		}
	}
	for _, config := range req.Config {
		base := config.GetHostPciPassthruConfig()
		pf, _ := p.m.knownDevice(base.Id)
		pf.passWanted = base.PassthruEnabled
		if c, ok := config.(*types.HostSriovConfig); ok {
			pf.wanted = int(c.NumVirtualFunction)
		}
		if p.m.options.AppliesLive {
			pf.active, pf.passNow = pf.wanted, pf.passWanted
		}
	}
	p.m.publishPorts()
	body.Res = &types.UpdatePassthruConfigResponse{}
	return body
}

func (n *network) findSwitch(name string) int {
	return slices.IndexFunc(n.NetworkInfo.Vswitch, func(s types.HostVirtualSwitch) bool { return s.Name == name })
}

func (n *network) keepSpec(i int, spec types.HostVirtualSwitchSpec) {
	s := &n.NetworkInfo.Vswitch[i]
	if spec.Mtu == 0 {
		spec.Mtu = 1500
	}
	if spec.Policy == nil {
		spec.Policy = s.Spec.Policy // "If the policy property is not set and you are updating a virtual switch, then the policy will be unchanged"
	}
	s.Spec, s.Mtu, s.Key = spec, spec.Mtu, "key-vim.host.VirtualSwitch-"+s.Name
}

func (n *network) AddVirtualSwitch(req *types.AddVirtualSwitch) soap.HasFault {
	spec := types.HostVirtualSwitchSpec{NumPorts: 128}
	if req.Spec != nil {
		spec = *req.Spec
	}
	if fault := firstFault(switchIsRight(req.VswitchName, spec), n.m.uplinksAreFree(req.VswitchName, spec.Bridge)); fault != nil {
		return &methods.AddVirtualSwitchBody{Fault_: wrapFault(fault)}
	}
	body := n.HostNetworkSystem.AddVirtualSwitch(req)
	if body.Fault() == nil {
		n.keepSpec(n.findSwitch(req.VswitchName), spec)
	}
	return body
}

func (n *network) UpdateVirtualSwitch(req *types.UpdateVirtualSwitch) soap.HasFault {
	i := n.findSwitch(req.VswitchName)
	if i < 0 {
		return &methods.UpdateVirtualSwitchBody{Fault_: wrapFault(&types.NotFound{})}
	}
	if fault := firstFault(switchIsRight(req.VswitchName, req.Spec), n.m.uplinksAreFree(req.VswitchName, req.Spec.Bridge)); fault != nil {
		return &methods.UpdateVirtualSwitchBody{Fault_: wrapFault(fault)}
	}
	n.keepSpec(i, req.Spec)
	return &methods.UpdateVirtualSwitchBody{Res: &types.UpdateVirtualSwitchResponse{}}
}

func (n *network) RemoveVirtualSwitch(req *types.RemoveVirtualSwitch) soap.HasFault {
	for _, g := range n.NetworkInfo.Portgroup {
		if g.Spec.VswitchName == req.VswitchName {
			if fault := n.m.groupIsFree(g.Spec.Name); fault != nil {
				return &methods.RemoveVirtualSwitchBody{Fault_: wrapFault(fault)}
			}
		}
	}
	return n.HostNetworkSystem.RemoveVirtualSwitch(req)
}

func (n *network) AddPortGroup(ctx *simulator.Context, req *types.AddPortGroup) soap.HasFault {
	if fault := groupIsRight(req.Portgrp); fault != nil {
		return &methods.AddPortGroupBody{Fault_: wrapFault(fault)}
	}
	return n.HostNetworkSystem.AddPortGroup(ctx, req)
}

func (n *network) UpdatePortGroup(req *types.UpdatePortGroup) soap.HasFault {
	if fault := groupIsRight(req.Portgrp); fault != nil {
		return &methods.UpdatePortGroupBody{Fault_: wrapFault(fault)}
	}
	for i := range n.NetworkInfo.Portgroup {
		if n.NetworkInfo.Portgroup[i].Spec.Name == req.PgName {
			n.NetworkInfo.Portgroup[i].Spec = req.Portgrp
			return &methods.UpdatePortGroupBody{Res: &types.UpdatePortGroupResponse{}}
		}
	}
	return &methods.UpdatePortGroupBody{Fault_: wrapFault(&types.NotFound{})}
}

func (n *network) RemovePortGroup(ctx *simulator.Context, req *types.RemovePortGroup) soap.HasFault {
	if fault := n.m.groupIsFree(req.PgName); fault != nil {
		return &methods.RemovePortGroupBody{Fault_: wrapFault(fault)}
	}
	return n.HostNetworkSystem.RemovePortGroup(ctx, req)
}

func (h *host) EnterMaintenanceModeTask(ctx *simulator.Context, req *types.EnterMaintenanceMode_Task) soap.HasFault {
	task := runTask(ctx, h.HostSystem, "enterMaintenanceMode", func() types.BaseMethodFault {
		fault := h.m.mayEnterMaintenance()
		if fault == nil {
			h.Runtime.InMaintenanceMode = true
		}
		return fault
	})
	return &methods.EnterMaintenanceMode_TaskBody{Res: &types.EnterMaintenanceMode_TaskResponse{Returnval: task}}
}

func (h *host) RebootHostTask(ctx *simulator.Context, req *types.RebootHost_Task) soap.HasFault {
	if fault := h.m.mayReboot(req.Force); fault != nil {
		return &methods.RebootHost_TaskBody{Fault_: wrapFault(fault)}
	}
	task := runTask(ctx, h.HostSystem, "reboot", func() types.BaseMethodFault { return nil })
	h.m.mu.Lock()
	h.m.bootHost()
	h.m.mu.Unlock()
	return &methods.RebootHost_TaskBody{Res: &types.RebootHost_TaskResponse{Returnval: task}}
}

func (v *machine) ReconfigVMTask(ctx *simulator.Context, req *types.ReconfigVM_Task) soap.HasFault {
	fault := firstFault(isUnchanged(v.VirtualMachine, req.Spec), mayChangeDevices(v.VirtualMachine, req.Spec), hasRoom(v.VirtualMachine, req.Spec))
	unit := int32(firstUnit)
	for _, change := range req.Spec.DeviceChange {
		c := change.GetVirtualDeviceConfigSpec()
		if c.Operation != types.VirtualDeviceConfigSpecOperationAdd || fault != nil {
			continue
		}
		fault = v.m.backingIsRight(c.Device)
		unit = v.placeDevice(c.Device.GetVirtualDevice(), unit)
	}
	if fault != nil {
		task := runTask(ctx, v.VirtualMachine, "reconfigVm", func() types.BaseMethodFault { return fault })
		return &methods.ReconfigVM_TaskBody{Res: &types.ReconfigVM_TaskResponse{Returnval: task}}
	}
	return v.VirtualMachine.ReconfigVMTask(ctx, req)
}

// firstUnit is where the host puts the first VF on the PCI controller. govmomi's AssignController
// panics for a controller that has a device there, and the simulator calls it for a network adapter
// without a unit number, so the model chooses the number. VirtualDevice.unitNumber: "Normally, two
// devices on the same controller may not be assigned the same unit number".
const firstUnit = 45

func (v *machine) placeDevice(d *types.VirtualDevice, unit int32) int32 {
	for slices.ContainsFunc(v.Config.Hardware.Device, func(o types.BaseVirtualDevice) bool {
		u := o.GetVirtualDevice().UnitNumber
		return u != nil && *u == unit && o.GetVirtualDevice().ControllerKey == d.ControllerKey
	}) {
		unit++
	}
	d.UnitNumber = types.NewInt32(unit)
	return unit + 1
}

func (v *machine) PowerOnVMTask(ctx *simulator.Context, req *types.PowerOnVM_Task) soap.HasFault {
	task := runTask(ctx, v.VirtualMachine, "powerOn", func() types.BaseMethodFault { return v.m.switchPower(v.VirtualMachine, true) })
	return &methods.PowerOnVM_TaskBody{Res: &types.PowerOnVM_TaskResponse{Returnval: task}}
}

// QueryConfigTarget has the VFs of the host (ConfigTarget.sriov: "List of SRIOV devices").
func (b *browser) QueryConfigTarget(req *types.QueryConfigTarget) soap.HasFault {
	target := &types.ConfigTarget{}
	if req.Host != nil && *req.Host == b.m.host.Self {
		for _, pf := range b.m.PFs {
			if pf.Capable {
				target.Sriov = append(target.Sriov, describeFunction(pf.NIC, pf.PCI, 0x1572, false))
			}
			for _, id := range pf.listFunctions() {
				target.Sriov = append(target.Sriov, describeFunction(pf.NIC, id, 0x154c, true))
			}
		}
	}
	return &methods.QueryConfigTargetBody{Res: &types.QueryConfigTargetResponse{Returnval: target}}
}

func describeFunction(nic, id string, device int16, isVF bool) types.VirtualMachineSriovInfo {
	info := types.VirtualMachinePciPassthroughInfo{PciDevice: types.HostPciDevice{Id: id, VendorId: -32634, DeviceId: device}, SystemId: systemID}
	return types.VirtualMachineSriovInfo{VirtualMachinePciPassthroughInfo: info, VirtualFunction: isVF, Pnic: nic}
}

func (b *browser) QueryConfigOptionEx(*types.QueryConfigOptionEx) soap.HasFault {
	option := &types.VirtualMachineConfigOption{}
	option.HardwareOptions.VirtualDeviceOption = []types.BaseVirtualDeviceOption{&types.VirtualPCIControllerOption{
		NumEthernetCards: types.IntOption{Max: MaxCards}, NumPCIPassthroughDevices: &types.IntOption{Max: MaxDevices},
	}}
	return &methods.QueryConfigOptionExBody{Res: &types.QueryConfigOptionExResponse{Returnval: option}}
}

// firstFault returns the first fault that is one.
func firstFault(faults ...types.BaseMethodFault) types.BaseMethodFault {
	for _, f := range faults {
		if f != nil {
			return f
		}
	}
	return nil
}
