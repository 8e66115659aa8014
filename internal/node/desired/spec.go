package desired

import (
	"fmt"
	"strings"

	"github.com/culvert-net/culvert/internal/vf"
)

// DefaultPath is the path of the host's host.yaml.
const DefaultPath = "/etc/culvert/host.yaml"

// DefaultPrefix is the resource prefix of a pool that names none.
const DefaultPrefix = "culvert.dev"

// Spec is the wanted state of this host's NICs. The zero value wants nothing and leaves everything
// alone.
type Spec struct {
	PFs   []PFRule
	Pools []Pool
	// Contested are PFs of which policies of a cluster want different things.
	// They come before PFs. A PF that appeared after Merge may be contested by PFs alone.
	Contested []Contested
	// Partial is set while culvertd has not read one of the sources since it started. That source
	// may name PFs and pools that the Spec lacks, so culvertd leaves them as they are.
	Partial bool
}

// Pool finds a pool by its full name, or by its name alone when only one has
// it. The empty name means the only pool there is. Errors are vf.ErrNotFound,
// or vf.ErrInvalid when the name fits several pools.
func (s Spec) Pool(name string) (Pool, error) {
	var found []Pool
	for _, p := range s.Pools {
		if name == "" && p.Unserved == "" || name == p.FullName() || name == p.Name {
			found = append(found, p)
		}
	}
	switch {
	case len(found) == 1 && found[0].Unserved != "":
		return Pool{}, fmt.Errorf("pool %q: %w: it is not served: %s", name, vf.ErrInvalid, found[0].Unserved)
	case len(found) == 1:
		return found[0], nil
	case len(s.Pools) == 0:
		return Pool{}, fmt.Errorf("pool %q: %w: %s declares no pool", name, vf.ErrNotFound, DefaultPath)
	case len(found) == 0:
		return Pool{}, fmt.Errorf("pool %q: %w: there are %s", name, vf.ErrNotFound, joinNames(s.Pools))
	case name == "":
		return Pool{}, fmt.Errorf("no pool is named: %w: there are %s; name one of them", vf.ErrInvalid, joinNames(found))
	}
	return Pool{}, fmt.Errorf("pool %q: %w: it could mean %s; write the whole name", name, vf.ErrInvalid, joinNames(found))
}

func joinNames(pools []Pool) string {
	all := make([]string, len(pools))
	for i, p := range pools {
		all[i] = p.FullName()
	}
	return strings.Join(all, ", ")
}
