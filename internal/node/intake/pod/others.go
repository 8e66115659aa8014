package pod

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/culvert-net/culvert/internal/network/netconf"
	"github.com/culvert-net/culvert/internal/node/attach/hold"
	"github.com/culvert-net/culvert/internal/node/intake/cni"
	"github.com/culvert-net/culvert/internal/node/journal"
	"github.com/culvert-net/culvert/internal/vf"
)

// checkPod serves CHECK of every network of a sandbox.
func (h *Handler) checkPod(ctx context.Context, c call) error {
	if err := cni.Valid(c.CNIRequest); err != nil {
		return err
	}
	unlock, err := h.lockSandbox(ctx, c)
	if err != nil {
		return err
	}
	defer unlock()
	sb, found, err := h.readSandbox(c.ContainerID)
	switch {
	case err != nil:
		return err
	case !found || sb.Phase != journal.SandboxAdded:
		return fmt.Errorf("pod %s: sandbox %s: %w", c.podName(), c.ContainerID, cni.ErrUnknown)
	}
	sb.Netns = c.Netns
	var errs []error
	for _, n := range sb.Networks {
		if err := (chain{h, c, sb, n}).checkAll(ctx); err != nil {
			errs = append(errs, fmt.Errorf("network %s (%s): %w", n.Name, n.Interface, err))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("pod %s: %w", c.podName(), oneLine{err})
	}
	return nil
}

// collectGarbage deletes the sandboxes that the runtime does not list any more, gives back the VFs
// of sandboxes that it does not list, and runs GC of the default network. It keeps sandboxes whose
// ADD is under way or began or ended within hold.GCGrace.
func (h *Handler) collectGarbage(ctx context.Context, c call) error {
	valid := c.config.Valid
	if valid == nil {
		valid = c.config.Attachments
	}
	if valid == nil {
		return fmt.Errorf("cni.dev/valid-attachments: %w: missing; without it GC would take every pod's networks", vf.ErrInvalid)
	}
	living := map[string]bool{}
	for _, a := range valid {
		living[a.ContainerID] = true
	}
	var errs []error
	young, err := h.youngSandboxes()
	if err != nil {
		return err
	}
	for id, ifName := range young {
		if !living[id] && ifName != "" {
			valid = append(slices.Clone(valid), attachment{ContainerID: id, IfName: ifName})
		}
		living[id] = true
	}
	stale, err := h.staleSandboxes(living)
	errs = append(errs, err)
	for _, id := range stale {
		sb, found, err := h.readSandbox(id)
		if err != nil || !found {
			errs = append(errs, err)
			continue
		}
		gone := c
		gone.ContainerID, gone.Netns, gone.IfName, gone.Args = sb.ID, "", "eth0", sb.Args
		if len(sb.Networks) > 0 {
			gone.IfName = sb.Networks[0].Interface
		}
		errs = append(errs, h.delPod(ctx, gone))
	}
	orphans, err := h.leaseOwners(func(o vf.Owner) bool { return o.Kind == vf.OwnerPod && !living[o.UID] })
	errs = append(errs, err)
	for _, o := range orphans {
		errs = append(errs, h.Resets.Detach(ctx, o))
	}
	if d, err := defaultIn(h.ConfDir); err == nil && !d.DisableGC {
		more, err := h.attachmentsTo(d.Name, living)
		if err != nil {
			return errors.Join(append(errs, err)...)
		}
		valid = append(slices.Clone(valid), more...)
		keys := map[string]json.RawMessage{}
		if raw, err := json.Marshal(valid); err == nil {
			keys["cni.dev/valid-attachments"], keys["cni.dev/attachments"] = raw, raw
		}
		errs = append(errs, h.defaultChain(c, d).runAll(ctx, c.Command, keys))
	}
	return errors.Join(errs...)
}

// attachmentsTo returns the attachments of living sandboxes to networks with a CNI name, besides the
// default network. The runtime does not know them, and GC of the default network goes by its CNI
// name, which another network may have too.
func (h *Handler) attachmentsTo(network string, living map[string]bool) (out []attachment, err error) {
	for id := range living {
		sb, found, err := h.readSandbox(id)
		if err != nil {
			return nil, err
		}
		for _, n := range sb.Networks {
			if found && !n.Default && n.Network == network {
				out = append(out, attachment{ContainerID: id, IfName: n.Interface})
			}
		}
	}
	return out, nil
}

// youngSandboxes returns the sandboxes that GC keeps although the runtime may not list them, with the
// interface of the default network; it is empty for a sandbox that Culvert has no record of.
func (h *Handler) youngSandboxes() (out map[string]string, err error) {
	out = map[string]string{}
	now := h.Now()
	err = h.Ledger.View(func(tx *journal.Tx) error {
		for _, r := range tx.Records() {
			if r.Held() && !r.Lease.Owner.IsZero() && hold.IsYoung(r.Since, now) {
				out[r.Lease.Owner.UID] = ""
			}
		}
		for _, id := range tx.SandboxIDs() {
			sb, _ := tx.Sandbox(id) // one that cannot be read has no time
			if !hold.IsYoung(sb.Since, now) && h.sandboxes.Holder(id) == nil {
				continue
			}
			out[id] = ""
			if i := slices.IndexFunc(sb.Networks, func(n journal.SandboxNetwork) bool { return n.Default }); i >= 0 {
				out[id] = sb.Networks[i].Interface
			}
		}
		return nil
	})
	return out, err
}

// staleSandboxes returns the IDs of the sandboxes that are not living.
func (h *Handler) staleSandboxes(living map[string]bool) (ids []string, err error) {
	err = h.Ledger.View(func(tx *journal.Tx) error {
		ids = slices.DeleteFunc(tx.SandboxIDs(), func(id string) bool { return living[id] })
		return nil
	})
	return ids, err
}

// checkStatus serves STATUS: whether an ADD can work. That takes culvertd, which answers, and the
// default network. A node without any VF still gives a pod its default network.
func (h *Handler) checkStatus(ctx context.Context, c call) error {
	d, err := defaultIn(h.ConfDir)
	if err != nil {
		return fmt.Errorf("%w: %w", cni.ErrUnavailable, err)
	}
	if err := h.defaultChain(c, d).runAll(ctx, c.Command, nil); err != nil {
		return fmt.Errorf("%w: default network %s: %w", cni.ErrUnavailable, d.Name, err)
	}
	return nil
}

// defaultChain returns the chain of the default network for commands that are about no sandbox.
func (h *Handler) defaultChain(c call, l netconf.List) chain {
	n := journal.SandboxNetwork{Name: l.Name, Default: true}
	setDefinition(&n, l)
	return chain{h, c, journal.Sandbox{Path: c.Path}, n}
}

// Resume finishes the work that an earlier culvertd left, once the cluster is known. It takes back
// the VFs of unfinished ADDs and DELs at once, while the work of plugins of other projects is left
// to the runtime's DEL. It writes the network-statuses that are missing.
func (h *Handler) Resume(ctx context.Context) error {
	all, err := h.staleSandboxes(nil)
	errs := []error{err}
	for _, id := range all {
		errs = append(errs, h.resumeSandbox(ctx, id))
	}
	return errors.Join(errs...)
}

func (h *Handler) resumeSandbox(ctx context.Context, id string) error {
	unlock, err := h.sandboxes.Lock(ctx, id, "the end of what an earlier culvertd began")
	if err != nil {
		return fmt.Errorf("resume sandbox %s: %w", id, err)
	}
	defer unlock()
	sb, found, err := h.readSandbox(id) // as it is now
	if err != nil || !found || sb.Damage != "" {
		return err
	}
	if sb.Phase != journal.SandboxAdded {
		return h.giveBack(ctx, id)
	}
	if sb.Pod == "" {
		return nil
	}
	p, err := h.Cluster.Pod(ctx, sb.Namespace, sb.Pod, sb.UID)
	if errors.Is(err, vf.ErrNotFound) {
		return nil // its DEL is on the way
	}
	if err == nil && !h.isPublished(p, sb) {
		h.publishStatus(p, sb)
	}
	return err
}
