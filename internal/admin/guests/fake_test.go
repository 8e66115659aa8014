package guests

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/guest"
	"github.com/culvert-net/culvert/internal/vf"
)

// definition is the definition of a guest that is not moving, with a virtio interface.
const definition = `<domain type='kvm'>
  <name>db1</name>
  <uuid>6695eb01-f6a4-8304-79aa-97f2502e193f</uuid>
  <memory unit='KiB'>524288</memory>
  <os>
    <type arch='x86_64' machine='q35'>hvm</type>
    <kernel>/shared/vmlinux</kernel>
  </os>
  <devices>
    <interface type='bridge'>
      <mac address='02:00:00:00:00:07'/>
      <source bridge='br0'/>
      <teaming type='persistent'/>
      <alias name='ua-slow'/>
    </interface>
  </devices>
</domain>
`

const uuid = "6695eb01-f6a4-8304-79aa-97f2502e193f"

// fake is a host with one guest at most, and VFs in one pool.
type fake struct {
	Seen
	world   *world
	leased  map[string]api.VF // by device
	pool    int               // VFs that are left
	bus     uint8
	missing []string
	peer    *fake  // where Send goes
	locks   string // a directory
}

// world counts the calls of all hosts, and breaks one of them.
type world struct {
	calls int
	at    int // the call that is broken, 1 is the first
	how   breakage
	done  []string // what was done, in order
	dead  bool
}

// breakage is what happens at one call.
type breakage struct {
	name   string
	effect bool   // the call does what it should
	dies   bool   // the caller is killed: it makes no later call
	cuts   string // the host that cannot be reached any more
	also   int    // further calls that are refused
}

var errBroken = errors.New("broken")

// call counts a call, and does its work unless the call is broken before.
func (f *fake) call(what string, work func() error) error {
	w := f.world
	w.calls++
	since := w.calls - w.at
	switch {
	case w.dead || w.isCut(f.Host) || w.at > 0 && since > 0 && since <= w.how.also:
		return errBroken
	case since != 0 || w.how.cuts != "" && w.how.cuts != f.Host:
		w.done = append(w.done, f.Host+": "+what)
		return work()
	}
	w.dead = w.how.dies
	if w.how.effect {
		if err := work(); err != nil {
			return err
		}
	}
	return errBroken
}

// isCut reports whether a host cannot be reached any more.
func (w *world) isCut(host string) bool {
	return w.at > 0 && w.calls > w.at && w.how.cuts == host
}

// Lock takes the lock as Host does. Each call opens the file anew, as another process would.
func (f *fake) Lock(guest string) (unlock func(), err error) {
	file, err := lockGuest(f.locks, guest)
	return func() { file.Close() }, err
}

func (f *fake) See(_ context.Context, name string) (s Seen, err error) {
	err = f.call("see", func() error {
		s = f.Seen
		s.UUID, s.Name = "", name
		if f.Defined != "" || f.Live != "" || len(f.leased) > 0 {
			s.UUID, s.Name = uuid, "db1"
		}
		for _, device := range slices.Sorted(maps.Keys(f.leased)) {
			s.VFs = append(s.VFs, f.leased[device])
		}
		return nil
	})
	return s, err
}

func (f *fake) Lease(_ context.Context, req api.GuestXMLRequest) (out api.GuestXML, err error) {
	err = f.call("lease "+req.Device, func() error {
		d, err := guest.Parse([]byte(req.Definition))
		if err != nil {
			return err
		}
		has, known, err := d.Of(req.Device)
		if err != nil {
			return err
		}
		v, again := f.leased[req.Device]
		switch {
		case again:
		case f.pool == 0:
			return fmt.Errorf("pool x/a: 1 of 1 VFs on enp1s0 are held (vm db2): %w for vm db1", vf.ErrNothingFree)
		default:
			pf, device := "p0", uint8(0x10)
			other, leased := f.leased[req.Apart]
			switch {
			case req.Apart != "" && !leased:
				return fmt.Errorf("a VF apart from %s: %w: that one has no VF", req.Apart, vf.ErrInvalid)
			case leased && other.PF == pf:
				pf, device = "p1", 0x11
			}
			f.pool--
			v = api.VF{PCI: vf.PCIAddr{Bus: f.bus, Device: device, Function: uint8(f.pool)}, PF: pf, Phase: "attached", Pool: "x/a"}
			v.Owner = &vf.Owner{Kind: vf.OwnerGuest, UID: uuid, Name: "db1", Interface: req.Device}
			v.Settings.MAC = vf.MAC{2, 0, 0, 0, f.bus, uint8(f.pool)}
		}
		if req.Spec.MAC == nil && known {
			req.Spec, v.PCI = has.Spec, has.VF
		}
		if req.Spec.MAC != nil {
			v.Settings.MAC = *req.Spec.MAC
		}
		if req.Spec.VLAN != nil {
			v.Settings.VLAN = *req.Spec.VLAN
		}
		dev := guest.Device{Name: req.Device, Way: guest.Way(req.Way), PCI: v.PCI, MAC: v.Settings.MAC, VLAN: v.Settings.VLAN, Failover: req.Failover, Pool: v.Pool, Spec: req.Spec, Apart: req.Apart}
		if out.Definition, err = d.With(dev); err != nil {
			return err
		}
		f.leased[req.Device] = v
		out.VF = v.PCI
		out.Device, err = dev.XML()
		return err
	})
	return out, err
}

func (f *fake) Missing(_ context.Context, paths []string) (out []string, err error) {
	err = f.call("missing", func() error {
		for _, p := range paths {
			if slices.Contains(f.missing, p) {
				out = append(out, p)
			}
		}
		return nil
	})
	return out, err
}

func (f *fake) Do(_ context.Context, a Action) error {
	return f.call(a.String(), func() error { return f.do(a) })
}

func (f *fake) do(a Action) error {
	switch a := a.(type) {
	case Define:
		f.Defined = a.XML
	case SetAutostart:
		if f.Defined == "" && a.On {
			return fmt.Errorf("the guest is not defined: %w", vf.ErrNotFound)
		}
		f.Autostart = a.On
	case Undefine:
		f.Defined, f.Autostart = "", false
	case Free:
		if _, has := f.leased[a.Device]; has {
			delete(f.leased, a.Device)
			f.pool++
		}
	case Shutdown:
		f.Live = ""
	case Plug:
		if f.Live == "" {
			return fmt.Errorf("the guest is off: %w", vf.ErrInvalid)
		}
		d, err := parseDevices(f.Live)
		if _, has := d.Has(a.Device); err == nil && !has {
			f.Live = strings.Replace(f.Live, "  </devices>", a.XML+"  </devices>", 1)
		}
		return err
	case Unplug:
		d, err := parseDevices(f.Live)
		if err != nil || f.Live == "" {
			return err
		}
		f.Live, err = d.Without(a.Device)
		return err
	case Send:
		if f.world.isCut("a") || f.world.isCut("b") {
			return errBroken
		}
		f.peer.Live, f.peer.Defined, f.Live = f.Live, a.XML, ""
	}
	return nil
}

// startable reports whether the guest can be started, or runs.
func (f *fake) startable() bool {
	d, err := parseDevices(f.Defined)
	if err != nil {
		panic(err)
	}
	move, err := d.Move()
	return f.Live != "" || f.Defined != "" && move == guest.Move{} && err == nil
}

// autostarts reports whether libvirt starts the guest with the host, unless its hook refuses.
func (f *fake) autostarts() bool { return f.Defined != "" && f.Live == "" && f.Autostart }

// hosts returns host a, where the guest has a VF of a's as net1, and host b.
func hosts(t testing.TB, w *world, change func(req *api.GuestXMLRequest)) (a, b *fake) {
	t.Helper()
	a = &fake{Seen: Seen{Host: "a", Boot: "1", Defined: definition, Autostart: true}, world: &world{}, leased: map[string]api.VF{}, pool: 2, bus: 1, locks: t.TempDir()}
	b = &fake{Seen: Seen{Host: "b", Boot: "2"}, world: w, leased: map[string]api.VF{}, pool: 2, bus: 2, locks: t.TempDir()}
	a.peer = b
	req := api.GuestXMLRequest{Definition: definition, Device: "net1", Pool: "x/a", Way: "interface", Spec: vf.Spec{VLAN: &vf.VLAN{ID: 100, Proto: vf.Dot1Q}}}
	if change != nil {
		change(&req)
	}
	out, err := a.Lease(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	a.Defined, a.world = out.Definition, w
	return a, b
}
