// Package floor has the command lines of the program test/bench/floor, which does
// the bare kernel work of an attach, a detach or the making of VFs.
//
// The demo and the benchmarks build an argument list with [Work.Args], the program
// reads it with [Parse]: neither writes one by hand, so they cannot differ.
package floor

import (
	"errors"
	"fmt"
	"net/netip"
	"strconv"

	"github.com/culvert-net/culvert/internal/vf"
)

// Work is one call of the program: an [Attach], a [Detach], a [Make] or [Nothing].
type Work interface {
	Args() []string // the program's arguments, each without white space
}

// Attach moves a VF into a network namespace and configures it there.
type Attach struct {
	Netns   string // path
	VF      string // PCI address
	Name    string // of the interface in the namespace
	Address netip.Prefix
	Route   vf.Route
}

// Detach moves an interface back into the host's network namespace.
type Detach struct {
	Netns, Name string
	HostName    string // of the interface afterwards
}

// Make sets the number of VFs of a PF.
type Make struct {
	PF   string // name of its interface
	VFs  int
	Bind bool // the kernel binds the host's driver to new VFs
}

// Nothing does no work: it measures the exec of the program.
type Nothing struct{}

// The first argument names the work.
const (
	attach  = "attach"
	detach  = "detach"
	makeVFs = "make"
	nothing = "nothing"
)

var switches = map[bool]string{true: "on", false: "off"}

// Args implements [Work].
func (a Attach) Args() []string {
	return []string{attach, a.Netns, a.VF, a.Name, a.Address.String(), a.Route.Dst.String(), a.Route.Gateway.String()}
}

// Args implements [Work].
func (d Detach) Args() []string { return []string{detach, d.Netns, d.Name, d.HostName} }

// Args implements [Work].
func (m Make) Args() []string {
	return []string{makeVFs, m.PF, strconv.Itoa(m.VFs), switches[m.Bind]}
}

// Args implements [Work].
func (Nothing) Args() []string { return []string{nothing} }

// Parse is the inverse of [Work.Args].
func Parse(args []string) (Work, error) {
	name := ""
	if len(args) > 0 {
		name, args = args[0], args[1:]
	}
	switch {
	case name == attach && len(args) == 6:
		return parseAttach(args)
	case name == detach && len(args) == 3:
		return Detach{args[0], args[1], args[2]}, nil
	case name == makeVFs && len(args) == 3:
		return parseMake(args)
	case name == nothing && len(args) == 0:
		return Nothing{}, nil
	}
	return nil, fmt.Errorf("floor %q has %d arguments: use one of\n"+
		"  attach NETNS VF NAME ADDRESS ROUTE GATEWAY\n  detach NETNS NAME HOSTNAME\n  make PF N on|off\n  nothing", name, len(args))
}

func parseAttach(args []string) (Work, error) {
	a := Attach{Netns: args[0], VF: args[1], Name: args[2]}
	var errs [3]error
	a.Address, errs[0] = netip.ParsePrefix(args[3])
	a.Route.Dst, errs[1] = netip.ParsePrefix(args[4])
	a.Route.Gateway, errs[2] = netip.ParseAddr(args[5])
	return a, errors.Join(errs[:]...)
}

func parseMake(args []string) (Work, error) {
	n, err := strconv.Atoi(args[1])
	if err != nil {
		return nil, fmt.Errorf("floor make: number of VFs: %w", err)
	}
	m := Make{PF: args[0], VFs: n, Bind: args[2] == switches[true]}
	if !m.Bind && args[2] != switches[false] {
		return nil, fmt.Errorf("floor make: %q: bind the host's driver with on, leave VFs unbound with off", args[2])
	}
	return m, nil
}
