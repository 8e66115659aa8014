package cni

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	current "github.com/containernetworking/cni/pkg/types/100"

	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/network/config"
	"github.com/culvert-net/culvert/internal/network/ipam"
	"github.com/culvert-net/culvert/internal/network/netconf"
	"github.com/culvert-net/culvert/internal/node/attach"
	"github.com/culvert-net/culvert/internal/node/journal"
	"github.com/culvert-net/culvert/internal/vf"
)

// Bounds on the DELs of IPAM plugins besides the call's own: the undo of a failed ADD and the DEL of an
// attachment that the ledger does not have, the DELs that earlier calls still owe, and the wait for
// who serves whereabouts networks. On an emulated processor, a DEL of whereabouts took more than 5 s.
const (
	undoPluginBound = 20 * time.Second
	owedBound       = 5 * time.Second
	modeBound       = time.Second
)

// delegateIPAM lets the plugin that ipam.type names give the addresses of a request. The plugin
// runs when the interface is in the sandbox, since the dhcp plugin sends from the interface. The
// plugin gets what ipam.ExecAdd of the CNI project gives it: the call's environment, and the whole
// configuration.
func (h *Handler) delegateIPAM(call Call, c *config.Config, req *attach.Request, ask Ask) {
	req.Delegation = &journal.Delegation{
		Plugin: c.IPAM.Type, Network: c.Name, ContainerID: call.ContainerID, Interface: call.IfName, Netns: call.Netns, Args: call.Args, Path: call.Path,
	}
	req.Late = func(ctx context.Context) (ipam.Config, error) {
		out, err := RunPlugin(ctx, ask, c.IPAM.Type, call.CNIRequest)
		if err != nil {
			return ipam.Config{}, notInstalled(err, *c)
		}
		given, dns, err := parseDelegated(out, c.Version)
		if err != nil {
			return given, fmt.Errorf("plugin %s: ADD answered %.200q: %w", c.IPAM.Type, out, err)
		}
		if c.DNS.IsZero() {
			c.DNS = dns
		}
		return given, nil
	}
}

// ownSection replaces an ipam section of type whereabouts by one that Culvert serves, unless the
// whereabouts plugin serves it (ServesWhereabouts).
func (h *Handler) ownSection(ctx context.Context, c *config.Config) error {
	if c.IPAM.Type != ipam.TypeWhereabouts {
		return nil
	}
	if h.ServesWhereabouts != nil {
		if own, err := h.ServesWhereabouts(ctx); err != nil || !own {
			return err
		}
	}
	own, err := c.Whereabouts()
	if err != nil {
		return err
	}
	c.IPAM, c.Warnings = own, append(c.Warnings, own.Warnings...)
	return nil
}

// errNotInstalled: the plugin did not run at all.
var errNotInstalled = errors.New("the plugin is not installed")

// notInstalled adds to the error of a plugin that is not installed how to correct it. The error
// wraps errNotInstalled.
func notInstalled(err error, c config.Config) error {
	if !errors.Is(err, vf.ErrNotFound) {
		return err
	}
	instead := "use host-local or static, which Culvert serves itself"
	if c.IPAM.Type == ipam.TypeWhereabouts {
		instead = "have Culvert serve its networks (culvertd --whereabouts=pools)"
	}
	return fmt.Errorf("network %s: ipam.type %s: %w: %w: install that plugin on every node, or %s", c.Name, c.IPAM.Type, errNotInstalled, err, instead)
}

// parseDelegated reads the result of an IPAM plugin as a section with these addresses. Culvert
// keeps them unique on this node only, since only the plugin knows which node gives out which
// address.
func parseDelegated(out []byte, version string) (ipam.Config, ipam.DNS, error) {
	if err := netconf.CheckSize(len(out)); err != nil {
		return ipam.Config{}, ipam.DNS{}, err
	}
	r, err := config.DecodeResult(out, version)
	if err != nil {
		return ipam.Config{}, ipam.DNS{}, fmt.Errorf("%w: not a result: %w", vf.ErrInvalid, err)
	}
	if err := ipam.CheckResult(len(r.IPs), len(r.Routes)); err != nil {
		return ipam.Config{}, ipam.DNS{}, err
	}
	c := ipam.Config{Type: ipam.TypeStatic, Scope: ipam.ScopeNode, Lenient: true}
	for _, a := range r.IPs {
		ip, ok := netip.AddrFromSlice(a.Address.IP)
		ones, bits := a.Address.Mask.Size()
		if !ok || bits == 0 {
			return c, ipam.DNS{}, fmt.Errorf("%w: address %s: want one with its prefix length", vf.ErrInvalid, a.Address.String())
		}
		gateway, _ := netip.AddrFromSlice(a.Gateway)
		ip = ip.Unmap()
		c.Static = append(c.Static, vf.Address{Prefix: netip.PrefixFrom(ip, ones-bits+ip.BitLen()), Gateway: gateway.Unmap()})
	}
	if len(c.Static) == 0 {
		return c, ipam.DNS{}, fmt.Errorf("%w: it has no address", vf.ErrInvalid)
	}
	c.Routes, err = delegatedRoutes(r)
	d := ipam.DNS{Nameservers: r.DNS.Nameservers, Domain: r.DNS.Domain, Search: r.DNS.Search, Options: r.DNS.Options}
	return c, d, err
}

func delegatedRoutes(r *current.Result) (out []vf.Route, err error) {
	for _, in := range r.Routes {
		ip, ok := netip.AddrFromSlice(in.Dst.IP)
		ones, bits := in.Dst.Mask.Size()
		if !ok || bits == 0 {
			return nil, fmt.Errorf("%w: route %s: want a destination with its prefix length", vf.ErrInvalid, in.Dst.String())
		}
		ip = ip.Unmap()
		gateway, _ := netip.AddrFromSlice(in.GW)
		route := vf.Route{Dst: netip.PrefixFrom(ip, ones-bits+ip.BitLen()).Masked(), Gateway: gateway.Unmap(), MTU: in.MTU, AdvMSS: in.AdvMSS, Priority: in.Priority}
		if in.Table != nil {
			route.Table = *in.Table
		}
		if in.Scope != nil {
			route.Scope = *in.Scope
		}
		out = append(out, route)
	}
	return out, nil
}

// undoDelegation runs the DEL of the plugin that gave an attachment its addresses, as the
// ledger has it (I8), and reports whether the ledger has one. A plugin that is not installed
// any more keeps no pod from ending: its DEL stays owing.
func (h *Handler) undoDelegation(ctx context.Context, call Call, ask Ask) (found bool, err error) {
	held, owed, err := h.node.VFs.Delegations()
	all := slices.Concat(held, owed)
	return slices.ContainsFunc(all, func(d journal.Delegation) bool { return isOf(d, call.CNIRequest) }), errors.Join(err, h.undoThose(ctx, all, call, ask))
}

// isOf reports whether a delegation is that of the attachment of a call.
func isOf(d journal.Delegation, r api.CNIRequest) bool {
	return d.ContainerID == r.ContainerID && d.Interface == r.IfName
}

// releaseUnrecorded runs the DEL of the IPAM plugin that the configuration names for an
// attachment of which the ledger has no delegation: the plugin that Culvert replaced may have
// made it, and its address would stay taken. A failure keeps no pod from ending.
func (h *Handler) releaseUnrecorded(ctx context.Context, call Call, ask Ask) {
	c := call.config
	if call.wrong != nil || ask == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, undoPluginBound)
	defer cancel()
	if err := h.releaseBy(ctx, call, c, ask); err != nil {
		h.Log.Warn("release the addresses of an attachment from before Culvert", "net", c.Name, "plugin", c.IPAM.Type, "container", call.ContainerID, "err", err)
	}
}

// releaseBy is passOn for an attachment of which nothing is known. It waits modeBound for who serves
// whereabouts networks: while the API server does not answer that, the plugin could not release the
// address either.
func (h *Handler) releaseBy(ctx context.Context, call Call, c config.Config, ask Ask) error {
	short, cancel := context.WithTimeout(ctx, modeBound)
	defer cancel()
	if err := h.ownSection(short, &c); err != nil {
		return err
	}
	return h.runDelegated(ctx, call, c, ask)
}

// undoThose runs the DELs for the attachment of a call.
func (h *Handler) undoThose(ctx context.Context, all []journal.Delegation, call Call, ask Ask) error {
	var errs []error
	for _, d := range all {
		if !isOf(d, call.CNIRequest) {
			continue
		}
		if call.wrong == nil && call.config.IPAM.Type == d.Plugin {
			d.Config = call.Config // with the prevResult
		}
		if call.Path != "" {
			d.Path = call.Path
		}
		d.Netns = call.Netns // empty when it has gone
		if err := h.deleteDelegated(ctx, d, ask); err != nil && !errors.Is(err, vf.ErrNotFound) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// deleteDelegated runs the DEL of a plugin that the ledger has, also if the plugin is not on the
// list any more. An earlier culvertd may have executed a plugin that gives no addresses: that plugin
// holds none, and its DEL would execute itself without end, as its ADD did.
func (h *Handler) deleteDelegated(ctx context.Context, d journal.Delegation, ask Ask) error {
	if !ipam.GivesAddresses(d.Plugin) {
		h.Log.Warn("a plugin that gives no addresses gets no DEL", "net", d.Network, "plugin", d.Plugin, "container", d.ContainerID)
		return h.node.VFs.Undone(d)
	}
	_, err := RunPlugin(ctx, ask, d.Plugin, api.CNIRequest{
		Command: cmdDel, ContainerID: d.ContainerID, Netns: d.Netns, IfName: d.Interface, Args: d.Args, Path: d.Path, Config: d.Config,
	})
	if err != nil {
		return err
	}
	return h.node.VFs.Undone(d)
}

// undoFailed undoes the work that the IPAM plugin may have done for an ADD that failed. The caller
// may have disconnected. A DEL that fails now stays owed; a plugin that did not run is owed no DEL.
// If the attachment has a lease nevertheless, the lease is of an earlier ADD and keeps its
// addresses.
func (h *Handler) undoFailed(ctx context.Context, call Call, ask Ask, d journal.Delegation, cause error) {
	if errors.Is(cause, errNotInstalled) {
		if err := h.node.VFs.Undone(d); err != nil {
			h.Log.Warn("forget a plugin that did not run", "container", call.ContainerID, "err", err)
		}
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoPluginBound)
	defer cancel()
	_, owed, err := h.node.VFs.Delegations()
	err = errors.Join(err, h.undoThose(ctx, owed, call, ask))
	if err != nil {
		h.Log.Warn("undo of a failed ADD, left for its DEL", "container", call.ContainerID, "err", err)
	}
}

// passOn runs a command of the plugin that gives a network's addresses; nil where there is
// none, or where it does not have that command.
func (h *Handler) passOn(ctx context.Context, call Call, c config.Config, ask Ask) error {
	if err := h.ownSection(ctx, &c); err != nil {
		return err
	}
	return h.runDelegated(ctx, call, c, ask)
}

// runDelegated runs a command of the plugin that gives a network's addresses, if another project's
// plugin does. It refuses a plugin that is not on the list, unless the ledger has its work (I8): an
// earlier culvertd may have executed it.
func (h *Handler) runDelegated(ctx context.Context, call Call, c config.Config, ask Ask) error {
	if !c.IPAM.IsDelegated() {
		return nil
	}
	if refused := h.checkIPAMType(c); refused != nil {
		has, err := h.hasDelegation(call, c)
		switch {
		case err != nil:
			return err
		case !has && call.Command == cmdGC:
			return nil // the plugin holds nothing of this network
		case !has:
			return refused
		}
	}
	if _, err := RunPlugin(ctx, ask, c.IPAM.Type, call.CNIRequest); err != nil && !isUnimplemented(err) {
		return notInstalled(err, c)
	}
	return nil
}

// checkIPAMType refuses a network whose addresses come from a plugin that is not on the list.
func (h *Handler) checkIPAMType(c config.Config) error {
	if !c.IPAM.IsDelegated() {
		return nil
	}
	if err := h.IPAMTypes.Check(c.IPAM.Type); err != nil {
		return fmt.Errorf("network %s: %w", c.Name, err)
	}
	return nil
}

// hasDelegation reports whether the ledger has addresses of the plugin that gives a network's
// addresses: those of the call's attachment, for GC those of any attachment to the network.
func (h *Handler) hasDelegation(call Call, c config.Config) (bool, error) {
	held, _, err := h.node.VFs.Delegations()
	return slices.ContainsFunc(held, func(d journal.Delegation) bool {
		return d.Plugin == c.IPAM.Type && (isOf(d, call.CNIRequest) || call.Command == cmdGC && d.Network == c.Name)
	}), err
}
