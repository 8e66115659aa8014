package cni

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/network/config"
	"github.com/culvert-net/culvert/internal/network/netconf"
	"github.com/culvert-net/culvert/internal/node/attach/lease"
	"github.com/culvert-net/culvert/internal/vf"
)

// collectGarbage serves GC. It keeps the attachments that the runtime lists, and those that may be
// newer than its list (hold.GCGrace).
func (h *Handler) collectGarbage(ctx context.Context, call Call, ask Ask) error {
	c := call.config
	if call.wrong != nil {
		return call.wrong
	}
	switch {
	case c.Version != api.CNINewest:
		return fmt.Errorf("cniVersion %q: %w for GC; want 1.1.0", c.Version, config.ErrVersion)
	case c.DisableGC:
		return nil
	case c.Valid == nil:
		return fmt.Errorf("cni.dev/valid-attachments: %w: missing; without it GC would take every VF of network %s from its owner", vf.ErrInvalid, c.Name)
	}
	call, err := h.withYoung(call)
	if err != nil {
		return err
	}
	c = call.config
	err = errors.Join(h.collectDelegations(ctx, c, ask), h.node.Resets.Collect(ctx, c.Name, c.Valid), h.passOn(ctx, call, c, ask))
	h.payOwed(ctx, ask)
	return err
}

// withYoung adds the attachments that may be newer than the runtime's list to that list.
func (h *Handler) withYoung(call Call) (Call, error) {
	young, err := h.node.VFs.YoungOwners(call.config.Name)
	if err != nil {
		return call, err
	}
	valid := slices.Clone(call.config.Valid)
	for _, o := range young {
		if !slices.ContainsFunc(valid, func(v vf.Owner) bool { return lease.SameAttachment(v, o) }) {
			valid = append(valid, o)
		}
	}
	if len(valid) == len(call.config.Valid) {
		return call, nil
	}
	call.config.Valid = valid
	list := []map[string]string{}
	for _, o := range valid {
		list = append(list, map[string]string{"containerID": o.UID, "ifname": o.Interface})
	}
	raw, err1 := json.Marshal(list)
	text, err2 := netconf.SetKeys(call.Config, map[string]json.RawMessage{"cni.dev/valid-attachments": raw})
	call.Config = text
	return call, errors.Join(err1, err2)
}

// collectDelegations runs the DELs of plugins for the attachments of a network that GC does
// not keep.
func (h *Handler) collectDelegations(ctx context.Context, c config.Config, ask Ask) error {
	held, _, err := h.node.VFs.Delegations()
	errs := []error{err}
	for _, d := range held {
		keep := d.Network != c.Name
		for _, o := range c.Valid {
			keep = keep || o.UID == d.ContainerID && o.Interface == d.Interface
		}
		if keep {
			continue
		}
		if err := h.deleteDelegated(ctx, d, ask); !errors.Is(err, vf.ErrNotFound) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
