package pod_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/culvert-net/culvert/internal/node/journal"
)

// A network that plugins of other projects serve gets the next device of its resource, whatever its ID
// is, or none, as with Multus: nodes that are marked with their bridges have resources without devices.
// A network of Culvert's gets VFs only.
func TestResourcesOfOtherDevicePlugins(t *testing.T) {
	const (
		bridge  = `{"cniVersion":"0.3.1","type":"bridge","bridge":"br1"}`
		marked  = "bridge.network.kubevirt.io/br1"
		macvlan = `{"cniVersion":"0.3.1","plugins":[{"type":"macvlan","capabilities":{"deviceID":true}},{"type":"tuning"}]}`
		shared  = "rdma/hca_shared_devices_a"
	)
	for name, tc := range map[string]struct {
		network, resource string
		given             []string
		asks              string
		want              string // the deviceID of each ADD
		refused           string
		ignored           []string
	}{
		"no device":                        {network: bridge, resource: marked, asks: `n`, want: "[<nil>]"},
		"no device, and one is asked for":  {network: bridge, resource: marked, asks: `[{"name":"n","deviceID":"0000:01:10.0"}]`, want: "[<nil>]", ignored: []string{`deviceID "0000:01:10.0" is asked for, and the kubelet chose none of ` + marked}},
		"IDs that are no PCI addresses":    {network: macvlan, resource: shared, given: []string{"a7", "b1"}, asks: `n,n`, want: "[a7 b1]"},
		"fewer devices than networks":      {network: macvlan, resource: shared, given: []string{"a7"}, asks: `n,n`, want: "[a7 <nil>]"},
		"a subfunction":                    {network: `{"cniVersion":"0.3.1","type":"host-device"}`, resource: "nvidia.com/sf", given: []string{"mlx5_core.sf.4"}, asks: `n`, want: "[mlx5_core.sf.4]"},
		"a network of Culvert's, no VF":    {network: sriov, resource: shared, given: []string{"a7"}, asks: `n`, refused: `pod d/a has rdma/hca_shared_devices_a "a7": invalid: not a VF of Culvert`},
		"a network of Culvert's, nothing":  {network: sriov, resource: marked, asks: `n`, refused: "the kubelet gave pod d/a 0 of them: request 1"},
		"a list of Culvert's, nothing":     {network: `{"cniVersion":"0.3.1","plugins":[{"type":"sriov"},{"type":"tuning"}]}`, resource: marked, asks: `n`, refused: "the kubelet gave pod d/a 0 of them: request 1"},
		"VFs of Culvert's, by host-device": {network: `{"cniVersion":"0.3.1","type":"host-device"}`, resource: "intel.com/fast", given: []string{"0000:01:10.0"}, asks: `n`, want: "[0000:01:10.0]"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.network("n", tc.network, tc.resource)
			w.others["d/a/"+tc.resource] = tc.given
			w.asks(tc.asks)
			if tc.refused != "" {
				if got := w.refused(); !strings.Contains(got, tc.refused) {
					t.Errorf("refused with %s, want %s", got, tc.refused)
				}
				return
			}
			w.add()
			var got []any
			for i := range w.status()[1:] {
				for _, sb := range w.content().Sandboxes {
					var p struct{ DeviceID any }
					if err := json.Unmarshal(sb.Networks[i+1].Plugins[0].Raw, &p); err != nil {
						t.Fatal(err)
					}
					got = append(got, p.DeviceID)
				}
			}
			if fmt.Sprint(got) != tc.want {
				t.Errorf("the plugins got the devices %v, want %s", got, tc.want)
			}
			w.wantIgnored(tc.ignored...)
			w.del()
			w.clean()
		})
	}
}

// A pod that asks for a MAC address that no interface can have is refused, whatever plugin serves the
// network.
func TestMACThatNoInterfaceHas(t *testing.T) {
	for _, network := range []string{`{"cniVersion":"0.3.1","type":"macvlan"}`, sriov} {
		for _, mac := range []string{"00:00:00:00:00:00", "01:00:5E:00:00:01"} {
			w := newWorld(t)
			w.network("n", network)
			w.asks(`[{"name":"n","mac":"` + mac + `"}]`)
			if got := w.refused(); !strings.Contains(got, "network d/n (net1): ") {
				t.Errorf("%s: %s", mac, got)
			}
		}
	}
}

// I9: the MAC address that a later plugin tuning sets by its own text counts as that of the network.
// The PF has it before, and one that is in use is refused.
func TestI9MACOfTuningCounts(t *testing.T) {
	const free, other = "02:11:22:33:44:07", "02:11:22:33:44:08"
	list := func(sriov, tuning string) string {
		return `{"cniVersion":"1.0.0","name":"n","plugins":[{"type":"sriov","vlan":7` + sriov + `},{"type":"tuning"` + tuning + `}]}`
	}
	for name, tc := range map[string]struct{ network, asks, says string }{
		"its key":                          {list("", `,"mac":"%"`), "", ""},
		"another case":                     {list("", `,"MAC":"%"`), "", ""},
		"runtimeConfig":                    {list("", `,"runtimeConfig":{"mac":"%"}`), "", ""},
		"args":                             {list("", `,"args":{"cni":{"mac":"%"}}`), "", ""},
		"args in another case":             {list("", `,"Args":{"CNI":{"Mac":"%"}}`), "", ""},
		"OpenShift's name":                 {strings.Replace(list("", `,"mac":"%"`), `"tuning"`, `"cnv-tuning"`, 1), "", ""},
		"beside another of the network":    {list(`,"mac":"`+other+`"`, `,"mac":"%"`), "", ""},
		"beside one that the pod asks for": {list("", `,"mac":"`+other+`"`), `"mac":"%"`, ""},
		"beside one of cni-args":           {list("", `,"mac":"`+other+`"`), `"cni-args":{"mac":"%"}`, ""},
		"args against the pod's":           {list("", `,"args":{"cni":{"mac":"%"}}`), `"mac":"` + other + `"`, "ask for one"},
		"runtimeConfig against the pod's":  {list("", `,"runtimeConfig":{"mac":"%"}`), `"mac":"` + other + `"`, "ask for one"},
		"runtimeConfig of both":            {list(`,"runtimeConfig":{"mac":"`+other+`"}`, `,"runtimeConfig":{"mac":"%"}`), "", "ask for one"},
		"two plugins":                      {strings.Replace(list("", `,"args":{"cni":{"mac":"%"}}`), "]}", `,{"type":"tuning","args":{"cni":{"mac":"`+other+`"}}}]}`, 1), "", "ask for one"},
		"a group address":                  {list("", `,"mac":"01:00:5e:00:00:01"`), "", "want a unicast address"},
	} {
		for _, mac := range []string{victimMAC, free} {
			t.Run(name+" "+mac, func(t *testing.T) {
				w := newVictim(t)
				w.network("n", strings.ReplaceAll(tc.network, "%", mac))
				asks := "n"
				if tc.asks != "" {
					asks = `[{"name":"n",` + strings.ReplaceAll(tc.asks, "%", mac) + `}]`
				}
				w.asks(asks)
				says := tc.says
				if says == "" && mac == victimMAC {
					says = "by pod v/victim"
				}
				resp := w.call("ADD", "")
				holds := slices.IndexFunc(w.content().Records, func(r journal.Record) bool { return r.Lease.Owner.UID == "c1" })
				switch {
				case says != "" && (resp.Exit == 0 || !strings.Contains(string(resp.Stdout), says) || holds >= 0):
					t.Errorf("I9: want a refusal that says %q, got exit %d, %s", says, resp.Exit, resp.Stdout)
				case says == "" && (resp.Exit != 0 || w.content().Records[holds].Lease.Effective.MAC.String() != mac):
					t.Errorf("exit %d, %s", resp.Exit, resp.Stdout)
				}
			})
		}
	}
}
