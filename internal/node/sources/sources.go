package sources

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/culvert-net/culvert/api/v1alpha1"
	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/excerpt"
	"github.com/culvert-net/culvert/internal/node/desired"
	"github.com/culvert-net/culvert/internal/vf"
)

// Set has the declarations of a node: host.yaml, the NodePolicies that select the node, and the device plugin's
// ConfigMap. A source that cannot be read keeps its last readable content.
type Set struct {
	current  *Current
	pfs      func() []vf.PF       // as last listed
	problems func() []api.Problem // the reconciler's problems

	// InCluster is set before the first call: NodePolicies count, too.
	InCluster bool
	// DevicePlugin says which ConfigMap SetDevicePlugin gets; it is set before the first
	// call. The zero value is right for the ConfigMap of the plugin's own manifests.
	DevicePlugin DevicePluginSource

	mu       sync.Mutex // guards the rest
	known    bool       // the policies are known
	host     desired.Spec
	hasHost  bool  // host.yaml was read since culvertd started
	unset    error // why host.yaml cannot be read, unless hasHost
	policies []Policy
	readable map[string]desired.Policy // the last readable content of each policy, by name
	unread   map[string]error          // why a policy cannot be read as it is now
	plugin   devicePlugin
	merged   desired.Merged

	// missing is the reason why the wanted Spec may lack pools; Merge sets it after the Spec. It
	// is nil before the first Merge.
	missing atomic.Pointer[error]
}

// NewSet returns a Set that wants nothing. pfs returns the PFs as last listed, and problems
// the reconciler's problems. Merge sets current, which is partial until then.
func NewSet(current *Current, pfs func() []vf.PF, problems func() []api.Problem) *Set {
	spec := current.Spec()
	spec.Partial = true
	current.SetSpec(spec)
	return &Set{current: current, pfs: pfs, problems: problems}
}

// SetHost replaces the content of host.yaml.
func (s *Set) SetHost(spec desired.Spec) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.host, s.hasHost, s.unset = spec, true, nil
}

// SetHostUnread records why host.yaml cannot be read, or that it is not there (nil). If it has not
// been read since culvertd started, culvertd does not know which PFs and pools it has. So Merge
// follows no other source: one of lower rank could have a pool of the same name and admit more pods.
func (s *Set) SetHostUnread(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.hasHost {
		s.unset = err
	}
}

// Policy is a NodePolicy as culvertd read it from the API server.
type Policy struct {
	*v1alpha1.NodePolicy
	// Unknown is the reason why this culvertd cannot follow it: it has a field that only a newer
	// version knows. It is nil for other policies.
	Unknown error
}

// SetPolicies replaces the policies that select the node.
func (s *Set) SetPolicies(policies []Policy) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.readable
	s.known, s.policies, s.readable, s.unread = true, policies, map[string]desired.Policy{}, map[string]error{}
	for _, p := range policies {
		spec, err := desired.FromPolicy(p.Name, p.Spec)
		if p.Unknown != nil {
			err = p.Unknown
		}
		if err == nil {
			s.readable[p.Name] = desired.Policy{Name: p.Name, Priority: p.Spec.Priority, Spec: spec}
			continue
		}
		s.unread[p.Name] = err
		if old, ok := before[p.Name]; ok {
			s.readable[p.Name] = old
		}
	}
}

// Merge sets the wanted Spec from all sources, and reports whether it changed.
func (s *Set) Merge() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.current.Spec()
	s.merged = s.mergeWith(s.host)
	if s.unset != nil {
		s.merged = desired.Merged{Spec: desired.Spec{Partial: true}}
	}
	changed := !reflect.DeepEqual(before, s.merged.Spec)
	if changed {
		s.current.SetSpec(s.merged.Spec)
	}
	missing := s.findMissing()
	s.missing.Store(&missing)
	return changed
}

// MissingPools returns why the wanted Spec may lack pools that NodePolicies make of this
// node, or nil: the policies are not known yet, one of them has never been readable, or
// they contradict each other about a pool that was not there before. It wraps
// vf.ErrNotReady.
func (s *Set) MissingPools() error {
	if missing := s.missing.Load(); missing != nil {
		return *missing
	}
	return errNotKnown
}

var errNotKnown = fmt.Errorf("%w: the cluster's NodePolicies are not known yet", vf.ErrNotReady)

func (s *Set) findMissing() error {
	if s.unset != nil {
		return fmt.Errorf("%w: host.yaml cannot be read: %s", vf.ErrNotReady, excerpt.Error(s.unset))
	}
	if !s.known {
		return errNotKnown
	}
	for _, name := range slices.Sorted(maps.Keys(s.unread)) {
		if _, followed := s.readable[name]; !followed {
			return fmt.Errorf("%w: NodePolicy %s cannot be read: %s", vf.ErrNotReady, name, s.explainUnread(name))
		}
	}
	for _, c := range s.merged.Conflicts {
		name, ofPool := strings.CutPrefix(c.Object, "pool ")
		if ofPool && !slices.ContainsFunc(s.merged.Spec.Pools, func(p desired.Pool) bool { return p.FullName() == name }) {
			return fmt.Errorf("%w: %s", vf.ErrNotReady, c)
		}
	}
	return nil
}

// PreviewHost returns the Spec that would be wanted if host.yaml had the given content.
func (s *Set) PreviewHost(host desired.Spec) desired.Spec {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mergeWith(host).Spec
}

func (s *Set) mergeWith(host desired.Spec) desired.Merged {
	in := desired.Sources{Host: host, Policies: slices.Collect(maps.Values(s.readable)), DevicePlugin: s.plugin.read.Pools}
	m := desired.Merge(in, s.current.Spec(), s.pfs())
	m.Spec.Partial = s.InCluster && !s.known
	return m
}

// explainUnread returns the reason why a policy cannot be read. It does not repeat the policy's
// name, which callers say.
func (s *Set) explainUnread(name string) string {
	return strings.ReplaceAll(excerpt.Error(s.unread[name]), "NodePolicy "+name+": ", "")
}

// Problems returns the problems of the policies and of the device plugin's ConfigMap.
func (s *Set) Problems() []api.Problem {
	s.mu.Lock()
	defer s.mu.Unlock()
	const next = "correct it; until then its last readable content is followed"
	var out []api.Problem
	for _, name := range slices.Sorted(maps.Keys(s.unread)) {
		out = append(out, api.Problem{Object: "NodePolicy " + name, Reason: s.explainUnread(name), Next: next})
	}
	for _, c := range s.merged.Conflicts {
		out = append(out, api.Problem{Object: "NodePolicies " + strings.Join(c.Policies, ", "), Reason: c.String(), Next: "what is there stays"})
	}
	return append(out, s.devicePluginProblems()...)
}
