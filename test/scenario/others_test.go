package scenario

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/culvert-net/culvert/internal/kernel/step"
	"github.com/culvert-net/culvert/internal/node/desired"
	"github.com/culvert-net/culvert/internal/vf"
)

// made makes the VFs of a PF outside Culvert.
func made(w *world, _ func(string) string, args []string) (string, error) {
	n, err := strconv.Atoi(args[1])
	if err != nil {
		return "", err
	}
	for i, pf := range w.node.Inventory.PFs() {
		if pfAlias(i) == args[0] {
			err = w.Do(context.Background(), step.SetNumVFs{PF: pf.PCI, N: n})
			return "", errors.Join(err, w.look())
		}
	}
	return "", fmt.Errorf("there is no PF %s", args[0])
}

// bind binds a driver to a VF outside Culvert.
func bind(w *world, _ func(string) string, args []string) (string, error) {
	_, v, err := w.vf(args[0])
	if err != nil {
		return "", err
	}
	driver := vf.DriverDefault
	if len(args) > 1 {
		driver = args[1]
	}
	for _, s := range []step.Step{step.Unbind{VF: v.PCI}, step.Bind{VF: v.PCI, Driver: driver}} {
		if err := w.Do(context.Background(), s); err != nil {
			return "", err
		}
	}
	return "", w.look()
}

// look makes culvertd list the hardware, as an event of the kernel does.
func (w *world) look() error {
	_, err := w.node.Inventory.Refresh(context.Background())
	return err
}

// plugin makes a configuration of the device plugin the whole Spec of the node.
func plugin(w *world, read func(string) string, args []string) (string, error) {
	config, err := desired.ParseDevicePlugin(args[0], []byte(read(args[0])), "")
	if err != nil {
		return "", err
	}
	w.spec = desired.Spec{Pools: config.Pools}
	w.node.SetSpec(w.spec)
	return "", w.node.Reconciler.Pass(context.Background())
}

// give notes that the kubelet gave a VF to a pod, or to none any more.
func give(w *world, _ func(string) string, args []string) (string, error) {
	_, v, err := w.vf(args[0])
	if err != nil {
		return "", err
	}
	delete(w.given, v.PCI)
	if len(args) > 1 {
		w.given[v.PCI] = args[1]
	}
	return "", nil
}

// drivers lists the driver of each VF: vfio-pci, netdevice or none.
func drivers(w *world, _ func(string) string, _ []string) (string, error) {
	if err := w.look(); err != nil {
		return "", err
	}
	var b strings.Builder
	for i, pf := range w.node.Inventory.PFs() {
		for _, v := range pf.VFs {
			driver := cmp.Or(v.Driver, "none")
			if v.Link != nil {
				driver = "netdevice"
			}
			pool, _ := w.spec.PoolOf(pf, v.ID.Index, v)
			fmt.Fprintf(&b, "%sv%d %s, pool %s\n", pfAlias(i), v.ID.Index, driver, cmp.Or(pool.FullName(), "none"))
		}
	}
	return b.String(), nil
}

// address gives a PF an address outside Culvert.
func address(w *world, _ func(string) string, args []string) (string, error) {
	p, err := netip.ParsePrefix(args[1])
	if err != nil {
		return "", err
	}
	for i, pf := range w.node.Inventory.PFs() {
		if pfAlias(i) == args[0] {
			return "", w.AddOthersAddress(pf.PCI, p)
		}
	}
	return "", fmt.Errorf("there is no PF %s", args[0])
}

// addresses lists the addresses of the PFs.
func addresses(w *world, _ func(string) string, _ []string) (string, error) {
	if err := w.look(); err != nil {
		return "", err
	}
	var b strings.Builder
	for i, pf := range w.node.Inventory.PFs() {
		b.WriteString(pfAlias(i))
		for _, a := range pf.Addrs {
			own := ""
			if slices.Contains(pf.OwnAddrs, a) {
				own = "*"
			}
			fmt.Fprintf(&b, " %s%s", a, own)
		}
		b.WriteByte('\n')
	}
	return b.String(), nil
}
