package blocks

import (
	"maps"
	"net/netip"
	"reflect"
	"slices"

	"github.com/culvert-net/culvert/internal/network/ipam"
)

// configs are the configurations of networks by their pools. A pool that the configuration
// itself names (ipam.Config.Pool) may have several.
type configs map[string][]ipam.Config

// mostConfigs bounds the configurations that are kept of a pool, since the node makes a request
// for each.
const mostConfigs = 64

// add records the configuration of a network of a pool, in place of the network's earlier one.
func (all configs) add(pool string, c ipam.Config) {
	all.replace(pool, c)
	all[pool] = all[pool][max(0, len(all[pool])-mostConfigs):]
}

// replace is add without the bound.
func (all configs) replace(pool string, c ipam.Config) {
	if c.Pool == "" {
		all[pool] = []ipam.Config{c}
		return
	}
	usable := c.Usable()
	same := func(o ipam.Config) bool { return reflect.DeepEqual(usable, o.Usable()) }
	all[pool] = append(slices.DeleteFunc(slices.Clone(all[pool]), same), c)
}

// forgetUnused drops the networks whose addresses no attachment holds or waits for, so that the
// requests do not grow with each network that was ever used. Of a pool that several networks
// share, it keeps only the configurations that isUsed finds (TestI7UnusedNetworksOfASharedPool).
func (b *NodeBlocks) forgetUnused(held []Held, waiting map[*wait]bool) {
	addresses, waits := map[string][]netip.Addr{}, map[string][]*wait{}
	for _, h := range held {
		addresses[h.Network] = append(addresses[h.Network], h.Addr)
	}
	for _, all := range []map[*wait]bool{waiting, b.waiting} {
		for w := range all {
			waits[w.network] = append(waits[w.network], w)
			addresses[w.network] = slices.AppendSeq(addresses[w.network], maps.Keys(w.claims))
		}
	}
	for network, all := range b.known {
		here, waits := addresses[network], waits[network]
		all = slices.DeleteFunc(slices.Clone(all), func(c ipam.Config) bool {
			return len(here)+len(waits) == 0 || c.Pool != "" && !isUsed(c, here, waits)
		})
		if b.known[network] = all; len(all) == 0 {
			delete(b.known, network)
		}
	}
}

// isUsed reports whether an attachment waits with a configuration, or one of the addresses is in
// its ranges.
func isUsed(c ipam.Config, addresses []netip.Addr, waits []*wait) bool {
	for _, set := range c.Sets {
		for _, r := range set {
			run := ipam.Run{First: r.Start, Last: r.End}
			if slices.ContainsFunc(addresses, run.Contains) {
				return true
			}
		}
	}
	usable := c.Usable()
	return slices.ContainsFunc(waits, func(w *wait) bool {
		return reflect.DeepEqual(usable, w.usable)
	})
}
