package evidence

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"

	"github.com/safchain/ethtool"

	"github.com/culvert-net/culvert/bench"
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

// offloads are the features that change what a figure is, by the names that ethtool -k
// shows for what the kernel calls otherwise.
var offloads = map[string]string{
	"rx-checksum": "rx-checksum", "tx-checksum-ip-generic": "tx-checksum-ip-generic", "tx-checksum-ipv4": "tx-checksum-ipv4",
	"tx-scatter-gather": "tx-scatter-gather", "tx-tcp-segmentation": "tso", "tx-generic-segmentation": "gso", "tx-udp-segmentation": "uso",
	"rx-gro": "gro", "rx-gro-hw": "gro-hw", "rx-lro": "lro", "rx-hashing": "rx-hashing",
	"tx-udp_tnl-segmentation": "tnl-tso",
}

// about asks for what ethtool -i, -g, -l, -k and no option show. What a driver
// does not answer stays empty.
func (a asker) about(name string) bench.Interface {
	var i bench.Interface
	if d, err := a.tool.DriverInfo(name); err == nil {
		i.Driver, i.Firmware, i.PCI = known(d.Driver), known(d.FwVersion), known(d.BusInfo)
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

// known is empty for what drivers say when they have nothing to say.
func known(s string) string {
	if s == "N/A" || s == "n/a" {
		return ""
	}
	return s
}

// receiveQueues are the packets that each receive queue of an interface has taken, nothing
// where the driver does not tell.
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

// perQueue are the names by which drivers count what a receive queue took: igb, ixgbe,
// ixgbevf, ena and virtio_net rx_queue_3_packets, older virtio_net rx3_packets as mlx5
// does, i40e, iavf and ice rx-3.packets, and bnxt [3]: rx_ucast_packets.
var perQueue = regexp.MustCompile(`^(?:rx_queue_(\d+)_packets|rx(\d+)_packets|rx-(\d+)\.(?:rx_)?packets|\[(\d+)\]: rx_ucast_packets)$`)

// parseQueues finds the receive queues' packets in a driver's statistics. Queues that do
// not count from 0 without a gap are not told apart, and then there are none.
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
