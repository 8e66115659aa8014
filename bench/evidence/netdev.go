package evidence

import (
	"errors"
	"fmt"
	"slices"

	"github.com/prometheus/procfs"
	"golang.org/x/sys/unix"

	"github.com/culvert-net/culvert/bench"
	"github.com/culvert-net/culvert/internal/kernel/rtnl"
)

// openProc opens /proc. Its net/ is of the network namespace of this process.
func (r Reader) openProc() (procfs.FS, error) { return procfs.NewFS(r.pathOf("proc")) }

// readNetDev reads /proc/net/dev: the counters of all interfaces of this network namespace
// (net/core/net-procfs.c, dev_seq_printf_stats). Its column "drop" has missed frames in it, and all
// columns come from struct rtnl_link_stats64. Errors and full FIFOs count as dropped; a driver that
// counts one frame in two columns has it twice.
func readNetDev(proc procfs.FS) (map[string]bench.Counters, error) {
	lines, err := proc.NetDev()
	if err != nil {
		return nil, fmt.Errorf("read /proc/net/dev: %w", err)
	}
	all := map[string]bench.Counters{}
	for name, l := range lines {
		all[name] = bench.Counters{
			Interface: name, RxBytes: l.RxBytes, RxPackets: l.RxPackets, RxDropped: l.RxErrors + l.RxDropped + l.RxFIFO,
			TxBytes: l.TxBytes, TxPackets: l.TxPackets, TxDropped: l.TxErrors + l.TxDropped + l.TxFIFO,
		}
	}
	return all, nil
}

// countDowns adds how often the interfaces on the path lost their carrier. /proc does not show
// that, and sysfs shows it only for the network namespace that mounted it.
func countDowns(links []bench.Counters) (err error) {
	if !slices.ContainsFunc(links, func(c bench.Counters) bool { return c.Role == "path" }) {
		return nil
	}
	conn, err := rtnl.Dial()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	for i, c := range links {
		if c.Role != "path" {
			continue
		}
		link, err := conn.LinkNamed(c.Interface)
		if err != nil && !errors.Is(err, unix.ENODEV) { // gone since, as its counters will show
			return fmt.Errorf("ask for the carrier of interface %s: %w", c.Interface, err)
		}
		links[i].Downs = uint64(link.Downs)
	}
	return nil
}

// SubtractCounters returns by how much before's counters rose until after. A counter that fell is an error.
func SubtractCounters(before, after bench.Counters) (bench.Counters, error) {
	d := bench.Counters{Interface: before.Interface, Role: before.Role}
	for _, c := range []struct {
		name          string
		to            *uint64
		before, after uint64
	}{
		{"rx_bytes", &d.RxBytes, before.RxBytes, after.RxBytes},
		{"tx_bytes", &d.TxBytes, before.TxBytes, after.TxBytes},
		{"rx_packets", &d.RxPackets, before.RxPackets, after.RxPackets},
		{"tx_packets", &d.TxPackets, before.TxPackets, after.TxPackets},
		{"rx_dropped", &d.RxDropped, before.RxDropped, after.RxDropped},
		{"tx_dropped", &d.TxDropped, before.TxDropped, after.TxDropped},
		{"carrier_down_count", &d.Downs, before.Downs, after.Downs},
	} {
		if c.after < c.before {
			return d, fmt.Errorf("%s of interface %s fell from %d to %d in the window: the interface was reset or made anew, or its counter wrapped",
				c.name, before.Interface, c.before, c.after)
		}
		*c.to = c.after - c.before
	}
	return d, nil
}
