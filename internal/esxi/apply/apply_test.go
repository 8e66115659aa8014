package apply

import (
	"bytes"
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/culvert-net/culvert/internal/esxi/file"
	"github.com/culvert-net/culvert/internal/esxi/plan"
	"github.com/culvert-net/culvert/internal/esxi/state"
	"github.com/culvert-net/culvert/test/vcsim"
)

func (b *bench) mustApply(t *testing.T, spec file.Spec) string {
	t.Helper()
	out, err := b.apply(t.Context(), spec, true)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func none(spec file.Spec) file.Spec {
	return file.Spec{Server: spec.Server, Thumbprint: spec.Thumbprint, Host: spec.Host}
}

// TestRefusedUntouched: with a refusal, and without leave to reboot, no call changes the host.
func TestRefusedUntouched(t *testing.T) {
	b := newBench(t, vcsim.Options{})
	spec := b.spec(t, small)
	untouched := func(want error) {
		t.Helper()
		b.Methods()
		_, err := b.apply(t.Context(), spec, false)
		if !errors.Is(err, want) {
			t.Errorf("%v, want %v", err, want)
		}
		for _, method := range b.Methods() {
			if changesHost(method) {
				t.Errorf("%s was called", method)
			}
		}
		if _, err := os.Stat(b.made); err == nil {
			t.Error("a list was written")
		}
	}
	untouched(ErrReboot)
	b.Power(t, "vm3", true)
	untouched(ErrRefused)
}

// TestStartsWithVFs: after apply the virtual machines start, with a VF each: their memory is reserved.
func TestStartsWithVFs(t *testing.T) {
	b := newBench(t, vcsim.Options{})
	spec := b.spec(t, small)
	b.mustApply(t, spec)
	b.Power(t, "vm1", true)
	h := b.observe(t, spec)
	if diff := cmp.Diff([]string{"0000:03:02.1", "0000:03:02.0"}, []string{h.VMs[0].VFs[0].Address, h.VMs[0].VFs[1].Address}); diff != "" {
		t.Error(diff)
	}
	_, err := b.apply(t.Context(), none(spec), true)
	if !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), "virtual machine vm1 is on, and changes only while it is off") || !strings.Contains(err.Error(), "VFs of port vmnic2 are in use") {
		t.Error(err)
	}
}

// TestNoReboot: a host that can, applies the VFs at once, and a port with pass-through takes two steps.
func TestNoReboot(t *testing.T) {
	b := newBench(t, vcsim.Options{AppliesLive: true, Passthrough: true})
	text := strings.Replace(small, "vfs: 3", "vfs: 3, passthrough: off", 1)
	if _, err := b.apply(t.Context(), b.spec(t, small), false); !errors.Is(err, ErrRefused) {
		t.Error(err)
	}
	out, err := b.apply(t.Context(), b.spec(t, text), false)
	if err != nil || !strings.HasPrefix(out, "~ port vmnic2: pass-through on -> off\n~ port vmnic2: VFs 0 -> 3\n") || b.Boots() != 0 {
		t.Errorf("%d boots: %s%v", b.Boots(), out, err)
	}
	b.mustApply(t, none(b.spec(t, small)))
	if p := b.observe(t, b.spec(t, small)).Ports[0]; !p.PassActive || p.WantedVFs() != 0 {
		t.Errorf("after remove the port is %+v", p)
	}
}

// TestPassthroughOff: pass-through goes off first, with a reboot, and the VFs come with a second one.
func TestPassthroughOff(t *testing.T) {
	b := newBench(t, vcsim.Options{Passthrough: true})
	b.mustApply(t, b.spec(t, strings.Replace(small, "vfs: 3", "vfs: 3, passthrough: off", 1)))
	if b.Boots() != 2 {
		t.Errorf("%d boots", b.Boots())
	}
}

// TestVCenter: the same through a vCenter, which stays while the host restarts.
func TestVCenter(t *testing.T) {
	b := newBench(t, vcsim.Options{VCenter: true})
	spec := b.spec(t, small)
	spec.Host = b.HostName
	before := b.observe(t, spec)
	b.mustApply(t, spec)
	if h := b.observe(t, spec); len(h.VMs[0].VFs) != 2 {
		t.Errorf("%+v", h.VMs[0])
	}
	b.mustApply(t, none(spec))
	if diff := cmp.Diff(before, b.observe(t, spec)); diff != "" {
		t.Errorf("-before +after remove:\n%s", diff)
	}
}

// TestOnlyOwn: remove leaves alone what a person has made, also beside parts of Culvert.
func TestOnlyOwn(t *testing.T) {
	b := newBench(t, vcsim.Options{})
	spec := b.spec(t, small)
	b.mustApply(t, spec)
	byHand := b.made
	b.made += ".other" // to the first list a person has made these
	more := b.spec(t, "server: a\nswitches: [{name: mine, portGroups: [{name: mine-a}]}]\nvms: [{name: vm1, vfs: [{as: nic, port: vmnic2, portGroup: mine-a}, {as: nic, port: vmnic2, portGroup: vf-a}, {as: device, port: vmnic2}]}]\n")
	b.mustApply(t, more)
	if n := len(b.observe(t, spec).VMs[0].VFs); n != 3 {
		t.Errorf("vm1 has %d VFs; it had two, one is new", n)
	}
	b.made = byHand
	_, err := b.apply(t.Context(), none(spec), true)
	if !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), "port vmnic2 has or gets 0 VFs, and 1 are asked for, by vm1") {
		t.Error(err)
	}
	b.made += ".other"
	b.mustApply(t, none(spec))
	b.made = byHand
	if vm := b.observe(t, spec).VMs[0]; len(vm.VFs) != 2 || !vm.Locked {
		t.Errorf("vm1 is %+v", vm)
	}
	os.Remove(b.made)
	if out := b.mustApply(t, none(spec)); out != "" {
		t.Errorf("without a list: %s", out)
	}
}

// TestLeavesFile: apply takes away what has left the file.
func TestLeavesFile(t *testing.T) {
	b := newBench(t, vcsim.Options{})
	spec := b.spec(t, small)
	b.mustApply(t, spec)
	spec.VMs[0].VFs = spec.VMs[0].VFs[:1]
	if diff := cmp.Diff("- virtual machine vm1: VF 0000:03:02.0 of vmnic2 as a PCI device\n", b.mustApply(t, spec)); diff != "" {
		t.Error(diff)
	}
	spec.Server = "other"
	r := &Run{Path: b.made}
	if _, err := r.Plan(t.Context(), spec); err == nil || !strings.Contains(err.Error(), "and the file is for other") {
		t.Error(err)
	}
	if err := os.WriteFile(b.made, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Plan(t.Context(), spec); err == nil || !strings.Contains(err.Error(), "is not whole") {
		t.Error(err)
	}
}

// liar accepts everything and does nothing, or never comes back after a reboot.
type liar struct{ state.Host }

func (l liar) Observe(context.Context) (state.Host, error) { return l.Host, nil }
func (liar) Do(context.Context, any) error                 { return nil }
func (liar) Reconnect(context.Context) error               { return nil }

// TestVerified: a step that the host accepts and does not do is an error, as is a reboot without end.
func TestVerified(t *testing.T) {
	for want, live := range map[string]bool{
		`the host has accepted "~ port vmnic2: VFs 0 -> 2", and does not show it: run the command again to go on; left: ~ port vmnic2`: true,
		"host esxi01 has not come back after its reboot within 20ms":                                                                   false,
	} {
		h := state.Host{Name: "esxi01", Connected: true, AppliesLive: live, Maintenance: true, Ports: []state.Port{{NIC: "vmnic2", Capable: true, Max: 8}}}
		if !live {
			h.Ports[0].Enabled, h.Ports[0].Requested = true, 2
		}
		var out bytes.Buffer
		r := &Run{Host: liar{h}, Path: t.TempDir() + "/made", Out: &out, Poll: time.Millisecond, Patience: 20 * time.Millisecond, AllowReboot: func(string) (bool, error) { return true, nil }}
		p, err := r.Plan(t.Context(), file.Spec{Server: "a", Ports: []file.Port{{NIC: "vmnic2", VFs: 2}}})
		if err == nil {
			err = r.Apply(t.Context(), p)
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	if !(plan.Plan{Steps: []plan.Step{{Action: plan.Reboot{}}}}).Reboots() {
		t.Error("a reboot is no reboot")
	}
}
