//go:build lab

package promises

import (
	"bytes"
	"context"
	"net/netip"
	"os"
	"path/filepath"
	"testing"

	"github.com/culvert-net/culvert/lab"
	"github.com/culvert-net/culvert/lab/demo/node"
	"github.com/culvert-net/culvert/test/labs"
	"github.com/culvert-net/culvert/test/soak"
)

// bothPFs has VFs for guests on two PFs, as a bond needs them.
const bothPFs = `pfs:
- name: enp1s0
  vfs: 7
- name: enp2s0
  vfs: 2
pools:
- name: guests
  deviceType: vfio-pci
  selectors:
    pfNames: ["enp1s0#0-1", enp2s0]
`

// TestDemoWithGuests runs the commands of docs/guests.md in the lab that the page
// describes, with a guest that need not boot. It then runs make demo-vm there with one guest.
func TestDemoWithGuests(t *testing.T) {
	soak.Only(t, "a lab that boots, and guests; test/e2e starts guests too")
	const prefix = "promises-guests"
	name := labs.Name(prefix)
	t.Cleanup(func() {
		if err := lab.Down(context.Background(), name); err != nil {
			t.Error(err)
		}
	})
	shell(t, "build/bin/culvert lab up --guests --name "+name)
	mentions(t, "culvert lab ssh", shell(t, "echo culvert status | build/bin/culvert lab ssh worker01 --name "+name), "culvert.dev/guests")
	l, err := lab.Open(name)
	if err == nil {
		err = labs.ClearDead(t.Context(), l, prefix)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Run("page", func(t *testing.T) { followGuests(t, node.Of(l, 2)[1]) })
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	dir := t.TempDir()
	run(t, "demo-vm", "DEMO=--quick --up --guest-nodes 1 --name "+name+" --out "+dir)
	demo(t, filepath.Join(dir, "demo-vm.json"), 14)
}

func followGuests(t *testing.T, n node.Node) {
	g, err := n.DefineGuest(t.Context(), "db1", netip.MustParsePrefix("10.77.0.50/24"))
	if err != nil {
		t.Fatal(err)
	}
	if err := n.WriteFile(t.Context(), "/root/page/both.yaml", []byte(bothPFs)); err != nil {
		t.Fatal(err)
	}
	const goBack = `culvert vm detach db1
		sed '/name: enp2s0/,/vfs/ s/vfs: 2/vfs: 0/' both.yaml >none.yaml; culvert host apply none.yaml; culvert host apply before.yaml`
	page := document{file: "docs/guests.md"}
	page.follow(t, n, "Giving a guest a VF", map[string]step{
		"culvert vm attach db1 --pool guests --vlan 100 --max-tx-rate 1000": {prints: []string{`0000:01:10\.0 as net1`}},
		"culvert vm attach db1 --pool guests --bond": {
			before: "culvert vm detach db1; cp /etc/culvert/host.yaml before.yaml; culvert host apply both.yaml",
			prints: []string{`0000:01:10\.\d as net1[ab]`, `0000:02:10\.\d as net1[ab]`},
		},
		"virsh dumpxml --inactive db1 | culvert vm xml --pool guests --vlan 100 --max-tx-rate 1000 >db1.xml": {before: goBack},
		"virsh define db1.xml": {prints: []string{"db1"}},
		"virsh start db1":      {prints: []string{"started"}},
	}, "culvert vm xml --pool guests --way network", "virsh net-define") // steps of TestGuests
	page.follow(t, n, "Who has what", map[string]step{
		"culvert vm list":     {prints: []string{"db1 .*0000:01:10.0"}},
		"culvert vm show db1": {prints: []string{"vlan +100"}},
	})
	const doctor = "virsh dumpxml db1 | sudo culvert doctor --guest -"
	page.follow(t, n, "Making it fast", map[string]step{doctor: {prints: []string{"guest db1"}}}, doctor+" --by")
	page.follow(t, n, "Taking it back", map[string]step{"culvert vm detach db1": {before: "virsh destroy db1"}})
	if err := g.Remove(t.Context()); err != nil {
		t.Error(err)
	}
	defineExample(t, n)
}

// defineExample defines the guest of examples/guest.xml as the file's comment says. Nodes may lack KVM.
func defineExample(t *testing.T, n node.Node) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(top, "examples/guest.xml"))
	if err != nil {
		t.Fatal(err)
	}
	if err := n.WriteFile(t.Context(), "/root/page/guest.xml", bytes.Replace(text, []byte(`type="kvm"`), []byte(`type="qemu"`), 1)); err != nil {
		t.Fatal(err)
	}
	out, err := n.Script(t.Context(), "define the example", `cd /root/page
		virsh define guest.xml
		culvert vm attach db1 --pool guests
		culvert vm list
		culvert vm detach db1
		virsh undefine db1`)
	if err != nil {
		t.Fatal(err)
	}
	mentions(t, "examples/guest.xml", string(out), `defined from guest\.xml`, `db1 .*0000:01:10\.`)
}
