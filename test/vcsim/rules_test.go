package vcsim

import (
	"fmt"
	"net/url"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25"
	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/mo"
	"github.com/vmware/govmomi/vim25/soap"
	"github.com/vmware/govmomi/vim25/types"
)

// caller calls the model over SOAP.
type caller struct {
	*testing.T
	*Model
	c *vim25.Client
}

func newCaller(t *testing.T, o Options) *caller {
	t.Helper()
	m := New(t, o)
	m.Down = 0
	c := &caller{t, m, nil}
	c.logIn()
	return c
}

// logIn begins a session in place of one that a reboot has ended.
func (c *caller) logIn() {
	c.Helper()
	client, err := vim25.NewClient(c.Context(), soap.NewClient(&url.URL{Scheme: "https", Host: c.Server, Path: "/sdk"}, true))
	if err == nil {
		_, err = methods.Login(c.Context(), client, &types.Login{This: *client.ServiceContent.SessionManager, UserName: User, Password: Password})
	}
	if err != nil {
		c.Fatal(err)
	}
	c.c = client
}

// nameFault returns the name of the fault of a call, or "" for none.
func nameFault(err error) string {
	if err == nil {
		return ""
	}
	if !soap.IsSoapFault(err) {
		return err.Error()
	}
	return strings.TrimPrefix(fmt.Sprintf("%T", soap.ToSoapFault(err).VimFault()), "types.")
}

// endTask returns the name of the fault of a task, or "" for none.
func (c *caller) endTask(task types.ManagedObjectReference, err error) string {
	for err == nil {
		var o mo.Task
		if err = mo.RetrieveProperties(c.Context(), c.c, c.c.ServiceContent.PropertyCollector, task, &o); err != nil {
			break
		}
		switch o.Info.State {
		case types.TaskInfoStateSuccess:
			return ""
		case types.TaskInfoStateError:
			return strings.TrimPrefix(fmt.Sprintf("%T", o.Info.Error.Fault), "*types.")
		}
	}
	return nameFault(err)
}

func (c *caller) setVFs(pci string, vfs int32, passthrough bool) string {
	config := &types.HostSriovConfig{HostPciPassthruConfig: types.HostPciPassthruConfig{Id: pci, PassthruEnabled: passthrough}, SriovEnabled: vfs > 0, NumVirtualFunction: vfs}
	_, err := methods.UpdatePassthruConfig(c.Context(), c.c, &types.UpdatePassthruConfig{This: *c.host.ConfigManager.PciPassthruSystem, Config: []types.BaseHostPciPassthruConfig{config}})
	return nameFault(err)
}

func (c *caller) rebootHost() string {
	_, err := methods.RebootHost_Task(c.Context(), c.c, &types.RebootHost_Task{This: c.host.Self})
	return nameFault(err)
}

func (c *caller) enterMaintenance() string {
	r, err := methods.EnterMaintenanceMode_Task(c.Context(), c.c, &types.EnterMaintenanceMode_Task{This: c.host.Self})
	if err != nil {
		return nameFault(err)
	}
	return c.endTask(r.Returnval, nil)
}

func (c *caller) addSwitch(name string, mtu int32, nics ...string) string {
	spec := &types.HostVirtualSwitchSpec{NumPorts: 128, Mtu: mtu}
	if nics != nil {
		spec.Bridge = &types.HostVirtualSwitchBondBridge{NicDevice: nics}
	}
	_, err := methods.AddVirtualSwitch(c.Context(), c.c, &types.AddVirtualSwitch{This: c.network.Self, VswitchName: name, Spec: spec})
	return nameFault(err)
}

func (c *caller) addGroup(name, on string, vlan int32) string {
	_, err := methods.AddPortGroup(c.Context(), c.c, &types.AddPortGroup{This: c.network.Self, Portgrp: types.HostPortGroupSpec{Name: name, VswitchName: on, VlanId: vlan}})
	return nameFault(err)
}

func (c *caller) addDevices(vm *simulator.VirtualMachine, devices ...types.BaseVirtualDevice) string {
	var spec types.VirtualMachineConfigSpec
	for i, d := range devices {
		d.GetVirtualDevice().Key, d.GetVirtualDevice().ControllerKey = int32(-1-i), 100
		spec.DeviceChange = append(spec.DeviceChange, &types.VirtualDeviceConfigSpec{Operation: types.VirtualDeviceConfigSpecOperationAdd, Device: d})
	}
	r, err := methods.ReconfigVM_Task(c.Context(), c.c, &types.ReconfigVM_Task{This: vm.Self, Spec: spec})
	if err != nil {
		return nameFault(err)
	}
	return c.endTask(r.Returnval, nil)
}

func (c *caller) reserveMemory(vm *simulator.VirtualMachine) {
	vm.Config.MemoryReservationLockedToMax = types.NewBool(true)
}

func (c *caller) powerOn(vm *simulator.VirtualMachine) string {
	r, err := methods.PowerOnVM_Task(c.Context(), c.c, &types.PowerOnVM_Task{This: vm.Self})
	if err != nil {
		return nameFault(err)
	}
	return c.endTask(r.Returnval, nil)
}

// newCard returns an SR-IOV network adapter on "VM Network".
func newCard(pf string) *types.VirtualSriovEthernetCard {
	card := &types.VirtualSriovEthernetCard{SriovBacking: &types.VirtualSriovEthernetCardSriovBackingInfo{
		PhysicalFunctionBacking: &types.VirtualPCIPassthroughDeviceBackingInfo{Id: pf, DeviceId: "1572", SystemId: systemID, VendorId: -32634},
	}}
	card.Backing = &types.VirtualEthernetCardNetworkBackingInfo{VirtualDeviceDeviceBackingInfo: types.VirtualDeviceDeviceBackingInfo{DeviceName: "VM Network"}}
	return card
}

func newDevice(id string) *types.VirtualPCIPassthrough {
	d := &types.VirtualPCIPassthrough{}
	d.Backing = &types.VirtualPCIPassthroughDeviceBackingInfo{Id: id, DeviceId: "154c", SystemId: systemID, VendorId: -32634}
	return d
}

const pf2, pf0 = "0000:03:00.0", "0000:0b:00.0"

// TestRules has, for each rule of rules.go, a call that breaks it, with its fault, and one that does
// not.
func TestRules(t *testing.T) {
	ruled := map[string]bool{}
	for rule, check := range map[string]func(c *caller) (bad, fault, good string){
		"maxVFs": func(c *caller) (string, string, string) { return c.setVFs(pf2, 1, false), "HostConfigFault", "" }, // pass-through is on
		"knownDevice": func(c *caller) (string, string, string) {
			return c.setVFs("0000:99:00.0", 1, false), "HostConfigFault", c.setVFs("0000:03:00.1", 1, false)
		},
		"canHaveVFs": func(c *caller) (string, string, string) {
			return c.setVFs("0000:03:00.1", 9, false) + c.setVFs(pf0, 1, false), "HostConfigFaultHostConfigFault", c.setVFs("0000:03:00.1", 8, false)
		},
		"holdsNoVF": func(c *caller) (string, string, string) {
			vm := c.withVF()
			c.powerOn(vm)
			c.options.AppliesLive = true
			bad := c.setVFs("0000:03:00.1", 1, false)
			c.Power(c.T, vm.Name, false)
			return bad, "HostConfigFault", c.setVFs("0000:03:00.1", 1, false)
		},
		"mayReboot": func(c *caller) (string, string, string) {
			bad := c.rebootHost()
			return bad, "InvalidState", c.enterMaintenance() + c.rebootHost()
		},
		"mayEnterMaintenance": func(c *caller) (string, string, string) {
			c.Power(c.T, "vm1", true)
			bad := c.enterMaintenance()
			c.Power(c.T, "vm1", false)
			return bad, "Timedout", c.enterMaintenance()
		},
		"uplinksAreFree": func(c *caller) (string, string, string) {
			return c.addSwitch("a", 0, "vmnic0") + c.addSwitch("a", 0, "vmnic9"), "ResourceInUseNotFound", c.addSwitch("a", 0, "vmnic1")
		},
		"switchIsRight": func(c *caller) (string, string, string) {
			return c.addSwitch("a", 9001) + c.addSwitch(strings.Repeat("a", 33), 0), "InvalidArgumentInvalidArgument", c.addSwitch(strings.Repeat("a", 32), 9000)
		},
		"groupIsRight": func(c *caller) (string, string, string) {
			return c.addGroup("g", "vSwitch0", 4096), "InvalidArgument", c.addGroup("g", "vSwitch0", 4095)
		},
		"groupIsFree": func(c *caller) (string, string, string) {
			remove := func(name string) string {
				_, err := methods.RemovePortGroup(c.Context(), c.c, &types.RemovePortGroup{This: c.network.Self, PgName: name})
				return nameFault(err)
			}
			c.addGroup("g", "vSwitch0", 0)
			return remove("VM Network"), "ResourceInUse", remove("g")
		},
		"mayChangeDevices": func(c *caller) (string, string, string) {
			vm := c.withVF()
			c.powerOn(vm)
			return c.addDevices(vm, newCard("0000:03:00.1")), "InvalidPowerState", c.addDevices(c.Machine("vm2"), newCard("0000:03:00.1"))
		},
		"isUnchanged": func(c *caller) (string, string, string) {
			vm := c.Machine("vm1")
			vm.Config.ChangeVersion = "2"
			change := func(version string) string {
				r, err := methods.ReconfigVM_Task(c.Context(), c.c, &types.ReconfigVM_Task{This: vm.Self, Spec: types.VirtualMachineConfigSpec{ChangeVersion: version}})
				if err != nil {
					return nameFault(err)
				}
				return c.endTask(r.Returnval, nil)
			}
			return change("1"), "ConcurrentAccess", change("2")
		},
		"hasRoom": func(c *caller) (string, string, string) {
			c.bootWith("0000:03:00.1", 8)
			var cards []types.BaseVirtualDevice
			for range MaxCards { // it has one already
				cards = append(cards, newCard("0000:03:00.1"))
			}
			return c.addDevices(c.Machine("vm1"), cards...), "TooManyDevices", c.addDevices(c.Machine("vm1"), cards[1:]...)
		},
		"backingIsRight": func(c *caller) (string, string, string) {
			c.bootWith("0000:03:00.1", 2)
			unset, elsewhere, vendor := newCard("0000:03:00.1"), newCard("0000:03:00.1"), newCard("0000:03:00.1")
			unset.SriovBacking.PhysicalFunctionBacking = nil
			elsewhere.Backing.(*types.VirtualEthernetCardNetworkBackingInfo).DeviceName = "none"
			vendor.SriovBacking.PhysicalFunctionBacking.VendorId = 1
			bad, want := "", ""
			for _, d := range []types.BaseVirtualDevice{unset, elsewhere, vendor, newCard(pf0), newDevice("0000:03:06.2")} {
				bad, want = bad+c.addDevices(c.Machine("vm1"), d), want+"InvalidDeviceBacking"
			}
			return bad, want, c.addDevices(c.Machine("vm1"), newCard("0000:03:00.1"), newDevice("0000:03:06.1"))
		},
		"maySwitchOn": func(c *caller) (string, string, string) {
			c.bootWith("0000:03:00.1", 1)
			c.host.Runtime.InMaintenanceMode = false
			one, two := c.Machine("vm1"), c.Machine("vm2")
			c.addDevices(one, newCard("0000:03:00.1"))
			c.addDevices(two, newDevice("0000:03:06.0"))
			bad := c.powerOn(one)
			c.reserveMemory(one)
			c.reserveMemory(two)
			good := c.powerOn(one)
			return bad + c.powerOn(two), "InvalidVmConfigInsufficientResourcesFault", good
		},
	} {
		t.Run(rule, func(t *testing.T) {
			bad, fault, good := check(newCaller(t, Options{Passthrough: true}))
			if bad != fault || good != "" {
				t.Errorf("the rule is broken: %q, want %q; it is kept: %q", bad, fault, good)
			}
		})
		ruled[rule] = true
	}
	text, err := os.ReadFile("rules.go")
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(`(?m)^((?://.*\n)+)func (?:\([^)]*\) )?(\w+)\(`).FindAllStringSubmatch(string(text), -1)
	if len(found) != len(ruled) {
		t.Errorf("%d rules are in rules.go, and %d have a case", len(found), len(ruled))
	}
	for _, f := range found {
		if !ruled[f[2]] {
			t.Errorf("rule %s has no negative case", f[2])
		}
		if !regexp.MustCompile(`[A-Z]\w+\.\w+|"[^"]{20,}"`).MatchString(f[1]) {
			t.Errorf("rule %s cites no class and field of the API", f[2])
		}
	}
}

// bootWith gives a port VFs, with a reboot.
func (c *caller) bootWith(pci string, vfs int32) {
	c.Helper()
	if fault := c.setVFs(pci, vfs, false) + c.enterMaintenance() + c.rebootHost(); fault != "" {
		c.Fatal(fault)
	}
	if fault := c.rebootHost(); fault != "NotAuthenticated" {
		c.Fatalf("the reboot has not ended the session: %q", fault)
	}
	c.logIn()
}

// withVF returns vm1, which is off and has a network adapter with a VF of vmnic3.
func (c *caller) withVF() *simulator.VirtualMachine {
	c.Helper()
	c.bootWith("0000:03:00.1", 2)
	c.Maintenance(false)
	vm := c.Machine("vm1")
	if fault := c.addDevices(vm, newCard("0000:03:00.1")); fault != "" {
		c.Fatal(fault)
	}
	c.reserveMemory(vm)
	return vm
}

// TestUnits: the model gives SR-IOV network adapters the unit numbers from 45, where govmomi's
// AssignController panics.
func TestUnits(t *testing.T) {
	c := newCaller(t, Options{})
	vm := c.withVF()
	if fault := c.addDevices(vm, newCard("0000:03:00.1"), newCard("0000:03:00.1")); fault != "" {
		t.Fatal(fault)
	}
	var units []int32
	cards, _ := functionsOf(vm)
	for _, d := range cards {
		units = append(units, *d.UnitNumber)
	}
	if fmt.Sprint(units) != "[45 46 47]" {
		t.Error(units)
	}
}
