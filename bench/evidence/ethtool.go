package evidence

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"

	"github.com/safchain/ethtool"

	"github.com/culvert-net/culvert/bench"
	"github.com/culvert-net/culvert/internal/kernel/tuning"
)

// asker asks about the interfaces of this network namespace (linux/ethtool.h).
type asker struct{ tool *ethtool.Ethtool }

func newAsker() (asker, error) {
	tool, err := ethtool.NewEthtool()
	if err != nil {
		return asker{}, fmt.Errorf("open ethtool's socket: %w", err)
	}
	return asker{tool}, nil
}

func (a asker) close() { a.tool.Close() }

// offloads are the features that change figures: the kernel's name of each, with its name in
// results.
var offloads = map[string]string{
	"rx-checksum": "rx-checksum", "tx-checksum-ip-generic": "tx-checksum-ip-generic", "tx-checksum-ipv4": "tx-checksum-ipv4",
	"tx-scatter-gather": "tx-scatter-gather", "tx-tcp-segmentation": "tso", "tx-generic-segmentation": "gso", "tx-udp-segmentation": "uso",
	"rx-gro": "gro", "rx-gro-hw": "gro-hw", "rx-lro": "lro", "rx-hashing": "rx-hashing",
	"tx-udp_tnl-segmentation": "tnl-tso",
}

// describeInterface asks for what ethtool -i, -g, -l, -k and no option show. Fields stay empty
// where a driver has no answer.
func (a asker) describeInterface(name string) bench.Interface {
	var i bench.Interface
	if d, err := a.tool.DriverInfo(name); err == nil {
		i.Driver, i.Firmware, i.PCI = knownText(d.Driver), knownText(d.FwVersion), knownText(d.BusInfo)
	}
	if c, err := a.tool.GetChannels(name); err == nil {
		i.RxQueues, i.TxQueues = int(c.CombinedCount+c.RxCount), int(c.CombinedCount+c.TxCount)
	}
	if r, err := a.tool.GetRing(name); err == nil {
		i.RxRing, i.TxRing = int(r.RxPending), int(r.TxPending)
	}
	const unknown = 1<<32 - 1 // SPEED_UNKNOWN
	// Not GetLinkSettings: it prints to standard output, which is the agent's pipe.
	if speed, err := a.tool.CmdGet(&ethtool.EthtoolCmd{}, name); err == nil && speed != unknown {
		i.SpeedMbps = int(speed)
	}
	if c, err := a.tool.GetCoalesce(name); err == nil {
		i.Coalescing = listCoalescing(c)
	}
	if p, err := a.tool.GetPause(name); err == nil {
		i.FlowControl = flowControl(p)
	}
	if fields, err := tuning.FlowHash(name); err == nil {
		for _, f := range fields {
			i.FlowHash = append(i.FlowHash, bench.Setting{Name: f[0], Value: f[1]})
		}
	}
	features, err := a.tool.Features(name)
	if err != nil {
		return i
	}
	for _, kernel := range slices.Sorted(maps.Keys(offloads)) {
		if on, ok := features[kernel]; ok {
			i.Offloads = append(i.Offloads, bench.Setting{Name: offloads[kernel], Value: map[bool]string{true: "on", false: "off"}[on]})
		}
	}
	return i
}

// listCoalescing returns the parameters of ethtool -c that affect how many packets share an
// interrupt.
func listCoalescing(c ethtool.Coalesce) (all []bench.Setting) {
	for _, p := range []struct {
		name  string
		value uint32
	}{
		{"adaptive-rx", c.UseAdaptiveRxCoalesce}, {"adaptive-tx", c.UseAdaptiveTxCoalesce}, {"rx-usecs", c.RxCoalesceUsecs}, {"rx-frames", c.RxMaxCoalescedFrames},
		{"tx-usecs", c.TxCoalesceUsecs}, {"tx-frames", c.TxMaxCoalescedFrames},
	} {
		all = append(all, bench.Setting{Name: p.name, Value: fmt.Sprint(p.value)})
	}
	return all
}

// flowControl returns the settings that ethtool -a shows.
func flowControl(p ethtool.Pause) string {
	word := map[bool]string{true: "on", false: "off"}
	return fmt.Sprintf("autonegotiated %s, rx %s, tx %s", word[p.Autoneg != 0], word[p.RxPause != 0], word[p.TxPause != 0])
}

// knownText returns s, or "" if s is one of the texts that drivers use for "unknown".
func knownText(s string) string {
	if s == "N/A" || s == "n/a" {
		return ""
	}
	return s
}

// receiveQueues returns how many packets each receive queue of an interface has taken, or nil if
// the driver does not report that.
func receiveQueues(name string) []uint64 {
	a, err := newAsker()
	if err != nil {
		return nil
	}
	defer a.close()
	stats, err := a.tool.Stats(name)
	if err != nil {
		return nil
	}
	return parseQueues(stats)
}

// perQueue matches the names of drivers' counters of the packets of a receive queue: igb, ixgbe,
// ixgbevf, ena and virtio_net rx_queue_3_packets, older virtio_net rx3_packets as mlx5 does, i40e,
// iavf and ice rx-3.packets, and bnxt [3]: rx_ucast_packets.
var perQueue = regexp.MustCompile(`^(?:rx_queue_(\d+)_packets|rx(\d+)_packets|rx-(\d+)\.(?:rx_)?packets|\[(\d+)\]: rx_ucast_packets)$`)

// parseQueues finds the receive queues' packets in a driver's statistics. Queues that do
// not count from 0 without a gap are left out.
func parseQueues(stats map[string]uint64) []uint64 {
	found := map[int]uint64{}
	for name, packets := range stats {
		m := perQueue.FindStringSubmatch(name)
		if m == nil {
			continue
		}
		n, err := strconv.Atoi(m[1] + m[2] + m[3] + m[4])
		if err != nil {
			return nil
		}
		found[n] += packets
	}
	var queues []uint64
	for n := range len(found) {
		packets, ok := found[n]
		if !ok {
			return nil
		}
		queues = append(queues, packets)
	}
	return queues
}
