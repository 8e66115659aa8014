package guests

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/guest"
	"github.com/culvert-net/culvert/internal/vf"
)

func migrate(t *testing.T, a, b *fake, m Migration) error {
	t.Helper()
	m.Guest = "db1"
	_, err := Migrate(t.Context(), a, b, m, func(string) {})
	return err
}

// wantOf returns the want for net1 in a definition.
func wantOf(t *testing.T, text string) guest.Want {
	t.Helper()
	d, err := parseDevices(text)
	if err != nil {
		t.Fatal(err)
	}
	w, has, err := d.Of("net1")
	if err != nil || !has {
		t.Fatalf("no net1 (%v) in:\n%s", err, text)
	}
	return w
}

func uses(t *testing.T, text string) []guest.Use {
	t.Helper()
	d, err := parseDevices(text)
	if err != nil {
		t.Fatal(err)
	}
	return d.Uses
}

// moved fails unless the guest is on b alone, as it was on a but for its VF.
func moved(t *testing.T, a, b *fake, before string) {
	t.Helper()
	if a.Defined != "" || a.Live != "" || len(a.leased) > 0 || a.pool != 2 {
		t.Errorf("a still has it: defined %q, %d VFs leased", a.Defined, len(a.leased))
	}
	if !b.startable() || len(b.leased) != 1 {
		t.Fatalf("b: startable %v, %d VFs leased, defined:\n%s", b.startable(), len(b.leased), b.Defined)
	}
	was, is := wantOf(t, before), wantOf(t, b.Defined)
	if is.VF != b.leased["net1"].PCI || is.VF == was.VF {
		t.Errorf("its VF is %s, leased is %s", is.VF, b.leased["net1"].PCI)
	}
	was.VF = is.VF
	if diff := cmp.Diff(was, is); diff != "" {
		t.Errorf("not as it was (-want +got):\n%s", diff)
	}
}

func TestP16Cold(t *testing.T) {
	w := &world{}
	a, b := hosts(t, w, nil)
	before := a.Defined
	if err := migrate(t, a, b, Migration{}); err != nil {
		t.Fatal(err)
	}
	moved(t, a, b, before)
	if !b.Autostart {
		t.Error("it does not start with the host any more")
	}
	want := []string{
		"a: see", "a: see", "b: see", "b: missing", "b: lease net1", "b: define the guest", "a: define the guest", "a: see",
		"a: keep the guest from starting with the host", "b: let the guest start with the host", "b: define the guest", "a: undefine the guest", "a: take back the VF of net1",
	}
	if diff := cmp.Diff(want, w.done); diff != "" {
		t.Errorf("the order (-want +got):\n%s", diff)
	}
	w.done = nil
	there := b.Seen
	if err := migrate(t, a, b, Migration{}); err != nil || cmp.Diff(there, b.Seen) != "" || len(w.done) != 3 {
		t.Errorf("asked again: %v; it did %q", err, w.done)
	}
}

// A guest that runs is without its VF only while it is on its way.
func TestP16Live(t *testing.T) {
	w := &world{}
	a, b := hosts(t, w, func(req *api.GuestXMLRequest) { req.Failover = "ua-slow" })
	a.Live = a.Defined
	before := a.Defined
	if err := migrate(t, a, b, Migration{Live: true}); err != nil {
		t.Fatal(err)
	}
	moved(t, a, b, before)
	if diff := cmp.Diff(uses(t, b.Defined), uses(t, b.Live)); diff != "" || !b.Autostart {
		t.Errorf("autostart %v; it runs with other devices than it is defined with:\n%s", b.Autostart, diff)
	}
	want := []string{
		"a: see", "a: see", "b: see", "b: missing", "b: lease net1", "b: define the guest", "a: unplug net1", "a: take back the VF of net1",
		"a: define the guest", "a: keep the guest from starting with the host",
		"a: migrate the running guest over ssh", "b: see", "b: let the guest start with the host", "b: define the guest",
		"b: lease net1", "b: plug net1 in", "a: undefine the guest", "a: take back the VF of net1",
	}
	if diff := cmp.Diff(want, w.done); diff != "" {
		t.Errorf("the order (-want +got):\n%s", diff)
	}
}

// A plain PCI device has no MAC address of its own in the definition. The guest keeps the address
// that its VF had.
func TestP16KeepsTheMAC(t *testing.T) {
	a, b := hosts(t, &world{}, func(req *api.GuestXMLRequest) { req.Way = "hostdev" })
	mac := a.leased["net1"].Settings.MAC
	if err := migrate(t, a, b, Migration{}); err != nil {
		t.Fatal(err)
	}
	w := wantOf(t, b.Defined)
	if w.Spec.MAC == nil || *w.Spec.MAC != mac || w.Spec.VLAN == nil || w.Spec.VLAN.ID != 100 || b.leased["net1"].Settings.MAC != mac {
		t.Errorf("it has %s and wants %v of it, VLAN %v; its address was %s", b.leased["net1"].Settings.MAC, w.Spec.MAC, w.Spec.VLAN, mac)
	}
}

// A guest without a MAC address of its own takes the VF's along, and never that of another owner
// which has the VF meanwhile.
func TestP16TakesNoOtherMAC(t *testing.T) {
	base, other := vf.MAC{2, 0, 0, 0, 9, 1}, vf.MAC{2, 0, 0, 0, 9, 2}
	pod := &vf.Owner{Kind: vf.OwnerPod, UID: "c1", Name: "default/a", Interface: "net1"}
	for name, tc := range map[string]struct {
		change func(*api.VF)
		want   vf.MAC
		is     error
		says   string
	}{
		"the guest's":             {func(*api.VF) {}, other, nil, ""},
		"free":                    {func(v *api.VF) { v.Owner = nil }, base, nil, ""},
		"a pod's":                 {func(v *api.VF) { v.Owner = pod }, base, nil, ""},
		"another guest's":         {func(v *api.VF) { v.Owner = &vf.Owner{Kind: vf.OwnerGuest, UID: "u2", Name: "db1"} }, base, nil, ""},
		"a pod's, as it was made": {func(v *api.VF) { v.Owner, v.Settings.MAC = pod, base }, vf.MAC{}, vf.ErrHeld, "pod default/a has VF 0000:01:10.1 with MAC address 02:00:00:00:09:01"},
		"without a baseline":      {func(v *api.VF) { v.Owner, v.Baseline = nil, nil }, vf.MAC{}, vf.ErrNotFound, "has no baseline"},
		"missing":                 {func(v *api.VF) { v.Missing, v.Settings = true, vf.Admin{} }, vf.MAC{}, vf.ErrNotFound, "is missing from the PCI bus"},
	} {
		t.Run(name, func(t *testing.T) {
			a, b := hosts(t, &world{}, func(req *api.GuestXMLRequest) { req.Way = "hostdev" })
			v := a.leased["net1"]
			v.Settings.MAC, v.Baseline = other, &vf.Baseline{Admin: vf.Admin{MAC: base}}
			tc.change(&v)
			a.leased["net1"] = v
			before := a.Defined
			err := migrate(t, a, b, Migration{})
			if tc.is == nil {
				if got := b.leased["net1"].Settings.MAC; err != nil || got != tc.want {
					t.Errorf("%v; its MAC address is %s, want %s", err, got, tc.want)
				}
				return
			}
			if !errors.Is(err, tc.is) || !strings.Contains(err.Error(), tc.says) || !strings.Contains(err.Error(), "virsh edit db1") {
				t.Errorf("got  %v\nwant %s", err, tc.says)
			}
			if a.Defined != before || b.Defined != "" || len(b.leased) > 0 {
				t.Errorf("something changed: a has %q, b has %q", a.Defined, b.Defined)
			}
		})
	}
}

// A VF of the target may have the PCI address that another device of the guest has on the source.
// The last request has all devices of the guest, so that culvertd checks their number.
func TestP16SameAddresses(t *testing.T) {
	a, b := hosts(t, &world{}, func(req *api.GuestXMLRequest) { req.Way = "hostdev" })
	if _, err := attached(t, a, Attachment{}); err != nil {
		t.Fatal(err)
	}
	b.bus = a.bus
	one, two := a.leased["net1"], a.leased["net2"] // swapped, so that net1, the first that is leased, gets the address of net2
	one.PCI, two.PCI = two.PCI, one.PCI
	a.Defined = strings.NewReplacer(`function="0x0"`, `function="0x1"`, `function="0x1"`, `function="0x0"`).Replace(a.Defined)
	a.leased["net1"], a.leased["net2"] = one, two
	was := map[string]api.VF{"net1": one, "net2": two}
	asks := &asker{fake: b}
	if _, err := Migrate(t.Context(), a, asks, Migration{Guest: "db1"}, func(string) {}); err != nil {
		t.Fatal(err)
	}
	if b.leased["net2"].PCI != was["net1"].PCI {
		t.Fatalf("net2 has VF %s: it tests nothing", b.leased["net2"].PCI)
	}
	for _, u := range uses(t, b.Defined) {
		if now := b.leased[u.Name()]; u.VF() != now.PCI || now.Settings.MAC != was[u.Name()].Settings.MAC {
			t.Errorf("%s has VF %s; leased is %s with %s", u.Name(), u.VF(), now.PCI, now.Settings.MAC)
		}
	}
	if diff := cmp.Diff([]int{0, 1}, asks.others); diff != "" || len(b.leased) != 2 || len(a.leased) != 0 {
		t.Errorf("other devices in the requests: -want +got:\n%s", diff)
	}
}

// asker counts the other devices of the guest that each request has.
type asker struct {
	*fake
	others []int
}

func (a *asker) Lease(ctx context.Context, req api.GuestXMLRequest) (api.GuestXML, error) {
	d, err := parseDevices(req.Definition)
	if err != nil {
		return api.GuestXML{}, err
	}
	a.others = append(a.others, len(d.Uses))
	return a.fake.Lease(ctx, req)
}

// Whichever call fails, wherever the command is killed or the connection breaks: the guest can
// never start on both hosts. It can start on one of them, unless the command was cut off between
// the two halves of the switch. A repeated command brings the guest to b.
func TestP16BrokenAnywhere(t *testing.T) {
	for _, how := range []breakage{
		{name: "refused"}, {name: "answer lost", effect: true},
		{name: "killed before", dies: true}, {name: "killed after", dies: true, effect: true},
		{name: "cut before", cuts: "b"}, {name: "cut after", cuts: "b", effect: true},
		{name: "refused three times", also: 2}, {name: "libvirt here stops before", cuts: "a"}, {name: "libvirt here stops after", cuts: "a", effect: true},
	} {
		for name, running := range map[string]bool{"cold": false, "live": true} {
			t.Run(how.name+", "+name, func(t *testing.T) { brokenAnywhere(t, how, running) })
		}
	}
}

func brokenAnywhere(t *testing.T, how breakage, running bool) {
	m := Migration{Live: running}
	nowhere := 0
	for at := 1; ; at++ {
		w := &world{at: at, how: how}
		a, b := hosts(t, w, func(req *api.GuestXMLRequest) { req.Failover = "ua-slow" })
		if running {
			a.Live = a.Defined
		}
		before := *a
		err := migrate(t, a, b, m)
		if at > w.calls {
			break // nothing was broken
		}
		says := fmt.Sprintf("call %d (after %q), which ends with: %v", at, w.done, err)
		if a.autostarts() && b.startable() || b.autostarts() && a.startable() {
			t.Errorf("without hooks libvirt would start the marked one with its host: %s", says)
		}
		whole := !how.dies && how.cuts == "" && how.also == 0
		switch {
		case a.startable() && b.startable():
			t.Errorf("it can start on both: %s", says)
		case !a.startable() && !b.startable() && (whole || a.Defined == "" || b.Defined == ""):
			t.Errorf("it can start nowhere: %s", says)
		case !a.startable() && !b.startable():
			nowhere++
		}
		if (a.Live != "") == (b.Live != "") && running {
			t.Errorf("it runs on both, or on none: %s", says)
		}
		if err != nil && whole && a.startable() {
			if a.Defined != before.Defined || len(a.leased) != 1 || a.Autostart != before.Autostart {
				t.Errorf("a is not as before: %s", says)
			}
			if running && cmp.Diff(uses(t, before.Live), uses(t, a.Live)) != "" {
				t.Errorf("it runs with other devices: %s:\n%s", says, cmp.Diff(uses(t, before.Live), uses(t, a.Live)))
			}
			if b.Defined != "" || len(b.leased) > 0 {
				t.Errorf("b has something of it: %s", says)
			}
		}
		w.at, w.dead = 0, false
		if err := migrate(t, a, b, m); err != nil {
			t.Errorf("asked again: %v, after: %s", err, says)
			continue
		}
		moved(t, a, b, before.Defined)
		if running && (b.Live == "" || cmp.Diff(uses(t, b.Defined), uses(t, b.Live)) != "") {
			t.Errorf("it does not run with its VF and VLAN: %s", says)
		}
		if !b.Autostart {
			t.Errorf("it does not start with the host: %s", says)
		}
	}
	if most := 5; nowhere > most {
		t.Errorf("it can start nowhere after %d of the calls: want %d at most, those of the switch", nowhere, most)
	}
}

// A command is killed, and its repetition is refused. A guest that stays gets back the VF that the
// first command unplugged.
func TestP16RefusedAfterItWasKilled(t *testing.T) {
	for refusal, change := range map[string]func(b *fake){
		"its storage is not there": func(b *fake) { b.missing = []string{"/shared/vmlinux"} },
		"no VF is free there":      func(b *fake) { b.pool = 0 },
	} {
		for _, effect := range []bool{false, true} {
			for at := 1; ; at++ {
				w := &world{at: at, how: breakage{dies: true, effect: effect}}
				a, b := hosts(t, w, func(req *api.GuestXMLRequest) { req.Failover = "ua-slow" })
				a.Live = a.Defined
				before := *a
				first := migrate(t, a, b, Migration{Live: true})
				if at > w.calls {
					break // nothing was broken
				}
				says := fmt.Sprintf("%s, after call %d (effect %t) of %q, %v", refusal, at, effect, w.done, first)
				w.at, w.dead = 0, false
				pool := b.pool + len(b.leased)
				change(b)
				err := migrate(t, a, b, Migration{Live: true})
				if a.Live == "" || err == nil {
					continue // it had gone, or got its VF before
				}
				if diff := cmp.Diff(uses(t, before.Live), uses(t, a.Live)); diff != "" || len(a.leased) != 1 || !a.startable() {
					t.Errorf("%s: %v: %d VFs leased; it runs with other devices:\n%s", says, err, len(a.leased), diff)
				}
				b.missing, b.pool = nil, pool-len(b.leased)
				if err := migrate(t, a, b, Migration{Live: true}); err != nil {
					t.Errorf("asked once more: %v, after %s", err, says)
					continue
				}
				moved(t, a, b, before.Defined)
			}
		}
	}
}

// addTPM gives the guest of a host an emulated TPM.
func addTPM(f *fake) {
	f.Defined = strings.Replace(f.Defined, "<devices>", "<devices><tpm><backend type='emulator'/></tpm>", 1)
}

func TestP16Refusals(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(a, b *fake)
		m      Migration
		is     error
		says   string
	}{
		"the same host":        {func(_, b *fake) { b.Boot = "1" }, Migration{}, vf.ErrInvalid, "it is this host"},
		"no such guest":        {func(a, _ *fake) { a.Defined = "" }, Migration{}, vf.ErrNotFound, "not found on a, and on b"},
		"on both":              {func(a, b *fake) { b.Defined = a.Defined }, Migration{}, vf.ErrHeld, "host b has a guest with that UUID, too"},
		"transient":            {func(a, _ *fake) { a.Live, a.Defined = a.Defined, "" }, Migration{Live: true}, vf.ErrInvalid, "no definition that is kept"},
		"it runs":              {func(a, _ *fake) { a.Live = a.Defined }, Migration{}, vf.ErrHeld, "--shutdown"},
		"it is off":            {func(_, _ *fake) {}, Migration{Live: true}, vf.ErrInvalid, "guest db1 is off"},
		"live, no failover":    {func(a, _ *fake) { a.Live = a.Defined }, Migration{Live: true}, vf.ErrInvalid, "device net1 of guest db1: invalid for --live"},
		"no storage":           {func(_, b *fake) { b.missing = []string{"/shared/vmlinux"} }, Migration{}, vf.ErrNotFound, "on host b: /shared/vmlinux: its storage has to be there"},
		"a TPM, and it is off": {func(a, _ *fake) { addTPM(a) }, Migration{}, vf.ErrInvalid, "/var/lib/libvirt/swtpm/" + uuid + ") stays on this host: start the guest"},
		"a TPM, to be shut down": {func(a, _ *fake) {
			addTPM(a)
			a.Live = a.Defined
		}, Migration{Shutdown: true}, vf.ErrInvalid, "--live"},
		"used up": {func(_, b *fake) { b.pool = 0 }, Migration{}, vf.ErrNothingFree, "host b: pool x/a: 1 of 1 VFs on enp1s0 are held (vm db2)"},
		"by hand": {func(a, _ *fake) { a.Defined = strings.Replace(a.Defined, "ua-culvert-net1", "ua-mine", 1) }, Migration{}, vf.ErrInvalid, "was put there by hand"},
		"by hand, managed": {func(a, _ *fake) {
			a.Defined = strings.NewReplacer("ua-culvert-net1", "ua-mine", `managed="no"`, `managed="yes"`).Replace(a.Defined)
		}, Migration{}, vf.ErrInvalid, "managed='yes'"},
		"on its way": {func(a, _ *fake) { mark(a, guest.Move{To: "c"}) }, Migration{}, vf.ErrInvalid, "on its way already, to host c"},
		"on its way, and runs": {func(a, b *fake) {
			b.Defined, a.Live = a.Defined, a.Defined
			mark(a, guest.Move{To: "b"})
			mark(b, guest.Move{From: "a"})
		}, Migration{}, vf.ErrHeld, "it runs, though it is on its way to host b"},
		"on its way, and runs there undefined": {func(a, b *fake) {
			b.Live = a.Defined
			mark(a, guest.Move{To: "b", Autostart: true})
			a.Autostart = false
		}, Migration{}, vf.ErrHeld, "it runs on host b, which keeps no definition of it: define it there"},
		"live, in the running guest alone": {func(a, _ *fake) { a.Live, a.Defined = fastPath(a.Defined), definition }, Migration{Live: true}, vf.ErrInvalid,
			"device net1 of guest db1: invalid for --live: the guest runs with it, and its definition does not have it: culvert vm detach db1 net1"},
		"live, with another VLAN": {func(a, _ *fake) {
			a.Defined = fastPath(a.Defined)
			a.Live = strings.Replace(a.Defined, `<tag id="100">`, `<tag id="200">`, 1)
		}, Migration{Live: true}, vf.ErrInvalid, "runs with VLAN 200, and its definition says 100"},
		"live, on both": {func(a, b *fake) {
			a.Live, b.Live, b.Defined = a.Defined, a.Defined, a.Defined
			mark(a, guest.Move{To: "b"})
			mark(b, guest.Move{From: "a"})
		}, Migration{Live: true}, vf.ErrHeld, "virsh destroy the one that is paused"},
		"live, marked here, and may start there": {func(a, b *fake) {
			b.Defined, a.Live = a.Defined, a.Defined
			mark(a, guest.Move{To: "b"})
		}, Migration{Live: true}, vf.ErrHeld, "it runs, though it is on its way to host b"},
		"on its way, from":    {func(a, _ *fake) { mark(a, guest.Move{From: "c"}) }, Migration{}, vf.ErrInvalid, "on its way already, from host c"},
		"there, from another": {func(a, b *fake) { b.Defined = a.Defined; mark(b, guest.Move{From: "c"}) }, Migration{}, vf.ErrHeld, "host b has a guest"},
		"arrived, on its way": {func(a, b *fake) { b.Defined = a.Defined; a.Defined = ""; mark(b, guest.Move{From: "c"}) }, Migration{}, vf.ErrInvalid, "on its way already, from host c"},
	} {
		t.Run(name, func(t *testing.T) {
			a, b := hosts(t, &world{}, nil)
			tc.change(a, b)
			before, there, leases := a.Seen, b.Seen, len(b.leased)
			err := migrate(t, a, b, tc.m)
			if !errors.Is(err, tc.is) || !strings.Contains(err.Error(), tc.says) {
				t.Errorf("got  %v\nwant %s", err, tc.says)
			}
			if cmp.Diff(before, a.Seen)+cmp.Diff(there, b.Seen) != "" || len(b.leased) != leases {
				t.Errorf("something changed:\n%s%s", cmp.Diff(before, a.Seen), cmp.Diff(there, b.Seen))
			}
		})
	}
}

// TestP16CutOffWithATPM: a live migration was cut off before it took the state of the TPM along, and
// the guest was shut down since. The guest can start on its host again, and not on the other one.
func TestP16CutOffWithATPM(t *testing.T) {
	a, b := hosts(t, &world{}, nil)
	addTPM(a)
	before := a.Seen
	b.Defined = a.Defined
	mark(a, guest.Move{To: "b", Autostart: before.Autostart})
	mark(b, guest.Move{From: "a"})
	b.missing = []string{"/var/lib/libvirt/swtpm/" + uuid}
	err := migrate(t, a, b, Migration{})
	if !errors.Is(err, vf.ErrInvalid) || !strings.Contains(err.Error(), "stays on this host: start the guest") {
		t.Error(err)
	}
	here, err := markOf(a.Seen)
	if err != nil || here != (guest.Move{}) || a.Autostart != before.Autostart {
		t.Errorf("here it is marked %+v, %v, autostart %t", here, err, a.Autostart)
	}
	if there, err := markOf(b.Seen); err != nil || b.Defined != "" && there.From != "a" {
		t.Errorf("there it is marked %+v, %v", there, err)
	}
}

func mark(f *fake, m guest.Move) {
	text, err := markDefinition(f.Defined, m)
	if err != nil {
		panic(err)
	}
	f.Defined = text
}

// A guest that another program starts while it is being moved stays on its host.
func TestP16StartedMeanwhile(t *testing.T) {
	a, b := hosts(t, &world{}, nil)
	before := a.Defined
	starts := starter{a}
	_, err := Migrate(t.Context(), starts, b, Migration{Guest: "db1"}, func(string) {})
	if !errors.Is(err, vf.ErrHeld) || a.Defined != before || b.Defined != "" || len(b.leased) > 0 {
		t.Errorf("%v; b has %q", err, b.Defined)
	}
}

// starter starts the guest at the last moment.
type starter struct{ *fake }

func (s starter) Do(ctx context.Context, a Action) error {
	if d, ok := a.(Define); ok && strings.Contains(d.XML, "moving-to") {
		s.Live = s.Defined
	}
	return s.fake.Do(ctx, a)
}

// With --shutdown, Migrate shuts the guest down. It warns of a VF whose MAC address the guest takes
// along.
func TestP16ShutdownAndWarning(t *testing.T) {
	a, b := hosts(t, &world{}, nil)
	before := a.Defined
	a.Live = a.Defined
	v := a.leased["net1"]
	v.Baseline = &vf.Baseline{Admin: vf.Admin{MAC: v.Settings.MAC}}
	a.leased["net1"] = v
	var told []string
	if _, err := Migrate(t.Context(), a, b, Migration{Guest: "db1", Shutdown: true}, func(s string) { told = append(told, s) }); err != nil {
		t.Fatal(err)
	}
	moved(t, a, b, before)
	if all := strings.Join(told, "\n"); !strings.Contains(all, "a: shut the guest down") || !strings.Contains(all, "the next owner of that VF has it as well") {
		t.Errorf("told: %s", all)
	}
}

// fastPath lets net1 be the fast path of the virtio interface.
func fastPath(text string) string {
	return strings.Replace(text, `<alias name="ua-culvert-net1">`, `<teaming type="transient" persistent="ua-slow"></teaming><alias name="ua-culvert-net1">`, 1)
}

// If two commands change one guest at once, Culvert refuses the second one, which changes nothing.
func TestP16TwoAtOnce(t *testing.T) {
	for name, running := range map[string]bool{"cold": false, "live": true} {
		t.Run(name, func(t *testing.T) {
			a, b := hosts(t, &world{}, func(req *api.GuestXMLRequest) { req.Failover = "ua-slow" })
			if running {
				a.Live = a.Defined
			}
			before, nested := a.Defined, 0
			during := &interrupted{fake: a, each: func() {
				nested++
				was := [2]Seen{a.Seen, b.Seen}
				_, err1 := Migrate(t.Context(), a, b, Migration{Guest: uuid, Live: running}, func(string) {})
				_, err2 := attached(t, a, Attachment{})
				_, err3 := Detach(t.Context(), a, "db1", "", func(string) {})
				for _, err := range []error{err1, err2, err3} {
					if errors.Is(err, vf.ErrNotFound) && a.Defined == "" && a.Live == "" {
						continue // it has gone from here
					}
					if !errors.Is(err, vf.ErrHeld) || !strings.Contains(err.Error(), "another culvert vm attach, detach or migrate, or its virsh, is changing it") {
						t.Errorf("the second command: %v", err)
					}
				}
				if diff := cmp.Diff(was, [2]Seen{a.Seen, b.Seen}); diff != "" {
					t.Errorf("the second command changed something:\n%s", diff)
				}
			}}
			if _, err := Migrate(t.Context(), during, b, Migration{Guest: "db1", Live: running}, func(string) {}); err != nil || nested == 0 {
				t.Fatalf("%v, after %d calls", err, nested)
			}
			moved(t, a, b, before)
			if err := migrate(t, a, b, Migration{}); err != nil {
				t.Errorf("the lock is left: %v", err)
			}
		})
	}
}

// interrupted calls the function each before each action.
type interrupted struct {
	*fake
	each func()
}

func (i *interrupted) Do(ctx context.Context, a Action) error {
	i.each()
	return i.fake.Do(ctx, a)
}

// virsh may fail although the guest has gone, and cannot always say where it is.
func TestP16SendFailsLate(t *testing.T) {
	for name, tc := range map[string]struct {
		after      func(a, b *fake) // as virsh leaves it
		says       string           // the error; empty: it arrives
		undone     bool
		thenBroken string // asked again
	}{
		"it has gone":               {func(_, _ *fake) {}, "", false, ""},
		"paused here, runs there":   {func(a, b *fake) { a.Live, a.Paused = b.Live, true }, "virsh destroy the one that is paused", false, "virsh destroy"},
		"runs here, arrives there":  {func(a, b *fake) { a.Live, b.Paused = b.Live, true; b.Live = "" }, "broken", true, ""},
		"paused here, as it was":    {func(a, b *fake) { a.Live, a.Paused, b.Live = b.Live, true, "" }, "broken", true, ""},
		"it has stopped on its way": {func(_, b *fake) { b.Live = "" }, "broken", true, "guest db1 is off"},
	} {
		t.Run(name, func(t *testing.T) {
			a, b := hosts(t, &world{}, func(req *api.GuestXMLRequest) { req.Failover = "ua-slow" })
			a.Live = a.Defined
			before := a.Seen
			late := &lateSender{fake: a, after: func() { tc.after(a, b) }}
			_, err := Migrate(t.Context(), late, b, Migration{Guest: "db1", Live: true}, func(string) {})
			switch {
			case tc.says == "" && err != nil || err == nil && tc.says != "" || err != nil && !strings.Contains(err.Error(), tc.says):
				t.Errorf("got %v, want %q", err, tc.says)
			case tc.undone && (a.Defined != before.Defined || !a.Autostart || b.Defined != "" || len(b.leased) > 0):
				t.Errorf("it is not taken back: %v", err)
			case tc.says != "" && !tc.undone && (uses(t, a.Defined) == nil || !strings.Contains(a.Defined, "moving-to") || !strings.Contains(b.Defined, "moving-from")):
				t.Errorf("a mark is missing:\n%s\n%s", a.Defined, b.Defined)
			}
			a.Paused = false
			err = migrate(t, a, b, Migration{Live: true})
			if tc.thenBroken == "" && err != nil || tc.thenBroken != "" && (err == nil || !strings.Contains(err.Error(), tc.thenBroken)) {
				t.Errorf("asked again: got %v, want %q", err, tc.thenBroken)
			}
			if tc.thenBroken == "" {
				moved(t, a, b, before.Defined)
			}
		})
	}
}

// lateSender fails after it has migrated the guest.
type lateSender struct {
	*fake
	after func()
}

func (l *lateSender) Do(ctx context.Context, a Action) error {
	err := l.fake.Do(ctx, a)
	if _, sends := a.(Send); sends && err == nil {
		l.after()
		return errBroken
	}
	return err
}

// swapPair lets the two devices of a pair have each other's names.
func swapPair(a *fake) {
	a.Defined = strings.NewReplacer("bond0a", "bond0b", "bond0b", "bond0a").Replace(a.Defined)
	a.leased["bond0a"], a.leased["bond0b"] = a.leased["bond0b"], a.leased["bond0a"]
}

// P8: the VFs of a bonded guest are on two PFs of the target, too, whichever of the two devices
// comes first in the definition. So are those of a guest that was attached with --bond before its
// definition had a mark of that.
func TestP8MigrationKeepsApart(t *testing.T) {
	for name, tc := range map[string]struct {
		first, apart string // the device that hosts makes, and what of the other is not beside it
		change       func(a *fake)
		apartThere   bool
	}{
		"marked":                        {"bond0a", "bond0a", func(*fake) {}, true},
		"before the mark":               {"bond0a", "bond0a", func(a *fake) { a.Defined = strings.Replace(a.Defined, ` apart="bond0a"`, "", 1) }, true},
		"no pair":                       {"net1", "net1", func(a *fake) { a.Defined = strings.Replace(a.Defined, ` apart="net1"`, "", 1) }, false},
		"a pair on one PF":              {"bond0a", "", func(*fake) {}, false},
		"the first is after the second": {"bond0a", "bond0a", func(a *fake) { swapPair(a) }, true},
		"the second is after the first": {"bond0a", "bond0a", func(a *fake) {
			swapPair(a)
			a.Defined = strings.NewReplacer(` apart="bond0b"`, "", `device="bond0b" pool="x/a"`, `device="bond0b" pool="x/a" apart="bond0a"`).Replace(a.Defined)
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			a, b := hosts(t, &world{}, func(req *api.GuestXMLRequest) { req.Device = tc.first })
			both, err := a.Lease(t.Context(), api.GuestXMLRequest{Definition: a.Defined, Device: "bond0b", Pool: "x/a", Way: "interface", Apart: tc.apart})
			if err != nil {
				t.Fatal(err)
			}
			a.Defined = both.Definition
			tc.change(a)
			if err := migrate(t, a, b, Migration{}); err != nil {
				t.Fatal(err)
			}
			if first, second := b.leased[tc.first], b.leased["bond0b"]; (first.PF != second.PF) != tc.apartThere || first.PF == "" || second.PF == "" {
				t.Errorf("on PFs %q and %q", first.PF, second.PF)
			}
			if strings.Contains(b.Defined, "apart=") != tc.apartThere {
				t.Errorf("the mark is not as it should be:\n%s", b.Defined)
			}
		})
	}
}
