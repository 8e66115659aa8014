package agent

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"syscall"

	"github.com/culvert-net/culvert/internal/kernel/rtnl"
	"github.com/culvert-net/culvert/internal/vf"
)

// Steering sends traffic of a network namespace through a router, or makes it one. It is for the pods
// that a measurement makes, and ends with them: nothing undoes it.
type Steering struct {
	Forward []string `json:"forward,omitempty"` // the interfaces that forward what they receive: IPv4
	Ways    []Way    `json:"ways,omitempty"`
}

// Way is a route through an interface. Without a gateway its addresses are on the link.
type Way struct {
	To        netip.Prefix `json:"to"`
	Gateway   netip.Addr   `json:"gateway,omitzero"`
	Interface string       `json:"interface"`
}

// steer sets what a Steering has. A route that is there already is no error.
func steer(s Steering) error {
	c, err := rtnl.Dial()
	if err != nil {
		return err
	}
	defer c.Close()
	for _, name := range s.Forward {
		i, err := net.InterfaceByName(name)
		if err == nil {
			err = c.SetForwarding(i.Index, true)
		}
		if err != nil {
			return fmt.Errorf("forward what %s receives: %w", name, err)
		}
	}
	for _, w := range s.Ways {
		i, err := net.InterfaceByName(w.Interface)
		if err == nil {
			err = c.AddRoute(rtnl.Route{Index: i.Index, Route: vf.Route{Dst: w.To, Gateway: w.Gateway, OnLink: w.Gateway.IsValid()}})
		}
		if err != nil && !errors.Is(err, syscall.EEXIST) {
			return fmt.Errorf("add a route to %s by %s: %w", w.To, w.Interface, err)
		}
	}
	return nil
}
