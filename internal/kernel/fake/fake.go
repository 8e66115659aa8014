// Package fake is a kernel in memory that behaves, as far as Culvert can tell, like Linux with an
// SR-IOV NIC. Names are unique in a netns. A netdevice that moves arrives down and bare. A netns
// that ends sends its netdevices back to the host under the names that they had in the pod. The VF
// driver takes over the admin MAC only when it binds. The package makes tests fast, and package
// faulty makes its steps fail. Every scenario that runs on it also runs in the lab, on Linux.
//
// It has the methods of kernel.Kernel. String returns its whole state, as text that tests compare.
package fake

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"sync"

	"github.com/culvert-net/culvert/internal/change"
	"github.com/culvert-net/culvert/internal/kernel/step"
	"github.com/culvert-net/culvert/internal/vf"
)

// Kernel is the kernel of one machine. Its methods may be called concurrently.
type Kernel struct {
	mu        sync.Mutex // guards all below
	profile   Profile
	pfs       []*pf
	gone      []*pf // unplugged
	netns     map[string]bool
	bonds     []*bond
	masters   []*hostMaster // of the host, with PFs as members
	next      int           // ifindexes and random MACs count up from here
	wake      []change.Wake
	announced []step.Announce
	shown     int               // number of netdevices of VFs that have appeared on the host
	newer     map[string]string // attributes of netdevices from their next bind on
	// elsewhere has the addresses of other machines on the segment
	elsewhere map[netip.Addr]bool
	guards    []table // sorted
	noGuards  bool
	beacons   []*Beacon
}

type pf struct {
	vf.PF
	*port
	numVFs int // sriov_numvfs, which a VF that is unplugged leaves as it is
	vfs    []*function
	gone   []*function // unplugged
	mute   bool        // does not answer its VFs
	// traffic has the counters of the driver; nil: it has none
	traffic map[int]vf.Traffic
	kept    map[int]vf.Admin // of VFs that were destroyed, by number; see vf.Driver.KeepsSettings
}

// port is a port of a NIC, which has a cable.
type port struct {
	name  string
	up    bool
	cable bool
	wire  string // where the cable leads
	mtu   int
	speed int // of the link when there is one, Mb/s
	// master is the bond, team or bridge of the port, and ownMTU the MTU that the port had before
	// it joined.
	master *hostMaster
	ownMTU int

	hadLink bool   // at the last countLosses
	losses  uint32 // of the link
}

// resetLink counts the loss of the link when a driver resets its port, as igb does at a change of
// the number of VFs or of the MTU. igb gets the link back after three seconds, the fake at once.
func (p *port) resetLink() {
	if p.linkSpeed() > 0 {
		p.losses++
	}
}

// countLosses counts a loss if the port had a link at the last call and has none now.
func (p *port) countLosses() {
	has := p.linkSpeed() > 0
	if p.hadLink && !has {
		p.losses++
	}
	p.hadLink = has
}

// linkSpeed returns the speed of the link, 0 without one.
func (p *port) linkSpeed() int {
	if p.up && p.cable {
		return p.speed
	}
	return 0
}

// function is a VF.
type function struct {
	vf.State
	rate  uint32       // the max_tx_rate that the hardware keeps to
	users []vf.Process // that have it open
	use   string       // how the host's network uses it, if the state does not show it
	// bond is the bond of the netdevice, and ownMTU the MTU that the netdevice had before it
	// joined.
	bond   *bond
	ownMTU int
	// attributes are those of its netdevice by name, and made those that its driver gave it. Both
	// are the same map until setAttribute changes an attribute
	attributes, made map[string]string
	// text caches the results of shownAttributes(false) and shownAttributes(true) until an
	// attribute changes
	text [2]vf.Attributes
}

// New returns a machine with n PFs, up to 8 (of a split NIC up to 4), that are
// down, with a cable in.
func New(p Profile, n int) *Kernel {
	k := &Kernel{profile: p, netns: map[string]bool{"": true}, next: 2}
	var ports []*port
	split := vf.DriverOf(p.Driver).Split
	for i := range n {
		f := &pf{PF: vf.PF{
			ID:  vf.PFID{MAC: vf.MAC{0x52, 0x54, 0, 0xc0, 0, byte(i + 1)}},
			PCI: vf.PCIAddr{Bus: uint8(i + 1)}, Vendor: p.Vendor, Device: p.Device, Driver: p.Driver,
			MAC: vf.MAC{0x52, 0x54, 0, 0xc0, 0, byte(i + 1)}, NUMA: -1, IOMMUGroup: 10 + i, MaxMTU: p.MaxMTU, TotalVFs: p.TotalVFs, Autoprobe: vf.Yes,
		}, kept: map[int]vf.Admin{}}
		if split {
			f.PCI = vf.PCIAddr{Bus: 1, Function: uint8(i)}
			f.ID = vf.PFID{MAC: vf.MAC{0x52, 0x54, 0, 0xc0, 0, 1}, Port: fmt.Sprintf("pf%d", i)}
		}
		if !split || i < 2 {
			f.port = &port{cable: true, mtu: 1500, speed: p.SpeedMbps}
		} else {
			f.port = ports[i%2]
		}
		ports = append(ports, f.port)
		f.nameAfterSlot(f.PCI)
		k.pfs = append(k.pfs, f)
	}
	return k
}

// nameAfterSlot names a PF after its slot, as udev does.
func (p *pf) nameAfterSlot(slot vf.PCIAddr) {
	p.PCI = slot
	name := fmt.Sprintf("enp%ds%d", slot.Bus, slot.Device)
	if p.ID.Port == "" {
		p.Name, p.name = name, name
		return
	}
	p.name = name + [...]string{"f4", "f4d1"}[slot.Function%2]
	p.Port = p.name
}

// PFs lists everything.
func (k *Kernel) PFs(ctx context.Context) ([]vf.PF, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	out := make([]vf.PF, 0, len(k.pfs))
	for _, p := range k.pfs {
		out = append(out, k.viewPF(p))
	}
	return out, nil
}

// PF reads one PF.
func (k *Kernel) PF(_ context.Context, a vf.PCIAddr) (vf.PF, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	p, err := k.findPF(a)
	if err != nil {
		return vf.PF{}, err
	}
	return k.viewPF(p), nil
}

// VF reads one VF, with its netdevice when that is on the host or in netns.
func (k *Kernel) VF(ctx context.Context, a vf.PCIAddr, netns string) (vf.State, error) {
	if err := ctx.Err(); err != nil {
		return vf.State{}, err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	p, f, err := k.findVF(a)
	if err != nil {
		return vf.State{}, err
	}
	st := p.seenFrom(f, netns)
	if st.Link != nil {
		st.Link.Attributes = f.shownAttributes(st.Link.Netns == "")
	}
	return st, nil
}

// Users returns the VFs that are open, as Open set them.
func (k *Kernel) Users(ctx context.Context, vfs ...vf.PCIAddr) (map[vf.PCIAddr][]vf.Process, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	out := map[vf.PCIAddr][]vf.Process{}
	for _, a := range vfs {
		if _, f, err := k.findVF(a); err == nil && len(f.users) > 0 {
			out[a] = slices.Clone(f.users)
		}
	}
	return out, nil
}

// CountVF sets the counters that the PF's driver has of a VF.
func (k *Kernel) CountVF(a vf.PCIAddr, t vf.Traffic) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	p, f, err := k.findVF(a)
	if err != nil {
		return err
	}
	if p.traffic == nil {
		p.traffic = map[int]vf.Traffic{}
	}
	p.traffic[f.ID.Index] = t
	return nil
}

// VFTraffic returns the counters that CountVF set.
func (k *Kernel) VFTraffic(ctx context.Context, a vf.PCIAddr) (map[int]vf.Traffic, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	p, err := k.findPF(a)
	if err != nil {
		return nil, err
	}
	return maps.Clone(p.traffic), nil
}

// Uses returns how VFs are used, as Open, Occupy and their states show it (kernel.Uses).
func (k *Kernel) Uses(ctx context.Context, vfs ...vf.PCIAddr) (map[vf.PCIAddr]vf.Use, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	out := map[vf.PCIAddr]vf.Use{}
	for _, a := range vfs {
		if _, f, err := k.findVF(a); err == nil && f.describeUse() != (vf.Use{}) {
			out[a] = f.describeUse()
		}
	}
	return out, nil
}

func (f *function) describeUse() vf.Use {
	switch {
	case len(f.users) > 0:
		return vf.Use{By: f.users[0]}
	case f.Link == nil:
		return vf.Use{}
	case f.Link.Netns != "":
		return vf.Use{How: "its interface is in another network namespace"}
	case len(f.Link.Addrs) > 0:
		return vf.Use{How: fmt.Sprintf("the host uses it as %s with address %s", f.Link.Name, f.Link.Addrs[0])}
	case f.bond != nil, f.shownAttributes(true).Value("master") != "":
		return vf.Use{How: fmt.Sprintf("the host uses it as %s, a part of another interface", f.Link.Name)}
	}
	return vf.Use{How: f.use}
}

// Probe reports what the driver can do, as far as kernel.Probe finds out: it leaves out mac and
// min_tx_rate, and max_tx_rate if the driver accepts no rate at the present state of the link.
func (k *Kernel) Probe(_ context.Context, a vf.PCIAddr, _ int) (vf.Abilities, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	p, err := k.findPF(a)
	if err != nil {
		return nil, err
	}
	out := maps.Clone(k.profile.Abilities)
	delete(out, vf.SetMAC)
	delete(out, vf.SetMinTxRate)
	if !p.withLink().CanClearRates() {
		delete(out, vf.SetMaxTxRate)
	}
	return out, nil
}

// Watch wakes when anything changed.
func (k *Kernel) Watch(ctx context.Context) (<-chan struct{}, error) {
	c := change.NewWake()
	k.mu.Lock()
	k.wake = append(k.wake, c)
	k.mu.Unlock()
	go func() {
		<-ctx.Done()
		k.mu.Lock()
		defer k.mu.Unlock()
		k.wake = slices.DeleteFunc(k.wake, func(o change.Wake) bool { return o == c })
		close(c)
	}()
	return c, nil
}

func (k *Kernel) notifyWatchers() {
	for _, p := range k.pfs {
		p.countLosses()
	}
	for _, c := range k.wake {
		c.Notify()
	}
}

// withLink returns the PF without its VFs.
func (p *pf) withLink() vf.PF {
	out := p.PF
	out.Up, out.MTU, out.Carrier, out.SpeedMbps = p.up, p.mtu, p.linkSpeed() > 0, p.linkSpeed()
	out.CarrierLosses = p.losses
	if p.master != nil {
		out.Master, out.MAC = p.master.view(), p.master.macOf(p)
	}
	return out
}

// viewPF returns the PF with its VFs as the host sees them, without abilities.
func (k *Kernel) viewPF(p *pf) vf.PF {
	out := p.withLink()
	out.NumVFs = p.numVFs
	out.VFs = nil
	for _, f := range p.vfs {
		out.VFs = append(out.VFs, p.seenFrom(f, ""))
	}
	return out
}

// seenFrom copies the state of a VF of the PF, without the netdevice unless it is on the host or
// in netns.
func (p *pf) seenFrom(f *function, netns string) vf.State {
	st := f.State
	if f.Link == nil {
		return st
	}
	l := *f.Link
	l.Addrs, l.Routes = slices.Clone(l.Addrs), slices.Clone(l.Routes)
	l.Tentative, l.Duplicates = slices.Clone(l.Tentative), slices.Clone(l.Duplicates)
	l.Attributes = f.shownAttributes(false)
	if f.bond != nil {
		l.Bond = f.bond.state(f)
	}
	l.Carrier = l.Carrier && !p.mute
	st.Link = &l
	if l.Netns != "" && l.Netns != netns {
		st.Link = nil
	}
	return st
}

func (k *Kernel) findPF(a vf.PCIAddr) (*pf, error) {
	for _, p := range k.pfs {
		if p.PCI == a {
			return p, nil
		}
	}
	return nil, fmt.Errorf("PF %s: %w", a, vf.ErrNotFound)
}

func (k *Kernel) findVF(a vf.PCIAddr) (*pf, *function, error) {
	for _, p := range k.pfs {
		for _, f := range p.vfs {
			if f.PCI == a {
				return p, f, nil
			}
		}
	}
	return nil, nil, fmt.Errorf("VF %s: %w", a, vf.ErrNotFound)
}

// Announced lists the addresses that were announced, in order.
func (k *Kernel) Announced() []netip.Prefix {
	k.mu.Lock()
	defer k.mu.Unlock()
	var out []netip.Prefix
	for _, s := range k.announced {
		out = append(out, s.Addresses...)
	}
	return out
}
