package pod

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	current "github.com/containernetworking/cni/pkg/types/100"

	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/excerpt"
	"github.com/culvert-net/culvert/internal/kernel/step"
	"github.com/culvert-net/culvert/internal/network/config"
	"github.com/culvert-net/culvert/internal/network/netannotation"
	"github.com/culvert-net/culvert/internal/node/intake/cni"
	"github.com/culvert-net/culvert/internal/node/journal"
	"github.com/culvert-net/culvert/internal/reasons"
	"github.com/culvert-net/culvert/internal/vf"
)

// addBound is how long the networks of an ADD may take together, undoBound how long their
// undo may. The shim waits two minutes for both.
const addBound, undoBound = 80 * time.Second, 35 * time.Second

// addPod serves ADD: all networks of the pod or none. It returns the default network's result,
// as the runtime would get it from that network itself.
func (h *Handler) addPod(ctx context.Context, c call) ([]byte, error) {
	if err := cni.Valid(c.CNIRequest); err != nil {
		return nil, err
	}
	unlock, err := h.lockSandbox(ctx, c)
	if err != nil {
		return nil, err
	}
	defer unlock()
	if err := h.clearLeftover(ctx, c); err != nil {
		return nil, fmt.Errorf("pod %s: %w", c.podName(), err)
	}
	w, err := h.planAdd(ctx, c)
	if err == nil {
		err = h.Ledger.Update(func(tx *journal.Tx) error { return tx.PutSandbox(w.sandbox) })
	}
	if err == nil {
		var begun int
		if begun, err = h.carryOut(ctx, c, &w); err != nil {
			h.undoAdd(ctx, c, w.sandbox, begun)
		}
	}
	if err != nil {
		err = oneLine{vf.NameObject("pod "+c.podName(), err)}
		h.emitEvent(w.pod, journal.Warning, failureReason(err), err.Error())
		return nil, err
	}
	h.publishStatus(w.pod, w.sandbox)
	h.emitEvents(w)
	return inVersion(w.sandbox.Networks[0].Result, c.cniVersion())
}

// failureReason returns the reason of the event of an ADD that failed.
func failureReason(err error) string {
	switch {
	case errors.Is(err, errClaimInUse):
		return reasons.ClaimInUse
	case errors.Is(err, errNotPrepared):
		return reasons.ClaimNotPrepared
	}
	return reasons.NetworkFailed
}

// oneLine is an error of several parts on one line: it ends up in events and in the
// kubelet's log.
type oneLine struct{ error }

func (e oneLine) Error() string { return excerpt.Error(e.error) }

func (e oneLine) Unwrap() error { return e.error }

// clearLeftover clears up after an ADD whose culvertd or shim died. It returns an error if
// culvertd has already answered the runtime that the sandbox has its networks.
func (h *Handler) clearLeftover(ctx context.Context, c call) error {
	sb, found, err := h.readSandbox(c.ContainerID)
	switch {
	case err != nil || !found:
		return err
	case sb.Phase == journal.SandboxAdded && sb.Damage == "":
		return fmt.Errorf("sandbox %s has its networks already: %w: delete it first", sb.ID, vf.ErrHeld)
	}
	if err := h.tearDown(ctx, c, sb); err != nil {
		return fmt.Errorf("an earlier ADD of sandbox %s was cut short, and cannot be undone: %w", sb.ID, oneLine{err})
	}
	return nil
}

// carryOut adds the networks one after another, the default one first and the others in the order
// of the annotation, since a later one may stack on earlier ones: a bond on net1 and net2, a VLAN
// on net1. It then writes the outcome. begun is how many networks it tried to add.
func (h *Handler) carryOut(ctx context.Context, c call, w *wish) (begun int, err error) {
	bounded, cancel := context.WithTimeout(ctx, addBound)
	defer cancel()
	networks := w.sandbox.Networks
	for i := range networks {
		if err := h.addOne(bounded, c, w.sandbox, &networks[i]); err != nil {
			return i + 1, err
		}
	}
	return len(networks), h.completeAdd(ctx, w)
}

// completeAdd writes the device-info files, sets the default route and records in the ledger
// that all networks are there.
func (h *Handler) completeAdd(ctx context.Context, w *wish) error {
	records, err := journal.ReadRecords(h.Ledger) // once: a pod may have 64 networks, and a node 256 VFs
	if err != nil {
		return err
	}
	if err := errors.Join(h.writeDeviceInfos(w.sandbox, records), claimReporter{h}.keepMetadata(w.pod, records)); err != nil {
		return err
	}
	if err := w.findOwnGateways(); err != nil {
		return err
	}
	for i, gateways := range w.gateways {
		n := w.sandbox.Networks[i]
		s := step.SetDefaultRoute{Netns: w.sandbox.Netns, Interface: n.Interface, Gateways: gateways}
		if err := h.Kernel.Do(ctx, s); err != nil {
			return fmt.Errorf("network %s (%s): %w", n.Name, n.Interface, err)
		}
	}
	status, err := h.statusOf(*w, records)
	if err != nil {
		return err
	}
	if ctx.Err() != nil { // the pod's DEL may have come before there was anything to delete
		return fmt.Errorf("the caller disconnected: %w", context.Cause(ctx))
	}
	w.sandbox.Status, w.sandbox.Phase = status, journal.SandboxAdded
	err = h.Ledger.Update(func(tx *journal.Tx) error { return tx.PutSandbox(w.sandbox) })
	if err != nil {
		w.sandbox.Phase = journal.SandboxAdding
	}
	return err
}

func (h *Handler) addOne(ctx context.Context, c call, sb journal.Sandbox, n *journal.SandboxNetwork) error {
	err := h.copyDeviceInfo(*n)
	if err == nil {
		n.Result, err = chain{h, c, sb, *n}.addAll(ctx)
	}
	if err != nil {
		return fmt.Errorf("network %s (%s): %w", n.Name, n.Interface, err)
	}
	return nil
}

// undoAdd deletes the networks that a failed ADD has begun, the last one first. A network that
// cannot be deleted now, because the shim has gone for example, stays in the ledger for the DEL
// that the runtime sends.
func (h *Handler) undoAdd(ctx context.Context, c call, sb journal.Sandbox, begun int) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoBound)
	defer cancel()
	sb.Networks = sb.Networks[:begun]
	if err := h.tearDown(ctx, c, sb); err != nil {
		h.Log.Warn("undo of a pod's networks, left to its DEL", "pod", sb.PodName(), "err", oneLine{err})
	}
}

// readSandbox reads the record of a sandbox.
func (h *Handler) readSandbox(id string) (sb journal.Sandbox, found bool, err error) {
	err = h.Ledger.View(func(tx *journal.Tx) error {
		sb, err = tx.Sandbox(id)
		return err
	})
	if errors.Is(err, vf.ErrNotFound) {
		return sb, false, nil
	}
	return sb, err == nil, err
}

// emitEvents emits the events of an ADD that succeeded: one of each network that the pod asks
// for, one for all that is ignored, one for all that may not work, and one for the networks that take
// the default network's traffic. The node's default network, which every pod has, gets none.
func (h *Handler) emitEvents(w wish) {
	for _, n := range w.sandbox.Networks {
		if r, err := config.DecodeResult(n.Result, n.Version); err == nil && (!n.Default || w.pod.Annotations[netannotation.DefaultNetwork] != "") {
			h.emitEvent(w.pod, journal.Normal, reasons.AddedInterface, describeAdded(n, r))
		}
	}
	if len(w.ignored) > 0 {
		h.emitEvent(w.pod, journal.Warning, reasons.NetworkSettingIgnored, strings.Join(w.ignored, "; "))
	}
	if idle := (claimReporter{h}).idleVFs(&w); len(idle) > 0 {
		h.emitEvent(w.pod, journal.Warning, reasons.ClaimWithoutNetwork, strings.Join(idle, "; "))
	}
	if untrusted := describeUntrusted(w.sandbox.Networks); len(untrusted) > 0 {
		h.emitEvent(w.pod, journal.Warning, reasons.VFNotTrusted, strings.Join(untrusted, "; "))
	}
	if replaced := w.describeReplaced(); len(replaced) > 0 {
		h.emitEvent(w.pod, journal.Warning, reasons.DefaultRouteReplaced, strings.Join(replaced, "; "))
	}
}

// describeAdded describes a network that was added to a pod, in the words of Multus' event, which
// people and their scripts look for: "Add net1 [172.16.91.5/24] from default/sriov-net1".
func describeAdded(n journal.SandboxNetwork, r *current.Result) string {
	addresses := []string{}
	for _, ip := range r.IPs {
		if ip != nil && ip.Address.IP != nil {
			addresses = append(addresses, ip.Address.String())
		}
	}
	return fmt.Sprintf("Add %s %v from %s", n.Interface, addresses, n.Name)
}

// emitEvent emits an event of a pod, if the pod is known.
func (h *Handler) emitEvent(p api.Pod, kind, reason, text string) {
	if p.UID != "" {
		h.Cluster.PodEvent(p, kind, reason, text)
	}
}
