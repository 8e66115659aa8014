package libvirt

import (
	"context"
	"sync/atomic"

	protocol "github.com/digitalocean/go-libvirt"
	"golang.org/x/sync/errgroup"
)

// Change is the kind of a change of a guest.
type Change string

// The changes that Events reports.
const (
	Defined       Change = "defined" // or its definition was changed
	Undefined     Change = "undefined"
	Started       Change = "started" // came to run, also by migration or from a saved state
	Stopped       Change = "stopped" // however: shut down, destroyed, crashed, migrated away
	DeviceAdded   Change = "device added"
	DeviceRemoved Change = "device removed" // the guest has released it
	DeviceKept    Change = "device kept"    // the guest refused to release it
)

// Event is one change of one guest.
type Event struct {
	UUID, Name string
	Change     Change
	Device     string // the alias, of the changes of a device
}

// Events returns the events of guests from now on, until ctx or the connection ends; with the
// connection the channel closes. Events that were not received yet are kept, so the channel has
// to be read until then.
func (c *Client) Events(ctx context.Context) (<-chan Event, error) {
	var sources []<-chan any
	for _, id := range []protocol.DomainEventID{
		protocol.DomainEventIDLifecycle, protocol.DomainEventIDDeviceAdded,
		protocol.DomainEventIDDeviceRemoved, protocol.DomainEventIDDeviceRemovalFailed,
	} {
		// It ends with the connection and not with ctx: to end one while events
		// come in blocks the protocol's reader for good (its event.Stream.Push).
		err := c.callNamed(ctx, "events of guests", func() error {
			source, err := c.rpc.SubscribeEvents(context.WithoutCancel(ctx), id, nil)
			sources = append(sources, source)
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	out := make(chan Event)
	var relays errgroup.Group
	var left atomic.Int32
	left.Store(int32(len(sources)))
	for _, source := range sources {
		relays.Go(func() error {
			for message := range source {
				if e, ok := eventOf(message); ok {
					select {
					case out <- e:
					case <-ctx.Done():
					}
				}
			}
			if left.Add(-1) == 0 {
				close(out)
			}
			return nil
		})
	}
	return out, nil
}

// eventOf reads a message of the protocol. ok is false for the many messages that no caller
// needs.
func eventOf(message any) (e Event, ok bool) {
	switch m := message.(type) {
	case *protocol.DomainEventCallbackLifecycleMsg:
		e = newEvent(m.Msg.Dom, lifecycle[protocol.DomainEventType(m.Msg.Event)], "")
	case *protocol.DomainEventCallbackDeviceAddedMsg:
		e = newEvent(m.Dom, DeviceAdded, m.DevAlias)
	case *protocol.DomainEventCallbackDeviceRemovedMsg:
		e = newEvent(m.Msg.Dom, DeviceRemoved, m.Msg.DevAlias)
	case *protocol.DomainEventCallbackDeviceRemovalFailedMsg:
		e = newEvent(m.Dom, DeviceKept, m.DevAlias)
	}
	return e, e.Change != ""
}

func newEvent(d protocol.Domain, what Change, device string) Event {
	return Event{UUID: formatUUID(d.UUID), Name: d.Name, Change: what, Device: device}
}

// lifecycle has no entry for a guest that is paused or resumed, nor for a guest that begins to shut
// down.
var lifecycle = map[protocol.DomainEventType]Change{
	protocol.DomainEventDefined: Defined, protocol.DomainEventUndefined: Undefined,
	protocol.DomainEventStarted: Started, protocol.DomainEventStopped: Stopped,
}
