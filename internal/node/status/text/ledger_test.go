package text

import (
	"strings"
	"testing"
	"time"

	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/vf"
)

var (
	client = vf.Owner{Kind: vf.OwnerPod, UID: "3f2a", Name: "default/a-pod-with-a-long-name-6d5f8c7b9-x2x4z", Interface: "net1"}
	began  = time.Date(2026, 11, 21, 20, 42, 11, 0, time.UTC)
	ledger = api.Ledger{
		File: "/var/lib/culvert/ledger.db", Format: "2", Boot: "6b1f0d5e-1a52-4b0c-9f5e-7c7a5a1b2c3d", Refused: true,
		Records: []api.LedgerRecord{
			{VF: vfID(0), PCI: vf.PCIAddr{Bus: 1, Device: 16}, Phase: "attached", Generation: 12, Since: began, Owner: &client, Network: "default/sriov-network"},
			{VF: vfID(1), PCI: vf.PCIAddr{Bus: 1, Device: 16, Function: 2}, Phase: "free", Generation: 3, Since: began},
			{VF: vfID(2), PCI: vf.PCIAddr{Bus: 1, Device: 16, Function: 4}, Phase: "quarantined", Generation: 4, Since: began, Owner: &client, Reason: "after 3 rounds of reset: vlan is 5, not none"},
			{VF: vfID(3), Phase: "damaged", Reason: "something in it was changed: its checksum is wrong"},
		},
		Addresses: []api.LedgerAddress{
			{Network: "default/sriov-network", Address: "172.16.91.20", VF: vfID(0).String(), Owner: &client},
			{Network: "default/sriov-network", Address: "fd00::2", Damage: "something in it was changed"},
		},
		Sandboxes: []api.LedgerSandbox{{ID: "3f2a9c41d0b7aa", Pod: "default/a", Phase: "added", Networks: []api.LedgerSandboxNetwork{{Name: "cbr0", Interface: "eth0"}, {Name: "default/sriov-net1", Interface: "net1"}}}},
		Events:    []api.Event{{Seq: 1}},
		Problems: []api.LedgerProblem{
			{Object: "file", What: "page 5: it says that it is page 3", Means: "culvertd does not open it, since something may be missing from it"},
			{Object: "VF " + vfID(3).String(), What: "its record is damaged: something in it was changed: its checksum is wrong", Means: "its owner is unknown: no other owner gets it, and its PF's VFs stay"},
			{Invariant: "I4", Object: "address fd00::2 of network default/sriov-network", What: "it is pod default/a's, but nobody has its VF", Means: "no attachment gives it back, so the network has one less"},
		},
	}
	repaired = []string{
		"VF 90:e2:ba:00:00:01/p1#3 is marked as lost: something in it was changed: its checksum is wrong; an earlier version of it says attached, pod default/a, generation 7",
		"3 records are kept",
	}
)

func vfID(i int) vf.ID {
	return vf.ID{PF: vf.PFID{MAC: vf.MAC{0x90, 0xe2, 0xba, 0, 0, 1}, Port: "p1"}, Index: i}
}

// A sandbox whose networks are too long for the answer is listed with their size.
func TestSandboxWithoutNetworks(t *testing.T) {
	got := Ledger(api.Ledger{Sandboxes: []api.LedgerSandbox{{ID: "c1", Pod: "default/a", Phase: "attached", Omitted: 70000}}}, plainText)
	if !strings.Contains(got, "(70000 bytes, not shown)") {
		t.Errorf("got\n%s", got)
	}
}

// The answer of a check ends after 50 problems, and names the option that has all.
func TestManyProblems(t *testing.T) {
	l := api.Ledger{Problems: make([]api.LedgerProblem, 53)}
	if got := LedgerCheck(l, plainText); !strings.Contains(got, "and 3 more; -o json has them all") {
		t.Errorf("got\n%s", got)
	}
}
