package pod

import (
	"encoding/json"
	"testing"

	"github.com/culvert-net/culvert/api"
	"github.com/culvert-net/culvert/journal"
	"github.com/culvert-net/culvert/vf"
)

// Whatever a network attachment definition holds, it is refused, or every plugin of
// it has a name without a path and a configuration that it can be given.
func FuzzDefinition(f *testing.F) {
	f.Add(`{"type":"sriov","cniVersion":"0.3.1","name":"n"}`, "k", `{"ips":[]}`)
	f.Add(`{"plugins":[{"type":"a/b"}]}`, "", "{}")
	f.Add(`null`, "a", "null")
	f.Add(`{"type":"macvlan","args":{"cni":{"a":1}},"capabilities":{"mac":true}}`, "a", `{"cniVersion":"1.0.0","interfaces":[null]}`)
	f.Add(`{"cniVersion":"9","plugins":[null,{}],"name":""}`, "x", `{"ips":[null]}`)
	f.Add(`{"type":"culvert","podNetworks":true}`, "x", `[]`)
	f.Fuzz(func(t *testing.T, config, key, result string) {
		_, _ = Own(api.NetworkDefinition{Namespace: "d", Name: "name", Config: config})
		d, err := parse([]byte(config), "name")
		if err != nil {
			return
		}
		if d.Plugins, err = withArgs(d.Plugins, map[string]json.RawMessage{key: text("v")}); err != nil {
			return
		}
		if d.Plugins, err = withDevice(d.Plugins, vf.PCIAddr{Bus: 1}); err != nil {
			t.Fatal(err)
		}
		n := journal.SandboxNetwork{Interface: "net1", Runtime: map[string]json.RawMessage{"mac": text("x")}}
		define(&n, d)
		for _, raw := range n.Plugins {
			p, err := pluginOf(raw)
			if err != nil || !api.IsPluginType(p.Type) || p.meta() {
				t.Fatalf("%s: plugin %+v, %v", config, p, err)
			}
			if _, err := (chain{n: n}).compose(p, raw, nil, nil); err != nil {
				t.Fatal(err)
			}
		}
		n.Result = json.RawMessage(result)
		h := &Handler{}
		if _, err := h.oneStatus(n); err == nil && !json.Valid(n.Result) {
			t.Errorf("%q is a result", result)
		}
		_, _ = inVersion(n.Result, "1.0.0")
	})
}

// Whatever the shim sends, it is a call.
func FuzzCall(f *testing.F) {
	f.Add([]byte(`{"podNetworks":true,"cni.dev/valid-attachments":[{}]}`), "K8S_POD_NAME=a;K8S_POD_UID")
	f.Add([]byte(`[]`), ";;=")
	f.Fuzz(func(t *testing.T, config []byte, args string) {
		c := newCall(api.CNIRequest{Config: config, Args: args}, nil)
		if c.config.PodNetworks && !json.Valid(config) {
			t.Errorf("%q has pod networks", config)
		}
		_ = c.podName()
		_ = ignoring(args)
	})
}
