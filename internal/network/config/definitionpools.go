package config

import (
	"encoding/json"
	"strings"

	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/network/ipam"
	"github.com/culvert-net/culvert/internal/network/netconf"
)

// Shared has the pools of addresses that a network attachment definition shares with other
// networks. The controller reads it of every definition of the cluster.
type Shared struct {
	// Pools has the pools of the ipam sections of type whereabouts, of every plugin: whereabouts
	// gives no address twice, whichever plugin asks.
	Pools []string
	// AddressPools has the names of the AddressPools that Culvert's plugins name.
	AddressPools []string
	// Whereabouts has the sections of type whereabouts of Culvert's plugins, as Culvert serves them.
	// It is empty if culvertd refuses the definition.
	Whereabouts []ipam.Config
	// IsFile is set where the configuration is a file on the nodes.
	IsFile bool
	// Unread is set if a part of the definition cannot be read.
	Unread bool
}

// ReadShared reads the shared pools of a network attachment definition.
func ReadShared(n api.NetworkDefinition) (out Shared) {
	if netconf.CheckSize(len(n.Config)) != nil { // before it is parsed
		return Shared{Unread: true}
	}
	l, err := ParseDefinition(n)
	out.IsFile, out.Unread = err == nil && strings.TrimSpace(n.Config) == "", err != nil
	for _, p := range l.Plugins {
		var section struct {
			IPAM json.RawMessage `json:"ipam"`
		}
		if json.Unmarshal(p.Raw, &section) != nil {
			out.Unread = true
		}
		if pool, is := ipam.WhereaboutsPool(section.IPAM); is {
			out.Pools = append(out.Pools, pool)
		}
	}
	own, err := OwnConfigs(l)
	if err != nil || out.Unread {
		return out
	}
	for _, c := range own {
		if c.IPAM.AddressPool != "" {
			out.AddressPools = append(out.AddressPools, c.IPAM.AddressPool)
		}
		if section, err := c.Whereabouts(); err == nil && section.Pool != "" {
			out.Whereabouts = append(out.Whereabouts, section)
		}
	}
	return out
}

// Whereabouts returns the section of a network whose ipam is of type whereabouts, as Culvert serves
// it, and the zero Config for another network.
func (c Config) Whereabouts() (ipam.Config, error) {
	if c.IPAM.Type != ipam.TypeWhereabouts {
		return ipam.Config{}, nil
	}
	return ipam.Reader{Lenient: c.Lenient}.ParseWhereabouts(c.Section)
}
