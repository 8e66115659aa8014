package bench

import (
	"math"
	"testing"
)

// TestCeiling: the ceilings are those of M4 and M6 (100 % of 9.41 and of 99 Gb/s) and the known
// 14.88 Mpps of 64-byte frames at 10 Gb/s. The others were computed by hand.
func TestCeiling(t *testing.T) {
	ten := Wire{SpeedMbps: 10000, MTU: 1500}
	for _, c := range []struct {
		name      string
		wire      Wire
		load      Workload
		gbps, pps float64
	}{
		{"M4", ten, Workload{Kind: Stream}, 10 * 1448.0 / 1538, 0},
		{"M3, VXLAN", Wire{SpeedMbps: 10000, MTU: 1450, Encapsulation: 50}, Workload{Kind: Stream}, 10 * 1398.0 / 1538, 0},
		{"M6", Wire{SpeedMbps: 100000, MTU: 9000}, Workload{Kind: Stream}, 100 * 8948.0 / 9038, 0},
		{"IPv6", Wire{SpeedMbps: 10000, MTU: 1500, IPv6: true}, Workload{Kind: Stream}, 10 * 1428.0 / 1538, 0},
		{"no timestamps", Wire{SpeedMbps: 10000, MTU: 1500, NoTimestamps: true}, Workload{Kind: Stream}, 10 * 1460.0 / 1538, 0},
		{"least frame", ten, Workload{Kind: Packets, Size: 60}, 60 * 8 * 1e10 / (84 * 8) / 1e9, 14.88095e6},
		{"pktgen's 64 B", ten, Workload{Kind: Packets, Size: 64}, 64 * 8 * 1e10 / (88 * 8) / 1e9, 14.20454e6},
		{"padded", ten, Workload{Kind: Packets, Size: 42}, 42 * 8 * 1e10 / (84 * 8) / 1e9, 14.88095e6},
		{"datagrams", ten, Workload{Kind: Datagram, Size: 1472}, 10 * 1472.0 / 1538, 1e10 / (1538 * 8)},
		{"small datagrams", ten, Workload{Kind: Datagram, Size: 1}, 8 * 1e10 / (84 * 8) / 1e9, 14.88095e6},
		// 4008 bytes in fragments of 1480, 1480 and 1048.
		{"fragments", ten, Workload{Kind: Datagram, Size: 4000}, 10 * 4000.0 / (4008 + 3*58), 1e10 / (8 * (4008 + 3*58))},
		{"fragments, IPv6", Wire{SpeedMbps: 10000, MTU: 1500, IPv6: true}, Workload{Kind: Datagram, Size: 1460}, 10 * 1460.0 / (1468 + 2*86), 1e10 / (8 * (1468 + 2*86))},
		{"no size", ten, Workload{Kind: Datagram}, 0, 0},
		{"latency", ten, Workload{Kind: Request, Size: 1}, 0, 0},
		{"no speed", Wire{MTU: 1500}, Workload{Kind: Stream}, 0, 0},
		{"no MTU", Wire{SpeedMbps: 10000}, Workload{Kind: Datagram, Size: 1}, 0, 0},
	} {
		gbps, pps := c.wire.Ceiling(c.load)
		if math.Abs(gbps-c.gbps) > 1e-9 || math.Abs(pps-c.pps) > 1e-6*c.pps {
			t.Errorf("%s: %g Gb/s, %g packets/s; want %g, %g", c.name, gbps, pps, c.gbps, c.pps)
		}
	}
}
