package scenario

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/culvert-net/culvert/internal/kernel/fake"
	"github.com/culvert-net/culvert/internal/kernel/faulty"
	"github.com/culvert-net/culvert/internal/node"
	"github.com/culvert-net/culvert/internal/node/desired"
	"github.com/culvert-net/culvert/internal/node/intake/cni"
	guestintake "github.com/culvert-net/culvert/internal/node/intake/guest"
	"github.com/culvert-net/culvert/internal/node/journal"
	"github.com/culvert-net/culvert/internal/vf"
)

type worldKey struct{}

// world is a node in a story.
type world struct {
	machine
	nic    fake.Profile
	faults *faulty.Kernel
	dir    string
	spec   desired.Spec
	begin  time.Time
	clock  atomic.Int64          // nanoseconds since begin: only the story lets time pass, not a busy machine
	netns  []string              // names of the netns that exist
	given  map[vf.PCIAddr]string // pods to which the kubelet gave VFs

	ledger *journal.Ledger
	node   *node.Node
	cni    *cni.Handler
	guests *guestintake.Handler
	list   *guestintake.Comparer
}

func newWorld(m machine, nic fake.Profile, dir string) (*world, error) {
	w := &world{machine: m, nic: nic, faults: faulty.New(m), dir: dir, begin: time.Now(), given: map[vf.PCIAddr]string{}}
	return w, w.start()
}

// start starts the parts of culvertd on the present ledger.
func (w *world) start() error {
	var err error
	now := func() time.Time { return w.begin.Add(time.Duration(w.clock.Add(1))) } // no two calls return the same time
	w.ledger, err = journal.Open(filepath.Join(w.dir, "ledger.db"), journal.Options{Now: now, NoSync: true})
	if err != nil {
		return err
	}
	w.node = node.New(node.Config{Kernel: w.faults, Ledger: w.ledger, BootID: "this boot", Now: now})
	w.node.Upkeep.Patience = time.Minute // a pass waits until all is mended, even on a busy machine
	w.node.VFs.Given = func(context.Context) (func(vf.PCIAddr) string, error) {
		if len(w.given) == 0 {
			return nil, nil // no kubelet
		}
		return func(a vf.PCIAddr) string { return w.given[a] }, nil
	}
	w.cni = cni.New(cni.Parts{Engine: w.node.Engine, Resets: w.node.Resets, VFs: w.node.VFs})
	guests := guestintake.Parts{Engine: w.node.Engine, Resets: w.node.Resets, VFs: w.node.VFs, Upkeep: w.node.Upkeep}
	w.guests, w.list = guestintake.New(guests, w.ledger), guestintake.NewComparer(guests, w.ledger, now)
	w.node.SetSpec(w.spec)
	return w.node.Start(context.Background())
}

func (w *world) stop() error {
	w.node.VFs.Wait()
	return w.ledger.Close()
}

func (w *world) close() {
	_ = w.stop()
	for _, name := range w.netns {
		_ = w.DelNetns(netnsPath(name))
	}
}

func netnsPath(name string) string { return "/run/netns/story-" + name }

// aliases returns the variables that a story may use, with their values.
func (w *world) aliases() [][2]string {
	asked, _ := everySetting(w.nic)
	out := [][2]string{{"settings", asked}}
	for i, pf := range w.node.Inventory.PFs() {
		name := pfAlias(i)
		out = append(out, [2]string{name, cmp.Or(pf.Name, pf.Port)})
		for n := range pf.TotalVFs {
			out = append(out, [2]string{fmt.Sprintf("mac_%sv%d", name, n), vf.StableMAC(pf.ID, n).String()})
		}
		for _, v := range pf.VFs {
			out = append(out, [2]string{fmt.Sprintf("%sv%d", name, v.ID.Index), v.PCI.String()})
		}
	}
	return out
}

// parts returns variables for libvirt's XML: the addresses of VFs as libvirt writes
// them, and a VLAN if the NIC supports it.
func (w *world) parts() (out [][2]string) {
	vlan := ""
	if can(w.nic, vf.SetVLAN) {
		vlan = "<vlan><tag id='42'/></vlan>"
	}
	for i, pf := range w.node.Inventory.PFs() {
		for _, v := range pf.VFs {
			alias, a := fmt.Sprintf("%sv%d", pfAlias(i), v.ID.Index), v.PCI
			out = append(out,
				[2]string{"dashed_" + alias, strings.NewReplacer(":", "-", ".", "-").Replace(a.String())},
				[2]string{"address_" + alias, fmt.Sprintf("<address domain='0x%x' bus='0x%x' slot='0x%x' function='0x%x'/>", a.Domain, a.Bus, a.Device, a.Function)})
		}
	}
	return append(out, [2]string{"vlan42", vlan})
}

// vf finds a VF by its alias.
func (w *world) vf(alias string) (vf.PF, vf.State, error) {
	for i, pf := range w.node.Inventory.PFs() {
		for _, v := range pf.VFs {
			if fmt.Sprintf("%sv%d", pfAlias(i), v.ID.Index) == alias {
				return pf, v, nil
			}
		}
	}
	return vf.PF{}, vf.State{}, fmt.Errorf("there is no VF %s", alias)
}

// told replaces the machine's own names in a text by the aliases of the story.
func (w *world) told(text string) string {
	_, shown := everySetting(w.nic)
	pairs := [][2]string{{shown, "SETTINGS"}}
	for _, kv := range w.aliases()[1:] {
		pairs = append(pairs, [2]string{kv[1], kv[0]})
	}
	for i, pf := range w.node.Inventory.PFs() {
		pairs = append(pairs, [2]string{pf.PCI.String(), pfAlias(i)}, [2]string{pf.ID.String(), pfAlias(i)})
	}
	records, _ := w.records()
	for _, r := range records {
		if r.Baseline.Name != "" {
			pairs = append(pairs, [2]string{r.Baseline.Name, "home_" + w.aliasOf(r.ID)})
		}
	}
	pairs = append(pairs, [2]string{w.nic.VFDriver(), "VFDRIVER"})
	slices.SortFunc(pairs, func(a, b [2]string) int { return len(b[0]) - len(a[0]) })
	var flat []string
	for _, p := range pairs {
		flat = append(flat, p[0], p[1])
	}
	flat = append(flat, "/run/netns/story-", "")
	return strings.NewReplacer(flat...).Replace(text)
}

func (w *world) aliasOf(id vf.ID) string {
	for i, pf := range w.node.Inventory.PFs() {
		if pf.ID == id.PF {
			return fmt.Sprintf("%sv%d", pfAlias(i), id.Index)
		}
	}
	return id.String()
}

func (w *world) records() ([]journal.Record, error) { return journal.ReadRecords(w.ledger) }
