package cni

import (
	"fmt"
	"slices"
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
		"a wrong value":           {api.NetworkDefinition{Config: `{"type":"culvert","vlan":5000}`}, "culvert", "", nil, "spec.config: vlan 5000: want a number between 0 and 4094"},
		"a wrong value in a list": {api.NetworkDefinition{Config: `{"cniVersion":"1.0.0","plugins":[{"type":"tuning"},{"type":"culvert","vlan":5000}]}`}, "tuning culvert", "", nil, "spec.config: plugins[1]: vlan 5000: want a number between 0 and 4094"},
		"a key of a wrong type":   {api.NetworkDefinition{Config: `{"type":5}`}, "", "", nil, "spec.config: type: invalid: json: cannot unmarshal number"},
		"a head of a wrong type":  {api.NetworkDefinition{Config: `{"type":"sriov","disableGC":"no"}`}, "sriov", "", nil, "spec.config: invalid: json: cannot unmarshal string into Go struct field .disableGC"},
		"a list with a wrong plugin": {api.NetworkDefinition{Config: `{"cniVersion":"1.0.0","plugins":[{"type":"sriov"},{"type":"bridge","podNetworks":1}]}`}, "sriov", "", nil,
			"spec.config: podNetworks: invalid: json: cannot unmarshal number"},
		"a list that libcni refuses": {api.NetworkDefinition{Config: `{"cniVersion":"1.0.0","plugins":[{"type":"sriov"},{"type":""}]}`}, "sriov ", "", nil,
			"spec.config: invalid: failed to parse plugin config 1"},
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

// JudgeAdd foretells the ADD: it refuses what Handler refuses before it chooses a VF, in the same
// words, and returns the warnings that the pod's event has.
func TestJudgeAddForetellsTheADD(t *testing.T) {
	for name, tc := range map[string]struct {
		args, config string
		refused      bool
		warnings     []string
	}{
		"accepted":                     {"", strict(pool), false, nil},
		"accepted with warnings":       {"", with(`"max-tx-rate":1,` + pool), false, []string{"max-tx-rate 1: unknown key, ignored: did you mean max_tx_rate?"}},
		"a wrong value":                {"", strict(`"vlan":5000`), true, nil},
		"wrong arguments":              {"MAC=x", strict(""), true, nil},
		"an address that no range has": {"", strict(`"args":{"cni":{"ips":["10.0.0.x"]}},` + pool), true, nil},
		"an address without ipam":      {"", strict(`"args":{"cni":{"ips":["10.0.0.5"]}}`), true, nil},
		"of a pod, by no capability":   {podArgs, strict(`"args":{"cni":{"ips":["10.0.0.x"]}},` + pool), false, nil},
		"of a pod, by its capability":  {podArgs, strict(`"capabilities":{"ips":true},"args":{"cni":{"ips":["10.0.0.x"]}},` + pool), true, nil},
		"too large":                    {"", strict(`"logFile":"` + strings.Repeat("x", netconf.MaxText) + `"`), true, nil},
	} {
		t.Run(name, func(t *testing.T) {
			r, cluster := invocation(cmdAdd, tc.config), &events{}
			r.Args = tc.args
			warnings, err := JudgeAdd(r)
			h := New(partsOf(newMemory(1)))
			h.Cluster = cluster
			_, errAdd := h.Run(t.Context(), r, nil)
			if (err != nil) != tc.refused || fmt.Sprint(err) != fmt.Sprint(errAdd) {
				t.Errorf("JudgeAdd says %v; the ADD says %v", err, errAdd)
			}
			if d := cmp.Diff(tc.warnings, warnings); d != "" {
				t.Errorf("warnings, -want +got\n%s", d)
			}
			reported := func(warning string) bool {
				return slices.Contains(cluster.texts, " NetworkSettingIgnored network net: "+warning)
			}
			for _, w := range warnings {
				if !reported(w) {
					t.Errorf("the pod has the events %q, and none of %s", cluster.texts, w)
				}
			}
		})
	}
}
