package compat

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/network/config"
	"github.com/culvert-net/culvert/internal/network/netconf"
	"github.com/culvert-net/culvert/internal/vf"
)

// device is the VF that the kubelet gave to the pod.
const device = "0000:3b:02.1"

// tryNetwork gives spec.config of a NetworkAttachmentDefinition to both of Culvert's parsers: that
// of the admission webhook and of pods without Multus, and that of calls by Multus. If their
// outcomes differ, tryNetwork returns both.
func tryNetwork(input *yaml.Node) (Outcome, error) {
	var text string
	if err := input.Decode(&text); err != nil {
		return nil, err
	}
	alone, refusal := withoutMultus(text)
	beside, refusalBeside := besideMultus(text)
	if refusal != nil && refusalBeside != nil {
		return nil, refusal
	}
	if refusal != nil {
		alone = Refused
	}
	if refusalBeside != nil {
		beside = Refused
	}
	if alone != beside {
		return Outcome{"without Multus: " + alone, "beside Multus: " + beside}, nil
	}
	return Outcome{alone}, nil
}

func withoutMultus(text string) (string, error) {
	l, err := config.ParseDefinition(api.NetworkDefinition{Namespace: "default", Name: "net", Config: text})
	if err != nil {
		return "", err
	}
	all, err := config.OwnConfigs(l)
	if err != nil {
		return "", err
	}
	return describeConfigs(all)
}

// besideMultus parses the configuration of each plugin of Culvert's as Multus and libcni pass it:
// with the name and the version of the list, and the device.
func besideMultus(text string) (string, error) {
	var top map[string]json.RawMessage
	if err := json.Unmarshal([]byte(text), &top); err != nil {
		return "", err
	}
	plugins := []map[string]json.RawMessage{top}
	if raw, isList := top["plugins"]; isList {
		plugins = nil
		if err := json.Unmarshal(raw, &plugins); err != nil {
			return "", err
		}
	}
	var all []config.Config
	for _, p := range plugins {
		var kind string
		if json.Unmarshal(p["type"], &kind) != nil || !netconf.IsOwnType(kind) {
			continue
		}
		for _, key := range []string{"name", "cniVersion"} {
			if top[key] != nil {
				p[key] = top[key]
			}
		}
		if name := string(p["name"]); name == "" || name == `""` {
			p["name"] = netconf.String("net")
		}
		p["deviceID"], p["pciBusID"] = netconf.String(device), netconf.String(device)
		raw, err := json.Marshal(p)
		if err != nil {
			return "", err
		}
		c, err := config.Parse(raw)
		if err != nil {
			return "", err
		}
		all = append(all, c)
	}
	return describeConfigs(all)
}

// describeConfigs describes the settings of the VFs of a network.
func describeConfigs(all []config.Config) (string, error) {
	var out []string
	for _, c := range all {
		out = append(out, describeSpec(c.Spec))
	}
	if len(out) == 0 {
		return "", errors.New("none of the plugins is Culvert's")
	}
	return strings.Join(out, " and "), nil
}

// describeSpec lists the settings of a VF that are not the default.
func describeSpec(s vf.Spec) string {
	var out []string
	add := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	if v := s.VLAN; v != nil && v.ID != 0 {
		add("vlan %d", v.ID)
		if v.QoS != 0 {
			add("qos %d", v.QoS)
		}
		if v.Proto == vf.Dot1AD {
			add("802.1ad")
		}
	}
	if s.MAC != nil {
		add("mac %s", s.MAC)
	}
	onOff := map[bool]string{true: "on", false: "off"}
	if s.SpoofChk != nil {
		add("spoofchk %s", onOff[*s.SpoofChk])
	}
	if s.Trust != nil {
		add("trust %s", onOff[*s.Trust])
	}
	if s.LinkState != nil {
		add("link_state %s", *s.LinkState)
	}
	for _, rate := range []struct {
		name  string
		value *uint32
	}{{"min_tx_rate", s.MinTxRate}, {"max_tx_rate", s.MaxTxRate}} {
		if rate.value != nil && *rate.value != 0 {
			add("%s %d", rate.name, *rate.value)
		}
	}
	if len(out) == 0 {
		return "a plain VF"
	}
	return strings.Join(slices.Clip(out), ", ")
}
