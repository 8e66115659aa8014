package evidence

import (
	"maps"
	"slices"
	"testing"
)

// The port's counters include the frames of VFs in each driver's own way. Other drivers count only the
// PF's own frames by igb's names.
func TestSumPort(t *testing.T) {
	i40e := map[string]uint64{
		"rx_packets": 1, "tx_packets": 1, "port.rx_unicast": 10, "port.rx_multicast": 2, "port.rx_broadcast": 1, "port.tx_unicast": 20, "port.tx_multicast": 0, "port.tx_broadcast": 4,
	}
	short := maps.Clone(i40e)
	delete(short, "port.tx_broadcast")
	for name, tc := range map[string]struct {
		driver string
		stats  map[string]uint64
		want   []uint64
	}{
		"igb":          {"igb", map[string]uint64{"rx_packets": 3, "tx_packets": 4}, []uint64{3, 4}},
		"ixgbe":        {"ixgbe", map[string]uint64{"rx_packets": 1, "tx_packets": 1, "rx_pkts_nic": 7, "tx_pkts_nic": 8}, []uint64{7, 8}},
		"i40e":         {"i40e", i40e, []uint64{13, 24}},
		"ice":          {"ice", map[string]uint64{"rx_unicast.nic": 1, "rx_multicast.nic": 1, "rx_broadcast.nic": 1, "tx_unicast.nic": 2, "tx_multicast.nic": 2, "tx_broadcast.nic": 2}, []uint64{3, 6}},
		"mlx5":         {"mlx5_core", map[string]uint64{"rx_packets": 1, "tx_packets": 1, "rx_packets_phy": 5, "tx_packets_phy": 6}, []uint64{5, 6}},
		"one is short": {"i40e", short, nil},
		"another":      {"virtio_net", map[string]uint64{"rx_packets": 3, "tx_packets": 4}, nil},
	} {
		received, sent, known := sumPort(tc.driver, tc.stats)
		if got := []uint64{received, sent}; known != (tc.want != nil) || known && !slices.Equal(got, tc.want) {
			t.Errorf("%s: %v, %v; want %v", name, got, known, tc.want)
		}
	}
}
