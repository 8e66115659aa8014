package config

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/network/netconf"
)

// The judgement of a NetworkAttachmentDefinition names the place of each mistake below spec.config,
// with field and value. It has the plugins that could be read, also where others could not.
func TestJudge(t *testing.T) {
	large := strings.Repeat("x", netconf.MaxText)
	for name, tc := range map[string]struct {
		network  api.NetworkDefinition
		plugins  string // types
		own      string // Culvert's, with their VLANs
		warnings []string
		err      string // how the error begins
	}{
		"a file":             {api.NetworkDefinition{Config: " "}, "", "", nil, ""},
		"Culvert's own":      {api.NetworkDefinition{Config: `{"type":"culvert","vlan":5}`}, "culvert", "n/5", nil, ""},
		"of another project": {api.NetworkDefinition{Config: `{"type":"bridge","vlan":5000}`}, "bridge", "", nil, ""},
		"two in a list": {api.NetworkDefinition{Config: `{"cniVersion":"1.0.0","name":"m","plugins":[{"type":"sriov","vlan":5},{"type":"tuning"},{"type":"culvert","vlan":6}]}`},
			"sriov tuning culvert", "m/5 m/6", nil, ""},
		"accepted with a warning": {api.NetworkDefinition{Config: `{"type":"sriov","vlan":5,"max-tx-rate":1}`}, "sriov", "n/5",
			[]string{"spec.config: max-tx-rate 1: unknown key, ignored: did you mean max_tx_rate?"}, ""},
		"a warning in a list": {api.NetworkDefinition{Config: `{"cniVersion":"1.0.0","plugins":[{"type":"tuning"},{"type":"sriov","vlan":5,"VLANQOS":1}]}`}, "tuning sriov", "n/5",
			[]string{"spec.config: plugins[1]: VLANQOS 1: read as vlanQoS: write it so"}, ""},
		"a wrong value": {api.NetworkDefinition{Config: `{"type":"culvert","vlan":5000}`}, "culvert", "", nil, "spec.config: vlan 5000: want a number between 0 and 4094"},
		"an IPAM plugin that an administrator adds": {api.NetworkDefinition{Config: `{"type":"bridge","ipam":{"type":"nv-ipam"}}`}, "bridge", "",
			[]string{"spec.config: ipam.type nv-ipam: only nodes whose culvertd --ipam-types has it (chart: node.ipamTypes) execute that plugin"}, ""},
		"an IPAM plugin that is misspelled": {api.NetworkDefinition{Config: `{"type":"bridge","ipam":{"type":"whereabout"}}`}, "bridge", "",
			[]string{"spec.config: ipam.type whereabout: only nodes whose culvertd --ipam-types has it (chart: node.ipamTypes) execute that plugin: did you mean whereabouts?"}, ""},
		"an IPAM plugin of every node":     {api.NetworkDefinition{Config: `{"type":"bridge","ipam":{"type":"whereabouts","range":"10.0.0.0/24"}}`}, "bridge", "", nil, ""},
		"a plugin that is no IPAM plugin":  {api.NetworkDefinition{Config: `{"type":"ptp","ipam":{"type":"ptp"}}`}, "ptp", "", nil, "spec.config: ipam.type ptp: invalid: that plugin gives no addresses"},
		"Culvert's own name of host-local": {api.NetworkDefinition{Config: `{"type":"culvert","vlan":5,"ipam":{"type":"culvert","subnet":"10.0.0.0/24"}}`}, "culvert", "n/5", nil, ""},
		"Culvert as an IPAM plugin":        {api.NetworkDefinition{Config: `{"type":"bridge","ipam":{"type":"culvert"}}`}, "bridge", "", nil, "spec.config: ipam.type culvert: invalid"},
		"a wrong value in a list":          {api.NetworkDefinition{Config: `{"cniVersion":"1.0.0","plugins":[{"type":"tuning"},{"type":"culvert","vlan":5000}]}`}, "tuning culvert", "", nil, "spec.config: plugins[1]: vlan 5000: want a number between 0 and 4094"},
		"a key of a wrong type":            {api.NetworkDefinition{Config: `{"type":5}`}, "", "", nil, "spec.config: type: invalid: json: cannot unmarshal number"},
		"a head of a wrong type":           {api.NetworkDefinition{Config: `{"type":"sriov","disableGC":"no"}`}, "sriov", "", nil, `spec.config: invalid: disableCheck, disableGC: "no": want true or false`},
		"a list with a wrong plugin": {api.NetworkDefinition{Config: `{"cniVersion":"1.0.0","plugins":[{"type":"sriov"},{"type":"bridge","podNetworks":1}]}`}, "sriov", "", nil,
			"spec.config: podNetworks: invalid: json: cannot unmarshal number"},
		"a list that libcni refuses": {api.NetworkDefinition{Config: `{"cniVersion":"1.0.0","plugins":[{"type":"sriov"},{"type":""}]}`}, "sriov ", "", nil,
			"spec.config: invalid: failed to parse plugin config 1"},
		"a plugin with two types": {api.NetworkDefinition{Config: `{"cniVersion":"1.0.0","plugins":[{"type":"sriov","vlan":5,"vlan":6},{"type":"rdma","type":"sbr"}]}`}, "sriov sbr", "", nil,
			"spec.config: invalid: plugins[1].type is given twice"},
		"one plugin with two types": {api.NetworkDefinition{Config: `{"type":"sriov","type":"bridge"}`}, "bridge", "", nil, "spec.config: invalid: type is given twice"},
		"two types in other cases":  {api.NetworkDefinition{Config: `{"cniVersion":"1.0.0","plugins":[{"type":"sriov"},{"type":"rdma","TYPE":"sbr"}]}`}, "sriov rdma", "", nil, "spec.config: invalid: plugins[1].TYPE is given twice"},
		"two lists of plugins":      {api.NetworkDefinition{Config: `{"cniVersion":"1.0.0","plugins":[{"type":"sriov"}],"plugins":[{"type":"bridge"}]}`}, "bridge", "", nil, "spec.config: invalid: plugins is given twice"},
		"another key twice": {api.NetworkDefinition{Config: `{"cniVersion":"1.0.0","plugins":[{"type":"tuning","sysctl":{},"sysctl":{}}]}`}, "tuning", "",
			[]string{"spec.config: plugins[0].sysctl: given twice; the last one counts"}, ""},
		"no JSON":          {api.NetworkDefinition{Config: `{`}, "", "", nil, "spec.config: invalid: not a JSON object: unexpected end of JSON input"},
		"no object":        {api.NetworkDefinition{Config: `null`}, "", "", nil, "spec.config: invalid: not a JSON object: null"},
		"it was too large": {api.NetworkDefinition{Dropped: 70_000}, "", "", nil, "the network configuration: invalid: it has 70000 bytes; want at most 65536"},
		"too large, others": {api.NetworkDefinition{Config: `{"type":"bridge","x":"` + large + `"}`}, "bridge", "", []string{
			"spec.config: culvertd refuses a pod that asks for this network, where it serves pods without Multus: the network configuration: invalid: it has 65560 bytes; want at most 65536"}, ""},
		"too large": {api.NetworkDefinition{Config: `{"type":"sriov","x":"` + large + `"}`}, "sriov", "", []string{
			"spec.config: culvertd refuses a pod that asks for this network, where it serves pods without Multus: the network configuration: invalid: it has 65559 bytes; want at most 65536"},
			"spec.config: the network configuration: invalid: it has 65559 bytes; want at most 65536"},
	} {
		t.Run(name, func(t *testing.T) {
			tc.network.Namespace, tc.network.Name = "d", "n"
			j := Judge(tc.network)
			var plugins, own []string
			for _, p := range j.List.Plugins {
				plugins = append(plugins, p.Type)
			}
			for _, c := range j.Own {
				own = append(own, fmt.Sprintf("%s/%d", c.Name, c.Spec.VLAN.ID))
			}
			err := ""
			if j.Err != nil {
				err = j.Err.Error()
			}
			if (tc.err == "") != (err == "") || !strings.HasPrefix(err, tc.err) {
				t.Errorf("error %q, want %q", err, tc.err)
			}
			if d := cmp.Diff([]string{tc.plugins, tc.own}, []string{strings.Join(plugins, " "), strings.Join(own, " ")}); d != "" {
				t.Errorf("plugins and Culvert's own, -want +got\n%s", d)
			}
			if d := cmp.Diff(tc.warnings, j.Warnings); d != "" {
				t.Errorf("warnings, -want +got\n%s", d)
			}
		})
	}
}

// Judge names the plugin whose section of whereabouts gives no address, whichever project's it is.
func TestJudgeNoAddress(t *testing.T) {
	for text, want := range map[string]string{
		`{"type":"sriov","ipam":{"type":"whereabouts","range":"10.0.0.7/32"}}`:                                              "spec.config: whereabouts gives pods no address: ipam.range: \"10.0.0.7/32\" is too small",
		`{"type":"bridge","ipam":{"type":"whereabouts","range":"10.0.0.7/32"}}`:                                             "spec.config: whereabouts gives pods no address: ",
		`{"cniVersion":"1.0.0","plugins":[{"type":"tuning"},{"type":"macvlan","ipam":{"type":"whereabouts","range":"x"}}]}`: "spec.config: plugins[1]: whereabouts gives pods no address: ",
		`{"type":"sriov","ipam":{"type":"whereabouts","range":"10.0.0.0/24"}}`:                                              "<nil>",
		`{"type":"bridge","ipam":{"type":"spiderpool","range":"10.0.0.7/32"}}`:                                              "<nil>",
	} {
		j := Judge(api.NetworkDefinition{Namespace: "d", Name: "n", Config: text})
		if got := fmt.Sprint(j.NoAddress); !strings.HasPrefix(got, want) || j.Err != nil {
			t.Errorf("%s\n got %s, %v\nwant %s", text, got, j.Err, want)
		}
	}
}
