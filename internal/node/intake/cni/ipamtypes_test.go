package cni

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/network/ipam"
	"github.com/culvert-net/culvert/internal/node/attach/hold"
	"github.com/culvert-net/culvert/internal/vf"
)

// ofType is a network whose addresses a plugin gives.
func ofType(plugin string) string {
	return fmt.Sprintf(`{"cniVersion":"1.1.0","name":"n","type":"sriov","ipam":{"type":%q}}`, plugin)
}

// A tenant names any program of CNI_PATH in ipam.type. Only programs of the list are executed, for no
// command: the DEL that follows a refused ADD executes none either, and no VF is taken.
func TestOnlyListedIPAMPluginsAreExecuted(t *testing.T) {
	const prev = `,"prevResult":{"cniVersion":"1.1.0","interfaces":[{"name":"net1","sandbox":"/run/netns/x"}]}}`
	for plugin, want := range map[string]string{
		"ptp":   `ipam.type ptp: the CNI plugin ptp gives no addresses`,
		"sriov": `ipam.type sriov: the CNI plugin sriov gives no addresses`,
		"reset-nodes": "network n: ipam.type reset-nodes: invalid: this node executes host-local, static, dhcp, whereabouts, whereabouts2 for addresses: " +
			"an administrator adds a type by culvertd --ipam-types=whereabouts2,reset-nodes (chart: node.ipamTypes)",
	} {
		t.Run(plugin, func(t *testing.T) {
			d := newDelegates(t, lease1)
			text := ofType(plugin)
			for _, call := range []struct{ command, config, want string }{
				{cmdAdd, text, want},
				{cmdCheck, strings.TrimSuffix(text, "}") + prev, want},
				{cmdStatus, text, want},
				{cmdDel, text, ""},
			} {
				_, err := d.call(t, call.command, "c1", call.config)
				if (err == nil) != (call.want == "") || err != nil && (!strings.Contains(err.Error(), call.want) || !errors.Is(err, vf.ErrInvalid)) {
					t.Errorf("%s: %v\nwant %s", call.command, err, call.want)
				}
			}
			_, err := d.call(t, cmdGC, "c1", strings.TrimSuffix(text, "}")+`,"cni.dev/valid-attachments":[]}`)
			if plugin == "reset-nodes" && err != nil {
				t.Errorf("GC: %v", err)
			}
			d.wantCalls(t)
			d.wantFree(t)
		})
	}
}

// I8: the DEL, CHECK and GC of an attachment reach the plugin that an earlier culvertd executed,
// although the plugin is not on the list.
func TestI8UnlistedPluginEndsItsAttachments(t *testing.T) {
	const checked = `{"cniVersion":"1.1.0","name":"n","type":"sriov","ipam":{"type":"whereabouts2"},"prevResult":%s}`
	config := ofType("whereabouts2")
	for name, tc := range map[string]struct {
		command, config string // the call; %s: the result of the ADD
		want            []string
		free            bool
	}{
		"DEL":                         {cmdDel, config, []string{"DEL whereabouts2 c1 net1"}, true},
		"DEL without a configuration": {cmdDel, "gone", []string{"DEL whereabouts2 c1 net1"}, true},
		"CHECK":                       {cmdCheck, checked, []string{"CHECK whereabouts2 c1 net1"}, false},
		"GC of others":                {cmdGC, strings.TrimSuffix(config, "}") + `,"cni.dev/valid-attachments":[{"containerID":"c1","ifname":"net1"}]}`, []string{"GC whereabouts2 c1 net1"}, false},
		"GC of it":                    {cmdGC, strings.TrimSuffix(config, "}") + `,"cni.dev/valid-attachments":[]}`, []string{"DEL whereabouts2 c1 net1"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDelegates(t, strings.ReplaceAll(lease1, "1.0.0", "1.1.0"))
			out, err := d.call(t, cmdAdd, "c1", config)
			if err != nil {
				t.Fatal(err)
			}
			d.calls, d.h.IPAMTypes = nil, ipam.Types{} // culvertd is upgraded
			d.later = 2 * hold.GCGrace
			text := tc.config
			if tc.command == cmdCheck {
				text = fmt.Sprintf(text, out)
			}
			if _, err := d.call(t, tc.command, "c1", text); err != nil {
				t.Error(err)
			}
			d.wantCalls(t, tc.want...)
			if tc.free {
				d.wantFree(t)
			}
			if _, err := d.call(t, cmdAdd, "c2", config); err == nil || !strings.Contains(err.Error(), "ipam.type whereabouts2: ") {
				t.Errorf("a new ADD: %v", err)
			}
		})
	}
}

// An earlier culvertd executed ptp for addresses, and its DEL is owed since. That DEL would execute
// itself without end, too, and ptp holds no address: it is forgotten.
func TestOwedDELOfAPluginThatGivesNoAddressesIsForgotten(t *testing.T) {
	d := newDelegates(t, lease1)
	if _, err := d.call(t, cmdAdd, "c1", borrowed); err != nil {
		t.Fatal(err)
	}
	d.fail[cmdDel] = errors.New("no API server")
	if _, err := d.call(t, cmdDel, "c1", borrowed); err == nil {
		t.Fatal("the DEL was not left owing")
	}
	_, owed, err := d.VFs.Delegations()
	if err != nil || len(owed) != 1 {
		t.Fatalf("%v, %v", owed, err)
	}
	d.calls = nil
	before := owed[0]
	before.Plugin = "ptp"
	if err := d.h.deleteDelegated(t.Context(), before, d.ask); err != nil {
		t.Error(err)
	}
	d.wantCalls(t)
	if err := d.h.deleteDelegated(t.Context(), owed[0], d.ask); err == nil {
		t.Error("the DEL of another plugin did not run")
	}
	d.wantCalls(t, "DEL whereabouts2 c1 net1")
}

// The shim kills a plugin before culvertd gives up waiting for it, so that culvertd learns which
// processes survive.
func TestPluginIsKilledBeforeTheQuestionEnds(t *testing.T) {
	d := newDelegates(t)
	if _, err := RunPlugin(t.Context(), d.ask, "dhcp", api.CNIRequest{Command: cmdDel}); err != nil {
		t.Fatal(err)
	}
	if d.last.BoundMS != pluginBound.Milliseconds() {
		t.Errorf("the plugin may run for %d ms", d.last.BoundMS)
	}
}
