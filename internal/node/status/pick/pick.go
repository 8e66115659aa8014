// Package pick finds the VFs that a person named in a node's status. An api.NodeStatus and a word
// from the command line go in; the VFs that the word means come out. The CLI calls it, so culvertd
// needs one method for all these questions.
package pick

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/suggest"
	"github.com/culvert-net/culvert/internal/vf"
)

// VF finds VFs by the names that people use: PCI address, PF#index (also by an alternative name of
// the PF), netdevice, or owner (default/a,
// "pod default/a", a container's ID or the start of it). An owner may have several. The error
// vf.ErrNotFound lists the existing names.
func VF(st api.NodeStatus, word string) ([]api.VF, error) {
	pci, _ := vf.ParsePCIAddr(word)
	for _, match := range []func(api.VF) bool{
		func(v api.VF) bool { return !pci.IsZero() && v.PCI == pci },
		func(v api.VF) bool { return v.Name == word || v.ID.String() == word },
		func(v api.VF) bool { return isAtPF(st, v, word) },
		func(v api.VF) bool { return isOwnerOf(v.Owner, word) },
		func(v api.VF) bool { return word != "" && v.Netdevice == word },
	} {
		if found := filterVFs(st.VFs, match); len(found) > 0 {
			return found, nil
		}
	}
	return nil, fmt.Errorf("VF %q: %w%s", word, vf.ErrNotFound, suggestWord(st, word))
}

// isAtPF reports whether a word names a VF by its PF and its index, as PF#index. The PF may have
// an alternative name.
func isAtPF(st api.NodeStatus, v api.VF, word string) bool {
	pf, index, ok := strings.Cut(word, "#")
	return ok && index == strconv.Itoa(v.Index) && isOfPF(st, v, pf)
}

// isOfPF reports whether a VF is of the PF with a name, which may be an alternative one.
func isOfPF(st api.NodeStatus, v api.VF, name string) bool {
	return v.PF == name || slices.ContainsFunc(st.PFs, func(p api.PF) bool {
		return p.ID == v.ID.PF && p.Name == v.PF && slices.Contains(p.AltNames, name)
	})
}

// shortest is how much of a container's ID must be given.
const shortest = 6

func isOwnerOf(o *vf.Owner, word string) bool {
	if o == nil || word == "" {
		return false
	}
	return word == o.Name || word == o.String() || word == o.UID ||
		(len(word) >= shortest && strings.HasPrefix(o.UID, word))
}

func suggestWord(st api.NodeStatus, word string) string {
	if len(st.VFs) == 0 {
		return ": this host has no VFs; see culvert status"
	}
	if pf, _, ok := strings.Cut(word, "#"); ok {
		if there := filterVFs(st.VFs, func(v api.VF) bool { return v.PF == pf }); len(there) > 0 {
			return fmt.Sprintf(": PF %s has %s to %s", pf, there[0].Name, there[len(there)-1].Name)
		}
	}
	if near := suggest.Nearest(word, IDs(st)); near != "" {
		return ": did you mean " + near + "? culvert vf list shows all"
	}
	return ": write a PCI address, PF#index, netdevice or owner; culvert vf list shows them"
}

// IDs returns the words that name a VF of the node, for completion: its name, its
// PCI address and its owner's name.
func IDs(st api.NodeStatus) []string {
	var all []string
	add := func(s string) {
		if s != "" && !slices.Contains(all, s) {
			all = append(all, s)
		}
	}
	for _, v := range st.VFs {
		add(v.Name)
		add(v.PCI.String())
		if v.Owner != nil {
			add(v.Owner.Name)
		}
	}
	return all
}

// Filter says which VFs to list; an empty field admits all.
type Filter struct {
	PF, Pool, Phase, Owner string
}

// VFs returns the VFs that the filter admits. An unknown PF or pool is vf.ErrNotFound, so that a
// typing error does not read as "none".
func (f Filter) VFs(st api.NodeStatus) ([]api.VF, error) {
	if f.PF != "" {
		if _, err := findPF(st, f.PF); err != nil {
			return nil, err
		}
	}
	pool := f.Pool
	if pool != "" {
		full := slices.DeleteFunc(Pools(st), func(name string) bool { return name != pool && !strings.HasSuffix(name, "/"+pool) })
		switch len(full) {
		case 0:
			return nil, fmt.Errorf("pool %q: %w: there are %s", pool, vf.ErrNotFound, joinNames(Pools(st)))
		case 1:
			pool = full[0]
		default:
			return nil, fmt.Errorf("pool %q: %w: it could mean %s", pool, vf.ErrInvalid, joinNames(full))
		}
	}
	return filterVFs(st.VFs, func(v api.VF) bool {
		return (f.PF == "" || isOfPF(st, v, f.PF)) && (pool == "" || v.Pool == pool) &&
			(f.Phase == "" || v.Phase == f.Phase) && (f.Owner == "" || isOwnerOf(v.Owner, f.Owner))
	}), nil
}

// findPF returns the identity of the PF with a name, which may be an alternative one.
func findPF(st api.NodeStatus, name string) (vf.PFID, error) {
	for _, p := range st.PFs {
		if p.Name == name || slices.Contains(p.AltNames, name) {
			return p.ID, nil
		}
	}
	return vf.PFID{}, fmt.Errorf("PF %q: %w: there are %s", name, vf.ErrNotFound, joinNames(PFs(st)))
}

// PFs returns the names of the node's PFs.
func PFs(st api.NodeStatus) []string {
	return distinctTexts(st.PFs, func(p api.PF) string { return p.Name })
}

// Pools returns the full names of the node's pools.
func Pools(st api.NodeStatus) []string {
	return distinctTexts(st.Pools, func(p api.Pool) string { return p.Name })
}

// Owners returns the names of the owners of VFs.
func Owners(st api.NodeStatus) []string {
	return distinctTexts(st.VFs, func(v api.VF) string {
		if v.Owner == nil {
			return ""
		}
		return v.Owner.Name
	})
}

// Phases returns all phases that a VF of a node's status or of a cluster's can be in.
func Phases() []string {
	return []string{
		string(vf.PhaseMaking), string(vf.PhaseFree), string(vf.PhasePrepared), string(vf.PhaseConfiguring), string(vf.PhaseAttached), string(vf.PhaseReleasing),
		string(vf.PhaseQuarantined), string(vf.PhaseDamaged), api.PhaseGiven, api.PhaseOutside, api.PhaseUnmanaged, api.PhaseMissing,
	}
}

// distinctTexts returns the texts of things, each once, in their order: nodes of one cluster have
// PFs and pools of the same name. tell returns the text of a thing.
func distinctTexts[T any](things []T, tell func(T) string) []string {
	var all []string
	for _, v := range things {
		if s := tell(v); s != "" && !slices.Contains(all, s) {
			all = append(all, s)
		}
	}
	return all
}

func joinNames(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}

func filterVFs(vfs []api.VF, match func(api.VF) bool) []api.VF {
	out := []api.VF{}
	for _, v := range vfs {
		if match(v) {
			out = append(out, v)
		}
	}
	return out
}
