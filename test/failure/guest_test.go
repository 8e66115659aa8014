package failure

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"

	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/guest"
	"github.com/culvert-net/culvert/internal/kernel/fake"
	"github.com/culvert-net/culvert/internal/kernel/step"
	guestintake "github.com/culvert-net/culvert/internal/node/intake/guest"
	"github.com/culvert-net/culvert/internal/rpc"
	"github.com/culvert-net/culvert/internal/vf"
)

// definition returns the definition of a guest whose device net1 is the VF, with
// every setting that the PF can hold.
func (w *world) definition(uuid string, pci vf.PCIAddr) string {
	settings := fmt.Sprintf("mac='02:aa:00:00:00:%02x'", uuid[0])
	for _, s := range []struct {
		setting vf.Setting
		attr    string
	}{
		{vf.SetVLAN, "vlan='100'"}, {vf.SetSpoofChk, "spoofchk='off'"}, {vf.SetTrust, "trust='on'"}, {vf.SetLinkState, "link-state='enable'"},
		{vf.SetMaxTxRate, "max-tx-rate='210'"}, {vf.SetMinTxRate, "min-tx-rate='60'"},
	} {
		if w.able(s.setting) {
			settings += " " + s.attr
		}
	}
	return fmt.Sprintf(`<domain type='kvm'><name>guest-%.8s</name><uuid>%s</uuid>
<metadata><c:guest xmlns:c='https://culvert.dev/guest'><c:vf device='net1' %s/></c:guest></metadata>
<devices><hostdev mode='subsystem' type='pci' managed='no'>
<source><address domain='%d' bus='0x%x' slot='0x%x' function='%d'/></source><alias name='ua-culvert-net1'/>
</hostdev></devices></domain>`, uuid, uuid, settings, pci.Domain, pci.Bus, pci.Device, pci.Function)
}

// report calls a hook of libvirt. It returns a refusal as an error.
func (w *world) report(hook rpc.Handler, definition string) error {
	params, err := json.Marshal(api.GuestReport{XML: []byte(definition)})
	if err != nil {
		return err
	}
	answer, err := hook(context.Background(), params)
	if w.gate.pass("the answer to a hook of libvirt") != nil {
		return errAnswerLost
	}
	if said, _ := answer.(api.GuestAnswer); err == nil && said.Refused != "" {
		err = errors.New(said.Refused)
	}
	return err
}

// starts reports, as libvirt's hook, that the guest with the first VF starts.
func (w *world) starts() error {
	err := w.report(w.vms.Start, w.definition(guestE, w.vfs()[0].PCI))
	switch {
	case err == nil:
		w.expect[guestE] = present
	case errors.Is(err, errAnswerLost) && w.expect[guestE] == absent:
		w.expect[guestE] = either
	}
	return err
}

// stops reports, as libvirt's hook, that the guest with the first VF has ended.
func (w *world) stops() error {
	err := w.report(w.vms.Stop, w.definition(guestE, w.vfs()[0].PCI))
	if w.expect[guestE] = absent; err != nil {
		w.expect[guestE] = either
	}
	return err
}

// listed makes culvertd compare libvirt's list, which has the guest with the first
// VF. It calls happens while culvertd asks libvirt.
func (w *world) listed(running bool, happens func()) ([]api.Problem, error) {
	return w.list.Compare(context.Background(), func(context.Context) ([]guestintake.Seen, error) {
		happens()
		def, err := guest.Parse([]byte(w.definition(guestE, w.vfs()[0].PCI)))
		g := guestintake.Seen{UUID: def.UUID, Name: def.Name, Running: running, Next: def}
		if running {
			g.Live = def
		}
		return []guestintake.Seen{g}, err
	})
}

// I8: an old list of guests ends no lease that was made since, adopts nothing, and
// finds no contradiction.
func TestI8ALateListHurtsNobody(t *testing.T) {
	for name, running := range map[string]bool{"that it is off": false, "that it runs": true} {
		t.Run(name, func(t *testing.T) {
			w := made(t, fake.IGB, fastDir(t))
			defer w.close()
			first := w.vfs()[0].PCI
			must(w, w.starts())
			must(w, w.k.Open(first, vf.Process{PID: 1, Name: "qemu"}))
			w.pass()
			problems, err := w.listed(running, func() {
				must(w, w.k.Open(first))
				must(w, w.stops())
				must(w, w.add(attachment{pod: "a", pool: "net", vf: first}))
			})
			if err != nil || running && len(problems) > 0 { // the problem is right for a guest that is off: it cannot start now
				t.Errorf("it says %v, %v", problems, err)
			}
			if got := w.heldBy("a"); got != first {
				t.Errorf("the pod has VF %s", got)
			}
			w.sound()
			problems, err = w.listed(true, func() { must(w, w.del(attachment{pod: "a", pool: "net", vf: first})) })
			if err != nil || len(problems) > 0 || w.heldBy(guestE) == first {
				t.Errorf("it says %v, %v", problems, err)
			}
			w.sound()
		})
	}
}

// untold runs a guest that no hook reports: libvirt binds its VF, and QEMU has the
// VF open until the guest ends.
func (w *world) untold() {
	first := w.vfs()[0]
	w.dirty[first.PCI] = true
	for _, s := range []step.Step{step.Unbind{VF: first.PCI}, step.Bind{VF: first.PCI, Driver: vf.DriverVFIO}} {
		must(w, w.k.Do(context.Background(), s))
	}
	must(w, w.k.Open(first.PCI, vf.Process{PID: 1, Name: "qemu"}))
	w.expect[guestE] = either
	problems, err := w.listed(true, func() {})
	if err == nil && len(problems) == 0 && w.gate.killed() == "" && w.heldBy(guestE) != first.PCI {
		w.t.Errorf("I1: a guest runs with VF %s, and the ledger does not say so", first.PCI)
	}
	w.pass()
	must(w, w.k.Open(first.PCI))
	if _, err := w.listed(false, func() {}); err == nil && w.gate.killed() == "" {
		w.expect[guestE] = absent
	}
	w.pass()
}
