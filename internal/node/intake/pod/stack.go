package pod

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/culvert-net/culvert/internal/network/config"
	"github.com/culvert-net/culvert/internal/network/netconf"
	"github.com/culvert-net/culvert/internal/node/journal"
	"github.com/culvert-net/culvert/internal/vf"
)

// describeUntrusted returns a warning for each macvlan over a VF of the pod that is not trusted.
// The MAC address of a VF is pinned, and drivers such as igb let only a trusted one receive frames
// for a second address (drivers/net/ethernet/intel/igb/igb_main.c, igb_set_vf_mac_filter).
func describeUntrusted(networks []journal.SandboxNetwork) (out []string) {
	for i, n := range networks {
		for _, p := range n.Plugins {
			var config struct {
				Master          string `json:"master"`
				LinkInContainer bool   `json:"linkInContainer"`
			}
			if p.Type != "macvlan" || json.Unmarshal(p.Raw, &config) != nil || !config.LinkInContainer {
				continue
			}
			for _, below := range networks[:i] {
				if below.Interface == config.Master && isUntrusted(below) {
					out = append(out, fmt.Sprintf("network %s (%s): macvlan on VF %s of network %s, which is not trusted: its driver may drop frames for the MAC address of %s; set trust: on in network %s",
						n.Name, n.Interface, config.Master, below.Name, n.Interface, below.Name))
				}
			}
		}
	}
	return out
}

// isUntrusted reports whether a network has a VF without trust.
func isUntrusted(n journal.SandboxNetwork) bool {
	configs, err := config.OwnConfigs(netconf.List{Name: n.Network, Version: n.Version, Plugins: n.Plugins})
	return err == nil && slices.ContainsFunc(configs, func(c config.Config) bool {
		trust := *c.Spec.Switch(vf.SetTrust)
		return trust == nil || !*trust
	})
}
