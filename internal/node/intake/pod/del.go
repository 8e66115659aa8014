package pod

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/culvert-net/culvert/internal/network/config"
	"github.com/culvert-net/culvert/internal/network/netconf"
	"github.com/culvert-net/culvert/internal/node/intake/cni"
	"github.com/culvert-net/culvert/internal/node/journal"
	"github.com/culvert-net/culvert/internal/vf"
)

// delPod serves DEL. It needs the sandbox's name, the ledger and the shim, and neither the pod
// nor its networks' definitions (I8). A repeated DEL finds nothing to do.
func (h *Handler) delPod(ctx context.Context, c call) error {
	if err := cni.ValidNames(c.CNIRequest); err != nil {
		return err
	}
	unlock, err := h.lockSandbox(ctx, c)
	if err != nil {
		return err
	}
	defer unlock()
	sb, found, err := h.readSandbox(c.ContainerID)
	if err != nil {
		return err
	}
	if !found || sb.Damage != "" {
		sb = h.unrecordedSandbox(c)
	}
	sb.Netns = c.Netns // empty if the netns is gone
	if c.Path != "" {
		sb.Path = c.Path
	}
	if found && sb.Damage == "" && sb.Phase != journal.SandboxDeleting {
		sb.Phase = journal.SandboxDeleting
		if err := h.Ledger.Update(func(tx *journal.Tx) error { return tx.PutSandbox(sb) }); err != nil {
			return err
		}
	}
	if err := h.tearDown(ctx, c, sb); err != nil {
		return fmt.Errorf("pod %s: %w", c.podName(), oneLine{err})
	}
	claimReporter{h}.publish(cmp.Or(sb.UID, c.args.UID), true)
	return nil
}

// unrecordedSandbox returns a sandbox without a record in the ledger. Its networks are the default
// network, with the result that the runtime remembers, and those of its VFs. Such a sandbox is from
// before Culvert, or Culvert attached its VFs for a Multus that is gone since.
func (h *Handler) unrecordedSandbox(c call) journal.Sandbox {
	sb := journal.Sandbox{ID: c.ContainerID, Namespace: c.args.Namespace, Pod: c.args.Pod, Args: ignoreUnknown(c.Args), Path: c.Path, Netns: c.Netns}
	d, err := defaultIn(h.ConfDir)
	if err != nil {
		h.Log.Warn("DEL of a sandbox that is not in the ledger", "pod", c.podName(), "err", err)
		sb.Networks = h.leasedNetworks(c.ContainerID)
		return sb
	}
	n := journal.SandboxNetwork{Name: d.Name, Interface: c.IfName, Default: true, Runtime: c.config.RuntimeConfig}
	setDefinition(&n, d)
	if prev, err := inVersion(c.config.PrevResult, d.Version); err == nil {
		n.Result = prev
	}
	sb.Networks = append([]journal.SandboxNetwork{n}, h.leasedNetworks(c.ContainerID)...)
	return sb
}

// leasedNetworks returns a network for each VF of a sandbox that has no record, by the configuration in
// its lease, so that the DEL reaches the network's IPAM plugin. giveBack ends leases whose
// configuration cannot be read.
func (h *Handler) leasedNetworks(id string) (out []journal.SandboxNetwork) {
	records, err := journal.ReadRecords(h.Ledger)
	if err != nil {
		h.Log.Warn("DEL of a sandbox that is not in the ledger", "container", id, "err", err)
	}
	for _, r := range records {
		if !r.Held() || r.Lease.Owner.UID != id || len(r.Lease.Request) == 0 { // other VFs of a bond have none
			continue
		}
		p, err := netconf.ParsePlugin(r.Lease.Request)
		c, wrong := config.Parse(r.Lease.Request)
		if err := errors.Join(err, wrong); err != nil {
			h.Log.Warn("DEL of a VF by its lease", "container", id, "vf", r.ID, "err", err)
			continue
		}
		out = append(out, journal.SandboxNetwork{
			Name: r.Lease.Network, Interface: r.Lease.Owner.Interface, Network: c.Name, Version: c.Version, Plugins: []netconf.Plugin{p},
		})
	}
	return out
}

// tearDown deletes the networks of a sandbox in the reverse of the order in which carryOut adds
// them, gives its VFs back and forgets it. A failure does not stop the rest (I7), and leaves the
// record for another try.
func (h *Handler) tearDown(ctx context.Context, c call, sb journal.Sandbox) error {
	var errs []error
	for _, n := range slices.Backward(sb.Networks) {
		errs = append(errs, h.delOne(ctx, c, sb, n))
	}
	errs = append(errs, h.giveBack(ctx, sb.ID))
	if err := errors.Join(errs...); err != nil {
		return err
	}
	_, found, err := h.readSandbox(sb.ID)
	if err != nil || !found {
		return err
	}
	return h.Ledger.Update(func(tx *journal.Tx) error { return tx.DeleteSandbox(sb.ID) })
}

func (h *Handler) delOne(ctx context.Context, c call, sb journal.Sandbox, n journal.SandboxNetwork) error {
	err := errors.Join(chain{h, c, sb, n}.delAll(ctx), removeDeviceInfo(n))
	if err != nil {
		return fmt.Errorf("network %s (%s): %w", n.Name, n.Interface, err)
	}
	return nil
}

// giveBack ends every lease of a sandbox, whatever the sandbox's record says.
func (h *Handler) giveBack(ctx context.Context, id string) error {
	leases, err := h.leaseOwners(func(o vf.Owner) bool { return o.UID == id })
	errs := []error{err}
	for _, o := range leases {
		errs = append(errs, h.Resets.Detach(ctx, o))
	}
	return errors.Join(errs...)
}

// leaseOwners returns the owners of VFs for which is returns true.
func (h *Handler) leaseOwners(is func(vf.Owner) bool) (out []vf.Owner, err error) {
	records, err := journal.ReadRecords(h.Ledger)
	for _, r := range records {
		if r.Held() && is(r.Lease.Owner) {
			out = append(out, r.Lease.Owner)
		}
	}
	return out, err
}
