package claim

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/culvert-net/culvert/internal/node/journal"
	"github.com/culvert-net/culvert/internal/vf"
)

// Rhythm and patience of the search for claims whose Unprepare is lost.
const (
	lookEvery = time.Minute
	// patience is for how long all must agree that a claim has ended. The kubelet repeats an Unprepare
	// that failed each minute (k8s.io/kubernetes pkg/kubelet/cm/dra, defaultReconcilePeriod).
	patience = 10 * time.Minute
)

// endLostClaims looks for claims whose Unprepare is lost, until ctx ends.
func (d *Driver) endLostClaims(ctx context.Context) {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if err := d.EndLost(ctx); err != nil {
			d.Log.Warn("look for claims that have ended", "err", err)
		}
	}
}

// EndLost ends the claims whose Unprepare is lost, as on a node whose kubelet lost its state. Such a
// claim has no lease. For ten minutes, each look must show three things: the API server has no claim of
// that UID, or has it without an allocation; the kubelet has no pod with the claim; the kernel shows no
// use of its VFs. A look that does not answer one of these begins the ten minutes anew. So a running
// claim costs no request to the API server.
func (d *Driver) EndLost(ctx context.Context) error {
	records, err := d.Records()
	if err != nil {
		return err
	}
	idle := map[string][]journal.Record{}
	busy := map[string]bool{}
	for _, r := range records {
		if r.Claim == nil {
			continue
		}
		idle[r.Claim.UID] = append(idle[r.Claim.UID], r)
		if r.Phase != vf.PhasePrepared || d.Now().Sub(r.Since).Abs() < patience {
			busy[r.Claim.UID] = true
		}
	}
	for uid := range busy {
		delete(idle, uid)
	}
	for uid := range d.absent {
		if idle[uid] == nil {
			delete(d.absent, uid)
		}
	}
	if len(idle) == 0 {
		return nil
	}
	known, err := d.Kubelet.Claims(ctx)
	if err != nil {
		clear(d.absent)
		return err
	}
	var errs []error
	for uid, of := range idle {
		lost, err := d.isLost(ctx, of, known)
		switch since, before := d.absent[uid]; {
		case err != nil || !lost:
			delete(d.absent, uid)
		case !before || d.Now().Before(since):
			d.absent[uid] = d.Now()
		case d.Now().Sub(since) >= patience:
			err = d.unprepareClaim(ctx, uid, errors.New("the cluster and the kubelet no longer have it, and nothing uses the VF"))
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// isLost reports whether nothing speaks for a claim any more. The error says that this is not known.
func (d *Driver) isLost(ctx context.Context, records []journal.Record, known map[string]bool) (bool, error) {
	c := *records[0].Claim
	if known[c.Namespace+"/"+c.Name] {
		return false, nil
	}
	obj, err := d.Cluster.ResourceClaim(ctx, c.Namespace, c.Name)
	switch {
	case errors.Is(err, vf.ErrNotFound):
	case err != nil:
		return false, err
	case obj.UID == c.UID && obj.Allocated:
		return false, nil
	}
	vfs := make([]vf.PCIAddr, len(records))
	for i, r := range records {
		vfs[i] = r.PCI
	}
	uses, err := d.Uses(ctx, vfs...)
	if err != nil {
		return false, fmt.Errorf("whether a program uses the VFs of %s: %w", c, err)
	}
	return len(uses) == 0, nil
}
