package blocks

import (
	"reflect"
	"slices"

	"github.com/culvert-net/culvert/ipam"
)

// configs are the configurations of networks by their pools. A pool that the configuration
// itself names (ipam.Config.Pool) may have several.
type configs map[string][]ipam.Config

// mostConfigs bounds the configurations that are kept of a pool, since the node makes a request
// for each.
const mostConfigs = 64

// add records the configuration of a network of a pool, in place of the network's earlier one.
func (all configs) add(pool string, c ipam.Config) {
	if c.Pool == "" {
		all[pool] = []ipam.Config{c}
		return
	}
	usable := c.Usable()
	same := func(o ipam.Config) bool { return reflect.DeepEqual(usable, o.Usable()) }
	rest := slices.DeleteFunc(slices.Clone(all[pool]), same)
	all[pool] = append(rest[max(0, len(rest)+1-mostConfigs):], c)
}
