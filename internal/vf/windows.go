package vf

import "slices"

// WindowsVF says what a Windows guest needs for VFs of a NIC. The facts are from public documents; no
// test of Culvert has Windows.
type WindowsVF struct {
	// Driver names the vendor's driver that has the VF, as Windows shows the VF; empty if Culvert knows
	// none.
	Driver string
	// Pairs are the device IDs of VFs that virtio-win's protocol driver VIOPROT pairs with a virtio
	// interface by itself. Another ID has to be added in the guest's registry.
	// Source: NetKVM/NotifyObject/Readme.md of virtio-win/kvm-guest-drivers-windows.
	Pairs []string
}

// PairsWith reports whether VIOPROT pairs VFs of a device ID by itself.
func (w WindowsVF) PairsWith(device string) bool { return slices.Contains(w.Pairs, device) }
