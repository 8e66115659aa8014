package status

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/culvert-net/culvert/internal/esxi/file"
	"github.com/culvert-net/culvert/internal/esxi/state"
	"github.com/culvert-net/culvert/internal/screen"
)

func host() state.Host {
	return state.Host{
		Name: "esxi01", Product: "VMware ESXi 8.0.2", Connected: true,
		Ports: []state.Port{
			{NIC: "vmnic2", PCI: "0000:03:00.0", Driver: "i40en", Mbps: 10000, Capable: true, Enabled: true, Active: true, Requested: 2, Present: 2, Max: 32, VFs: []state.VF{{PCI: "0000:03:02.0"}, {PCI: "0000:03:02.1"}}},
			{NIC: "vmnic3", PCI: "0000:03:00.1", Driver: "i40en", Capable: true, Enabled: true, Requested: 4, Max: 32},
			{NIC: "vmnic4", PCI: "0000:04:00.0", Driver: "i40en", Mbps: 2500, Capable: true, Passthrough: true, PassActive: true},
			{NIC: "vmnic0", PCI: "0000:0b:00.0", Driver: "ntg3", Mbps: 1000},
		},
		Switches:   []state.Switch{{Name: "sriov-a", Uplinks: []string{"vmnic2"}, MTU: 9000, PortGroups: []string{"vf-a", "plain"}}},
		PortGroups: []state.PortGroup{{Name: "vf-a", Switch: "sriov-a", VLAN: 100}, {Name: "plain", Switch: "sriov-a"}},
		VMs: []state.VM{
			{Name: "vm1", On: true, Power: "on", MemoryMB: 1024, ReservedMB: 1024, Locked: true, VFs: []state.Use{{As: file.NIC, Port: "vmnic2", PortGroup: "vf-a", MAC: "00:50:56:00:00:01", Address: "0000:03:02.1"}}},
			{Name: "vm2", Power: "off", MemoryMB: 2048, ReservedMB: 512, VFs: []state.Use{{As: file.NIC, Port: "vmnic2", PortGroup: "vf-a"}}},
		},
	}
}

func TestDraw(t *testing.T) {
	want := `esxi01  ready  VMware ESXi 8.0.2

PF      PCI           DRIVER  LINK        VFS
vmnic2  0000:03:00.0  i40en   10 Gb/s     [#.]  1 used, 1 free, at most 32
vmnic3  0000:03:00.1  i40en   no carrier  []    none, it can have 32, 4 after a reboot
vmnic4  0000:04:00.0  i40en   2500 Mb/s   []    pass-through is on, so it has no VFs
vmnic0  0000:0b:00.0  ntg3    1 Gb/s      []    cannot have VFs

VF        PCI           PHASE     OWNER   AS   NETWORK  MAC
vmnic2#0  0000:03:02.0  free      -       -    -        -
vmnic2#1  0000:03:02.1  attached  vm vm1  nic  vf-a     00:50:56:00:00:01
vmnic2    -             at start  vm vm2  nic  vf-a     -

VM   POWER   MEMORY  RESERVED  VFS
vm1  on     1024 MB  all         1
vm2  off    2048 MB  512 MB      1

SWITCH   UPLINKS   MTU  PORT GROUPS
sriov-a  vmnic2   9000  vf-a (VLAN 100), plain
`
	if diff := cmp.Diff(want, Draw(host(), screen.Look{Width: 100})); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	h := host()
	h.Maintenance, h.Name = true, "a\x1b[2Jb"
	if got := Draw(h, screen.Look{}); !strings.HasPrefix(got, `a\x1b[2Jb  MAINTENANCE MODE  `) {
		t.Errorf("%.60q", got)
	}
	h.VMs[0].Template, h.VMs[1].Unreadable = true, "inaccessible"
	if got := Draw(h, screen.Look{}); !strings.Contains(got, "vm1  template  1024 MB  all") || !strings.Contains(got, "vm2  off       2048 MB  inaccessible") {
		t.Error(got)
	}
	const bad = "\x1b]0;x\a\n"
	h = state.Host{
		Name: bad, Product: bad, Connected: true, PortGroups: []state.PortGroup{{Name: bad, VLAN: 3}},
		Ports:    []state.Port{{NIC: bad, PCI: bad, Driver: bad, Active: true, Present: 1, VFs: []state.VF{{PCI: bad}, {PCI: "b" + bad}}}},
		Switches: []state.Switch{{Name: bad, Uplinks: []string{bad}, PortGroups: []string{bad}}},
		VMs:      []state.VM{{Name: bad, Power: "off", Unreadable: bad, VFs: []state.Use{{As: file.NIC, Port: bad, PortGroup: bad, MAC: bad}, {As: file.NIC, Port: bad, PortGroup: bad, MAC: bad, Address: bad}}}},
	}
	if got := Draw(h, screen.Look{}); strings.ContainsAny(got, "\x1b\a") {
		t.Errorf("a terminal would act on %q", got)
	}
	if got := Draw(state.Host{Name: "away"}, screen.Look{}); !strings.HasPrefix(got, "away  NOT CONNECTED  -\n\nThe vCenter has no connection") || strings.Contains(got, "PF") {
		t.Error(got)
	}
}

// No line exceeds the terminal, however long the names are. vSphere allows 80 characters.
func TestWorstScreenFits(t *testing.T) {
	h := host()
	long := func(first string) string { return first + strings.Repeat("x", 79) }
	h.Name, h.Product = strings.Repeat("esxi01.", 30)+"example.com", "VMware ESXi 8.0.2 "+strings.Repeat("build-22380479 ", 8)
	for i := range h.Ports {
		h.Ports[i].NIC, h.Ports[i].Driver = strings.Repeat("v", 15), "nmlx5_core_and_more"
		h.Ports[i].VFs = append(h.Ports[i].VFs, make([]state.VF, 16)...)
	}
	for i := range h.VMs {
		h.VMs[i].Name, h.VMs[i].Unreadable = long("vm "), "the host does not answer, and its datastore is not there"
		h.VMs[i].VFs[0].PortGroup, h.VMs[i].VFs[0].Port = long("p"), strings.Repeat("v", 15)
	}
	h.Switches[0].Name, h.Switches[0].PortGroups = strings.Repeat("s", 32), []string{long("p"), long("q"), long("r")}
	h.Switches[0].Uplinks = []string{"vmnic2", "vmnic3", "vmnic4", "vmnic5", "vmnic6", "vmnic7", "vmnic8", "vmnic9"}
	for _, width := range []int{100, 60, 40} {
		look := screen.Look{Width: width}
		for line := range strings.Lines(look.Fit(Draw(h, look))) {
			if n := screen.Columns(strings.TrimSuffix(line, "\n")); n > width {
				t.Errorf("in %d columns: %d columns: %s", width, n, line)
			}
		}
	}
}
