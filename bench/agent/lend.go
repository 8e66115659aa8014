package agent

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"

	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/rpc"
	"github.com/culvert-net/culvert/internal/vf"
)

// loan is a rate that this machine's culvertd has lent to a VF. It ends with the
// connection, so with the agent.
type loan struct {
	giveBack func()        // once or more
	ended    chan struct{} // closed when err is set
	err      error         // why the VF has not got its own rate again
}

// lendRate asks culvertd to lend a rate and returns the rate that the hardware applies. culvertd
// lends an agent one rate at a time.
func (a *agent) lendRate(ctx context.Context, r request) (uint32, error) {
	pci, err := vf.ParsePCIAddr(r.PCI)
	if err != nil {
		return 0, err
	}
	if err := a.giveBack(ctx); err != nil { // a loan that was not given back
		return 0, err
	}
	if _, _, err := a.findVF(ctx, r); err != nil {
		return 0, err
	}
	back := make(chan struct{})
	l := &loan{giveBack: sync.OnceFunc(func() { close(back) }), ended: make(chan struct{})}
	a.mu.Lock()
	a.loan = l
	a.mu.Unlock()
	lent := make(chan uint32, 1)
	go func() { // ends with the loan, or with the agent
		defer close(l.ended)
		want := api.LendRateRequest{VF: pci, MaxTxRate: r.Mbps, Seconds: r.Seconds}
		l.err = rpc.Converse(a.life, a.Culvertd, api.MethodLendRate, want, nil, func(ctx context.Context, _ string, raw json.RawMessage) (any, error) {
			var is api.LentRate
			if err := json.Unmarshal(raw, &is); err != nil {
				return nil, fmt.Errorf("culvertd's question: %w", err)
			}
			lent <- is.MaxTxRate
			select {
			case <-back:
			case <-ctx.Done(): // the time is up
			}
			return nil, nil
		})
	}()
	select {
	case mbps := <-lent:
		return mbps, nil
	case <-l.ended:
		a.mu.Lock()
		defer a.mu.Unlock()
		a.loan = nil
		return 0, l.err
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	}
}

// giveBack ends the loan, if there is one, and waits until the VF was read back with its own
// rate.
func (a *agent) giveBack(ctx context.Context) error {
	a.mu.Lock()
	l := a.loan
	a.loan = nil
	a.mu.Unlock()
	if l == nil {
		return nil
	}
	l.giveBack()
	select {
	case <-l.ended:
		return l.err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// rateRange has the lowest and the highest rate that can be lent to a VF, in Mb/s.
type rateRange struct{ Lowest, Highest int }

// Owner is who has a VF in culvertd's ledger.
type Owner struct {
	Kind string `json:"kind"` // vf.OwnerPod or vf.OwnerGuest
	Name string `json:"name"`
}

// findVF asks culvertd for the VF of a request, and for all PFs. A guest names its VF by a MAC address,
// which may be that of another VF, and a tenant can enter a pod and name any. So the VF must be the
// owner's in culvertd's ledger.
func (a *agent) findVF(ctx context.Context, r request) (api.VF, []api.PF, error) {
	var st api.NodeStatus
	if err := rpc.Call(ctx, a.Culvertd, api.MethodStatus, nil, &st); err != nil {
		return api.VF{}, nil, err
	}
	i := slices.IndexFunc(st.VFs, func(v api.VF) bool { return v.PCI.String() == r.PCI })
	if i < 0 || st.VFs[i].Owner == nil {
		return api.VF{}, nil, fmt.Errorf("the VF %q has no owner in culvertd's ledger", r.PCI)
	}
	o := st.VFs[i].Owner
	switch {
	case r.Owner == Owner{} || r.Owner == Owner{o.Kind, o.Name}:
	case r.Owner.Kind == vf.OwnerGuest:
		return api.VF{}, nil, fmt.Errorf("the VF %s, whose MAC address guest %s shows, belongs to %s: name the guest as libvirt does, and look at its MAC addresses", r.PCI, r.Owner.Name, o)
	default:
		return api.VF{}, nil, fmt.Errorf("the VF %s, which %s %s shows, belongs to %s", r.PCI, r.Owner.Kind, r.Owner.Name, o)
	}
	return st.VFs[i], st.PFs, nil
}

// listRates asks culvertd about the VF's PF.
func (a *agent) listRates(ctx context.Context, r request) (rateRange, error) {
	v, pfs, err := a.findVF(ctx, r)
	if err != nil {
		return rateRange{}, err
	}
	j := slices.IndexFunc(pfs, func(p api.PF) bool { return p.Name == v.PF })
	if j < 0 || pfs[j].SpeedMbps == 0 || pfs[j].Abilities[vf.SetMaxTxRate] == vf.No {
		return rateRange{}, fmt.Errorf("PF %s takes no rates now: it has no link, or its driver has no max_tx_rate", v.PF)
	}
	return rateRange{max(1, int(vf.DriverOf(pfs[j].Driver).Lowest)), pfs[j].SpeedMbps}, nil
}
