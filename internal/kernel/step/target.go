package step

import "github.com/culvert-net/culvert/internal/vf"

// Target is the VF that a step changes. It is named by its own address, or as a VF of a PF. The zero
// value is no VF.
type Target struct {
	VF    vf.PCIAddr
	PF    vf.PCIAddr // zero where VF names it
	Index int
}

// TargetOf returns the VF that a step changes. Steps that wait, that announce, or that change a PF, a
// bond or a default route have none.
func TargetOf(s Step) Target { return s.changedVF() }

// IsVF reports whether t is the VF at pci, which is the VF of pf with that index.
func (t Target) IsVF(pci, pf vf.PCIAddr, index int) bool {
	if t.PF.IsZero() {
		return t.VF == pci && !pci.IsZero()
	}
	return t.PF == pf && t.Index == index
}

func (s SetVFMAC) changedVF() Target       { return Target{PF: s.PF, Index: s.Index} }
func (s SetVFVLAN) changedVF() Target      { return Target{PF: s.PF, Index: s.Index} }
func (s SetVFSwitch) changedVF() Target    { return Target{PF: s.PF, Index: s.Index} }
func (s SetVFLinkState) changedVF() Target { return Target{PF: s.PF, Index: s.Index} }
func (s SetVFRate) changedVF() Target      { return Target{PF: s.PF, Index: s.Index} }
func (s Bind) changedVF() Target           { return Target{VF: s.VF} }
func (s Unbind) changedVF() Target         { return Target{VF: s.VF} }
func (s Reset) changedVF() Target          { return Target{VF: s.VF} }
func (s Move) changedVF() Target           { return Target{VF: s.VF} }
func (s Rename) changedVF() Target         { return Target{VF: s.VF} }
func (s SetMTU) changedVF() Target         { return Target{VF: s.VF} }
func (s SetLinkMAC) changedVF() Target     { return Target{VF: s.VF} }
func (s SetUp) changedVF() Target          { return Target{VF: s.VF} }
func (s ClearPromisc) changedVF() Target   { return Target{VF: s.VF} }
func (s AddAddress) changedVF() Target     { return Target{VF: s.VF} }
func (s DelAddress) changedVF() Target     { return Target{VF: s.VF} }
func (s AddRoute) changedVF() Target       { return Target{VF: s.VF} }
func (s SetGuard) changedVF() Target       { return Target{VF: s.VF} }
func (s DelGuard) changedVF() Target       { return Target{VF: s.VF} }
func (s Enslave) changedVF() Target        { return Target{VF: s.VF} }
func (s DelBond) changedVF() Target        { return Target{VF: s.VF} }
func (s SetBondPrimary) changedVF() Target { return Target{VF: s.VF} }
func (s SetBondActive) changedVF() Target  { return Target{VF: s.VF} }

func (SetAutoprobe) changedVF() Target     { return Target{} }
func (SetNumVFs) changedVF() Target        { return Target{} }
func (SetPFUp) changedVF() Target          { return Target{} }
func (WaitCarrier) changedVF() Target      { return Target{} }
func (SetPFMTU) changedVF() Target         { return Target{} }
func (AddPFAddress) changedVF() Target     { return Target{} }
func (DelPFAddress) changedVF() Target     { return Target{} }
func (Announce) changedVF() Target         { return Target{} }
func (SetDefaultRoute) changedVF() Target  { return Target{} }
func (DetectDuplicates) changedVF() Target { return Target{} }
func (AddBond) changedVF() Target          { return Target{} }
