package config

import (
	"bytes"
	"fmt"

	"github.com/culvert-net/culvert/internal/network/netconf"
	"github.com/culvert-net/culvert/internal/vf"
)

// ownPlugin is one of Culvert's plugins in a list: its configuration, or why it cannot be read.
type ownPlugin struct {
	index  int
	plugin netconf.Plugin
	config Config
	err    error
}

// readOwn parses those plugins of a list that Culvert serves.
func readOwn(l netconf.List) (out []ownPlugin) {
	for i, p := range l.Plugins {
		if !p.IsOwn() {
			continue
		}
		own := ownPlugin{index: i, plugin: p, err: netconf.CheckSize(len(p.Raw))}
		if own.err == nil {
			own.config, own.err = parse(p.Raw, &l)
		}
		out = append(out, own)
	}
	return out
}

// OwnConfigs returns the configurations of the plugins of a list that Culvert
// serves. The error is Parse's.
func OwnConfigs(l netconf.List) ([]Config, error) { return configsOf(l, readOwn(l)) }

func configsOf(l netconf.List, own []ownPlugin) (out []Config, err error) {
	for _, p := range own {
		c, err := p.config, p.err
		if err != nil && len(l.Plugins) > 1 {
			err = fmt.Errorf("plugins[%d]: %w", p.index, err)
		}
		if err != nil {
			return nil, err
		}
		for j := range c.Warnings {
			if len(l.Plugins) > 1 {
				c.Warnings[j] = fmt.Sprintf("plugins[%d]: %s", p.index, c.Warnings[j])
			}
		}
		out = append(out, c)
	}
	return out, nil
}

// bondOf returns the bond of a network, nil if it has none. It returns nil for a network that
// cannot be read, which its ADD refuses.
func bondOf(own []ownPlugin) *vf.Bond {
	for _, p := range own {
		if p.err == nil && p.config.Bond != nil && bytes.Contains(p.plugin.Raw, []byte(`"bond"`)) {
			return p.config.Bond
		}
	}
	return nil
}

// VFsOf returns how many VFs a network needs: as many as its bond has links, else one.
func VFsOf(l netconf.List) int { return countVFs(bondOf(readOwn(l))) }

func countVFs(b *vf.Bond) int {
	if b == nil {
		return 1
	}
	return b.Links
}
