package apply

import (
	"bytes"
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/vmware/govmomi/vim25/types"

	"github.com/culvert-net/culvert/internal/esxi/file"
	"github.com/culvert-net/culvert/internal/esxi/plan"
	"github.com/culvert-net/culvert/internal/esxi/state"
	"github.com/culvert-net/culvert/internal/esxi/vsphere"
	"github.com/culvert-net/culvert/test/vcsim"
)

const oneSwitch = "server: a\nswitches: [{name: sriov-a, portGroups: [{name: vf-a}]}]\n"

// TestOneRunAtATime: on one machine a second run is refused while the first one works on the host or on the
// list, also where its file has another name. When the first one has ended it goes on.
func TestOneRunAtATime(t *testing.T) {
	b := newBench(t, vcsim.Options{})
	spec := b.spec(t, oneSwitch)
	c, err := b.dial(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(t.Context())
	hold := func(path string) (func(), error) { return (&Run{Host: c, Path: path}).Hold(t.Context(), spec) }
	release, err := hold(b.made)
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{b.made: "the list " + b.made + " (process ", t.TempDir() + "/other.made": "host esxi01.example.com (process "} {
		if _, err := hold(path); !errors.Is(err, ErrBusy) || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "wait until it has ended") {
			t.Errorf("%s: %v", path, err)
		}
	}
	release()
	release, err = hold(t.TempDir() + "/other.made")
	if err != nil {
		t.Fatal(err)
	}
	release()
}

// TestTwoMachines: another machine makes a switch between the look and the call. The host refuses, the
// message says so, and remove does not take the other's switch away.
func TestTwoMachines(t *testing.T) {
	b := newBench(t, vcsim.Options{})
	spec := b.spec(t, oneSwitch)
	b.Before = func(_ int, method string) bool {
		if method == "AddVirtualSwitch" {
			b.Network().Vswitch = append(b.Network().Vswitch, types.HostVirtualSwitch{Name: "sriov-a", Mtu: 1500})
		}
		return false
	}
	_, err := b.apply(t.Context(), spec, false)
	if !errors.Is(err, vsphere.ErrUndone) || !strings.Contains(err.Error(), "add vSwitch sriov-a: ") || !strings.Contains(err.Error(), "(AlreadyExists): another program or person may have changed the host meanwhile: run the command again") {
		t.Error(err)
	}
	b.Before = nil
	b.mustApply(t, none(spec))
	if h := b.observe(t, spec); h.FindSwitch("sriov-a") == nil {
		t.Error("remove has taken a switch away that another machine has made")
	}
	if _, err := os.Stat(b.made); err == nil {
		t.Error("the list has the other's switch")
	}
}

// TestVMChangedMeanwhile: another machine changes a virtual machine between the look and the call.
func TestVMChangedMeanwhile(t *testing.T) {
	b := newBench(t, vcsim.Options{AppliesLive: true})
	spec := b.spec(t, small)
	b.Machine("vm1").Config.ChangeVersion = "7"
	b.Before = func(_ int, method string) bool {
		if method == "ReconfigVM_Task" {
			b.Machine("vm1").Config.ChangeVersion = "8"
		}
		return false
	}
	_, err := b.apply(t.Context(), spec, false)
	if !errors.Is(err, vsphere.ErrUndone) || !strings.Contains(err.Error(), "(ConcurrentAccess): another program or person may have changed the host meanwhile") {
		t.Error(err)
	}
	b.Before = nil
	b.mustApply(t, spec)
	b.mustApply(t, none(spec))
	if vm := b.observe(t, spec).VMs[0]; len(vm.VFs) > 0 || vm.Locked {
		t.Errorf("after remove vm1 is %+v", vm)
	}
}

// TestChangedWhileAsked: the person takes a while to answer, and a virtual machine starts meanwhile.
func TestChangedWhileAsked(t *testing.T) {
	b := newBench(t, vcsim.Options{})
	spec := b.spec(t, small)
	c, err := b.dial(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(t.Context())
	r := &Run{Host: c, Path: b.made, Out: &bytes.Buffer{}, Poll: time.Millisecond, Patience: time.Minute, AllowReboot: func(string) (bool, error) {
		b.Power(t, "vm3", true)
		return true, nil
	}}
	p, err := r.Plan(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	b.Methods()
	if err := r.Apply(t.Context(), p); !errors.Is(err, ErrChanged) || !strings.Contains(err.Error(), "run the command again") {
		t.Error(err)
	}
	if slices.ContainsFunc(b.Methods(), changesHost) {
		t.Error("the host was touched")
	}
}

// TestLostSession: the server ends the session at any call in the middle. With a password the run goes on,
// or says that the next one does.
func TestLostSession(t *testing.T) {
	for _, at := range []string{"RetrievePropertiesEx", "QueryConfigTarget"} {
		b := newBench(t, vcsim.Options{AppliesLive: true})
		n := 0
		b.Before = func(_ int, method string) bool {
			if method == at {
				if n++; n == 5 {
					b.EndSessions()
				}
			}
			return false
		}
		if _, err := b.apply(t.Context(), b.spec(t, small), false); err != nil {
			t.Errorf("%s: %v", at, err)
		}
	}
	for _, at := range []string{"UpdatePassthruConfig", "AddVirtualSwitch", "AddPortGroup", "ReconfigVM_Task"} {
		b := newBench(t, vcsim.Options{AppliesLive: true})
		b.Before = func(_ int, method string) bool {
			if method == at {
				b.EndSessions()
				b.Before = nil
			}
			return false
		}
		if _, err := b.apply(t.Context(), b.spec(t, small), false); err != nil {
			t.Errorf("%s: %v", at, err)
		}
	}
}

// TestLostTask: the session ends while a task runs, so its end is not known. The parts that it has made
// stay in the list.
func TestLostTask(t *testing.T) {
	b := newBench(t, vcsim.Options{AppliesLive: true})
	spec := b.spec(t, small)
	before := b.observe(t, spec)
	begun := false
	b.Before = func(_ int, method string) bool {
		if begun {
			b.EndSessions()
			b.Before = nil
		}
		begun = method == "ReconfigVM_Task"
		return false
	}
	_, err := b.apply(t.Context(), spec, false)
	if err == nil || errors.Is(err, vsphere.ErrUndone) || !strings.Contains(err.Error(), "the task has begun, and its end is not known") || !strings.Contains(err.Error(), "run the command again to go on") {
		t.Error(err)
	}
	b.mustApply(t, none(spec))
	if diff := cmp.Diff(before, b.observe(t, spec)); diff != "" {
		t.Errorf("-before +after remove:\n%s", diff)
	}
}

// TestVMIsAway: a virtual machine with a VF of Culvert leaves the host and comes back. Culvert still knows
// its VF and its reserved memory. remove forgets it while it is away, and says so.
func TestVMIsAway(t *testing.T) {
	b := newBench(t, vcsim.Options{AppliesLive: true})
	spec := b.spec(t, small)
	before := b.observe(t, spec)
	b.mustApply(t, spec)
	without := spec
	without.VMs = nil
	comeBack := b.Leave("vm1")
	b.mustApply(t, without)
	comeBack()
	b.mustApply(t, none(spec))
	if vm := b.observe(t, spec).VMs[0]; len(vm.VFs) > 0 || vm.Locked != before.VMs[0].Locked || vm.ReservedMB != before.VMs[0].ReservedMB {
		t.Errorf("vm1 came back, and after remove it is %+v", vm)
	}
	b.mustApply(t, spec)
	b.Leave("vm1")
	c, err := b.dial(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(t.Context())
	p, err := (&Run{Host: c, Path: b.made}).Plan(t.Context(), none(spec))
	if err != nil || !slices.ContainsFunc(p.Notes, func(n string) bool {
		return strings.HasPrefix(n, "virtual machine vm1, which Culvert has given 2 VFs, is not on this host any more")
	}) {
		t.Errorf("%q, %v", p.Notes, err)
	}
	b.mustApply(t, none(spec))
	if _, err := os.Stat(b.made); err == nil {
		t.Error("remove has left the list")
	}
}

// TestMovedAndRenamed: a virtual machine leaves the host while apply is at work. apply stops and says so,
// and finishes when it is back. After a rename Culvert still knows it.
func TestMovedAndRenamed(t *testing.T) {
	b := newBench(t, vcsim.Options{AppliesLive: true})
	spec := b.spec(t, small)
	var comeBack func()
	b.Before = func(_ int, method string) bool {
		if method == "AddPortGroup" {
			comeBack = b.Leave("vm1")
		}
		return false
	}
	_, err := b.apply(t.Context(), spec, false)
	if !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), "has no virtual machine vm1") || !strings.Contains(err.Error(), "run the command again to go on") {
		t.Error(err)
	}
	b.Before = nil
	comeBack()
	b.mustApply(t, spec)
	b.Machine("vm1").Name = "web%2f1"
	if _, err := b.apply(t.Context(), spec, false); !errors.Is(err, ErrRefused) {
		t.Errorf("vm1 has another name: %v", err)
	}
	spec.VMs[0].Name = "web/1"
	if out := b.mustApply(t, spec); out != "" {
		t.Errorf("nothing has changed but its name: %s", out)
	}
	b.mustApply(t, none(spec))
	for _, vm := range b.observe(t, spec).VMs {
		if len(vm.VFs) > 0 || vm.Locked {
			t.Errorf("after remove %+v", vm)
		}
	}
}

// TestVFsVanish: a port loses its VFs, as when its driver changes. remove still takes the device away from
// the virtual machine, and leaves a person's PCI device.
func TestVFsVanish(t *testing.T) {
	b := newBench(t, vcsim.Options{AppliesLive: true})
	spec := b.spec(t, small)
	b.mustApply(t, spec)
	c, err := b.dial(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(t.Context())
	if err := c.Do(t.Context(), plan.SetPorts{Ports: []plan.PortSetting{{NIC: "vmnic2", PCI: "0000:03:00.0"}}}); err != nil {
		t.Fatal(err)
	}
	vm := b.Machine("vm1")
	gpu := &types.VirtualPCIPassthrough{VirtualDevice: types.VirtualDevice{Key: 13009, Backing: &types.VirtualPCIPassthroughDeviceBackingInfo{Id: "0000:05:00.0"}}}
	vm.Config.Hardware.Device = append(vm.Config.Hardware.Device, gpu)
	out := b.mustApply(t, none(spec))
	if !strings.Contains(out, "- virtual machine vm1: PCI device 0000:03:02.0, which was a VF") {
		t.Error(out)
	}
	if vm := b.observe(t, spec).VMs[0]; len(vm.VFs) > 0 || len(vm.Others) != 1 || vm.Others[0].Address != "0000:05:00.0" || !vm.Locked {
		t.Errorf("after remove vm1 is %+v", vm)
	}
}

// scripted is a host that shows one state after the other, and accepts everything.
type scripted struct {
	shows []func() (state.Host, error)
	at    int
	again error // of Reconnect
}

func (s *scripted) Observe(context.Context) (state.Host, error) {
	s.at++
	return s.shows[min(s.at, len(s.shows))-1]()
}
func (*scripted) Do(context.Context, any) error     { return nil }
func (s *scripted) Reconnect(context.Context) error { return s.again }

func showing(h state.Host) func() (state.Host, error) {
	return func() (state.Host, error) { return h, nil }
}

func runScripted(t *testing.T, s *scripted, spec file.Spec) error {
	t.Helper()
	r := &Run{Host: s, Path: t.TempDir() + "/made", Out: &bytes.Buffer{}, Poll: time.Millisecond, Patience: 200 * time.Millisecond, AllowReboot: func(string) (bool, error) { return true, nil }}
	p, err := r.Plan(t.Context(), spec)
	if err == nil {
		err = r.Apply(t.Context(), p)
	}
	return err
}

// TestChangedBack: another program changes the host back each time. The run ends, and says so.
func TestChangedBack(t *testing.T) {
	one := state.Host{Name: "esxi01", Connected: true, AppliesLive: true, Ports: []state.Port{{NIC: "vmnic2", PCI: "a", Capable: true, Max: 8}, {NIC: "vmnic3", PCI: "b", Capable: true, Max: 8, Enabled: true, Active: true, Requested: 1, Present: 1}}}
	two := one
	two.Ports = []state.Port{{NIC: "vmnic2", PCI: "a", Capable: true, Max: 8, Enabled: true, Active: true, Requested: 1, Present: 1}, {NIC: "vmnic3", PCI: "b", Capable: true, Max: 8}}
	s := &scripted{shows: []func() (state.Host, error){showing(one), showing(two), showing(one), showing(two), showing(one), showing(two)}}
	err := runScripted(t, s, file.Spec{Server: "a", Ports: []file.Port{{NIC: "vmnic2", VFs: 1}, {NIC: "vmnic3", VFs: 1}}})
	if err == nil || !strings.Contains(err.Error(), `the host has accepted "~ port vmnic2: VFs 0 -> 1", and does not show it any more: another program or person changes it back`) {
		t.Error(err)
	}
}

// TestBackAfterReboot: a host whose clock was set back is back. One that never went away is not, and one
// with another certificate is reported at once.
func TestBackAfterReboot(t *testing.T) {
	boot := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	pending := state.Host{Name: "esxi01", Connected: true, Maintenance: true, Boot: boot, Ports: []state.Port{{NIC: "vmnic2", Capable: true, Max: 8, Enabled: true, Requested: 1}}}
	done := pending
	done.Boot, done.Ports = boot.Add(-time.Hour), []state.Port{{NIC: "vmnic2", Capable: true, Max: 8, Enabled: true, Active: true, Requested: 1, Present: 1}}
	away := func() (state.Host, error) { return state.Host{}, errors.New("no answer") }
	spec := file.Spec{Server: "a", Ports: []file.Port{{NIC: "vmnic2", VFs: 1}}}
	if err := runScripted(t, &scripted{shows: []func() (state.Host, error){showing(pending), showing(pending), away, showing(done)}}, spec); err != nil {
		t.Errorf("a clock set back: %v", err)
	}
	unchanged := pending
	if err := runScripted(t, &scripted{shows: []func() (state.Host, error){showing(pending), showing(pending), away, showing(unchanged)}}, spec); err == nil || !strings.Contains(err.Error(), "has not come back after its reboot") {
		t.Errorf("only the network was away: %v", err)
	}
	s := &scripted{shows: []func() (state.Host, error){showing(pending), showing(pending), away}, again: vsphere.ErrCertificate}
	if err := runScripted(t, s, spec); !errors.Is(err, vsphere.ErrCertificate) {
		t.Errorf("another certificate: %v", err)
	}
}
