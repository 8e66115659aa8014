package main

import (
	"fmt"
	"testing"

	"github.com/culvert-net/culvert/test/vcsim"
)

// r2 is the file of report R2: two VFs each on two ports, a switch and a port group each, and virtual
// machines with a VF, in both of the API's ways.
const r2 = `ports:
- {nic: vmnic2, vfs: 2}
- {nic: vmnic3, vfs: 2}
switches:
- name: sriov-a
  uplinks: [vmnic2]
  portGroups:
  - {name: vf-a}
- name: sriov-b
  uplinks: [vmnic3]
  mtu: 9000
  security: {promiscuous: false}
  portGroups:
  - {name: vf-b, vlan: 100}
vms:
- name: vm1
  vfs:
  - {as: nic, port: vmnic2, portGroup: vf-a}
- name: vm2
  vfs:
  - {as: nic, port: vmnic2, portGroup: vf-a}
  - {as: nic, port: vmnic3, portGroup: vf-b, mac: "00:50:56:01:02:03"}
- name: vm3
  vfs:
  - {as: device, port: vmnic3}
`

func writeSpec(t *testing.T, m *vcsim.Model, parts string) {
	t.Helper()
	writeFile(t, "esxi.yaml", fmt.Sprintf("server: %s\nthumbprint: %s\n%s", m.Server, m.Thumbprint, parts))
}

func TestR2(t *testing.T) {
	m := vcsim.New(t, vcsim.Options{})
	p := newPerson(t)
	writeSpec(t, m, r2)
	before := p.expect(t, "status -o json")
	t.Log(p.expect(t, "plan"))
	p.input = "y\n"
	t.Log(p.expect(t, "apply"))
	t.Log(p.expect(t, "status"))
	p.expect(t, "plan", "Nothing changes.\n")
	p.expect(t, "apply", "Nothing changes.\n")
	p.input = "y\n"
	t.Log(p.expect(t, "remove"))
	after := p.expect(t, "status -o json")
	t.Log(before == after)
}
