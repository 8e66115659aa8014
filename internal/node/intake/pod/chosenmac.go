package pod

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/culvert-net/culvert/internal/network/netconf"
	"github.com/culvert-net/culvert/internal/vf"
)

// tuningTypes are the names of the CNI project's plugin tuning: its own, and that of OpenShift's copy.
var tuningTypes = []string{"tuning", "cnv-tuning"}

// macKeys are the keys by which the text of a plugin names a MAC address. They count in any case, as
// encoding/json reads them.
type macKeys struct {
	MAC           string `json:"mac"`
	RuntimeConfig struct {
		MAC string `json:"mac"`
	} `json:"runtimeConfig"`
	Args struct {
		CNI struct {
			MAC string `json:"mac"`
		} `json:"cni"`
	} `json:"args"`
}

// chosenMAC returns the MAC address that the interface of a network gets by the pod's request, which
// may be nil, and by the text of a plugin tuning after Culvert's. Every plugin gets it in CNI_ARGS,
// so that Culvert's plugin sees whether it is in use or not allowed, and the PF has it (I9). It
// returns nil if there is none but that of Culvert's own plugin.
//
// The plugin tuning prefers args to runtimeConfig, that to CNI_ARGS, and that to its own key mac
// (plugins/meta/tuning, parseConf).
func chosenMAC(plugins []netconf.Plugin, asked *vf.MAC) (*vf.MAC, error) {
	own := slices.IndexFunc(plugins, netconf.Plugin.IsOwn)
	if own < 0 {
		if asked != nil && !asked.IsUnicast() { // a plugin would pass over a zero one
			return nil, fmt.Errorf("MAC address %s: %w: want a unicast address: not zero, and the first byte even", asked.HardwareAddr(), vf.ErrInvalid)
		}
		return asked, nil
	}
	seen := "" // what Culvert's plugin reads in args by itself
	for _, p := range plugins[own:] {
		var keys macKeys
		_ = json.Unmarshal(p.Raw, &keys) // the plugin refuses a text that it cannot read
		text := ""
		switch {
		case p.IsOwn():
			text, seen = keys.RuntimeConfig.MAC, keys.Args.CNI.MAC
		case slices.Contains(tuningTypes, p.Type) && (seen == "" || keys.Args.CNI.MAC != seen):
			text = cmp.Or(keys.Args.CNI.MAC, keys.RuntimeConfig.MAC)
			if text == "" && asked == nil {
				text = keys.MAC
			}
		}
		if text == "" {
			continue
		}
		mac, err := vf.ParseUnicastMAC(text)
		if err != nil {
			return nil, fmt.Errorf("plugin %s: %w: %w", p.Type, vf.ErrInvalid, err)
		}
		if asked != nil && *asked != mac {
			return nil, fmt.Errorf("plugin %s: %w: it sets MAC address %s, and %s is asked for: ask for one", p.Type, vf.ErrInvalid, mac, asked)
		}
		asked = &mac
	}
	return asked, nil
}
