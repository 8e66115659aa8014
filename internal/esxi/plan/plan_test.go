package plan

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/culvert-net/culvert/internal/esxi/file"
	"github.com/culvert-net/culvert/internal/esxi/made"
	"github.com/culvert-net/culvert/internal/esxi/state"
	"github.com/culvert-net/culvert/internal/screen"
)

// newHost has the ports vmnic2 with two VFs, vmnic3 with none and vmnic0 that can have none. vm1 is off
// and has a network adapter with a VF of vmnic2, vm2 is off, and both are from a person.
func newHost() state.Host {
	return state.Host{
		Name: "esxi01", Connected: true,
		Ports: []state.Port{
			{NIC: "vmnic2", PCI: "0000:03:00.0", Capable: true, Enabled: true, Active: true, Requested: 2, Present: 2, Max: 8, VFs: []state.VF{{PCI: "0000:03:02.0"}, {PCI: "0000:03:02.1"}}},
			{NIC: "vmnic3", PCI: "0000:03:00.1", Capable: true, Max: 8},
			{NIC: "vmnic0", PCI: "0000:0b:00.0", Model: "BCM5720"},
		},
		Switches:   []state.Switch{{Name: "vSwitch0", Uplinks: []string{"vmnic0"}, MTU: 1500, PortGroups: []string{"VM Network"}}},
		PortGroups: []state.PortGroup{{Name: "VM Network", Switch: "vSwitch0", Kernel: []string{"vmk0"}}},
		VMs: []state.VM{
			{
				Name: "vm1", ID: "1", Power: "off", MemoryMB: 1024, Locked: true, ReservedMB: 1024, Cards: 1, MaxCards: 2, MaxDevices: 1, Networks: []string{"VM Network"},
				VFs: []state.Use{{As: file.NIC, Port: "vmnic2", PortGroup: "VM Network", Key: 4000}},
			},
			{Name: "vm2", ID: "2", Power: "off", MemoryMB: 2048, MaxCards: 2, MaxDevices: 1},
		},
	}
}

func parse(t *testing.T, text string) file.Spec {
	t.Helper()
	spec, err := file.Parse("esxi.yaml", []byte("server: esxi01\n"+text))
	if err != nil {
		t.Fatal(err)
	}
	return spec
}

const (
	twoVFs  = "ports: [{nic: vmnic2, vfs: 2}]\n"
	fourVFs = "ports: [{nic: vmnic2, vfs: 4}]\n"
	another = "switches: [{name: sriov-a, uplinks: [vmnic3], portGroups: [{name: vf-a}]}]\n"
)

// TestRefusals: each refusal says what is in the way and what would work, before anything is touched.
func TestRefusals(t *testing.T) {
	on := func(h *state.Host) { h.VMs[0].On, h.VMs[0].Power = true, "on" }
	for name, c := range map[string]struct {
		text   string
		change func(*state.Host)
		want   string
	}{
		"no connection":          {"", func(h *state.Host) { h.Connected = false }, "the vCenter has no connection to host esxi01"},
		"no such port":           {"ports: [{nic: vmnic9, vfs: 2}]", nil, "host esxi01 has no port vmnic9: did you mean vmnic2?"},
		"cannot have VFs":        {"ports: [{nic: vmnic0, vfs: 2}]", nil, "port vmnic0 (BCM5720) cannot have VFs: those that can are vmnic2, vmnic3"},
		"no port can":            {"ports: [{nic: vmnic0, vfs: 2}]", func(h *state.Host) { h.Ports = h.Ports[2:] }, "no port of this host can; is SR-IOV on in its firmware?"},
		"more than the port has": {"ports: [{nic: vmnic3, vfs: 9}]", nil, "port vmnic3 can have 8 VFs at most, and the file says 9"},
		"pass-through is on":     {"ports: [{nic: vmnic3, vfs: 2}]", func(h *state.Host) { h.Ports[1].Passthrough, h.Ports[1].PassActive, h.Ports[1].Max = true, true, 0 }, "pass-through of port vmnic3 is on, so its maximum of VFs reads 0: write passthrough: off"},
		"VFs in use":             {fourVFs, on, "VFs of port vmnic2 are in use: virtual machine vm1 is on: shut it down"},
		"maintenance mode":       {"ports: [{nic: vmnic3, vfs: 2}]", on, "a reboot needs maintenance mode, and 1 virtual machine is on: shut down, or move to another host: vm1"},
		"fewer than configured":  {"ports: [{nic: vmnic2, vfs: 0}]", nil, "port vmnic2 has or gets 0 VFs, and 1 are asked for, by vm1"},
		"more asked for":         {twoVFs + "vms: [{name: vm2, vfs: [{as: nic, port: vmnic2, portGroup: VM Network}, {as: device, port: vmnic2}]}]", nil, "port vmnic2 has or gets 2 VFs, and 3 are asked for, by vm1, vm2, vm2"},
		"port is not in file":    {"vms: [{name: vm2, vfs: [{as: device, port: vmnic3}]}]", nil, "port vmnic3 has no VFs: add it to ports in the file"},
		"VM is on": {twoVFs + "vms: [{name: vm1, vfs: [{as: nic, port: vmnic2, portGroup: VM Network, mac: \"00:50:56:01:02:03\"}]}]", on,
			"virtual machine vm1 is on, and changes only while it is off: shut it down"},
		"no such VM":        {"vms: [{name: vm3}]", nil, "host esxi01 has no virtual machine vm3: did you mean vm1?"},
		"two of a name":     {"vms: [{name: vm2}]", func(h *state.Host) { h.VMs[0].Name = "vm2" }, "has two virtual machines vm2: rename one"},
		"a template":        {"vms: [{name: vm2}]", func(h *state.Host) { h.VMs[1].Template = true }, "virtual machine vm2 is a template, which has no VFs"},
		"cannot be read":    {"vms: [{name: vm2}]", func(h *state.Host) { h.VMs[1].Unreadable = "inaccessible" }, "virtual machine vm2 is inaccessible, so its devices are not known"},
		"one ID for two":    {"vms: [{name: vm2}]", func(h *state.Host) { h.VMs[0].ID = "2" }, "virtual machine vm2 has no instance UUID of its own"},
		"no ID":             {"vms: [{name: vm2}]", func(h *state.Host) { h.VMs[1].ID = "" }, "virtual machine vm2 has no instance UUID of its own"},
		"unreadable and on": {"ports: [{nic: vmnic3, vfs: 2}]", func(h *state.Host) { h.VMs[1].Unreadable, h.VMs[1].On = "disconnected", true }, "a reboot needs maintenance mode, and 1 virtual machine is on: shut down, or move to another host: vm2"},
		"unreadable, no reboot": {"ports: [{nic: vmnic3, vfs: 2}]", func(h *state.Host) {
			h.AppliesLive, h.VMs[1].Unreadable, h.VMs[1].On, h.VMs[1].Power = true, "disconnected", true, "on"
		}, "virtual machine vm2 is on and disconnected, so it may have VFs of port vmnic3"},
		"one function":       {"ports: [{nic: vmnic2, vfs: 2}, {nic: vmnic3, vfs: 3}]", func(h *state.Host) { h.Ports[1] = h.Ports[0]; h.Ports[1].NIC = "vmnic3" }, "ports vmnic2 and vmnic3 are one PCI function (0000:03:00.0), which has its VFs for both"},
		"distributed uplink": {another, func(h *state.Host) { h.Distributed = []state.Switch{{Name: "dvs", Uplinks: []string{"vmnic3"}}} }, "port vmnic3 is an uplink of distributed switch dvs: remove it there first, or take another port for vSwitch sriov-a"},
		"two have the VF": {"vms: [{name: vm2, vfs: [{as: device, port: vmnic2, address: \"0000:03:02.0\"}]}]", func(h *state.Host) {
			h.VMs[0].VFs[0].Address = "0000:03:02.0"
			h.VMs = append(h.VMs, state.VM{Name: "vm3", ID: "3", VFs: []state.Use{{As: file.Device, Port: "vmnic2", Address: "0000:03:02.0", Key: 1}}})
			h.VMs[0].VFs = nil
		}, "VF 0000:03:02.0 belongs to virtual machine vm3"},
		"no such port of VF": {"vms: [{name: vm2, vfs: [{as: device, port: vmnic8}]}]", nil, "virtual machine vm2: host esxi01 has no port vmnic8"},
		"no such port group": {"vms: [{name: vm2, vfs: [{as: nic, port: vmnic2, portGroup: vf-z}]}]", nil, "virtual machine vm2: there is no port group vf-z: add it to a switch of the file"},
		"no slot for a NIC":  {"vms: [{name: vm2, vfs: [{as: nic, port: vmnic2, portGroup: VM Network}]}]", func(h *state.Host) { h.VMs[1].Cards = 2 }, "virtual machine vm2 has no free slot: it would have 3 network adapters, and can have 2"},
		"no slot for PCI":    {"vms: [{name: vm2, vfs: [{as: device, port: vmnic2}]}]", func(h *state.Host) { h.VMs[1].Devices = 1 }, "virtual machine vm2 has no free slot: it would have 2 PCI devices, and can have 1"},
		"VF of another VM": {"vms: [{name: vm2, vfs: [{as: device, port: vmnic2, address: \"0000:03:02.0\"}]}]", func(h *state.Host) { h.VMs[0].VFs[0].Address = "0000:03:02.0" },
			"VF 0000:03:02.0 belongs to virtual machine vm1"},
		"no such VF":    {"vms: [{name: vm2, vfs: [{as: device, port: vmnic2, address: \"0000:03:02.7\"}]}]", nil, "port vmnic2 has no VF 0000:03:02.7"},
		"VF not listed": {"vms: [{name: vm2, vfs: [{as: device, port: vmnic2}]}]", func(h *state.Host) { h.Ports[0].VFs = nil }, "the host lists 0 of the 2 VFs of port vmnic2, so Culvert cannot choose one: write as: nic"},
		"switch of another": {"switches: [{name: vSwitch0, uplinks: [vmnic0], mtu: 9000}]", nil,
			"vSwitch vSwitch0 is there already and is different, and Culvert did not make it (~ vSwitch vSwitch0: MTU 1500 -> 9000)"},
		"uplink of another":   {"switches: [{name: sriov-a, uplinks: [vmnic0]}]", nil, "port vmnic0 is an uplink of vSwitch vSwitch0, which Culvert did not make"},
		"no such uplink":      {"switches: [{name: sriov-a, uplinks: [vmnic7]}]", nil, "host esxi01 has no port vmnic7, the uplink of vSwitch sriov-a"},
		"group of another":    {"switches: [{name: vSwitch0, uplinks: [vmnic0], portGroups: [{name: VM Network, vlan: 5}]}]", nil, "port group VM Network is there already and is different, and Culvert did not make it (~ port group VM Network: VLAN 0 -> 5)"},
		"group of another vS": {"switches: [{name: sriov-a, portGroups: [{name: VM Network}]}]", nil, "port group VM Network is on vSwitch vSwitch0, and the file has it on sriov-a"},
	} {
		h := newHost()
		if c.change != nil {
			c.change(&h)
		}
		p := Make(parse(t, c.text), made.Made{}, h)
		if got := strings.Join(p.Refusals, "\n"); !strings.Contains(got, c.want) {
			t.Errorf("%s: %q\nwant %q", name, got, c.want)
		}
		if len(p.Refusals) != 1 && name != "VFs in use" && name != "unreadable and on" {
			t.Errorf("%s: %d refusals: %q", name, len(p.Refusals), p.Refusals)
		}
	}
}

// steps returns the plan as text.
func steps(p Plan) string {
	var all []string
	for _, s := range p.Steps {
		text := s.String()
		for _, h := range s.Hurts {
			text += " (! " + h + ")"
		}
		all = append(all, text)
	}
	return strings.Join(append(all, append(p.Notes, p.Refusals...)...), "\n")
}

const restarts = "~ host esxi01: enter maintenance mode\n~ host esxi01: reboot (! host esxi01 is away for minutes, with its 2 virtual machines)\n~ host esxi01: leave maintenance mode"

func TestSteps(t *testing.T) {
	ours := made.Made{
		Switches: map[string]bool{"sriov-a": true}, Groups: map[string]string{"vf-a": "sriov-a"},
		Ports: map[string]made.Port{"vmnic2": {Set: made.Setting{VFs: 2}}},
		VMs:   map[string]made.VM{"1": {Name: "vm1", Before: &state.Memory{MB: 100}, Uses: []made.Use{{Use: state.Use{As: file.NIC, Port: "vmnic2", PortGroup: "vf-a", Key: 4000}}}}},
	}
	has := func(h *state.Host) {
		h.Switches = append(h.Switches, state.Switch{Name: "sriov-a", Uplinks: []string{"vmnic2"}, MTU: 1500, PortGroups: []string{"vf-a"}})
		h.PortGroups = append(h.PortGroups, state.PortGroup{Name: "vf-a", Switch: "sriov-a"})
		h.VMs[0].Networks, h.VMs[0].VFs[0].PortGroup = []string{"vf-a"}, "vf-a"
	}
	for name, c := range map[string]struct {
		text   string
		made   made.Made
		change func(*state.Host)
		want   string
	}{
		"nothing":          {twoVFs, made.Made{}, nil, ""},
		"unknown parts":    {"", made.Made{}, has, ""},
		"more VFs":         {fourVFs, made.Made{}, nil, "~ port vmnic2: VFs 2 -> 4\n" + restarts},
		"no reboot needed": {fourVFs, made.Made{}, func(h *state.Host) { h.AppliesLive = true }, "~ port vmnic2: VFs 2 -> 4"},
		"uplink": {"ports: [{nic: vmnic2, vfs: 4}]", made.Made{}, func(h *state.Host) {
			has(h)
			h.VMs[1].On = true
			h.VMs[1].Networks = []string{"vf-a"}
			h.AppliesLive = true
		}, "~ port vmnic2: VFs 2 -> 4 (! vSwitch sriov-a loses its uplink vmnic2 for moments, and with it vm2)"},
		"pending":              {twoVFs, made.Made{}, func(h *state.Host) { h.Ports[0].Present = 1 }, restarts},
		"in maintenance":       {fourVFs, made.Made{}, func(h *state.Host) { h.Maintenance = true }, "~ port vmnic2: VFs 2 -> 4\n~ host esxi01: reboot (! host esxi01 is away for minutes, with its 2 virtual machines)"},
		"reboot in ours":       {twoVFs, made.Made{Maintenance: true}, func(h *state.Host) { h.Maintenance, h.Ports[0].Present = true, 1 }, "~ host esxi01: reboot (! host esxi01 is away for minutes, with its 2 virtual machines)\n~ host esxi01: leave maintenance mode"},
		"in ours":              {twoVFs, made.Made{Maintenance: true}, func(h *state.Host) { h.Maintenance = true }, "~ host esxi01: leave maintenance mode"},
		"pass-through off":     {"ports: [{nic: vmnic3, vfs: 2, passthrough: off}]", made.Made{}, func(h *state.Host) { h.Ports[1].Passthrough, h.Ports[1].PassActive, h.Ports[1].Max = true, true, 0 }, "~ port vmnic3: pass-through on -> off\n" + restarts + "\nport vmnic3 gets its 2 VFs after that reboot, when its maximum is known; a second reboot follows"},
		"pass-through, no VFs": {"ports: [{nic: vmnic3, vfs: 0}]", made.Made{}, func(h *state.Host) { h.Ports[1].Passthrough, h.Ports[1].PassActive = true, true }, ""},
		"switch and group":     {another, made.Made{}, nil, "+ vSwitch sriov-a: uplinks vmnic3, MTU 1500\n+ port group vf-a on vSwitch sriov-a: VLAN 0"},
		"switch of ours": {"switches: [{name: sriov-a, uplinks: [vmnic2, vmnic3], mtu: 9000, security: {promiscuous: true}, portGroups: [{name: vf-a, vlan: 7}]}]\n" + twoVFs + "vms: [{name: vm1, vfs: [{as: nic, port: vmnic2, portGroup: vf-a}]}]", ours,
			func(h *state.Host) { has(h); h.VMs[0].On = true },
			"~ vSwitch sriov-a: MTU 1500 -> 9000; ~ vSwitch sriov-a: uplinks vmnic2 -> uplinks vmnic2 vmnic3; ~ vSwitch sriov-a: promiscuous inherited -> true (! vSwitch sriov-a changes, and with it vm1)\n" +
				"~ port group vf-a: VLAN 0 -> 7 (! port group vf-a changes, and with it vm1)"},
		"uplinks in another order": {"switches: [{name: sriov-a, uplinks: [vmnic2, vmnic3]}]", made.Made{}, func(h *state.Host) {
			h.Switches = append(h.Switches, state.Switch{Name: "sriov-a", Uplinks: []string{"vmnic3", "vmnic2"}, MTU: 1500})
		}, ""},
		"reserved memory":  {"vms: [{name: vm2, vfs: [{as: device, port: vmnic2, address: \"0000:03:02.1\"}]}]", made.Made{}, nil, "~ virtual machine vm2: reserved memory 0 MB -> all 2048 MB; + virtual machine vm2: VF 0000:03:02.1 of vmnic2 as a PCI device"},
		"VF after reboot":  {"ports: [{nic: vmnic3, vfs: 1}]\nvms: [{name: vm2, vfs: [{as: device, port: vmnic3}]}]", made.Made{}, nil, "~ port vmnic3: VFs 0 -> 1\n" + restarts + "\n~ virtual machine vm2: reserved memory 0 MB -> all 2048 MB; + virtual machine vm2: a VF of vmnic3 as a PCI device"},
		"a person's VF":    {"vms: [{name: vm1, vfs: [{as: nic, port: vmnic2, portGroup: VM Network}]}]", made.Made{}, nil, ""},
		"a named VF first": {"vms: [{name: vm2, vfs: [{as: device, port: vmnic2}]}, {name: vm1, vfs: [{as: device, port: vmnic2, address: \"0000:03:02.0\"}]}]", made.Made{}, func(h *state.Host) { h.VMs[0].VFs = nil; h.VMs[1].Locked = true }, "+ virtual machine vm1: VF 0000:03:02.0 of vmnic2 as a PCI device\n+ virtual machine vm2: VF 0000:03:02.1 of vmnic2 as a PCI device"},
		"remove":           {"", ours, has, "- virtual machine vm1: network adapter on vf-a with a VF of vmnic2; ~ virtual machine vm1: reserved memory all -> 100 MB\n- port group vf-a\n- vSwitch sriov-a\n~ port vmnic2: VFs 2 -> 0\n" + restarts},
		"remove, in use": {twoVFs + "vms: [{name: vm1, vfs: [{as: nic, port: vmnic2, portGroup: vf-a}]}]", ours, func(h *state.Host) {
			has(h)
			h.PortGroups[1].Kernel = []string{"vmk1"}
			h.VMs[1].Networks = []string{"vf-a"}
		},
			"- port group vf-a\n- vSwitch sriov-a\nport group vf-a cannot go: the host's own adapter vmk1 is on it: move that first, or keep the port group in the file\n" +
				"port group vf-a cannot go: virtual machine vm1 has a network adapter on it that stays: move that first, or keep the port group in the file\n" +
				"port group vf-a cannot go: virtual machine vm2 has a network adapter on it that stays: move that first, or keep the port group in the file"},
		"remove, foreign group": {twoVFs, made.Made{Switches: ours.Switches}, has, "- vSwitch sriov-a\nvSwitch sriov-a cannot go: its port group vf-a is not from Culvert: remove that by hand, or keep the switch in the file"},
		"changed by others":     {"", made.Made{Ports: map[string]made.Port{"vmnic2": {Set: made.Setting{VFs: 4}, Was: made.Setting{VFs: 3}}}}, nil, "port vmnic2 has 2 VFs now, and Culvert gave it 4: it was changed outside Culvert, so it stays"},
		"memory for others":     {"", made.Made{VMs: map[string]made.VM{"1": {Before: &state.Memory{}}}}, nil, "virtual machine vm1 keeps its reserved memory for its other VFs and PCI devices"},
	} {
		h := newHost()
		if c.change != nil {
			c.change(&h)
		}
		if diff := cmp.Diff(c.want, steps(Make(parse(t, c.text), c.made, h))); diff != "" {
			t.Errorf("%s: -want +got:\n%s", name, diff)
		}
	}
}

// TestSuspended: a suspended virtual machine is in the way of its own change, and not of a reboot.
func TestSuspended(t *testing.T) {
	h := newHost()
	h.VMs[1].On, h.VMs[1].Power = true, state.Suspended
	if p := Make(parse(t, "ports: [{nic: vmnic3, vfs: 2}]"), made.Made{}, h); len(p.Refusals) > 0 || !p.Reboots() {
		t.Errorf("%q", p.Refusals)
	}
	p := Make(parse(t, "vms: [{name: vm2, vfs: [{as: device, port: vmnic2}]}]"), made.Made{}, h)
	if len(p.Refusals) != 1 || p.Refusals[0] != "virtual machine vm2 is suspended, and changes only while it is off: shut it down" {
		t.Errorf("%q", p.Refusals)
	}
}

// TestSharedVF: a VF that Culvert takes from one virtual machine and that another one has as well is not
// free.
func TestSharedVF(t *testing.T) {
	h := newHost()
	device := state.Use{As: file.Device, Port: "vmnic2", Address: "0000:03:02.0", Key: 5}
	h.VMs[0].VFs = []state.Use{device}
	h.VMs = append(h.VMs, state.VM{Name: "vm3", ID: "3", VFs: []state.Use{device}})
	ours := made.Made{VMs: map[string]made.VM{"1": {Name: "vm1", Uses: []made.Use{{Use: device}}}}}
	p := Make(parse(t, "vms: [{name: vm2, vfs: [{as: device, port: vmnic2}]}]"), ours, h)
	if got := steps(p); !strings.Contains(got, "virtual machine vm2: VF 0000:03:02.1 of vmnic2") || strings.Contains(got, "vm2: VF 0000:03:02.0") {
		t.Error(got)
	}
}

// TestAbsent: a virtual machine that Culvert has changed, and that has left the host, is named. Another one
// that has its instance UUID is left alone.
func TestAbsent(t *testing.T) {
	entry := made.VM{Name: "vm1", Uses: []made.Use{{Use: state.Use{As: file.NIC, Port: "vmnic2", Key: 4000}}}}
	h := newHost()
	p := Make(parse(t, ""), made.Made{VMs: map[string]made.VM{"9": entry}}, h)
	if got := steps(p); got != "virtual machine vm1, which Culvert has given 1 VF, is not on this host any more: apply does nothing to it, and remove forgets it" {
		t.Error(got)
	}
	h.VMs[1].ID = "1"
	p = Make(parse(t, ""), made.Made{VMs: map[string]made.VM{"1": entry}}, h)
	if len(p.Steps) > 0 || len(p.Refusals) != 1 || !strings.Contains(p.Refusals[0], "has the instance UUID of another one") {
		t.Errorf("%+v", p)
	}
}

func TestDraw(t *testing.T) {
	h := newHost()
	h.VMs[0].On, h.VMs[0].Power = true, "on"
	got := Draw(Make(parse(t, another+"ports: [{nic: vmnic3, vfs: 2}]\n"), made.Made{}, h), screen.Look{Width: 70})
	want := `host esxi01
  ~ port vmnic3: VFs 0 -> 2
  ~ host esxi01: enter maintenance mode
  ~ host esxi01: reboot
    ! host esxi01 is away for minutes, with its 2 virtual machines
  ~ host esxi01: leave maintenance mode
  + vSwitch sriov-a: uplinks vmnic3, MTU 1500
  + port group vf-a on vSwitch sriov-a: VLAN 0

REFUSED, and nothing is touched
! a reboot needs maintenance mode, and 1 virtual machine is on: shut
  down, or move to another host: vm1
`
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if got := Draw(Make(parse(t, ""), made.Made{}, newHost()), screen.Look{}); got != "host esxi01\n  Nothing changes.\n" {
		t.Error(got)
	}
}

// No line of a plan exceeds the terminal, however long the names are.
func TestWorstPlanFits(t *testing.T) {
	long := strings.Repeat("x", 80)
	p := Plan{Host: strings.Repeat("esxi01.", 30) + "example.com", Notes: []string{"note of " + long + " and " + long}, Refusals: []string{long + " " + long}}
	p.Steps = []Step{{Lines: []Line{{Op: "~", Text: "virtual machine " + long + ": network adapter of port group " + long}}, Hurts: []string{"virtual machine " + long + " is off meanwhile"}}}
	for _, width := range []int{100, 60, 40} {
		look := screen.Look{Width: width}
		for line := range strings.Lines(look.Fit(Draw(p, look))) {
			if n := screen.Columns(strings.TrimSuffix(line, "\n")); n > width {
				t.Errorf("in %d columns: %d columns: %s", width, n, line)
			}
		}
	}
}
