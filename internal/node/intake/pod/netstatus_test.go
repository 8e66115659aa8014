package pod

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/culvert-net/culvert/internal/node/journal"
)

// The network-status of a network has an element for each of its interfaces in the pod, with the
// addresses of that interface. Each has the gateways of the network's default routes.
func TestNetworkStatuses(t *testing.T) {
	const (
		bridge = `{"name":"cni0","mac":"02:00:00:00:00:0a"},{"name":"veth1"},`
		first  = `{"name":"net1","mac":"02:00:00:00:00:01","mtu":1400,"sandbox":"/run/netns/x"}`
		second = `{"name":"net1.5","mac":"02:00:00:00:00:02","sandbox":"/run/netns/x"}`
		routed = `"routes":[{"dst":"0.0.0.0/0","gw":"10.1.0.1"},{"dst":"10.9.0.0/16","gw":"10.1.0.9"}],`
		bare   = `"routes":[{"dst":"0.0.0.0/0"},{"dst":"::/0"}],`
	)
	for name, tc := range map[string]struct {
		result    string
		isDefault bool
		want      string // an element: interface, MAC address, MTU, addresses, gateways, * for the default one
	}{
		"one interface": {`"interfaces":[` + first + `],"ips":[{"interface":0,"address":"10.1.0.2/24","gateway":"10.1.0.1"}]`, false, "net1 02:00:00:00:00:01 1400 [10.1.0.2] []"},
		"interfaces of the host": {
			`"interfaces":[` + bridge + first + `],` + routed + `"ips":[{"interface":2,"address":"10.1.0.2/24","gateway":"10.1.0.1"}]`, true,
			"net1 02:00:00:00:00:01 1400 [10.1.0.2] [10.1.0.1] *",
		},
		"two interfaces": {
			`"interfaces":[` + bridge + first + `,` + second + `],` + routed + `"ips":[{"interface":3,"address":"10.1.0.2/24"},{"interface":2,"address":"10.1.0.3/24"},{"interface":0,"address":"10.1.0.4/24"},{"address":"10.1.0.5/24"}]`, false,
			"net1 02:00:00:00:00:01 1400 [10.1.0.3] [10.1.0.1], net1.5 02:00:00:00:00:02 0 [10.1.0.2 10.1.0.5] [10.1.0.1]",
		},
		"two interfaces, the default network by its gateway": {
			`"interfaces":[` + first + `,` + second + `],"ips":[{"interface":0,"address":"10.1.0.2/24"},{"interface":1,"address":"10.2.0.2/24","gateway":"10.2.0.1"}]`, true,
			"net1 02:00:00:00:00:01 1400 [10.1.0.2] [], net1.5 02:00:00:00:00:02 0 [10.2.0.2] [] *",
		},
		"two interfaces, the default network without one": {
			`"interfaces":[` + first + `,` + second + `]`, true, "net1 02:00:00:00:00:01 1400 [] [] *, net1.5 02:00:00:00:00:02 0 [] []",
		},
		"a route without a gateway": {
			`"interfaces":[` + first + `],` + bare + `"ips":[{"interface":0,"address":"10.1.0.2/24","gateway":"10.1.0.1"},{"interface":0,"address":"fd00::2/64","gateway":"fd00::1"}]`, false,
			"net1 02:00:00:00:00:01 1400 [10.1.0.2 fd00::2] [10.1.0.1 fd00::1]",
		},
		"no interface": {`"ips":[{"address":"10.1.0.2/24"}]`, true, "net1  0 [10.1.0.2] [] *"},
	} {
		n := journal.SandboxNetwork{Name: "d/n", Interface: "net1", Version: "1.1.0", Default: tc.isDefault, Result: json.RawMessage(`{"cniVersion":"1.1.0",` + tc.result + `}`)}
		all, err := networkStatuses(n)
		var got []string
		for _, s := range all {
			text := fmt.Sprint(s.Interface, " ", s.MAC, " ", s.MTU, " ", s.IPs, " ", s.Gateway)
			if s.Default {
				text += " *"
			}
			got = append(got, text)
		}
		if err != nil || strings.Join(got, ", ") != tc.want || slices.ContainsFunc(all, func(s networkStatus) bool { return s.Name != "d/n" }) {
			t.Errorf("%s: %v\n got %s\nwant %s", name, err, strings.Join(got, ", "), tc.want)
		}
	}
}
