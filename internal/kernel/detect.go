package kernel

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/culvert-net/culvert/internal/excerpt"
	"github.com/culvert-net/culvert/internal/kernel/rtnl"
	"github.com/culvert-net/culvert/internal/kernel/step"
	"github.com/culvert-net/culvert/internal/vf"
)

// detectionSetting is a parameter of the kernel for duplicate address detection on an interface.
type detectionSetting struct{ dir, file, quick string }

// detectionSettings returns the parameters with the values that Culvert sets while it waits. The
// kernel waits for a random part of router_solicitation_delay seconds, sends dad_transmits
// probes, and waits for retrans_time_ms after each (addrconf_dad_kick and addrconf_dad_work,
// net/ipv6/addrconf.c). By default that takes one to two seconds and one probe. Culvert has the
// kernel send three probes in 300 ms. A machine on the same segment answers within milliseconds.
func detectionSettings() []detectionSetting {
	return []detectionSetting{
		{"conf", "router_solicitation_delay", "0"},
		{"conf", "dad_transmits", "3"},
		{"neigh", "retrans_time_ms", "100"},
	}
}

// quickenDetection shortens duplicate address detection on an interface of the thread's netns. A
// parameter that cannot be written makes detection slower, but not less reliable. quickenDetection
// does not change a dad_transmits of 0, which turns detection off.
func (k *Kernel) quickenDetection(name string) {
	for _, s := range detectionSettings() {
		path := k.sysctlIPv6(s.dir, name, s.file)
		if have, err := readLine(path); s.file == "dad_transmits" && (err != nil || have == "0") {
			continue
		}
		_ = changeLine(path, s.quick)
	}
}

// restoreDetection gives an interface the parameters of new interfaces back. An interface has these
// when it comes to a netns (ipv6_add_dev), and Culvert is the first to change them. If culvertd
// ends before restoreDetection, the attach is undone, and the changed parameters end with the
// interface.
func (k *Kernel) restoreDetection(s step.DetectDuplicates, name string) error {
	// Only the host's netns has the directory neigh/default. Its values are the defaults of all
	// netns (neigh_parms_alloc).
	retrans, err := readLine(k.sysctlIPv6("neigh", "default", "retrans_time_ms"))
	if err != nil {
		return err
	}
	return k.inNetns(s.Netns, func() error {
		var errs []error
		for _, one := range detectionSettings() {
			usual, err := retrans, error(nil)
			if one.dir == "conf" {
				usual, err = readLine(k.sysctlIPv6(one.dir, "default", one.file))
			}
			if err == nil {
				err = changeLine(k.sysctlIPv6(one.dir, name, one.file), usual)
			}
			errs = append(errs, err)
		}
		return errors.Join(errs...)
	})
}

// changeLine writes a value to a file of one line that has another value.
func changeLine(path, value string) error {
	if have, err := readLine(path); err != nil || have == value {
		return err
	}
	return os.WriteFile(path, []byte(value), 0)
}

// detectDuplicates waits for the results of duplicate address detection, for all addresses at
// once. It subscribes to events before it reads the addresses, so that it misses no result.
func (k *Kernel) detectDuplicates(ctx context.Context, s step.DetectDuplicates) (err error) {
	var (
		c *rtnl.Conn
		w *rtnl.Watcher
	)
	err = k.inNetns(s.Netns, func() (err error) {
		if w, err = rtnl.WatchAddresses(); err != nil {
			return err
		}
		c, err = rtnl.Dial()
		return err
	})
	if w != nil {
		defer w.Close()
	}
	if c != nil {
		defer c.Close()
	}
	if err != nil {
		return notFound(err)
	}
	l, err := k.findDevice(c, s.VF, s.Netns, s.Bond)
	if err != nil {
		return err
	}
	err = awaitDetection(ctx, c, w, l.Index, s.Addresses)
	if restoreErr := k.restoreDetection(s, l.Name); restoreErr != nil && err == nil {
		err = fmt.Errorf("restore the parameters of duplicate address detection: %w", notFound(restoreErr))
	}
	return err
}

// awaitDetection returns nil when none of the addresses of a link is tentative. The error is a
// vf.DuplicateError if some are duplicates, and vf.ErrTimeout if ctx ends before.
func awaitDetection(ctx context.Context, c reader, w *rtnl.Watcher, index int, addresses []netip.Prefix) error {
	for {
		have, err := c.Addrs(index)
		if errors.Is(err, unix.ENODEV) {
			return errNoLink
		}
		if err != nil {
			return err
		}
		tentative, duplicates := sortDetected(have.Kept, addresses)
		if len(tentative) > 0 {
			err := w.Wait(ctx)
			switch {
			case err == nil:
				continue
			case ctx.Err() == nil:
				return err
			case len(duplicates) == 0:
				return undetected(ctx, c, index, tentative)
			}
		}
		if len(duplicates) > 0 {
			return vf.DuplicateError{Addresses: duplicates}
		}
		return nil
	}
}

// sortDetected returns which of the wanted addresses are tentative, and which are duplicates.
func sortDetected(have []rtnl.Addr, wanted []netip.Prefix) (tentative []netip.Prefix, duplicates []netip.Addr) {
	for _, a := range have {
		switch {
		case !slices.Contains(wanted, a.Prefix):
		case a.IsDuplicate():
			duplicates = append(duplicates, a.Prefix.Addr())
		case a.IsTentative():
			tentative = append(tentative, a.Prefix)
		}
	}
	return tentative, duplicates
}

// undetected returns the error of a wait that ended before duplicate address detection did.
func undetected(ctx context.Context, c reader, index int, tentative []netip.Prefix) error {
	reason := "the kernel is not done"
	if l, err := c.Link(index, false); err == nil && !l.Carrier {
		reason = "no carrier"
	}
	return fmt.Errorf("no result for %s, %s: %w", excerpt.List(tentative, 0), reason, waitError(ctx))
}
