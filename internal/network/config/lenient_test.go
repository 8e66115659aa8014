package config

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/culvert-net/culvert/internal/vf"
)

// A network of type sriov takes every setting that the SR-IOV CNI plugin (pkg/types, pkg/config and
// pkg/sriov of k8snetworkplumbingwg/sriov-cni) takes, with the same meaning. That plugin decodes
// with encoding/json, which finds the field of a key in any case.
func TestNetworkOfTypeSRIOV(t *testing.T) {
	for keys, want := range map[string]struct {
		spec     vf.Spec
		warnings []string
	}{
		`"vlan":null,"vlanQoS":null,"min_tx_rate":null,"mac":null,"spoofchk":null`: {},
		`"vlan":0,"vlanQoS":0`:                          {spec: vf.Spec{VLAN: &vf.VLAN{}}},
		`"vlan":1e2,"max_tx_rate":200.0`:                {spec: vf.Spec{VLAN: &vf.VLAN{ID: 100}, MaxTxRate: ptr[uint32](200)}},
		`"vlan":5,"vlanProto":"802.1AD"`:                {spec: vf.Spec{VLAN: &vf.VLAN{ID: 5, Proto: vf.Dot1AD}}},
		`"vlan":5,"vlanProto":"802.1aD"`:                {spec: vf.Spec{VLAN: &vf.VLAN{ID: 5, Proto: vf.Dot1AD}}},
		`"mac":"CA-FE-C0-FF-EE-00"`:                     {spec: vf.Spec{MAC: &vf.MAC{0xca, 0xfe, 0xc0, 0xff, 0xee, 0}}},
		`"logLevel":"verbose","logFile":"/tmp/s"`:       {},
		`"spoofChk":"off"`:                              {vf.Spec{SpoofChk: ptr(false)}, []string{`spoofChk off: read as spoofchk: write it so`}},
		`"VLAN":7,"Trust":"on"`:                         {vf.Spec{VLAN: &vf.VLAN{ID: 7}, Trust: ptr(true)}, []string{`VLAN 7: read as vlan: write it so`, `Trust on: read as trust: write it so`}},
		`"vlan":5,"VLAN":7`:                             {vf.Spec{VLAN: &vf.VLAN{ID: 5}}, []string{`VLAN 7: given again as vlan, ignored`}},
		`"VLAN":6,"Vlan":7`:                             {vf.Spec{VLAN: &vf.VLAN{ID: 7}}, []string{`VLAN 6: given again as vlan, ignored`, `Vlan 7: read as vlan: write it so`}},
		`"vlan":5,"vlan":6`:                             {vf.Spec{VLAN: &vf.VLAN{ID: 6}}, []string{`vlan 5: given twice; the last one counts`}},
		`"max-tx-rate":100`:                             {warnings: []string{`max-tx-rate 100: unknown key, ignored: did you mean max_tx_rate?`}},
		`"rss_query":"on","query_rss":"on"`:             {warnings: []string{`rss_query on: unknown key, ignored`, `query_rss on: unknown key, ignored`}},
		`"rdmaIsolation":true,"vlan_trunk":"10-20"`:     {warnings: []string{`rdmaIsolation true: unknown key, ignored`, `vlan_trunk 10-20: unknown key, ignored`}},
		`"trust":"ON"`:                                  {vf.Spec{Trust: ptr(false)}, []string{`trust ON: read as "off", as is every text but "on"`}},
		`"spoofchk":"Off"`:                              {vf.Spec{SpoofChk: ptr(false)}, []string{`spoofchk Off: read as "off", as is every text but "on"`}},
		`"mtu":1e3`:                                     {spec: vf.Spec{MTU: ptr(1000)}},
		`"mtu":null`:                                    {},
		`"mtu":100000`:                                  {vf.Spec{MTU: ptr(65535)}, []string{`mtu 100000: read as 65535, the largest that there is`}},
		`"mtu":0`:                                       {warnings: []string{`mtu 0: ignored: want a whole number between 68 and 65535, without quotes`}},
		`"mtu":-1`:                                      {warnings: []string{`mtu -1: ignored: want a whole number between 68 and 65535, without quotes`}},
		`"mtu":1500.5`:                                  {warnings: []string{`mtu 1500.5: ignored: want a whole number between 68 and 65535, without quotes`}},
		`"mtu":"9000"`:                                  {warnings: []string{`mtu 9000: ignored: want a whole number between 68 and 65535, without quotes`}},
		`"mtu":{"a":1}`:                                 {warnings: []string{`mtu {"a":1}: ignored: want a whole number between 68 and 65535, without quotes`}},
		`"ipam":{}`:                                     {},
		`"ipam":null`:                                   {},
		`"ipam":{"subnet":"10.0.0.0/24"}`:               {warnings: []string{`ipam.type: missing; without it the section gives no addresses: want host-local, culvert or static`}},
		`"ipam":{"type":"","Subnet":"10.0.0.0/24"}`:     {warnings: []string{`ipam.type "": missing; without it the section gives no addresses: want host-local, culvert or static`}},
		`"runtimeConfig":{"bandwidth":{"a":1}}`:         {warnings: []string{`runtimeConfig.bandwidth {"a":1}: not served; max_tx_rate limits what a VF sends`}},
		`"runtimeConfig":{"Mac":"02:00:00:00:00:01"}`:   {warnings: []string{`runtimeConfig.Mac "02:00:00:00:00:01": read as mac: write it so`}},
		`"runtimeConfig":{"infinibandGUID":"c2:11:22"}`: {warnings: []string{`runtimeConfig.infinibandGUID "c2:11:22": not served; culvert attaches Ethernet VFs`}},
	} {
		c, err := Parse([]byte(with(keys)))
		if err != nil {
			t.Errorf("%s: %v", keys, err)
			continue
		}
		if d := cmp.Diff(want.spec, c.Spec, byValue); d != "" {
			t.Errorf("%s: -want +got\n%s", keys, d)
		}
		if !slices.Equal(want.warnings, c.Warnings) {
			t.Errorf("%s: warnings %q\nwant %q", keys, c.Warnings, want.warnings)
		}
		if len(want.warnings) == 0 {
			continue
		}
		for name, raw := range map[string]string{"type culvert": strict(keys), "strict": with(`"strict":true,` + keys)} {
			if c, err := Parse([]byte(raw)); !errors.Is(err, vf.ErrInvalid) || len(c.Warnings) > 0 {
				t.Errorf("%s, %s: %v, warnings %q", keys, name, err, c.Warnings)
			}
		}
	}
}

// A network of type sriov refuses a value that would weaken isolation, or that would be applied as
// another value.
func TestNetworkOfTypeSRIOVRefuses(t *testing.T) {
	for keys, want := range map[string]string{
		`"spoofchk":"ON"`:                `spoofchk ON: want "on" or "off": the SR-IOV CNI plugin switches it off for every text but "on"`,
		`"spoofChk":"enable"`:            `spoofchk enable: want "on" or "off": the SR-IOV CNI plugin switches it off for every text but "on"`,
		`"bond":{}`:                      `bond {}: bonds of VFs are served in networks of type culvert: set type to culvert`,
		`"vlan":"100"`:                   `vlan 100: want a whole number between 0 and 4094, without quotes`,
		`"VLAN":4095`:                    `vlan 4095: want a number between 0 and 4094`,
		`"vlanQoS":0`:                    `vlanQoS 0: needs a vlan; add "vlan": 0 for none`,
		`"link_state":"Enable"`:          `link_state: "Enable": want auto, enable or disable`,
		`"strict":"yes","max-tx-rate":1`: `strict yes: want true or false, without quotes`,
	} {
		_, err := Parse([]byte(with(keys)))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s\n got %v\nwant %s", keys, err, want)
		}
	}
	if _, err := Parse([]byte(strict(`"strict":false`))); err == nil || err.Error() != `strict false: a network of type culvert is always read strictly; take the key out` {
		t.Errorf("strict: false of a network of type culvert: %v", err)
	}
}

// The specification's versions before 0.3.1 are served, and so is a configuration without one.
func TestOldVersions(t *testing.T) {
	for version, want := range map[string]string{``: "0.1.0", `"cniVersion":"0.1.0",`: "0.1.0", `"cniVersion":"0.2.0",`: "0.2.0", `"cniVersion":"0.3.0",`: "0.3.0", `"CNIVersion":"0.3.1",`: "0.3.1"} {
		for _, kind := range []string{"sriov", "culvert"} {
			c, err := Parse([]byte(`{` + version + `"name":"net","type":"` + kind + `"}`))
			if strings.Contains(version, "CNI") && kind == "culvert" {
				if err == nil {
					t.Errorf("%s of type culvert is accepted", version)
				}
				continue
			}
			if err != nil || c.Version != want {
				t.Errorf("type %s, %s: version %s, %v; want %s", kind, version, c.Version, err, want)
			}
		}
	}
}
