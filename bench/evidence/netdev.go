package evidence

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/culvert-net/culvert/bench"
	"github.com/culvert-net/culvert/internal/kernel/rtnl"
)

// parseNetDev reads /proc/net/dev: the counters of all interfaces of a network
// namespace (net/core/net-procfs.c, dev_seq_printf_stats). Its column "drop" has missed
// frames in it, and all columns come from struct rtnl_link_stats64. Errors and full
// FIFOs count as dropped; a driver that counts one frame in two columns has it twice.
func parseNetDev(text string) (map[string]bench.Counters, error) {
	const columns = 16
	all := map[string]bench.Counters{}
	for line := range strings.Lines(text) {
		if strings.Contains(line, "|") { // the two lines of headings
			continue
		}
		// A name may have colons of its own, but no space (dev_valid_name).
		at := strings.LastIndexByte(line, ':')
		if at < 0 {
			return nil, fmt.Errorf("read /proc/net/dev: no interface in %q", line)
		}
		name, fields := strings.TrimSpace(line[:at]), strings.Fields(line[at+1:])
		if name == "" || len(fields) < columns {
			return nil, fmt.Errorf("read /proc/net/dev: interface %q has %d columns and not %d", name, len(fields), columns)
		}
		var v [columns]uint64
		for i := range v {
			n, err := strconv.ParseUint(fields[i], 10, 64)
			if err != nil {
				return nil, fmt.Errorf("read /proc/net/dev: interface %q, column %d: %w", name, i+1, err)
			}
			v[i] = n
		}
		// bytes packets errs drop fifo frame compressed multicast, then bytes packets errs drop fifo colls carrier compressed
		all[name] = bench.Counters{
			Interface: name, RxBytes: v[0], RxPackets: v[1], RxDropped: v[2] + v[3] + v[4],
			TxBytes: v[8], TxPackets: v[9], TxDropped: v[10] + v[11] + v[12],
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
