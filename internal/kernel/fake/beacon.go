package fake

import (
	"fmt"

	"github.com/culvert-net/culvert/internal/vf"
)

// Beacon is a socket of kernel/beacon on a PF of the fake: PFs on one wire hear each other. Its
// methods may be called concurrently with those of the Kernel.
type Beacon struct {
	k      *Kernel
	name   string
	queued [][]byte
	lost   bool
}

// beaconQueue is how many frames a Beacon keeps until they are received, as kernel/beacon does.
const beaconQueue = 512

// Wire connects a PF to a wire by its name. All PFs are on the wire "" at first.
func (k *Kernel) Wire(pf vf.PCIAddr, name string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if p, err := k.findPF(pf); err == nil {
		p.wire = name
	}
}

// OpenBeacon opens a Beacon on the netdevice of a PF.
func (k *Kernel) OpenBeacon(name string) (*Beacon, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.portNamed(name) == nil {
		return nil, fmt.Errorf("netdevice %s: %w", name, vf.ErrNotFound)
	}
	b := &Beacon{k: k, name: name}
	k.beacons = append(k.beacons, b)
	return b, nil
}

func (k *Kernel) portNamed(name string) *port {
	for _, p := range k.pfs {
		if p.name == name {
			return p.port
		}
	}
	return nil
}

// Send sends a frame to the other Beacons on the wire.
func (b *Beacon) Send(payload []byte) error {
	b.k.mu.Lock()
	defer b.k.mu.Unlock()
	own := b.k.portNamed(b.name)
	if own == nil || !own.up {
		return fmt.Errorf("netdevice %s is down: %w", b.name, vf.ErrNotReady)
	}
	if own.cable {
		b.k.sendFrame(own.wire, b, payload)
	}
	return nil
}

// SendFrame sends a frame as another machine on a wire does, or a pod with a VF there.
func (k *Kernel) SendFrame(wire string, payload []byte) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.sendFrame(wire, nil, payload)
}

func (k *Kernel) sendFrame(wire string, from *Beacon, payload []byte) {
	for _, b := range k.beacons {
		p := k.portNamed(b.name)
		switch {
		case b == from || p == nil || !p.up || !p.cable || p.wire != wire:
		case p.master != nil && p.master.view().TakesFrames():
		case len(b.queued) == beaconQueue:
			b.lost = true
		default:
			b.queued = append(b.queued, append([]byte(nil), payload...))
		}
	}
}

// Receive returns at most n frames and drops the rest; more reports whether it dropped any.
func (b *Beacon) Receive(n int) (payloads [][]byte, more bool, err error) {
	b.k.mu.Lock()
	defer b.k.mu.Unlock()
	payloads, more = b.queued[:min(n, len(b.queued))], len(b.queued) > n || b.lost
	b.queued, b.lost = nil, false
	return payloads, more, nil
}

// Close ends the Beacon.
func (b *Beacon) Close() error {
	b.k.mu.Lock()
	defer b.k.mu.Unlock()
	for i, o := range b.k.beacons {
		if o == b {
			b.k.beacons = append(b.k.beacons[:i], b.k.beacons[i+1:]...)
			break
		}
	}
	return nil
}
