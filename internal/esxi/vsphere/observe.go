package vsphere

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/mo"
	"github.com/vmware/govmomi/vim25/types"

	"github.com/culvert-net/culvert/internal/esxi/state"
)

// view is the host as the API shows it.
type view struct {
	host    mo.HostSystem
	network types.HostNetworkInfo
	passthr []types.BaseHostPciPassthruInfo
	vms     []mo.VirtualMachine
	target  types.ConfigTarget
	limits  map[string]limits // by version of the virtual hardware
}

var observed = map[string][]string{
	"HostSystem":            {"name", "runtime.connectionState", "runtime.inMaintenanceMode", "runtime.bootTime", "capability", "hardware.pciDevice", "hardware.systemInfo", "config.product", "vm"},
	"HostNetworkSystem":     {"networkInfo"},
	"HostPciPassthruSystem": {"pciPassthruInfo"},
	"VirtualMachine":        {"name", "runtime.powerState", "runtime.connectionState", "config.instanceUuid", "config.changeVersion", "config.template", "config.version", "config.hardware", "config.memoryAllocation", "config.memoryReservationLockedToMax"},
}

// Observe reads the host. Without a connection to its vCenter the host has a name and nothing more.
func (c *Conn) Observe(ctx context.Context) (state.Host, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	objects := []types.ObjectSpec{
		{Obj: c.at.host, SelectSet: []types.BaseSelectionSpec{&types.TraversalSpec{Type: "HostSystem", Path: "vm"}}},
		{Obj: c.at.network}, {Obj: c.at.passthru},
	}
	found, err := c.readObjects(ctx, "read host "+c.at.name, objects, observed)
	if err != nil {
		return state.Host{}, err
	}
	v := view{limits: c.seen.limits}
	for _, o := range found {
		switch o := o.(type) {
		case mo.HostSystem:
			v.host = o
		case mo.HostNetworkSystem:
			if o.NetworkInfo != nil {
				v.network = *o.NetworkInfo
			}
		case mo.HostPciPassthruSystem:
			v.passthr = o.PciPassthruInfo
		case mo.VirtualMachine:
			v.vms = append(v.vms, o)
		}
	}
	v.host.Name = unescapeName(v.host.Name)
	if v.host.Runtime.ConnectionState != types.HostSystemConnectionStateConnected {
		return state.Host{Name: v.host.Name}, nil
	}
	// EnvironmentBrowser.QueryConfigTarget: ConfigTarget.sriov lists the SR-IOV devices.
	answer, err := methods.QueryConfigTarget(ctx, c.client, &types.QueryConfigTarget{This: c.at.browser, Host: &c.at.host})
	if err != nil {
		return state.Host{}, c.explainFault("read the VFs of host "+c.at.name, err)
	}
	if answer.Returnval != nil {
		v.target = *answer.Returnval
	}
	if err := c.readLimits(ctx, &v); err != nil {
		return state.Host{}, err
	}
	c.seen = v
	return v.makeHost(), nil
}

func (v *view) makeHost() state.Host {
	h := state.Host{
		Name: v.host.Name, Connected: true, Maintenance: v.host.Runtime.InMaintenanceMode,
		Ports: v.makePorts(), PortGroups: v.makeGroups(), Switches: v.makeSwitches(), Distributed: v.makeDistributed(), VMs: []state.VM{},
	}
	if v.host.Hardware != nil {
		h.UUID = v.host.Hardware.SystemInfo.Uuid
	}
	if boot := v.host.Runtime.BootTime; boot != nil {
		h.Boot = boot.UTC().Truncate(time.Second)
	}
	if v.host.Config != nil {
		h.Product = v.host.Config.Product.FullName
	}
	if can := v.host.Capability; can != nil && can.DeviceRebindWithoutRebootSupported != nil {
		h.AppliesLive = *can.DeviceRebindWithoutRebootSupported
	}
	for _, vm := range v.vms {
		h.VMs = append(h.VMs, v.makeVM(vm, h.Ports))
	}
	slices.SortFunc(h.VMs, func(a, b state.VM) int { return strings.Compare(a.Name+a.ID, b.Name+b.ID) })
	return h
}

// makePorts joins PhysicalNic (by its field pci), HostPciDevice and HostSriovInfo (by their fields
// id). VirtualMachineSriovInfo says which VF is of which port, by its field pnic.
func (v *view) makePorts() []state.Port {
	ports := []state.Port{}
	for _, nic := range v.network.Pnic {
		p := state.Port{NIC: nic.Device, PCI: nic.Pci, Driver: nic.Driver, MAC: nic.Mac, VFs: []state.VF{}}
		if nic.LinkSpeed != nil {
			p.Mbps = int(nic.LinkSpeed.SpeedMb)
		}
		if d := v.findDevice(nic.Pci); d != nil {
			p.Model, p.DeviceID, p.VendorID = d.DeviceName, d.DeviceId, d.VendorId
		}
		for _, info := range v.passthr {
			setPassthrough(&p, info)
		}
		for _, s := range v.target.Sriov {
			if s.Pnic == nic.Device && s.VirtualFunction {
				p.VFs = append(p.VFs, state.VF{PCI: s.PciDevice.Id, SystemID: s.SystemId, DeviceID: s.PciDevice.DeviceId, VendorID: s.PciDevice.VendorId})
			}
			if s.PciDevice.Id == nic.Pci {
				p.SystemID = s.SystemId
			}
		}
		slices.SortFunc(p.VFs, func(a, b state.VF) int { return strings.Compare(a.PCI, b.PCI) })
		ports = append(ports, p)
	}
	slices.SortFunc(ports, func(a, b state.Port) int { return strings.Compare(a.PCI, b.PCI) })
	return ports
}

func setPassthrough(p *state.Port, info types.BaseHostPciPassthruInfo) {
	pass := info.GetHostPciPassthruInfo()
	if pass.Id != p.PCI {
		return
	}
	p.Passthrough, p.PassActive = pass.PassthruEnabled, pass.PassthruActive
	if s, ok := info.(*types.HostSriovInfo); ok {
		p.Capable, p.Enabled, p.Active = s.SriovCapable, s.SriovEnabled, s.SriovActive
		p.Requested, p.Present, p.Max = int(s.NumVirtualFunctionRequested), int(s.NumVirtualFunction), int(s.MaxVirtualFunctionSupported)
	}
}

func (v *view) findDevice(id string) *types.HostPciDevice {
	if v.host.Hardware == nil {
		return nil
	}
	i := slices.IndexFunc(v.host.Hardware.PciDevice, func(d types.HostPciDevice) bool { return d.Id == id })
	if i < 0 {
		return nil
	}
	return &v.host.Hardware.PciDevice[i]
}

func (v *view) makeSwitches() []state.Switch {
	all := []state.Switch{}
	for _, s := range v.network.Vswitch {
		w := state.Switch{Name: s.Name, MTU: int(s.Mtu), Uplinks: []string{}, PortGroups: []string{}}
		if bond, ok := s.Spec.Bridge.(*types.HostVirtualSwitchBondBridge); ok {
			for _, key := range bond.NicDevice {
				w.Uplinks = append(w.Uplinks, v.nicName(key))
			}
		}
		if s.Spec.Policy != nil {
			w.Security = makeSecurity(s.Spec.Policy.Security)
		}
		for _, g := range v.network.Portgroup {
			if g.Spec.VswitchName == s.Name {
				w.PortGroups = append(w.PortGroups, g.Spec.Name)
			}
		}
		all = append(all, w)
	}
	return all
}

// makeDistributed returns the distributed switches that have uplinks on the host.
func (v *view) makeDistributed() (all []state.Switch) {
	for _, s := range v.network.ProxySwitch {
		w := state.Switch{Name: unescapeName(s.DvsName), MTU: int(s.Mtu), Uplinks: []string{}, PortGroups: []string{}}
		for _, key := range s.Pnic {
			w.Uplinks = append(w.Uplinks, v.nicName(key))
		}
		all = append(all, w)
	}
	return all
}

// nicName returns the name of a port by its key or its name: the text of
// HostVirtualSwitchBondBridge.nicDevice says keys, and clients write names.
func (v *view) nicName(key string) string {
	for _, nic := range v.network.Pnic {
		if nic.Key == key {
			return nic.Device
		}
	}
	return key
}

func (v *view) makeGroups() []state.PortGroup {
	all := []state.PortGroup{}
	for _, g := range v.network.Portgroup {
		group := state.PortGroup{Name: g.Spec.Name, Switch: g.Spec.VswitchName, VLAN: int(g.Spec.VlanId), Security: makeSecurity(g.Spec.Policy.Security)}
		for _, nic := range v.network.Vnic {
			if nic.Portgroup == g.Spec.Name {
				group.Kernel = append(group.Kernel, nic.Device)
			}
		}
		all = append(all, group)
	}
	return all
}

func makeSecurity(s *types.HostNetworkSecurityPolicy) state.Security {
	if s == nil {
		return state.Security{}
	}
	return state.Security{Promiscuous: s.AllowPromiscuous, MACChanges: s.MacChanges, ForgedTransmits: s.ForgedTransmits}
}

// limits has how many devices a virtual machine may have; 0 is not known.
type limits struct{ cards, devices int }

// readLimits reads VirtualPCIControllerOption, once for each version of the virtual hardware.
func (c *Conn) readLimits(ctx context.Context, v *view) error {
	if v.limits == nil {
		v.limits = map[string]limits{}
	}
	for _, vm := range v.vms {
		if vm.Config == nil {
			continue
		}
		version := vm.Config.Version
		if _, known := v.limits[version]; known {
			continue
		}
		answer, err := methods.QueryConfigOptionEx(ctx, c.client, &types.QueryConfigOptionEx{This: c.at.browser, Spec: &types.EnvironmentBrowserConfigOptionQuerySpec{Key: version, Host: &c.at.host}})
		if err != nil {
			return c.explainFault(fmt.Sprintf("read the options of virtual machines of version %s", version), err)
		}
		var l limits
		if answer.Returnval != nil {
			for _, o := range answer.Returnval.HardwareOptions.VirtualDeviceOption {
				if pci, ok := o.(*types.VirtualPCIControllerOption); ok {
					l.cards = int(pci.NumEthernetCards.Max)
					if pci.NumPCIPassthroughDevices != nil {
						l.devices = int(pci.NumPCIPassthroughDevices.Max)
					}
				}
			}
		}
		v.limits[version] = l
	}
	return nil
}
