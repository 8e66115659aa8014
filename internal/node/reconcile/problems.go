package reconcile

import (
	"cmp"
	"errors"
	"slices"
	"sync"

	"github.com/culvert-net/culvert/internal/vf"
)

// Problem is a difference from the wanted state that culvertd could not remove, with the reason.
type Problem struct {
	Object string // "PF enp1s0f0", "VF 0000:01:10.2"
	Reason string // the full reason, with the next step
}

// Problems returns the failures of the last work on each PF, and of the last listing of the host.
func (r *Reconciler) Problems() []Problem { return r.problems.listAll() }

// problems keeps the failures, PF by PF, since work on PFs ends at different times. The zero
// value is ready.
type problems struct {
	mu   sync.Mutex // guards the fields below
	host error
	pfs  map[vf.PCIAddr][]error
}

func (p *problems) ofHost(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.host = err
}

func (p *problems) ofPF(pf vf.PCIAddr, errs []error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.pfs == nil {
		p.pfs = map[vf.PCIAddr][]error{}
	}
	p.pfs[pf] = slices.DeleteFunc(errs, func(err error) bool { return err == nil })
}

// keepOnly drops the problems of PFs that no longer exist.
func (p *problems) keepOnly(there []vf.PF) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for pci := range p.pfs {
		if !slices.ContainsFunc(there, func(pf vf.PF) bool { return pf.PCI == pci }) {
			delete(p.pfs, pci)
		}
	}
}

// mayEnd reports whether one of the failures may end by itself. Those of VFs that belong to an owner
// or to a user outside Culvert stay as long as that use.
func (p *problems) mayEnd() bool {
	return slices.ContainsFunc(p.listErrors(), func(err error) bool {
		return !errors.Is(err, errNotTaken) && !errors.Is(err, vf.ErrHeld)
	})
}

func (p *problems) listAll() (out []Problem) {
	for _, err := range p.listErrors() {
		object, reason := vf.SplitObject(err)
		out = append(out, Problem{Object: cmp.Or(object, "host"), Reason: reason})
	}
	return out
}

// listErrors returns the failure of the host and those of the PFs, in the order of these.
func (p *problems) listErrors() (errs []error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.host != nil {
		errs = append(errs, p.host)
	}
	pfs := make([]vf.PCIAddr, 0, len(p.pfs))
	for pci := range p.pfs {
		pfs = append(pfs, pci)
	}
	slices.SortFunc(pfs, vf.PCIAddr.Compare)
	for _, pci := range pfs {
		errs = append(errs, p.pfs[pci]...)
	}
	return errs
}

func namePF(pf vf.PF, err error) error { return vf.NameObject("PF "+pf.Label(), err) }

func aboutVF(v vf.State, err error) error { return vf.NameObject("VF "+v.PCI.String(), err) }
