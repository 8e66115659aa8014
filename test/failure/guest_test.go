package failure

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/culvert-net/culvert/api"
	"github.com/culvert-net/culvert/rpc"
	"github.com/culvert-net/culvert/vf"
)

// definition is that of a guest whose device net1 is the VF, with every setting that
// the PF can hold.
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

// report is a hook of libvirt; a refusal is an error.
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

// starts is libvirt that starts the guest with the first VF.
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

// stops is its end.
func (w *world) stops() error {
	err := w.report(w.vms.Stop, w.definition(guestE, w.vfs()[0].PCI))
	if w.expect[guestE] = absent; err != nil {
		w.expect[guestE] = either
	}
	return err
}
