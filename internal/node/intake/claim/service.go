package claim

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	drapb "k8s.io/kubelet/pkg/apis/dra/v1"
	registerapi "k8s.io/kubelet/pkg/apis/pluginregistration/v1"

	"github.com/culvert-net/culvert/internal/excerpt"
	"github.com/culvert-net/culvert/internal/network/claim"
	"github.com/culvert-net/culvert/internal/node/alloc"
	"github.com/culvert-net/culvert/internal/node/attach"
	"github.com/culvert-net/culvert/internal/node/journal"
)

// registration answers the kubelet's question for the driver.
type registration struct {
	registerapi.UnimplementedRegistrationServer
	log *slog.Logger
	end func(error)
}

// GetInfo names the driver and its API. Without an endpoint, the kubelet calls the driver by the socket
// that it asked (k8s.io/kubernetes pkg/kubelet/pluginmanager/operationexecutor).
func (r *registration) GetInfo(context.Context, *registerapi.InfoRequest) (*registerapi.PluginInfo, error) {
	return &registerapi.PluginInfo{Type: registerapi.DRAPlugin, Name: claim.Driver, SupportedVersions: []string{drapb.DRAPluginService, healthV1, healthV1alpha1}}, nil
}

// NotifyRegistrationStatus takes the kubelet's verdict. The socket of a refused registration is made
// anew, so that the kubelet looks at it again.
func (r *registration) NotifyRegistrationStatus(_ context.Context, s *registerapi.RegistrationStatus) (*registerapi.RegistrationStatusResponse, error) {
	if s.GetPluginRegistered() {
		r.log.Info("registered with the kubelet", "service", "claims")
	} else {
		r.end(fmt.Errorf("the kubelet does not take driver %s: %s", claim.Driver, s.GetError()))
	}
	return &registerapi.RegistrationStatusResponse{}, nil
}

// NodePrepareResources prepares claims. Each has an answer of its own (I7): its devices, or an error,
// which the kubelet makes an event of the pod, and tries again.
func (d *Driver) NodePrepareResources(ctx context.Context, req *drapb.NodePrepareResourcesRequest) (*drapb.NodePrepareResourcesResponse, error) {
	out := &drapb.NodePrepareResourcesResponse{Claims: map[string]*drapb.NodePrepareResourceResponse{}}
	var mu sync.Mutex // guards out
	eachClaim(req.GetClaims(), func(c *drapb.Claim) {
		answer := &drapb.NodePrepareResourceResponse{}
		devices, err := d.prepareClaim(ctx, c)
		if err != nil {
			d.Log.Warn("claim is not prepared", "claim", c.GetNamespace()+"/"+c.GetName(), "err", err)
			answer.Error = excerpt.Error(fmt.Errorf("claim %s/%s: %w", c.GetNamespace(), c.GetName(), err))
		} else {
			answer.Devices = devices
		}
		mu.Lock()
		defer mu.Unlock()
		out.Claims[c.GetUID()] = answer
	})
	return out, nil
}

// NodeUnprepareResources ends claims; each has an answer of its own (I7). It needs nothing but the ledger
// (I8). A claim that has no VF is no error.
func (d *Driver) NodeUnprepareResources(ctx context.Context, req *drapb.NodeUnprepareResourcesRequest) (*drapb.NodeUnprepareResourcesResponse, error) {
	out := &drapb.NodeUnprepareResourcesResponse{Claims: map[string]*drapb.NodeUnprepareResourceResponse{}}
	var mu sync.Mutex // guards out
	eachClaim(req.GetClaims(), func(c *drapb.Claim) {
		answer := &drapb.NodeUnprepareResourceResponse{}
		if err := d.unprepareClaim(ctx, c.GetUID(), nil); err != nil {
			d.Log.Warn("claim has not ended", "claim", c.GetNamespace()+"/"+c.GetName(), "err", err)
			answer.Error = excerpt.Error(fmt.Errorf("claim %s/%s: %w", c.GetNamespace(), c.GetName(), err))
		}
		mu.Lock()
		defer mu.Unlock()
		out.Claims[c.GetUID()] = answer
	})
	return out, nil
}

// eachClaim calls do for each claim, for some of them at once.
func eachClaim(claims []*drapb.Claim, do func(*drapb.Claim)) {
	var g errgroup.Group
	g.SetLimit(mostAtOnce)
	for _, c := range claims {
		g.Go(func() error { do(c); return nil })
	}
	_ = g.Wait() // do has no error
}

// prepareClaim prepares one claim. A claim that is prepared already has the same answer again, from the
// ledger alone.
func (d *Driver) prepareClaim(ctx context.Context, c *drapb.Claim) ([]*drapb.Device, error) {
	unlock, err := d.locks.Lock(ctx, c.GetUID(), "the preparation of claim "+c.GetNamespace()+"/"+c.GetName())
	if err != nil {
		return nil, err
	}
	defer unlock()
	records, err := d.Claims.Claimed(c.GetUID())
	if err != nil {
		return nil, err
	}
	if !isWhole(records) {
		wishes, err := d.readWishes(ctx, c)
		if err != nil {
			return nil, err
		}
		if records, err = d.awaitVFs(ctx, wishes); err != nil {
			return nil, err
		}
	}
	if err := errors.Join(d.metadata.Keep(records), d.keepFiles()); err != nil {
		return nil, err
	}
	return d.devicesOf(records)
}

// awaitVFs prepares the VFs of a claim. It waits for VFs that are being given back.
func (d *Driver) awaitVFs(ctx context.Context, wishes []attach.Wish) ([]journal.Record, error) {
	bound := time.NewTimer(cmp.Or(d.Patience, 30*time.Second))
	defer bound.Stop()
	for {
		changed := d.Changed()
		records, err := d.Claims.Prepare(ctx, wishes)
		if !errors.Is(err, alloc.ErrEnding) {
			return records, err
		}
		select {
		case <-changed:
		case <-bound.C:
			return nil, err
		case <-ctx.Done():
			return nil, err
		}
	}
}

// isWhole reports whether a claim has all of its VFs: one of them may have gone from the bus.
func isWhole(records []journal.Record) bool {
	return len(records) > 0 && len(records) >= records[0].Claim.VFs
}

// unprepareClaim ends a claim, and removes its files. cause is that of attach.Claims.Unprepare.
func (d *Driver) unprepareClaim(ctx context.Context, uid string, cause error) error {
	unlock, err := d.locks.Lock(ctx, uid, "the end of claim "+uid)
	if err != nil {
		return err
	}
	defer unlock()
	if err := errors.Join(d.Claims.Unprepare(ctx, uid, cause), d.keepFiles()); err != nil {
		return err
	}
	return d.metadata.Remove(uid)
}

// devicesOf returns the answer about a claim: each VF, with the CDI device of its request.
func (d *Driver) devicesOf(records []journal.Record) ([]*drapb.Device, error) {
	var out []*drapb.Device
	for _, r := range records {
		pool, err := claim.PoolName(d.Node, r.ID.PF)
		if err != nil {
			return nil, err
		}
		out = append(out, &drapb.Device{
			RequestNames: []string{baseOf(r.Claim.Request)}, PoolName: pool, DeviceName: claim.DeviceName(r.ID.Index),
			CDIDeviceIDs: []string{cdiKind + "=" + cdiName(*r.Claim)},
		})
	}
	return out, nil
}

// baseOf returns a request without its subrequest: containers name requests only so.
func baseOf(request string) string {
	base, _, _ := strings.Cut(request, "/")
	return base
}
