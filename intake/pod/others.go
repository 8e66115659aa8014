package pod

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/culvert-net/culvert/intake/cni"
	"github.com/culvert-net/culvert/journal"
	"github.com/culvert-net/culvert/netannotation"
	"github.com/culvert-net/culvert/netconf"
	"github.com/culvert-net/culvert/vf"
)

// check is CHECK of every network of a sandbox.
func (h *Handler) check(ctx context.Context, c call) error {
	if err := cni.Valid(c.CNIRequest); err != nil {
		return err
	}
	unlock, err := h.lockSandbox(ctx, c)
	if err != nil {
		return err
	}
	defer unlock()
	sb, found, err := h.sandbox(c.ContainerID)
	switch {
	case err != nil:
		return err
	case !found || sb.Phase != journal.SandboxAdded:
		return fmt.Errorf("pod %s: sandbox %s: %w", c.podName(), c.ContainerID, cni.ErrUnknown)
	}
	sb.Netns = c.Netns
	var errs []error
	for _, n := range sb.Networks {
		if err := (chain{h, c, sb, n}).check(ctx); err != nil {
			errs = append(errs, fmt.Errorf("network %s (%s): %w", n.Name, n.Interface, err))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("pod %s: %w", c.podName(), oneLine{err})
	}
	return nil
}

// gc deletes the sandboxes that the runtime does not have any more, gives back the
// VFs of pods that are not among those that it has, and has the default network do
// the same.
func (h *Handler) gc(ctx context.Context, c call) error {
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
	stale, err := h.stale(living)
	errs = append(errs, err)
	for _, id := range stale {
		sb, found, err := h.sandbox(id)
		if err != nil || !found {
			errs = append(errs, err)
			continue
		}
		gone := c
		gone.ContainerID, gone.Netns, gone.IfName, gone.Args = sb.ID, "", "eth0", sb.Args
		if len(sb.Networks) > 0 {
			gone.IfName = sb.Networks[0].Interface
		}
		errs = append(errs, h.del(ctx, gone))
	}
	orphans, err := h.leases(func(o vf.Owner) bool { return o.Kind == vf.OwnerPod && !living[o.UID] })
	errs = append(errs, err)
	for _, o := range orphans {
		errs = append(errs, h.Engine.Detach(ctx, o))
	}
	if d, err := defaultIn(h.ConfDir); err == nil && !d.DisableGC {
		keys := map[string]json.RawMessage{}
		if raw, err := json.Marshal(valid); err == nil {
			keys["cni.dev/valid-attachments"], keys["cni.dev/attachments"] = raw, raw
		}
		errs = append(errs, h.defaultChain(c, d).all(ctx, c.Command, keys))
	}
	return errors.Join(errs...)
}

// stale returns the IDs of the sandboxes that are not living.
func (h *Handler) stale(living map[string]bool) (ids []string, err error) {
	err = h.Ledger.View(func(tx *journal.Tx) error {
		ids = slices.DeleteFunc(tx.SandboxIDs(), func(id string) bool { return living[id] })
		return nil
	})
	return ids, err
}

// status is STATUS: whether an ADD can work. That culvertd answers is half of it;
// that a node has no VF at all keeps no pod from its default network.
func (h *Handler) status(ctx context.Context, c call) error {
	d, err := defaultIn(h.ConfDir)
	if err != nil {
		return fmt.Errorf("%w: %w", cni.ErrUnavailable, err)
	}
	if err := h.defaultChain(c, d).all(ctx, c.Command, nil); err != nil {
		return fmt.Errorf("%w: default network %s: %w", cni.ErrUnavailable, d.Name, err)
	}
	return nil
}

// defaultChain is the default network of no sandbox.
func (h *Handler) defaultChain(c call, l netconf.List) chain {
	n := journal.SandboxNetwork{Name: l.Name, Default: true}
	define(&n, l)
	return chain{h, c, journal.Sandbox{Path: c.Path}, n}
}

// Resume takes up what an earlier culvertd left, once the cluster is known: VFs of
// ADDs and DELs that it did not finish come back at once, while other people's
// plugins wait for the DEL; network-statuses that it did not write are written.
func (h *Handler) Resume(ctx context.Context) error {
	all, err := h.stale(nil)
	errs := []error{err}
	for _, id := range all {
		errs = append(errs, h.resume(ctx, id))
	}
	return errors.Join(errs...)
}

func (h *Handler) resume(ctx context.Context, id string) error {
	unlock, err := h.sandboxes.Lock(ctx, id, "the end of what an earlier culvertd began")
	if err != nil {
		return fmt.Errorf("resume sandbox %s: %w", id, err)
	}
	defer unlock()
	sb, found, err := h.sandbox(id) // as it is now
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
	if err == nil && p.Annotations[netannotation.Status] != sb.Status {
		h.publish(p, sb)
	}
	return err
}
