package agent

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/culvert-net/culvert/api"
	"github.com/culvert-net/culvert/kernel/balance"
	"github.com/culvert-net/culvert/service/table"
)

// statusOf returns the mechanisms in use, the reasons why better ones are not, and the counts of
// Services, backends and pods.
func (a *Agent) statusOf(in table.Input, all balance.Table) *api.ServiceBalancing {
	out := &api.ServiceBalancing{Mechanism: "none", Pods: len(all.Pods)}
	if i := a.mechanismFor(balance.TCP); i >= 0 {
		out.Mechanism = a.opened[i].Name
	}
	var why []string
	for _, o := range a.opened {
		if o.err != nil {
			why = append(why, fmt.Sprintf("not %s: %v", o.Name, o.err))
		}
	}
	out.Why = strings.Join(why, "; ")
	served, backends := map[string]bool{}, map[string]int{}
	for _, s := range in.Slices {
		served[s.Service] = true
		backends[s.Service] += len(s.Endpoints)
	}
	for _, s := range in.Services {
		if served[s.Name] {
			out.Services++
			out.Backends += backends[s.Name]
		}
	}
	return out
}

// unserved returns an error about protocols that no mechanism balances.
func (a *Agent) unserved(all balance.Table) error {
	missing := map[balance.Protocol]bool{}
	for _, view := range all.Views {
		for f := range view {
			missing[f.Protocol] = a.mechanismFor(f.Protocol) < 0
		}
	}
	var names []string
	for p, is := range missing {
		if is {
			names = append(names, p.String())
		}
	}
	if len(names) == 0 {
		return nil
	}
	slices.Sort(names)
	why := []error{fmt.Errorf("connections of %s are not balanced", strings.Join(names, ", "))}
	for _, o := range a.opened {
		if o.err != nil {
			why = append(why, fmt.Errorf("not by %s: %w", o.Name, o.err))
		}
	}
	return errors.Join(why...)
}
