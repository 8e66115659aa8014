package config

import (
	"slices"
	"strings"
	"sync"

	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/network/ipam"
	"github.com/culvert-net/culvert/internal/network/netconf"
	"github.com/culvert-net/culvert/internal/share"
	"github.com/culvert-net/culvert/internal/vf"
)

// Definition is a NetworkAttachmentDefinition as Read has parsed it. Callers share it, and change
// nothing in it.
type Definition struct {
	// List has the plugins. Err is why the definition cannot be read; List then has the plugins that
	// could be read.
	List netconf.List
	Err  error
	// IsFile is set if the configuration is a file on the nodes.
	IsFile bool

	own    []Config
	ownErr error
	bond   *vf.Bond
	ipam   []string
	shared func() Shared
}

// Read parses a network attachment definition. It refuses one that is too large before it parses
// it.
func Read(n api.NetworkDefinition) *Definition {
	d := &Definition{Err: netconf.CheckSize(len(n.Config))}
	if d.Err == nil {
		d.List, d.Err = ParseDefinition(n)
	}
	d.IsFile = d.Err == nil && strings.TrimSpace(n.Config) == ""
	if d.ownErr = d.Err; d.Err == nil {
		own := readOwn(d.List)
		d.ipam = ipamTypes(d.List)
		d.bond = bondOf(own)
		d.own, d.ownErr = configsOf(d.List, own)
	}
	d.shared = sync.OnceValue(d.readShared)
	return d
}

// Own returns the configurations of those plugins that Culvert serves. It returns none if all
// plugins are of other projects, or if the configuration is a file on the nodes.
func (d *Definition) Own() ([]Config, error) { return d.own, d.ownErr }

// Bond returns the bond of the network, nil if it has none. It returns nil for a network that
// cannot be read, which its ADD refuses.
func (d *Definition) Bond() *vf.Bond { return d.bond }

// VFs returns how many VFs the network needs: as many as its bond has links, else one.
func (d *Definition) VFs() int { return countVFs(d.bond) }

// IPAMTypes returns the IPAM plugins that the network's plugins name, each once. Those of a file on
// the nodes are not known.
func (d *Definition) IPAMTypes() []string { return d.ipam }

// ipamTypes returns the IPAM plugins that the plugins of a list name, each once. ipam.TypeCulvert in
// Culvert's own plugins is none: that is another name for host-local.
func ipamTypes(l netconf.List) (out []string) {
	for _, p := range l.Plugins {
		for _, name := range p.IPAMTypes() {
			if !slices.Contains(out, name) && (name != ipam.TypeCulvert || !p.IsOwn()) {
				out = append(out, name)
			}
		}
	}
	return out
}

// Shared returns the pools of addresses that the network shares with others.
func (d *Definition) Shared() Shared { return d.shared() }

// Own returns Read(n).Own().
func Own(n api.NetworkDefinition) ([]Config, error) { return Read(n).Own() }

// Bounds on what Definitions keeps in bytes of configurations: tenants write networks. Each counts
// objectSize beside its text. The namespace with the most gives way, so that the networks of one
// namespace do not have those of others parsed again and again.
const mostText, objectSize = 4 << 20, 1 << 10

// Definitions parses each version of a NetworkAttachmentDefinition once. The zero value is ready,
// and nil keeps nothing. Its methods may be called concurrently.
type Definitions struct {
	mu     sync.Mutex // guards the rest
	known  map[share.Entry]knownDefinition
	budget *share.Budget // of known
}

type knownDefinition struct {
	uid, version string
	read         func() *Definition
}

// Read returns the definition as Read parses it. It parses a definition without UID or version,
// which is not from the API server, each time.
func (s *Definitions) Read(n api.NetworkDefinition) *Definition {
	if s == nil || n.UID == "" || n.Version == "" {
		return Read(n)
	}
	return s.find(n)()
}

// find returns a function that returns the definition, and parses it the first time.
func (s *Definitions) find(n api.NetworkDefinition) func() *Definition {
	key := share.Entry{Owner: n.Namespace, Key: n.Name}
	s.mu.Lock()
	defer s.mu.Unlock()
	if old, ok := s.known[key]; ok && old.uid == n.UID && old.version == n.Version {
		return old.read
	}
	if s.known == nil {
		s.known, s.budget = map[share.Entry]knownDefinition{}, share.New(mostText)
	}
	delete(s.known, key)
	now := knownDefinition{n.UID, n.Version, sync.OnceValue(func() *Definition { return Read(n) })}
	fits, dropped := s.budget.Put(key, objectSize+len(n.Config))
	for _, d := range dropped {
		delete(s.known, d)
	}
	if fits {
		s.known[key] = now
	}
	return now.read
}
