package deviceplugin

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/culvert-net/culvert/internal/node/desired"
	"github.com/culvert-net/culvert/internal/node/journal"
	"github.com/culvert-net/culvert/internal/vf"
)

// isOurs reports whether the owner of a lease is the pod to which the kubelet gave the VF. It
// returns true for a pod about which the kubelet was not asked yet: a VF that is unhealthy and held
// counts twice for the scheduler.
func (p *Plugin) isOurs(r journal.Record) bool {
	if r.Lease.Owner.Kind != vf.OwnerPod {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	given, known := p.known[lease{r.ID, r.Generation}]
	return given || !known
}

// mayServePods reports whether a pod may have a VF that the ledger gives to none: a VF of a pool is
// in no ledger, or it is free and its interface or its driver is not where Culvert left it.
func (h host) mayServePods() bool {
	records := make(map[vf.ID]journal.Record, len(h.records))
	for _, r := range h.records {
		records[r.ID] = r
	}
	for _, pf := range h.pfs {
		for _, st := range pf.VFs {
			pool, in := h.spec.PoolOf(pf, st.ID.Index, st)
			rec, known := records[st.ID]
			if in && (!known || rec.Phase == vf.PhaseFree && findDriverProblem(pool, st, rec.Phase) != "") {
				return true
			}
		}
	}
	return false
}

// learnPods asks the kubelet about new leases of pods, or if it has to. It then judges again each
// lease that the kubelet did not list before: a kubelet that has just started lists no pod until it
// has read them from the API server. An error means that the kubelet did not answer.
func (p *Plugin) learnPods(ctx context.Context, records []journal.Record, ask bool) error {
	held := map[lease]bool{}
	unlisted := map[lease]journal.Record{}
	p.mu.Lock()
	for _, r := range records {
		l := lease{r.ID, r.Generation}
		if r.Lease.Owner.Kind != vf.OwnerPod {
			continue
		}
		held[l] = true
		given, known := p.known[l]
		if !given {
			unlisted[l] = r
		}
		ask = ask || !known
	}
	maps.DeleteFunc(p.known, func(l lease, _ bool) bool { return !held[l] })
	p.mu.Unlock()
	if !ask {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, askBound)
	defer cancel()
	given, err := p.Kubelet.Given(ctx)
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.given = given
	for l, r := range unlisted {
		_, promised := p.promised[r.PCI]
		p.known[l] = given[r.PCI] == r.Lease.Owner.Name || promised && given[r.PCI] == ""
	}
	return nil
}

// Given serves attach.Config. It returns a function that names the pod to which the kubelet has
// given a VF, or is giving it right now; nil where the host has no kubelet.
func (p *Plugin) Given(ctx context.Context) (func(vf.PCIAddr) string, error) {
	given, err := p.Kubelet.Given(ctx)
	if err != nil || given == nil {
		return nil, err
	}
	return func(a vf.PCIAddr) string {
		if pod := given[a]; pod != "" {
			return pod
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		if at, promised := p.promised[a]; promised && time.Since(at) < promiseFor {
			return "that the kubelet starts"
		}
		return ""
	}, nil
}

// giveVFs promises VFs of a pool to the kubelet, for a pod. The state of a VF may have changed
// since the kubelet's list: a VF that is not free now is refused, after a short wait when it is
// being given back.
//
// A refusal ends the pod for good (UnexpectedAdmissionError), and the kubelet gives a VF again
// as soon as the containers of its last pod have ended, which may be long before that pod's
// networks are taken down. So a netdevice of such a pod is promised: the new pod's ADD is
// refused and tried again until the VF is free (I1). A VF whose device nodes a pod gets with
// the answer is not promised early.
//
// The promise comes first, and each lease that is written later sees it; the empty transaction waits
// for a lease that is being written (I1).
func (p *Plugin) giveVFs(ctx context.Context, pool string, vfs []vf.PCIAddr) (devices []device, err error) {
	undo := p.promiseVFs(vfs)
	defer func() {
		if err != nil {
			undo()
		}
	}()
	if err := p.Ledger.Update(func(*journal.Tx) error { return nil }); err != nil {
		return nil, fmt.Errorf("pool %s: %w", pool, err)
	}
	bound := time.NewTimer(freeBound)
	defer bound.Stop()
	for {
		hw, led := p.Hardware.Changed(), p.Ledger.Changed()
		devices, err := p.freeDevices(pool, vfs, true)
		var no refusal
		if !errors.As(err, &no) || !no.soon {
			return devices, err
		}
		select {
		case <-hw:
		case <-led:
		case <-bound.C:
			return p.freeDevices(pool, vfs, false)
		case <-ctx.Done():
			return nil, err
		}
	}
}

// freeDevices returns devices of a pool if a pod can have all of them now or, as netdevices, when
// its networks are set up. With patience, it refuses devices that are being given back, and giveVFs
// asks for them again.
func (p *Plugin) freeDevices(pool string, vfs []vf.PCIAddr, patience bool) ([]device, error) {
	spec, _ := p.Spec()
	h, err := p.readHost(spec)
	if err != nil {
		return nil, fmt.Errorf("pool %s: %w", pool, err)
	}
	if now, err := spec.Pool(pool); err == nil && now.Offer == desired.OfferClaims { // the kubelet's list is out of date
		return nil, fmt.Errorf("pool %s: it is offered to ResourceClaims, and the device plugin gives out no VF of it: request the VF by a claim, or set offer: resource", pool)
	}
	all := h.devicesByPool(p.isOurs)[pool]
	var out []device
	var errs []error
	for _, a := range vfs {
		i := slices.IndexFunc(all, func(d device) bool { return d.pci == a })
		switch {
		case i < 0:
			errs = append(errs, refusal{pool, a, "it is not in the pool any more, or not on the bus", false})
		case all[i].unfit != "":
			errs = append(errs, refusal{pool, a, all[i].unfit, all[i].soon})
		case !all[i].free && (all[i].vfio || all[i].soon && patience):
			errs = append(errs, refusal{pool, a, "another pod has it still", true})
		default:
			out = append(out, all[i])
		}
	}
	return out, errors.Join(errs...)
}

// promiseVFs records that VFs are promised to the kubelet. undo removes the promises that this call
// added.
func (p *Plugin) promiseVFs(vfs []vf.PCIAddr) (undo func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	maps.DeleteFunc(p.promised, func(_ vf.PCIAddr, at time.Time) bool { return time.Since(at) >= promiseFor })
	var added []vf.PCIAddr
	for _, a := range vfs {
		if _, there := p.promised[a]; !there {
			added = append(added, a)
		}
		p.promised[a] = time.Now()
	}
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		for _, a := range added {
			delete(p.promised, a)
		}
	}
}
