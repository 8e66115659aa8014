package vsphere

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/vmware/govmomi/vim25/types"

	"github.com/culvert-net/culvert/internal/esxi/file"
	"github.com/culvert-net/culvert/internal/esxi/state"
	"github.com/culvert-net/culvert/test/vcsim"
)

func observe(t *testing.T, c *Conn, err error) state.Host {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	h, err := c.Observe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// TestNames: the server escapes some characters of names, and people do not.
func TestNames(t *testing.T) {
	for raw, want := range map[string]string{
		"web%2f1": "web/1", "web%2F1": "web/1", "a%5cb": `a\b`, "100%25": "100%", "a%252fb": "a%2fb", "zwei Wörter 名": "zwei Wörter 名", "%": "%", "%zz": "%zz",
	} {
		if got := unescapeName(raw); got != want {
			t.Errorf("%s is %s, want %s", raw, got, want)
		}
	}
	m := vcsim.New(t, vcsim.Options{})
	m.Machine("vm2").Name = "a%2fb 名"
	m.NameHosts("rack 7%2fesxi 名")
	c, err := dial(t, m, func(s *file.Spec, _ *Login) { s.Host = "rack 7/esxi 名" })
	if h := observe(t, c, err); h.VMs[0].Name != "a/b 名" || h.Name != "rack 7/esxi 名" {
		t.Errorf("the virtual machine is %s of host %s", h.VMs[0].Name, h.Name)
	}
}

// TestOddMachines: templates and suspended virtual machines are seen as such. One whose configuration
// cannot be read is there too, since it may be on.
func TestOddMachines(t *testing.T) {
	m := vcsim.New(t, vcsim.Options{})
	m.Machine("vm1").Config.Template = true
	m.Machine("vm2").Runtime.PowerState = types.VirtualMachinePowerStateSuspended
	lost := m.Machine("vm3")
	lost.Config, lost.Runtime.PowerState, lost.Runtime.ConnectionState = nil, types.VirtualMachinePowerStatePoweredOn, types.VirtualMachineConnectionStateInaccessible
	c, err := dial(t, m, nil)
	h := observe(t, c, err)
	if len(h.VMs) != 3 || !h.VMs[0].Template || h.VMs[1].Power != "suspended" || h.VMs[2].Unreadable != "inaccessible" {
		t.Fatalf("%+v", h.VMs)
	}
	if on := h.Running(); !slices.Equal(on, []string{"vm3"}) {
		t.Errorf("%v are on", on)
	}
}

// TestDistributed: an uplink of a distributed switch is seen.
func TestDistributed(t *testing.T) {
	m := vcsim.New(t, vcsim.Options{})
	m.Network().ProxySwitch = []types.HostProxySwitch{{DvsName: "dvs%2f1", Pnic: []string{"key-vim.host.PhysicalNic-vmnic3"}}}
	c, err := dial(t, m, nil)
	if h := observe(t, c, err); len(h.Distributed) != 1 || h.Distributed[0].Name != "dvs/1" || !slices.Equal(h.Distributed[0].Uplinks, []string{"vmnic3"}) {
		t.Errorf("%+v", h.Distributed)
	}
}

// TestOddServers: a server that lacks what others have makes an error with a next step, and no panic.
func TestOddServers(t *testing.T) {
	m := vcsim.New(t, vcsim.Options{})
	m.HideDevices()
	if _, err := dial(t, m, nil); err == nil || !strings.Contains(err.Error(), "does not show the PCI devices of host esxi01.example.com: the user needs the privilege System.Read on its cluster, too") {
		t.Error(err)
	}
	m = vcsim.New(t, vcsim.Options{VCenter: true})
	m.NameHosts("same")
	if _, err := dial(t, m, func(s *file.Spec, _ *Login) { s.Host = "same" }); err == nil || !strings.Contains(err.Error(), "has 2 hosts same: rename all but one") {
		t.Error(err)
	}
	m = vcsim.New(t, vcsim.Options{})
	m.Network().Pnic, m.Network().Vswitch = nil, []types.HostVirtualSwitch{{Name: "\x1b[2J"}}
	c, err := dial(t, m, nil)
	if h := observe(t, c, err); len(h.Ports) != 0 || len(h.Switches) != 1 {
		t.Errorf("%+v", h)
	}
}

// TestSpread: hosts of folders, clusters and datacenters are found, each by its name.
func TestSpread(t *testing.T) {
	m := vcsim.New(t, vcsim.Options{VCenter: true, Spread: true})
	c, err := dial(t, m, func(s *file.Spec, _ *Login) { s.Host = m.HostName })
	if h := observe(t, c, err); h.Name != m.HostName || len(h.Ports) != 4 {
		t.Errorf("%+v", h)
	}
	_, err = dial(t, m, nil)
	for _, name := range []string{"has 12 hosts: write host in the file", "DC0_H0", "DC1_H1", "DC0_C0_H0", "DC1_C1_H1"} {
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s is not in %v", name, err)
		}
	}
}

// TestManyNames: a vCenter with many hosts does not fill the screen.
func TestManyNames(t *testing.T) {
	names := slices.Repeat([]string{"esxi"}, 1000)
	if got := listNames("", names); len(got) > 200 || !strings.HasSuffix(got, ", esxi and 980 more") {
		t.Error(got)
	}
}

// TestConflicts: a fault by which the host says that it has done nothing, since another was there, is one.
func TestConflicts(t *testing.T) {
	c := &Conn{}
	for fault, isConflict := range map[types.BaseMethodFault]bool{
		&types.AlreadyExists{}: true, &types.ConcurrentAccess{}: true, &types.TaskInProgress{}: true, &types.ResourceInUse{}: true, &types.InvalidPowerState{}: true,
		&types.NotFound{}: true, &types.ManagedObjectNotFound{}: true, &types.HostConfigFault{}: false, &types.Timedout{}: false, &types.SystemError{}: false,
	} {
		err := c.explainFault("add", &taskError{fault, "it failed"})
		if errors.Is(err, ErrUndone) != isConflict || strings.Contains(err.Error(), "run the command again, which plans anew") != isConflict {
			t.Errorf("%T: %v", fault, err)
		}
	}
	if err := c.explainFault("add", &taskError{&types.NoPermission{}, ""}); !errors.Is(err, ErrUndone) {
		t.Errorf("without a privilege something was done: %v", err)
	}
	if err := c.explainFault("add", errors.New("broken pipe")); errors.Is(err, ErrUndone) {
		t.Errorf("after a lost answer nothing was done: %v", err)
	}
}
