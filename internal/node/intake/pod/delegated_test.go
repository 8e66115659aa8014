package pod_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/culvert-net/culvert/internal/node/journal"
	"github.com/culvert-net/culvert/internal/vf"
)

// The IPAM plugin of another project gives the addresses of a pod's network. It runs when the
// network is added and is undone with it, whichever step fails and whenever culvertd dies.
func TestDelegatedIPAMOfAPod(t *testing.T) {
	const network = `{"cniVersion":"1.0.0","name":"lan","plugins":[{"type":"sriov","ipam":{"type":"dhcp","daemonSocketPath":"/x"}},{"type":"tuning"}]}`
	fresh := func(t *testing.T) *world {
		w := newWorld(t)
		w.network("lan", network, "intel.com/fast")
		w.asks(`[{"name":"lan","mac":"02:aa:00:00:00:05","ips":["172.16.91.7"]}]`)
		w.given["d/a/intel.com/fast"] = w.vfs()[1:2]
		return w
	}
	dhcp := func(w *world) []string {
		return slices.DeleteFunc(w.host.called(), func(c string) bool { return !strings.Contains(c, " dhcp ") })
	}
	t.Run("in turn", func(t *testing.T) {
		w := fresh(t)
		w.add()
		if ips := fmt.Sprint(w.status()[1]["ips"]); ips != "[10.244.1.2]" {
			t.Errorf("addresses %s", ips)
		}
		if got := w.host.config(t, "ADD", "dhcp"); fmt.Sprint(got["ipam"]) != "map[daemonSocketPath:/x type:dhcp]" || got["name"] != "lan" || got["deviceID"] == nil && got["runtimeConfig"] == nil {
			t.Errorf("dhcp gets %v", got)
		}
		w.del()
		for _, call := range []string{"ADD dhcp", "DEL dhcp"} {
			if got := w.host.seen[call].Args; !strings.HasSuffix(got, ";MAC=02:aa:00:00:00:05;IP=172.16.91.7") {
				t.Errorf("%s has CNI_ARGS %s", call, got)
			}
		}
		if got := w.host.called(); !slices.Equal(got[2:4], []string{"ADD dhcp c1 net1", "ADD tuning c1 net1"}) || !slices.Equal(got[4:6], []string{"DEL tuning c1 net1", "DEL dhcp c1 net1"}) {
			t.Errorf("calls: %v", got)
		}
		w.clean()
	})
	t.Run("a later plugin fails", func(t *testing.T) {
		w := fresh(t)
		w.host.fail = func(command, kind string) error {
			if command == "ADD" && kind == "tuning" {
				return errors.New("no such sysctl")
			}
			return nil
		}
		if msg := w.refused(); !strings.Contains(msg, "no such sysctl") {
			t.Errorf("%s", msg)
		}
		if got := dhcp(w); !slices.Equal(got, []string{"ADD dhcp c1 net1", "DEL dhcp c1 net1"}) {
			t.Errorf("calls: %v", got)
		}
	})
	t.Run("Multus called Culvert, and has gone", func(t *testing.T) {
		w := fresh(t)
		w.add()
		if err := w.ledger.Update(func(tx *journal.Tx) error { return tx.DeleteSandbox("c1") }); err != nil { // as no record was made
			t.Fatal(err)
		}
		w.del()
		if got := dhcp(w); !slices.Equal(got, []string{"ADD dhcp c1 net1", "DEL dhcp c1 net1"}) {
			t.Errorf("calls: %v", got)
		}
		if held, owed, err := w.node.VFs.Delegations(); err != nil || len(held)+len(owed) != 0 {
			t.Errorf("held %v, owed %v, %v", held, owed, err)
		}
		records, err := journal.ReadRecords(w.ledger)
		if err != nil || slices.ContainsFunc(records, func(r journal.Record) bool { return r.Phase != vf.PhaseFree }) {
			t.Errorf("VFs that are not free: %v, %v", records, err)
		}
	})
	t.Run("culvertd dies in the ADD", func(t *testing.T) {
		w := fresh(t)
		w.add()
		err := w.ledger.Update(func(tx *journal.Tx) error {
			sb, err := tx.Sandbox("c1")
			sb.Phase = journal.SandboxAdding
			return errors.Join(err, tx.PutSandbox(sb))
		})
		if err := errors.Join(err, w.pods.Resume(t.Context())); err != nil {
			t.Fatal(err)
		}
		if _, owed, err := w.node.VFs.Delegations(); err != nil || len(owed) != 1 {
			t.Errorf("owed %v, %v", owed, err)
		}
		w.del()
		if got := dhcp(w); !slices.Equal(got, []string{"ADD dhcp c1 net1", "DEL dhcp c1 net1"}) {
			t.Errorf("calls: %v", got)
		}
		if _, owed, err := w.node.VFs.Delegations(); err != nil || len(owed) != 0 {
			t.Errorf("owed %v, %v", owed, err)
		}
		w.clean()
	})
}
