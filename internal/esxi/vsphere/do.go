package vsphere

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/mo"
	"github.com/vmware/govmomi/vim25/types"

	"github.com/culvert-net/culvert/internal/esxi/file"
	"github.com/culvert-net/culvert/internal/esxi/plan"
	"github.com/culvert-net/culvert/internal/esxi/state"
	"github.com/culvert-net/culvert/internal/excerpt"
)

// Do does an action of a plan. When it returns nil, the host has accepted it; Observe shows the
// effect. After Reboot the host is going down.
func (c *Conn) Do(ctx context.Context, action any) error {
	ctx, cancel := context.WithTimeout(ctx, taskTimeout)
	defer cancel()
	switch a := action.(type) {
	case plan.SetPorts:
		return c.setPorts(ctx, a)
	case plan.ChangeVM:
		return c.changeVM(ctx, a)
	case plan.EnterMaintenance, plan.Reboot, plan.ExitMaintenance:
		return c.changeHost(ctx, a)
	}
	return c.changeNetwork(ctx, action)
}

// taskTimeout bounds an action. A host enters maintenance mode in minutes.
const taskTimeout = 10 * time.Minute

// setPorts calls HostPciPassthruSystem.UpdatePassthruConfig with a HostSriovConfig for each port.
// Its field applyNow stays unset: then the host applies the change at once where
// HostCapability.deviceRebindWithoutRebootSupported is set, and else at the next boot.
func (c *Conn) setPorts(ctx context.Context, a plan.SetPorts) error {
	req := types.UpdatePassthruConfig{This: c.at.passthru}
	for _, p := range a.Ports {
		config := &types.HostSriovConfig{
			HostPciPassthruConfig: types.HostPciPassthruConfig{Id: p.PCI, PassthruEnabled: p.Passthrough},
			SriovEnabled:          p.VFs > 0, NumVirtualFunction: int32(p.VFs),
		}
		req.Config = append(req.Config, config)
	}
	_, err := methods.UpdatePassthruConfig(ctx, c.client, &req)
	return c.explainFault("configure the ports of host "+c.at.name, err)
}

func (c *Conn) changeNetwork(ctx context.Context, action any) (err error) {
	net := c.at.network
	var what string
	switch a := action.(type) {
	case plan.AddSwitch:
		what = "add vSwitch " + a.Switch.Name
		spec := makeSwitchSpec(a.Switch, newSwitch)
		_, err = methods.AddVirtualSwitch(ctx, c.client, &types.AddVirtualSwitch{This: net, VswitchName: a.Switch.Name, Spec: &spec})
	case plan.UpdateSwitch:
		what = "change vSwitch " + a.Switch.Name
		_, err = methods.UpdateVirtualSwitch(ctx, c.client, &types.UpdateVirtualSwitch{This: net, VswitchName: a.Switch.Name, Spec: makeSwitchSpec(a.Switch, c.switchSpec(a.Switch.Name))})
	case plan.RemoveSwitch:
		what = "remove vSwitch " + a.Name
		_, err = methods.RemoveVirtualSwitch(ctx, c.client, &types.RemoveVirtualSwitch{This: net, VswitchName: a.Name})
	case plan.AddGroup:
		what = "add port group " + a.Group.Name
		_, err = methods.AddPortGroup(ctx, c.client, &types.AddPortGroup{This: net, Portgrp: makeGroupSpec(a.Switch, a.Group)})
	case plan.UpdateGroup:
		what = "change port group " + a.Group.Name
		_, err = methods.UpdatePortGroup(ctx, c.client, &types.UpdatePortGroup{This: net, PgName: a.Group.Name, Portgrp: makeGroupSpec(a.Switch, a.Group)})
	case plan.RemoveGroup:
		what = "remove port group " + a.Name
		_, err = methods.RemovePortGroup(ctx, c.client, &types.RemovePortGroup{This: net, PgName: a.Name})
	default:
		return fmt.Errorf("no action is a %T", action)
	}
	return c.explainFault(what, err)
}

// newSwitch is the specification of a switch that is not there yet. 128 is what other clients ask
// for; hosts since ESXi 5.5 take ports as they need them.
var newSwitch = types.HostVirtualSwitchSpec{NumPorts: 128}

// switchSpec returns the present specification of a switch: an update replaces all of it.
func (c *Conn) switchSpec(name string) types.HostVirtualSwitchSpec {
	for _, s := range c.seen.network.Vswitch {
		if s.Name == name {
			return s.Spec
		}
	}
	return newSwitch
}

func makeSwitchSpec(s file.Switch, present types.HostVirtualSwitchSpec) types.HostVirtualSwitchSpec {
	spec := types.HostVirtualSwitchSpec{NumPorts: present.NumPorts, Mtu: int32(s.MTU)}
	if len(s.Uplinks) > 0 {
		spec.Bridge = &types.HostVirtualSwitchBondBridge{NicDevice: s.Uplinks}
	}
	if present.Policy == nil {
		if policy := makePolicy(s.Security); policy != nil {
			spec.Policy = &types.HostNetworkPolicy{Security: policy}
		}
		return spec
	}
	policy := *present.Policy
	policy.Security = mergePolicy(policy.Security, s.Security)
	if policy.NicTeaming != nil { // its order names the uplinks, too
		teaming := *policy.NicTeaming
		teaming.NicOrder = &types.HostNicOrderPolicy{ActiveNic: s.Uplinks}
		policy.NicTeaming = &teaming
	}
	spec.Policy = &policy
	return spec
}

// mergePolicy returns the present settings with those of the file.
func mergePolicy(present *types.HostNetworkSecurityPolicy, s file.Security) *types.HostNetworkSecurityPolicy {
	if present == nil {
		return makePolicy(s)
	}
	merged := *present
	merged.AllowPromiscuous = cmp.Or(s.Promiscuous, merged.AllowPromiscuous)
	merged.MacChanges = cmp.Or(s.MACChanges, merged.MacChanges)
	merged.ForgedTransmits = cmp.Or(s.ForgedTransmits, merged.ForgedTransmits)
	return &merged
}

func makeGroupSpec(onto string, g file.PortGroup) types.HostPortGroupSpec {
	return types.HostPortGroupSpec{Name: g.Name, VlanId: int32(g.VLAN), VswitchName: onto, Policy: types.HostNetworkPolicy{Security: makePolicy(g.Security)}}
}

func makePolicy(s file.Security) *types.HostNetworkSecurityPolicy {
	if s == (file.Security{}) {
		return nil
	}
	return &types.HostNetworkSecurityPolicy{AllowPromiscuous: s.Promiscuous, MacChanges: s.MACChanges, ForgedTransmits: s.ForgedTransmits}
}

// changeHost does the actions on the whole host. It reboots without force, so that a host that is
// not in maintenance mode refuses.
func (c *Conn) changeHost(ctx context.Context, action any) error {
	var task types.ManagedObjectReference
	var what string
	var err error
	switch action.(type) {
	case plan.EnterMaintenance:
		what = "enter maintenance mode"
		var r *types.EnterMaintenanceMode_TaskResponse
		if r, err = methods.EnterMaintenanceMode_Task(ctx, c.client, &types.EnterMaintenanceMode_Task{This: c.at.host, Timeout: int32(taskTimeout.Seconds())}); err == nil {
			task = r.Returnval
		}
	case plan.ExitMaintenance:
		what = "leave maintenance mode"
		var r *types.ExitMaintenanceMode_TaskResponse
		if r, err = methods.ExitMaintenanceMode_Task(ctx, c.client, &types.ExitMaintenanceMode_Task{This: c.at.host, Timeout: int32(taskTimeout.Seconds())}); err == nil {
			task = r.Returnval
		}
	case plan.Reboot:
		_, err = methods.RebootHost_Task(ctx, c.client, &types.RebootHost_Task{This: c.at.host})
		return c.explainFault("reboot host "+c.at.name, err) // the session may end before the task does
	}
	if err == nil {
		err = c.waitForTask(ctx, task)
	}
	return c.explainFault(what+" on host "+c.at.name, err)
}

// changeVM reconfigures a virtual machine once for all that changes.
func (c *Conn) changeVM(ctx context.Context, a plan.ChangeVM) error {
	spec := types.VirtualMachineConfigSpec{ChangeVersion: c.seenVersion(a.VM.Ref)} // the host refuses if another program has changed it meanwhile
	if a.Memory != nil {
		mb := int64(a.Memory.MB)
		spec.MemoryReservationLockedToMax = &a.Memory.Locked
		spec.MemoryAllocation = &types.ResourceAllocationInfo{Reservation: &mb}
	}
	for _, use := range a.Remove {
		spec.DeviceChange = append(spec.DeviceChange, &types.VirtualDeviceConfigSpec{Operation: types.VirtualDeviceConfigSpecOperationRemove, Device: makeRemoved(use)})
	}
	for i, use := range a.Add {
		spec.DeviceChange = append(spec.DeviceChange, &types.VirtualDeviceConfigSpec{Operation: types.VirtualDeviceConfigSpecOperationAdd, Device: makeAdded(use, a.VM.Controller, int32(-1-i))})
	}
	r, err := methods.ReconfigVM_Task(ctx, c.client, &types.ReconfigVM_Task{This: types.ManagedObjectReference{Type: "VirtualMachine", Value: a.VM.Ref}, Spec: spec})
	if err == nil {
		err = c.waitForTask(ctx, r.Returnval)
	}
	return c.explainFault("reconfigure virtual machine "+a.VM.Name, err)
}

// seenVersion returns the version of a virtual machine's configuration at the last Observe.
func (c *Conn) seenVersion(ref string) string {
	for _, vm := range c.seen.vms {
		if vm.Self.Value == ref && vm.Config != nil {
			return vm.Config.ChangeVersion
		}
	}
	return ""
}

func makeRemoved(use state.Use) types.BaseVirtualDevice {
	device := types.VirtualDevice{Key: use.Key}
	if use.As == file.Device {
		return &types.VirtualPCIPassthrough{VirtualDevice: device}
	}
	return &types.VirtualSriovEthernetCard{VirtualEthernetCard: types.VirtualEthernetCard{VirtualDevice: device}}
}

// makeAdded makes a device on the PCI controller. Its unit number stays unset, so that the host takes
// a free slot. The host replaces the negative key.
func makeAdded(use plan.NewUse, controller, key int32) types.BaseVirtualDevice {
	device := types.VirtualDevice{Key: key, ControllerKey: controller}
	if use.As == file.Device {
		device.Backing = &types.VirtualPCIPassthroughDeviceBackingInfo{
			Id: use.Chosen.PCI, DeviceId: formatDeviceID(use.Chosen.DeviceID), SystemId: use.Chosen.SystemID, VendorId: use.Chosen.VendorID,
		}
		return &types.VirtualPCIPassthrough{VirtualDevice: device}
	}
	device.Backing = &types.VirtualEthernetCardNetworkBackingInfo{VirtualDeviceDeviceBackingInfo: types.VirtualDeviceDeviceBackingInfo{DeviceName: use.PortGroup}}
	device.Connectable = &types.VirtualDeviceConnectInfo{StartConnected: true, AllowGuestControl: true, Connected: true}
	card := types.VirtualEthernetCard{VirtualDevice: device, AddressType: string(types.VirtualEthernetCardMacTypeGenerated)}
	if use.MAC != "" {
		card.AddressType, card.MacAddress = string(types.VirtualEthernetCardMacTypeManual), use.MAC
	}
	return &types.VirtualSriovEthernetCard{VirtualEthernetCard: card, SriovBacking: &types.VirtualSriovEthernetCardSriovBackingInfo{
		PhysicalFunctionBacking: &types.VirtualPCIPassthroughDeviceBackingInfo{
			Id: use.PF.PCI, DeviceId: formatDeviceID(use.PF.DeviceID), SystemId: use.PF.SystemID, VendorId: use.PF.VendorID,
		},
	}}
}

// formatDeviceID returns the text of VirtualPCIPassthroughDeviceBackingInfo.deviceId: the number of
// HostPciDevice.deviceId in hexadecimal, as other clients of the API write it.
func formatDeviceID(id int16) string { return strconv.FormatUint(uint64(uint16(id)), 16) }

// waitForTask returns when a task has ended, with its fault.
func (c *Conn) waitForTask(ctx context.Context, task types.ManagedObjectReference) error {
	for {
		found, err := c.readObjects(ctx, "read the task", []types.ObjectSpec{{Obj: task}}, map[string][]string{"Task": {"info"}})
		if err != nil { // whatever this says, the action may have been done
			return errors.New("the task has begun, and its end is not known: " + err.Error())
		}
		if len(found) == 0 {
			return errors.New("the task is gone")
		}
		answer, ok := found[0].(mo.Task)
		switch info := answer.Info; {
		case !ok:
			return fmt.Errorf("the server answers with a %T in place of the task", found[0])
		case info.State == types.TaskInfoStateSuccess:
			return nil
		case info.State == types.TaskInfoStateError && info.Error == nil:
			return errors.New("the task has failed, and the server does not say why")
		case info.State == types.TaskInfoStateError:
			return &taskError{info.Error.Fault, excerpt.Line(info.Error.LocalizedMessage)}
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the task has not ended: %w", ctx.Err())
		case <-time.After(c.Poll):
		}
	}
}
