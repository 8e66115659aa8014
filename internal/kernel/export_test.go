package kernel

// BondGroup is bondGroup.
func BondGroup(mark string) uint32 { return bondGroup(mark) }
