package reconcile_test

import (
	"testing"

	"github.com/culvert-net/culvert/internal/network/ipam"
	"github.com/culvert-net/culvert/internal/node/attach"
	"github.com/culvert-net/culvert/internal/node/journal"
	"github.com/culvert-net/culvert/internal/vf"
)

// I4: the VFs of a PF are made anew by force, and two of them are members of a bond. The member on
// the other PF, which the pod keeps, has the addresses of the bond from then on.
func TestI4BondKeepsItsAddressesWhenTwoVFsAreMadeAnew(t *testing.T) {
	h := boot(t, "pfs: [{name: enp1s0, vfs: 3}, {name: enp2s0, vfs: 3}]\npools: [{name: a}]\n")
	h.pass(t)
	pfs, err := h.k.PFs(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	addresses, err := ipam.Parse([]byte(`{"type":"static","addresses":[{"address":"10.1.0.5/24"}],"routes":[{"dst":"10.20.0.0/16"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	h.k.AddNetns("/run/netns/a")
	vfs := []vf.PCIAddr{pfs[0].VFs[0].PCI, pfs[0].VFs[1].PCI, pfs[1].VFs[0].PCI}
	_, err = h.Engine.AttachBond(t.Context(), attach.Request{
		Owner: vf.Owner{Kind: vf.OwnerPod, UID: "c", Name: "default/a", Interface: "net1"}, Network: "blue", Netns: "/run/netns/a", IPAM: addresses,
		VF: vfs[0], VFs: vfs, Bond: &vf.Bond{Links: 3, Mode: vf.BondActiveBackup, AntiAffinity: vf.ApartNone}, Spec: vf.Spec{Interface: "net1"},
	})
	if err != nil {
		t.Fatal(err)
	}
	h.VFs.Wait()
	h.want(t, "pfs: [{name: enp1s0, vfs: 2}, {name: enp2s0, vfs: 3}]\npools: [{name: a}]\n")
	if err := h.Reconciler.Apply(t.Context(), true); err != nil {
		t.Fatal(err)
	}
	records, err := h.Records()
	if err != nil {
		t.Fatal(err)
	}
	var held []journal.Record
	for _, r := range records {
		if r.Held() {
			held = append(held, r)
		}
	}
	if len(held) != 1 || held[0].PCI != vfs[2] {
		t.Fatalf("the pod holds %v", held)
	}
	if w := held[0].Lease.Wanted; len(w.Addresses) != 1 || len(w.Routes) != 1 {
		t.Errorf("its lease has the addresses %v and routes %v", w.Addresses, w.Routes)
	}
	_ = h.Ledger.View(func(tx *journal.Tx) error {
		if a := tx.AddressesOf("blue"); len(a) != 1 || a[0].VF != held[0].ID {
			t.Errorf("held addresses: %v", a)
		}
		return nil
	})
}
