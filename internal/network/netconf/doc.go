// Package netconf holds the CNI configuration of a pod's network: a list of
// plugins. Its text is parsed once, where it enters: spec.config of a
// NetworkAttachmentDefinition and a file of the runtime's folder (config),
// and a sandbox of the ledger (journal). All other code takes a List or a Plugin.
// The settings of Culvert's own plugins are read by config.
package netconf

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/culvert-net/culvert/internal/vf"
)

// Types of plugins that Culvert serves, which are the names under which runtimes
// find its plugin.
const (
	TypeCulvert = "culvert"
	TypeSRIOV   = "sriov"
	// TypeProgram is the name of the plugin's program.
	TypeProgram = "culvert-cni"
)

// MaxText bounds in bytes one text that culvertd reads for a pod's networks: the
// configuration of a network, an annotation, a device-info file, the result of a
// plugin. Networks of other plugins have the same bound as Culvert's own: any user of
// a namespace writes either, culvertd keeps both in memory and in the ledger, and the
// largest that plugins document have some kilobytes.
const MaxText = 64 << 10

// MaxPlugins bounds the plugins of a network. Tenants write networks, and each plugin is read several
// times for each attachment. The longest chains in use have five.
const MaxPlugins = 16

// CheckSize refuses a configuration that is too large to be kept. The error wraps
// vf.ErrInvalid.
func CheckSize(bytes int) error {
	if bytes > MaxText {
		return fmt.Errorf("the network configuration: %w: it has %d bytes; want at most %d", vf.ErrInvalid, bytes, MaxText)
	}
	return nil
}

// IsOwnType reports whether Culvert serves a type of plugin.
func IsOwnType(name string) bool {
	return slices.Contains([]string{TypeCulvert, TypeSRIOV, TypeProgram}, name)
}

// IsMultus reports whether a type of plugin is Multus.
func IsMultus(name string) bool {
	return slices.Contains([]string{"multus", "multus-shim", "multus-cni"}, name)
}

// Types returns the types of plugins in a configuration of one plugin or of a list. It ignores the
// rest of the configuration.
func Types(config []byte) ([]string, error) {
	type plugin struct {
		Type string `json:"type"`
	}
	var read struct {
		plugin
		Plugins []plugin `json:"plugins"`
	}
	if err := json.Unmarshal(config, &read); err != nil {
		return nil, fmt.Errorf("not JSON: %w", err)
	}
	var types []string
	for _, p := range append([]plugin{read.plugin}, read.Plugins...) {
		if p.Type != "" {
			types = append(types, p.Type)
		}
	}
	return types, nil
}

// ResultsDir is the folder in which libcni keeps the results of ADD and their configurations, for
// DEL.
const ResultsDir = "/var/lib/cni/results"

// HasPodNetworks reports whether a configuration is the one by which a runtime has Culvert set up all
// networks of a pod.
func HasPodNetworks(config []byte) bool {
	var list struct {
		Plugins []Plugin `json:"plugins"`
	}
	return json.Unmarshal(config, &list) == nil && slices.ContainsFunc(list.Plugins, func(p Plugin) bool { return p.PodNetworks })
}
