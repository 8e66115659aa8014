package pod

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/network/claim"
	"github.com/culvert-net/culvert/internal/network/config"
	"github.com/culvert-net/culvert/internal/network/netannotation"
	"github.com/culvert-net/culvert/internal/network/netconf"
	"github.com/culvert-net/culvert/internal/node/journal"
	"github.com/culvert-net/culvert/internal/vf"
)

// claimedRequest is a request of a claim that has a network of its own, with its VFs.
type claimedRequest struct {
	vfs    *claimedVFs
	of     journal.Claim
	config claim.Config
}

func (r claimedRequest) String() string { return fmt.Sprintf("%s request %s", r.of, r.of.Request) }

// claimPlanner adds the networks of claims to a wish.
type claimPlanner struct {
	h *Handler
	w *wish
}

// planAll adds the networks that the pod's claims make by their configurations: one for each VF of a
// request, or for as many as a bond has links.
func (p claimPlanner) planAll(ctx context.Context) error {
	w := p.w
	var (
		all      []claimedRequest
		errs     []error
		reserved = map[string]bool{}
	)
	for group := w.claims.takeGroup(); group != nil; group = w.claims.takeGroup() {
		r := claimedRequest{vfs: group, of: *group.left[0].Claim}
		var err error
		if r.config, err = claim.Parse(r.of.Config); err != nil {
			errs = append(errs, fmt.Errorf("%s: its configuration: %w", r, err))
			continue
		}
		reserved[r.config.Interface] = true
		all = append(all, r)
	}
	for _, r := range all {
		for len(r.vfs.left) > 0 {
			name := cmp.Or(r.config.Interface, w.freeName(reserved))
			if err := p.planRequest(ctx, r, name); err != nil {
				errs = append(errs, fmt.Errorf("%s (%s): %w", r, name, err))
				break
			}
		}
	}
	return errors.Join(errs...)
}

// freeName returns the first of net1, net2 and so on that no network has and no claim asks for.
func (w *wish) freeName(reserved map[string]bool) string {
	used := map[string]bool{}
	for _, n := range w.sandbox.Networks {
		used[n.Interface] = true
	}
	for i := 1; ; i++ {
		if name := fmt.Sprintf("net%d", i); !used[name] && !reserved[name] {
			return name
		}
	}
}

// planRequest adds one network of a request.
func (p claimPlanner) planRequest(ctx context.Context, r claimedRequest, name string) error {
	w := p.w
	if !r.of.IsFor(w.pod.UID) {
		return fmt.Errorf("%w: it is not for pod %s", vf.ErrInvalid, w.pod)
	}
	given, before := p.h.devicesOf(w.pod, r.vfs), len(r.vfs.left)
	e := netannotation.Element{Interface: r.config.Interface}
	var (
		n   journal.SandboxNetwork
		err error
	)
	if r.config.Network != "" {
		e.Namespace, e.Name = r.config.NetworkIn(r.of.Namespace)
		if n, err = p.h.planNetwork(ctx, w, e, name, given); err != nil {
			return fmt.Errorf("network %s/%s: %w", e.Namespace, e.Name, err)
		}
	} else if n, err = p.planConfig(ctx, r, name, given); err != nil {
		return err
	}
	if len(r.vfs.left) == before {
		return fmt.Errorf("network %s: %w: it takes no VF: leave it to the pod's annotation", n.Name, vf.ErrInvalid)
	}
	return cmp.Or(w.addNetwork(n, e), w.checkSize())
}

// claimName is the name of a network that a claim makes. No NetworkAttachmentDefinition has such a name.
func claimName(c journal.Claim) string { return c.Namespace + "/claim:" + c.Name }

// planConfig returns the network of a configuration that has the keys of a network.
func (p claimPlanner) planConfig(ctx context.Context, r claimedRequest, name string, given devices) (journal.SandboxNetwork, error) {
	n := p.w.newNetwork(p.h.DeviceInfo, claimName(r.of), name)
	n.Claim = r.of.Namespace + "/" + r.of.Name
	plugin, err := netconf.ParsePlugin(r.config.Plugin)
	if err != nil {
		return n, err
	}
	// The name is for people: an address of the network is of the pool that the configuration names.
	l := netconf.List{Name: ("claim-" + r.of.Name)[:min(len("claim-"+r.of.Name), config.LongestName)], Version: api.CNINewest, Plugins: []netconf.Plugin{plugin}}
	if err := given.give(ctx, &n, &l, r.of.Pool, config.VFsOf(l), p.h.findPF); err != nil {
		return n, err
	}
	setDefinition(&n, l)
	return n, nil
}

// checkPool refuses the VFs of a claim for a network of another resource.
func (d devices) checkPool(resource string) error {
	if !d.isOneRequest() || resource == "" {
		return nil
	}
	for _, r := range d.claims.left {
		if r.Claim.Pool != resource {
			return fmt.Errorf("%w: the network is for VFs of resource %s, and the claim has VF %s of pool %s: select VFs of that pool in the request, or name another network",
				vf.ErrInvalid, resource, r.PCI, cmp.Or(r.Claim.Pool, "none"))
		}
	}
	return nil
}
