package pod

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/network/claim"
	"github.com/culvert-net/culvert/internal/node/journal"
	"github.com/culvert-net/culvert/internal/vf"
)

// claimedVFs are the VFs that ResourceClaims hold for a pod. Networks take them one by one: in the order
// of the claims in the pod's spec, then of the requests, then of the devices.
type claimedVFs struct {
	all  []journal.Record
	left []journal.Record // that no network has yet
	// group is set for the VFs of one request, which are for its network.
	group bool
}

// Why a pod does not get the VFs of its claims.
var (
	errClaimInUse  = errors.New("another pod has it")
	errNotPrepared = errors.New("not prepared on this node")
)

// claimFinder finds the VFs that ResourceClaims hold for a pod.
type claimFinder struct {
	*Config
	pod api.Pod
}

// find returns the VFs. It reads the ledger, and asks the kubelet
// about claims that are not in the ledger. Errors: errClaimInUse and errNotPrepared, and vf.ErrHeld and
// vf.ErrNotReady for VFs that the pod can have later.
func (f claimFinder) find(ctx context.Context) (*claimedVFs, error) {
	p, out := f.pod, &claimedVFs{}
	if p.UID == "" {
		return out, nil
	}
	records, err := journal.ReadRecords(f.Ledger)
	if err != nil {
		return nil, err
	}
	known, refused := map[string]bool{}, map[string]bool{}
	var errs []error
	for _, r := range records {
		if r.Claim == nil || r.Claim.Namespace != p.Namespace {
			continue
		}
		known[r.Claim.Name] = true
		switch {
		case r.Claim.IsFor(p.UID):
			errs = append(errs, f.checkClaimed(r))
			out.left = append(out.left, r)
		case slices.Contains(p.Claims, r.Claim.Name) && !refused[r.Claim.UID]: // once for all VFs of the claim
			refused[r.Claim.UID] = true
			errs = append(errs, refuseSecond(*r.Claim, names(r.Claim.Pods)))
		}
	}
	errs = append(errs, out.checkWhole(), f.checkPrepared(ctx, known))
	slices.SortStableFunc(out.left, func(a, b journal.Record) int { return compareClaimed(a, b, p.Claims) })
	out.all = slices.Clone(out.left)
	return out, errors.Join(errs...)
}

// checkWhole returns an error if a VF of a claim has gone since the claim was prepared.
func (c *claimedVFs) checkWhole() error {
	there := map[string]int{}
	for _, r := range c.left {
		there[r.Claim.UID]++
	}
	for _, r := range c.left {
		if n := there[r.Claim.UID]; n < r.Claim.VFs {
			return fmt.Errorf("%s: %w: %d of its %d VFs are there, since a PF or a VF of it has gone: delete the pod, so that the scheduler finds others", *r.Claim, vf.ErrNotFound, n, r.Claim.VFs)
		}
	}
	return nil
}

// compareClaimed orders the VFs of claims, whose names come in the order of the pod's spec.
func compareClaimed(a, b journal.Record, spec []string) int {
	place := func(r journal.Record) int {
		if i := slices.Index(spec, r.Claim.Name); i >= 0 {
			return i
		}
		return len(spec)
	}
	return cmp.Or(cmp.Compare(place(a), place(b)), strings.Compare(a.Claim.Name, b.Claim.Name), strings.Compare(a.Claim.Request, b.Claim.Request), a.ID.Compare(b.ID))
}

func names(pods []journal.ClaimPod) (out []string) {
	for _, p := range pods {
		out = append(out, p.Name)
	}
	return out
}

func refuseSecond(c journal.Claim, pods []string) error {
	return fmt.Errorf("%s: %w (%s), and a VF has one pod at a time: give each pod a claim of its own by a ResourceClaimTemplate, or delete this pod and make it again when the other one is gone",
		c, errClaimInUse, strings.Join(pods, ", "))
}

// checkClaimed returns why a pod cannot have a VF of its claim now, or nil.
func (f claimFinder) checkClaimed(r journal.Record) error {
	switch {
	case r.Phase == vf.PhasePrepared:
		return f.checkAlone(*r.Claim)
	case r.IsAside():
		return fmt.Errorf("%s: VF %s: %w: it is in quarantine (%s): delete the pod, so that the scheduler finds another VF", *r.Claim, r.PCI, vf.ErrHeld, r.Reason)
	case r.Held() && r.Lease.PodUID != "" && r.Lease.PodUID != f.pod.UID:
		return refuseSecond(*r.Claim, []string{strings.TrimPrefix(r.Lease.Owner.Name, r.Claim.Namespace+"/")})
	}
	return fmt.Errorf("%s: VF %s: %w: %s still has it, and culvertd takes it back when the runtime deletes that sandbox", *r.Claim, r.PCI, vf.ErrHeld, r.Holder())
}

// checkAlone returns an error if another pod of a claim has a sandbox here: it may use the claim's VFs
// without a network, through VFIO.
func (f claimFinder) checkAlone(c journal.Claim) error {
	if len(c.Pods) < 2 {
		return nil
	}
	var others []string
	err := f.Ledger.View(func(tx *journal.Tx) error {
		for _, id := range tx.SandboxIDs() {
			sb, _ := tx.Sandbox(id) // one that cannot be read names no pod
			if sb.UID != f.pod.UID && sb.Phase != journal.SandboxDeleting && c.IsFor(sb.UID) {
				others = append(others, sb.Pod)
			}
		}
		return nil
	})
	if err != nil || len(others) == 0 {
		return err
	}
	slices.Sort(others)
	return refuseSecond(c, slices.Compact(others))
}

// checkPrepared returns an error if the kubelet has had VFs prepared for the pod whose claim is not in the
// ledger. A kubelet that does not answer does not keep pods without such claims from starting.
func (f claimFinder) checkPrepared(ctx context.Context, known map[string]bool) error {
	p := f.pod
	isKnown := func(name string) bool { return known[name] }
	if f.Claimed == nil || !slices.ContainsFunc(p.Claims, func(name string) bool { return !isKnown(name) }) {
		return nil
	}
	devices, err := f.Claimed(ctx, p.Namespace, p.Name)
	if err != nil {
		f.Log.Warn("the kubelet's claims", "pod", p, "err", err)
	}
	i := slices.IndexFunc(devices, func(d api.ClaimedDevice) bool { return d.Driver == claim.Driver && !isKnown(d.Claim) })
	if i < 0 {
		return nil
	}
	return fmt.Errorf("claim %s/%s: %w: the kubelet had device %s of pool %s prepared, and culvertd's ledger does not have it: "+
		"delete the pod, so that the claim is prepared anew", p.Namespace, devices[i].Claim, errNotPrepared, devices[i].Device, devices[i].Pool)
}

// ofResource returns those VFs for a network of a resource that no network has yet. VFs whose claim has a
// network of its own are for that one only.
func (c *claimedVFs) ofResource(resource string) (out []journal.Record) {
	for _, r := range c.vfs() {
		if c.group || r.Claim.Pool == resource && len(r.Claim.Config) == 0 {
			out = append(out, r)
		}
	}
	return out
}

// vfs returns the VFs that no network has yet.
func (c *claimedVFs) vfs() []journal.Record {
	if c == nil {
		return nil
	}
	return c.left
}

// take removes VFs from those that no network has.
func (c *claimedVFs) take(taken []string) {
	if c != nil {
		c.left = slices.DeleteFunc(c.left, func(r journal.Record) bool { return slices.Contains(taken, r.PCI.String()) })
	}
}

// takeGroup takes all VFs of the next request of a claim that has a network of its own; nil if none is left.
func (c *claimedVFs) takeGroup() *claimedVFs {
	i := slices.IndexFunc(c.vfs(), func(r journal.Record) bool { return len(r.Claim.Config) > 0 })
	if i < 0 {
		return nil
	}
	first := c.left[i].Claim
	out := &claimedVFs{group: true}
	c.left = slices.DeleteFunc(c.left, func(r journal.Record) bool {
		is := r.Claim.UID == first.UID && r.Claim.Request == first.Request
		if is {
			out.left = append(out.left, r)
		}
		return is
	})
	return out
}
