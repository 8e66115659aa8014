package cni

import (
	"bytes"
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/culvert-net/culvert/internal/node/journal"
)

// payOwed runs the DELs of IPAM plugins that earlier calls still owe, for example after culvertd
// was killed: up to mostAtOnce, within owedBound. A DEL that fails, or hangs, waits longer and longer
// for its next turn, so that it does not delay the calls of other pods. While one call runs owed
// DELs, others do not.
func (h *Handler) payOwed(ctx context.Context, ask Ask) {
	_, owed, err := h.node.VFs.Delegations()
	if err != nil || len(owed) == 0 || ask == nil || !h.paying.TryLock() {
		return
	}
	defer h.paying.Unlock()
	ctx, cancel := context.WithTimeout(ctx, owedBound)
	defer cancel()
	due := h.debts.due(owed, h.now())
	for _, d := range due[:min(len(due), mostAtOnce)] {
		if ctx.Err() != nil {
			return // the delegations that are left keep their turn
		}
		err := h.deleteDelegated(ctx, d, ask)
		h.debts.note(d, h.now(), err)
		if err != nil {
			h.Log.Warn("DEL of an IPAM plugin, left for a later call", "net", d.Network, "plugin", d.Plugin, "container", d.ContainerID, "err", err)
		}
	}
}

// mostAtOnce is how many owed DELs one call runs. A DEL that fails has its next turn after firstDebtWait, which doubles up to lastDebtWait.
const (
	mostAtOnce    = 4
	firstDebtWait = 10 * time.Second
	lastDebtWait  = 10 * time.Minute
)

// debts remembers the owed DELs that failed. Only the call that holds Handler.paying uses it.
type debts struct{ failed map[string]debt }

type debt struct {
	tried time.Time
	wait  time.Duration
}

// keyOfDebt names the attachment and the plugin of an owed delegation. Two ADDs of one attachment wait
// for their turn together.
func keyOfDebt(d journal.Delegation) string {
	return strings.Join([]string{d.ContainerID, d.Interface, d.Plugin}, "\x00")
}

// due returns those of the owed delegations whose turn it is, those that waited longest first. It
// forgets the failures of others.
func (d *debts) due(owed []journal.Delegation, now time.Time) (out []journal.Delegation) {
	still := map[string]debt{}
	for _, o := range owed {
		failed, has := d.failed[keyOfDebt(o)]
		if has {
			still[keyOfDebt(o)] = failed
		}
		if passed := now.Sub(failed.tried); !has || passed < 0 || passed >= failed.wait { // the clock may have been set back
			out = append(out, o)
		}
	}
	d.failed = still
	slices.SortFunc(out, func(a, b journal.Delegation) int {
		return cmp.Or(still[keyOfDebt(a)].tried.Compare(still[keyOfDebt(b)].tried), compareDelegations(a, b))
	})
	return out
}

// note remembers how the DEL of an owed delegation went.
func (d *debts) note(o journal.Delegation, now time.Time, err error) {
	key := keyOfDebt(o)
	if err == nil {
		delete(d.failed, key)
		return
	}
	wait := firstDebtWait
	if failed, has := d.failed[key]; has {
		wait = min(2*failed.wait, lastDebtWait)
	}
	d.failed[key] = debt{now, wait}
}

// compareDelegations orders delegations by attachment, plugin and configuration. The ledger may
// have two that differ only in their configuration: of two ADDs of one attachment.
func compareDelegations(a, b journal.Delegation) int {
	return cmp.Or(
		cmp.Compare(a.ContainerID, b.ContainerID), cmp.Compare(a.Interface, b.Interface),
		cmp.Compare(a.Plugin, b.Plugin), bytes.Compare(a.Config, b.Config),
	)
}
