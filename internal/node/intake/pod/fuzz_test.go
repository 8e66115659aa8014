package pod

import (
	"encoding/json"
	"maps"
	"net/netip"
	"testing"

	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/network/config"
	"github.com/culvert-net/culvert/internal/network/netconf"
	"github.com/culvert-net/culvert/internal/node/journal"
)

// A network attachment definition of any text is refused, or each of its plugins has a type without
// a path and a configuration that culvertd can pass to it.
func FuzzDefinition(f *testing.F) {
	f.Add(`{"type":"sriov","cniVersion":"0.3.1","name":"n"}`, "k", `{"ips":[]}`)
	f.Add(`{"plugins":[{"type":"a/b"}]}`, "", "{}")
	f.Add(`null`, "a", "null")
	f.Add(`{"type":"macvlan","args":{"cni":{"a":1}},"capabilities":{"mac":true}}`, "a", `{"cniVersion":"1.0.0","interfaces":[null]}`)
	f.Add(`{"cniVersion":"9","plugins":[null,{}],"name":""}`, "x", `{"ips":[null]}`)
	f.Add(`{"type":"culvert","podNetworks":true}`, "x", `[]`)
	f.Add(`{"type":"macvlan","cniVersion":"1.0.0"}`, "x", `{"ips":[{"address":"10.0.0.1/24","gateway":"10.0.0.2"},{}],"routes":[{"dst":"::/0","gw":"fd00::1"},{}]}`)
	f.Fuzz(func(t *testing.T, text, key, result string) {
		nad := api.NetworkDefinition{Namespace: "d", Name: "name", Config: text}
		_, _ = config.Own(nad)
		d, err := config.ParseDefinition(nad)
		if err != nil || len(d.Plugins) == 0 {
			return
		}
		if d.Plugins, err = withArgs(d.Plugins, map[string]json.RawMessage{key: netconf.String("v")}); err != nil {
			return
		}
		if d.Plugins, err = withDevices(d.Plugins, []string{"0000:01:00.0", "0000:02:00.0"}); err != nil {
			t.Fatal(err)
		}
		n := journal.SandboxNetwork{Interface: "net1", Runtime: map[string]json.RawMessage{"mac": netconf.String("x")}}
		setDefinition(&n, d)
		for _, p := range n.Plugins {
			if !api.IsPluginType(p.Type) || p.IsMeta() {
				t.Fatalf("%s: plugin %+v", text, p)
			}
			if again, err := netconf.ParsePlugin(p.Raw); err != nil || again.Type != p.Type || !maps.Equal(again.Capabilities, p.Capabilities) {
				t.Fatalf("%s: plugin %+v of the text %s: %+v, %v", text, p, p.Raw, again, err)
			}
			if _, err := (chain{n: n}).composeConfig(p, nil, nil); err != nil {
				t.Fatal(err)
			}
		}
		n.Result = json.RawMessage(result)
		if _, err := networkStatuses(n); err == nil && !json.Valid(n.Result) {
			t.Errorf("%q is a result", result)
		}
		_, _ = inVersion(n.Result, "1.0.0")
		w := wish{sandbox: journal.Sandbox{Networks: []journal.SandboxNetwork{n}}, gateways: map[int][]netip.Addr{}, ownGateways: []int{0}}
		_ = w.findOwnGateways()
		if r, err := config.DecodeResult(n.Result, n.Version); err == nil {
			_ = describeAdded(n, r)
		}
	})
}

// newCall reads any request of the shim.
func FuzzCall(f *testing.F) {
	f.Add([]byte(`{"podNetworks":true,"cni.dev/valid-attachments":[{}]}`), "K8S_POD_NAME=a;K8S_POD_UID")
	f.Add([]byte(`[]`), ";;=")
	f.Fuzz(func(t *testing.T, config []byte, args string) {
		c := newCall(api.CNIRequest{Config: config, Args: args}, nil)
		if c.config.PodNetworks && !json.Valid(config) {
			t.Errorf("%q has pod networks", config)
		}
		_ = c.podName()
		_ = ignoreUnknown(args)
	})
}
