package claim

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"

	drapb "k8s.io/kubelet/pkg/apis/dra/v1"

	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/excerpt"
	"github.com/culvert-net/culvert/internal/network/claim"
	"github.com/culvert-net/culvert/internal/node/attach"
	"github.com/culvert-net/culvert/internal/node/journal"
	"github.com/culvert-net/culvert/internal/vf"
)

// uidForm is the form of the UIDs of claims, which name files.
var uidForm = regexp.MustCompile(`^[0-9A-Za-z-]{1,64}$`)

// readWishes asks the API server for a claim, and returns the VFs of this node that it was allocated, each
// with its configuration. Devices of other drivers are theirs.
//
// Errors: vf.ErrNotFound (no such claim or VF), vf.ErrInvalid (what the claim says cannot be),
// vf.ErrNotReady (the API server does not answer, or the claim is not allocated or reserved yet).
func (d *Driver) readWishes(ctx context.Context, c *drapb.Claim) ([]attach.Wish, error) {
	if !uidForm.MatchString(c.GetUID()) {
		return nil, fmt.Errorf("UID %s: %w: want letters, digits and dashes", excerpt.Quote(c.GetUID()), vf.ErrInvalid)
	}
	obj, err := d.Cluster.ResourceClaim(ctx, c.GetNamespace(), c.GetName())
	switch {
	case err != nil:
		return nil, err
	case obj.UID != c.GetUID():
		return nil, fmt.Errorf("UID %s: %w: the claim of that name has UID %s now: delete the pod", c.GetUID(), vf.ErrNotFound, obj.UID)
	case !obj.Allocated:
		return nil, fmt.Errorf("%w: the scheduler has not allocated it: try again", vf.ErrNotReady)
	case len(obj.Pods) == 0:
		return nil, fmt.Errorf("%w: it is reserved for no pod: try again", vf.ErrNotReady)
	}
	var (
		out  []attach.Wish
		errs []error
	)
	for _, r := range obj.Results {
		if r.Driver != claim.Driver {
			continue
		}
		w, err := d.wishOf(obj, r)
		if err != nil {
			err = fmt.Errorf("request %s, device %s of pool %s: %w", excerpt.Quote(r.Request), excerpt.Quote(r.Device), excerpt.Quote(r.Pool), err)
		}
		out, errs = append(out, w), append(errs, err)
	}
	return out, errors.Join(errs...)
}

// wishOf returns the VF that a result of an allocation names.
func (d *Driver) wishOf(obj api.ResourceClaim, r api.ClaimResult) (w attach.Wish, err error) {
	switch {
	case r.AdminAccess:
		return w, fmt.Errorf("%w: adminAccess would give a VF to a second pod, and a VF has one owner: ask for the device without it", vf.ErrInvalid)
	case r.ShareID != "":
		return w, fmt.Errorf("%w: it is a share of the device, and a VF is given as a whole", vf.ErrInvalid)
	}
	if w.VF, err = d.findVF(r); err != nil {
		return w, err
	}
	w.Claim = journal.Claim{UID: obj.UID, Namespace: obj.Namespace, Name: obj.Name, Request: r.Request, PodClaim: obj.PodClaim}
	for _, p := range obj.Pods {
		w.Claim.Pods = append(w.Claim.Pods, journal.ClaimPod(p))
	}
	w.Claim.Config = configOf(obj.Configs, r.Request)
	if w.Claim.Config != nil {
		if _, err := claim.Parse(w.Claim.Config); err != nil {
			return w, fmt.Errorf("its configuration: %w", err)
		}
	}
	return w, nil
}

// findVF returns the VF of this node that a result names.
func (d *Driver) findVF(r api.ClaimResult) (vf.ID, error) {
	if !claim.IsPoolOf(d.Node, r.Pool) {
		return vf.ID{}, fmt.Errorf("%w: the pool is not of node %s", vf.ErrInvalid, d.Node)
	}
	index, err := claim.ParseDeviceName(r.Device)
	if err != nil {
		return vf.ID{}, err
	}
	for _, pf := range d.PFs() {
		if name, err := claim.PoolName(d.Node, pf.ID); err == nil && name == r.Pool {
			return vf.ID{PF: pf.ID, Index: index}, nil
		}
	}
	return vf.ID{}, fmt.Errorf("%w: its PF is not on the node now: delete the pod if it does not come back", vf.ErrNotFound)
}

// configOf returns the configuration of a request for Culvert, nil if there is none. That of the claim
// goes before that of the class, and a later one before an earlier one.
func configOf(all []api.ClaimConfig, request string) (out []byte) {
	for _, source := range []string{api.FromClass, api.FromClaim} {
		for _, c := range all {
			isFor := len(c.Requests) == 0 || slices.Contains(c.Requests, request) || slices.Contains(c.Requests, baseOf(request))
			if c.Driver == claim.Driver && c.Source == source && isFor {
				out = c.Parameters
			}
		}
	}
	return out
}
