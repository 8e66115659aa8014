// Package vcsim serves an ESXi host, alone or in a vCenter, over SOAP: govmomi's simulator with a
// contract model of what that lacks.
//
// The simulator has no HostPciPassthruSystem, keeps neither uplinks nor MTU of a virtual switch, and
// neither reboots a host nor checks the VFs of a virtual machine. The model adds these. Each of its
// rules is in rules.go, with the class and field of the vSphere Web Services API whose public text it
// follows. TestRules has a negative case of each.
//
// Nothing here was compared with a real ESXi.
package vcsim

import (
	"crypto/rand"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/mo"
	"github.com/vmware/govmomi/vim25/types"
)

// The login that the server accepts. It accepts root with the same password.
const (
	User     = "culvert"
	Password = "secret"
)

// Options say how the host is.
type Options struct {
	VCenter bool // the host HostName is one of several in a vCenter
	Spread  bool // they are in folders, clusters and two datacenters
	// AppliesLive is HostCapability.deviceRebindWithoutRebootSupported.
	AppliesLive bool
	MaxVFs      int  // of a port; 0 stands for 8
	Passthrough bool // pass-through of vmnic2 is on
}

// PF is a physical function with its configuration, and what is in force since the last boot.
type PF struct {
	NIC, PCI            string
	Capable             bool
	max                 int
	wanted, active      int
	passWanted, passNow bool
}

// Model is the host. Its fields are for tests, while no call is under way.
type Model struct {
	Server     string // host:port
	Thumbprint string
	HostName   string // in the vCenter
	PFs        []*PF
	// Before is asked before each call, with its number and method, and returns whether to lose the
	// request. After is asked when the call was done, and returns whether to lose the answer.
	Before, After func(number int, method string) bool
	// Down is for how many calls the host is away after a reboot.
	Down int

	mu      sync.Mutex
	calls   int
	away    int
	boots   int
	methods []string
	cookies map[string]bool // of sessions: whether a reboot has ended it
	options Options
	sim     *simulator.Model
	host    *simulator.HostSystem
	network *simulator.HostNetworkSystem
	front   *httptest.Server
}

// New serves a host until the test ends. It has the ports vmnic0 to vmnic3, of which vmnic2 and
// vmnic3 can have VFs, and the virtual machines vm1, vm2 and vm3, which are off.
func New(t testing.TB, o Options) *Model {
	t.Helper()
	m := &Model{options: o, Down: 2, cookies: map[string]bool{}, sim: simulator.ESX()}
	if o.VCenter {
		m.sim = simulator.VPX()
		m.sim.Host, m.sim.Cluster = 2, 0
	}
	if o.Spread {
		m.sim.Datacenter, m.sim.Folder, m.sim.Cluster, m.sim.ClusterHost = 2, 1, 2, 2
	}
	m.sim.Autostart, m.sim.Machine = false, 3
	if err := m.sim.Create(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.sim.Remove)
	for _, e := range m.sim.Map().All("HostSystem") {
		if h := e.(*simulator.HostSystem); m.host == nil || strings.HasSuffix(h.Name, "_H0") {
			m.host = h
		}
	}
	if !o.VCenter {
		m.host.Name = "esxi01.example.com"
	}
	m.HostName = m.host.Name
	hardware := *m.host.Hardware
	hardware.SystemInfo.Uuid = rand.Text() // no other model on this machine is the same host
	m.host.Hardware = &hardware
	m.network = m.sim.Map().Get(*m.host.ConfigManager.NetworkSystem).(*simulator.HostNetworkSystem)
	m.addPorts()
	m.addMachines()
	m.sim.Map().Handler = m.chooseHandler
	m.sim.Service.Listen = &url.URL{User: url.UserPassword(User, Password)}
	m.sim.Map().SessionManager().ValidLogin = func(l *types.Login) bool {
		return (l.UserName == User || l.UserName == "root") && l.Password == Password
	}
	inner := m.sim.Service.NewServer()
	t.Cleanup(inner.Close)
	m.front = httptest.NewTLSServer(http.HandlerFunc(m.serveCall))
	t.Cleanup(m.front.Close)
	m.Server = strings.TrimPrefix(m.front.URL, "https://")
	m.Thumbprint = fmt.Sprintf("%X", hashCertificate(m.front.Certificate().Raw))
	return m
}

// CertificatePEM is the certificate that verifies the server as example.com.
func (m *Model) CertificatePEM() []byte { return encodePEM(m.front.Certificate().Raw) }

func (m *Model) addPorts() {
	most := m.options.MaxVFs
	if most == 0 {
		most = 8
	}
	m.PFs = []*PF{{NIC: "vmnic0", PCI: "0000:0b:00.0"}, {NIC: "vmnic1", PCI: "0000:13:00.0"}, {NIC: "vmnic2", PCI: "0000:03:00.0", Capable: true, max: most}, {NIC: "vmnic3", PCI: "0000:03:00.1", Capable: true, max: most}}
	m.PFs[2].passWanted, m.PFs[2].passNow = m.options.Passthrough, m.options.Passthrough
	ref := types.ManagedObjectReference{Type: "HostPciPassthruSystem", Value: "passthru-" + m.host.Self.Value}
	m.host.ConfigManager.PciPassthruSystem = &ref
	m.sim.Map().Put(&passthru{mo.HostPciPassthruSystem{ExtensibleManagedObject: mo.ExtensibleManagedObject{Self: ref}}, m})
	m.network.NetworkInfo.Pnic, m.host.Hardware.PciDevice = nil, nil
	for i, pf := range m.PFs {
		driver, name := "ntg3", "NetXtreme BCM5720"
		if pf.Capable {
			driver, name = "i40en", "Ethernet Controller X710 for 10GbE SFP+"
		}
		m.network.NetworkInfo.Pnic = append(m.network.NetworkInfo.Pnic, types.PhysicalNic{
			Key: "key-vim.host.PhysicalNic-" + pf.NIC, Device: pf.NIC, Pci: pf.PCI, Driver: driver,
			Mac: fmt.Sprintf("3c:fd:fe:00:00:%02x", i), LinkSpeed: &types.PhysicalNicLinkInfo{SpeedMb: 10000, Duplex: true},
		})
		m.host.Hardware.PciDevice = append(m.host.Hardware.PciDevice, types.HostPciDevice{Id: pf.PCI, VendorId: -32634, DeviceId: 0x1572, DeviceName: name})
	}
	m.network.NetworkInfo.Vswitch[0].Mtu = 1500
	m.network.NetworkInfo.Vswitch[0].Spec = types.HostVirtualSwitchSpec{NumPorts: 128, Mtu: 1500, Bridge: &types.HostVirtualSwitchBondBridge{NicDevice: []string{"key-vim.host.PhysicalNic-vmnic0"}}}
	m.network.NetworkInfo.Portgroup = slices.DeleteFunc(slices.Clone(m.network.NetworkInfo.Portgroup), func(g types.HostPortGroup) bool { return g.Spec.Name != "VM Network" })
	can := *m.host.Capability
	m.host.Capability = &can
	m.host.Capability.DeviceRebindWithoutRebootSupported = &m.options.AppliesLive
	m.publishPorts()
}

// addMachines names the host's virtual machines.
func (m *Model) addMachines() {
	n := 0
	for _, ref := range m.host.Vm {
		vm := m.sim.Map().Get(ref).(*simulator.VirtualMachine)
		n++
		vm.Name = fmt.Sprintf("vm%d", n)
		vm.Config.Name = vm.Name
		vm.Config.Hardware.MemoryMB = 1024
		vm.Runtime.PowerState = types.VirtualMachinePowerStatePoweredOff
		none := int64(0)
		vm.Config.MemoryAllocation = &types.ResourceAllocationInfo{Reservation: &none}
	}
}

// publishPorts puts the configuration of the ports where the API has it.
func (m *Model) publishPorts() {
	p := m.sim.Map().Get(*m.host.ConfigManager.PciPassthruSystem).(*passthru)
	p.PciPassthruInfo = nil
	for _, pf := range m.PFs {
		info := types.HostPciPassthruInfo{Id: pf.PCI, DependentDevice: pf.PCI, PassthruCapable: true, PassthruEnabled: pf.passWanted, PassthruActive: pf.passNow}
		if !pf.Capable {
			p.PciPassthruInfo = append(p.PciPassthruInfo, &info)
			continue
		}
		p.PciPassthruInfo = append(p.PciPassthruInfo, &types.HostSriovInfo{
			HostPciPassthruInfo: info, SriovCapable: true, SriovEnabled: pf.wanted > 0, SriovActive: pf.active > 0,
			NumVirtualFunctionRequested: int32(pf.wanted), NumVirtualFunction: int32(pf.active), MaxVirtualFunctionSupported: int32(pf.maxVFs()),
		})
	}
}

// listFunctions returns the PCI addresses of the VFs of a port.
func (pf *PF) listFunctions() []string {
	var all []string
	for i := range pf.active {
		all = append(all, fmt.Sprintf("0000:03:%02x.%d", 2+4*int(pf.PCI[len(pf.PCI)-1]-'0')+i/8, i%8))
	}
	return all
}

// Power switches a virtual machine on or off, as a person would. The rules of PowerOnVM_Task apply.
func (m *Model) Power(t testing.TB, name string, on bool) {
	t.Helper()
	m.mu.Lock()
	defer m.mu.Unlock()
	vm := m.Machine(name)
	if fault := m.switchPower(vm, on); fault != nil {
		t.Fatalf("power of %s: %T", name, fault)
	}
}

// Machine returns a virtual machine of the host.
func (m *Model) Machine(name string) *simulator.VirtualMachine {
	for _, ref := range m.host.Vm {
		if vm := m.sim.Map().Get(ref).(*simulator.VirtualMachine); vm.Name == name {
			return vm
		}
	}
	panic("no virtual machine " + name)
}

// Maintenance puts the host into maintenance mode, or out of it, as a person would.
func (m *Model) Maintenance(on bool) { m.host.Runtime.InMaintenanceMode = on }

// EndSessions ends all sessions, as a server does that restarts its services. A function in Before calls
// it.
func (m *Model) EndSessions() {
	for cookie := range m.cookies {
		m.cookies[cookie] = true
	}
}

// Network is the configuration of the host's network, for tests to change.
func (m *Model) Network() *types.HostNetworkInfo { return m.network.NetworkInfo }

// Leave takes a virtual machine from the host, as when it moves to another one. The function that it
// returns brings it back.
func (m *Model) Leave(name string) (comeBack func()) {
	before := slices.Clone(m.host.Vm)
	vm := m.Machine(name)
	m.host.Vm = slices.DeleteFunc(slices.Clone(before), func(ref types.ManagedObjectReference) bool { return ref == vm.Self })
	return func() { m.host.Vm = before }
}

// HideDevices makes the host's compute resource show no EnvironmentBrowser.
func (m *Model) HideDevices() {
	switch c := m.sim.Map().Get(*m.host.Parent).(type) {
	case *mo.ComputeResource:
		c.EnvironmentBrowser = nil
	case *simulator.ClusterComputeResource:
		c.EnvironmentBrowser = nil
	}
}

// NameHosts gives all hosts of the vCenter one name.
func (m *Model) NameHosts(name string) {
	for _, e := range m.sim.Map().All("HostSystem") {
		e.(*simulator.HostSystem).Name = name
	}
}

// Boots returns how often the host was rebooted.
func (m *Model) Boots() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.boots
}

// Methods returns the methods that were called since the last time, and begins to number anew.
func (m *Model) Methods() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := m.methods
	m.methods, m.calls = nil, 0
	return all
}

// bootHost makes the configuration of the ports that in force. It ends all sessions with an ESXi host;
// those with a vCenter stay.
func (m *Model) bootHost() {
	for _, pf := range m.PFs {
		pf.active, pf.passNow = pf.wanted, pf.passWanted
	}
	m.boots++
	m.away = m.Down
	if !m.options.VCenter {
		m.EndSessions()
	}
	boot := m.host.Summary.Runtime.BootTime.Add(time.Minute)
	m.host.Runtime.BootTime = &boot
	m.publishPorts()
}
