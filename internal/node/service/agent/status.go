package agent

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/excerpt"
	"github.com/culvert-net/culvert/internal/kernel/balance"
	"github.com/culvert-net/culvert/internal/node/service/table"
)

// statusOf returns the mechanisms in use, the reasons why better ones are not, and the counts of
// Services, backends and pods.
func (a *Agent) statusOf(in table.Input) *api.ServiceBalancing {
	out := &api.ServiceBalancing{Mechanism: "none", Pods: len(in.Clients)}
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
	var lost []string
	for _, o := range a.opened {
		if o.balancer != nil {
			lost = append(lost, o.maker.Lost()...)
		}
	}
	out.NoRoom = firstOfEach(lost)
	if i := a.mechanismFor(balance.TCP); i >= 0 {
		before := a.opened[i].balancer.Before()
		out.Before = before[:min(len(before), mostBefore)]
	}
	return out
}

// mostBefore bounds how many programs of other projects the status lists.
const mostBefore = 16

const (
	mostWithoutRoom = 64 // Services that the status lists
	mostOfNamespace = 8  // of one namespace among them
)

// firstOfEach returns the first Services of each namespace, each once and sorted, so that one
// namespace cannot hide the Services of another.
func firstOfEach(names []string) (out []string) {
	names = slices.Clone(names)
	slices.Sort(names)
	count := map[string]int{}
	for _, name := range slices.Compact(names) {
		namespace, _, _ := strings.Cut(name, "/")
		if count[namespace]++; count[namespace] <= mostOfNamespace && len(out) < mostWithoutRoom {
			out = append(out, name)
		}
	}
	return out
}

// unserved returns an error about protocols of Services that no mechanism balances.
func (a *Agent) unserved(in table.Input) error {
	served := map[string]bool{}
	for _, s := range in.Slices {
		served[s.Service] = len(in.Clients) > 0
	}
	missing := map[balance.Protocol]bool{}
	for _, s := range in.Services {
		for _, p := range s.Ports {
			missing[p.Protocol] = missing[p.Protocol] || served[s.Name] && a.mechanismFor(p.Protocol) < 0
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

// lostServices returns a problem for each mechanism that has no room for all Services. It logs them
// when they change.
func (a *Agent) lostServices() (out []api.Problem) {
	var all []string
	for i := range a.opened {
		o := &a.opened[i]
		lost := o.maker.Lost()
		if o.balancer == nil || len(lost) == 0 {
			continue
		}
		all = append(all, lost...)
		out = append(out, api.Problem{
			Object: object,
			Reason: fmt.Sprintf("%s is full: not balanced are Services of namespaces that use more than their share of its %d rules and %d backends: %s",
				o.Name, o.Limit.Rules, o.Limit.Backends, excerpt.List(lost, 0)),
			Next: "connections to them are refused, or go to their fallback; give the Services of these namespaces fewer ports or fewer endpoints",
		})
	}
	if text := strings.Join(all, " "); text != a.lost {
		a.lost = text
		if text != "" {
			a.Log.Warn("there is no room for all Services of namespaces that use more than their share", "services", excerpt.Fit(text, 1024), "count", len(all))
		}
	}
	return out
}
