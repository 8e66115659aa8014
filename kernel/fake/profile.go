package fake

import (
	"fmt"
	"syscall"

	"github.com/culvert-net/culvert/vf"
)

// Profile is how a NIC with its drivers behaves.
type Profile struct {
	Driver, VFDriver string
	Vendor           string // four hexadecimal digits, as the next two
	Device, VFDevice string
	TotalVFs         int
	SpeedMbps        int
	MaxMTU           int
	// Offset and Stride say where VFs are on the bus, as sriov_offset and
	// sriov_stride do.
	Offset, Stride int
	// Abilities are the settings that the driver has. Of a switch that it has
	// not the kernel says that it is unknown.
	Abilities vf.Abilities
	// SpoofChk is what that setting is on a new VF, where the driver has it.
	SpoofChk bool
	// Split: as on Chelsio cards, PFs are functions of one card without a
	// netdevice, and have their link on one of its two ports.
	Split bool

	// mac refuses an admin MAC, rate a rate that the driver has; hold is the
	// rate that the hardware then keeps to. Nil ones take everything.
	mac  func(have, want vf.MAC) error
	rate func(link int, lowest, highest uint32) error
	hold func(asked uint32) uint32
	// dropsRates: the rates are gone when the link comes up at another speed.
	dropsRates bool
	// noQoS: a VLAN with a priority is refused.
	noQoS error
	// deaf: writing sriov_numvfs succeeds and changes nothing.
	deaf bool
}

// Profiles are the NICs that Culvert knows, by what people call them. Each is
// made from the driver's source in Linux 6.12 (drivers/net/ethernet), as
// docs/hardware.md tells; IGB is the only one that was held against a real
// kernel, in the lab.
func Profiles() map[string]Profile {
	return map[string]Profile{
		"igb": IGB, "ixgbe": IXGBE, "i40e": I40E, "ice": ICE, "mlx5": MLX5, "mlx5-switchdev": MLX5Switchdev, "cxgb4": CXGB4, "bnxt": BNXT,
	}
}

// abilities are all settings but those named.
func abilities(missing ...vf.Setting) vf.Abilities {
	a := vf.Abilities{}
	for _, s := range vf.Settings() {
		a[s] = vf.Yes
	}
	for _, s := range missing {
		a[s] = vf.No
	}
	return a
}

// The profiles.
var (
	// IGB behaves as the lab's emulated 82576 (lab-facts, "It does not").
	IGB = Profile{
		Driver: "igb", VFDriver: "igbvf", Vendor: "8086", Device: "10c9", VFDevice: "10ca",
		TotalVFs: 7, SpeedMbps: 1000, MaxMTU: 9216, Offset: 128, Stride: 2, SpoofChk: true,
		Abilities: abilities(vf.SetVLANProto, vf.SetLinkState, vf.SetMinTxRate, vf.SetRSSQuery),
		rate:      igbRate, dropsRates: true,
	}
	// IXGBE is an X520.
	IXGBE = Profile{
		Driver: "ixgbe", VFDriver: "ixgbevf", Vendor: "8086", Device: "10fb", VFDevice: "10ed",
		TotalVFs: 63, SpeedMbps: 10000, MaxMTU: 9710, Offset: 128, Stride: 2, SpoofChk: true,
		Abilities: abilities(vf.SetVLANProto, vf.SetMinTxRate),
		mac:       ixgbeMAC, rate: ixgbeRate, dropsRates: true,
	}
	// I40E is an XL710 or X710.
	I40E = Profile{
		Driver: "i40e", VFDriver: "iavf", Vendor: "8086", Device: "1572", VFDevice: "154c",
		TotalVFs: 64, SpeedMbps: 10000, MaxMTU: 9702, Offset: 16, Stride: 1, SpoofChk: true,
		Abilities: abilities(vf.SetVLANProto, vf.SetMinTxRate, vf.SetRSSQuery),
		rate:      i40eRate, hold: i40eHold,
	}
	// ICE is an E810 without DCB.
	ICE = Profile{
		Driver: "ice", VFDriver: "iavf", Vendor: "8086", Device: "1592", VFDevice: "1889",
		TotalVFs: 128, SpeedMbps: 100000, MaxMTU: 9702, Offset: 8, Stride: 1, SpoofChk: true,
		Abilities: abilities(vf.SetVLANProto, vf.SetRSSQuery),
		rate:      upToLink,
	}
	// MLX5 is a ConnectX-5 or later in legacy mode.
	MLX5 = Profile{
		Driver: "mlx5_core", VFDriver: "mlx5_core", Vendor: "15b3", Device: "1017", VFDevice: "1018",
		TotalVFs: 8, SpeedMbps: 25000, MaxMTU: 9978, Offset: 2, Stride: 1,
		Abilities: abilities(vf.SetVLANProto, vf.SetRSSQuery),
	}
	// MLX5Switchdev is one whose embedded switch is in the kernel's hands.
	MLX5Switchdev = switchdev(MLX5)
	// CXGB4 is a T6.
	CXGB4 = Profile{
		Driver: "cxgb4", VFDriver: "cxgb4vf", Vendor: "1425", Device: "600d", VFDevice: "680d",
		TotalVFs: 16, SpeedMbps: 100000, MaxMTU: 9600, Offset: 8, Stride: 4, Split: true,
		Abilities: abilities(vf.SetVLANProto, vf.SetSpoofChk, vf.SetTrust, vf.SetMinTxRate, vf.SetRSSQuery),
		mac:       cxgb4MAC, rate: cxgb4Rate, noQoS: syscall.EPROTONOSUPPORT,
	}
	// BNXT is a BCM57414.
	BNXT = Profile{
		Driver: "bnxt_en", VFDriver: "bnxt_en", Vendor: "14e4", Device: "16d7", VFDevice: "16dc",
		TotalVFs: 16, SpeedMbps: 25000, MaxMTU: 9500, Offset: 16, Stride: 1, SpoofChk: true,
		Abilities: abilities(vf.SetVLANProto, vf.SetRSSQuery),
		rate:      upToLink, noQoS: syscall.EINVAL,
	}
	// Deaf is a NIC whose driver takes a write to sriov_numvfs and makes no VFs.
	Deaf = func() Profile { p := I40E; p.deaf = true; return p }()
)

func switchdev(p Profile) Profile {
	p.Abilities = abilities(vf.SetVLAN, vf.SetVLANProto, vf.SetRSSQuery)
	return p
}

// held is the max_tx_rate that the hardware keeps to.
func (p Profile) held(asked uint32) uint32 {
	if p.hold == nil {
		return asked
	}
	return p.hold(asked)
}

func refuse(errno syscall.Errno, why string) error {
	return fmt.Errorf("%w: %s: %w", vf.ErrUnable, why, errno)
}

// igb_ndo_set_vf_bw: without link not even 0 is taken.
func igbRate(link int, lowest, highest uint32) error {
	if link == 0 || lowest > 0 || int64(highest) > int64(link) {
		return refuse(syscall.EINVAL, "igb takes rates with link, up to its speed, without a minimum")
	}
	return nil
}

// ixgbe_ndo_set_vf_bw.
func ixgbeRate(link int, lowest, highest uint32) error {
	if link != 10000 {
		return refuse(syscall.EINVAL, "ixgbe takes rates at 10 Gb/s only")
	}
	if lowest > 0 || highest > 0 && (highest <= 10 || highest > 10000) {
		return refuse(syscall.EINVAL, "ixgbe takes rates above 10 Mb/s up to 10 Gb/s, without a minimum")
	}
	return nil
}

// i40e_ndo_set_vf_bw and i40e_set_bw_limit.
func i40eRate(link int, lowest, highest uint32) error {
	if lowest > 0 || int64(highest) > int64(link) {
		return refuse(syscall.EINVAL, "i40e takes rates up to the link's speed, without a minimum")
	}
	return nil
}

// The hardware counts in credits of 50 Mb/s.
func i40eHold(asked uint32) uint32 {
	if asked == 0 {
		return 0
	}
	return max(asked/50, 1) * 50
}

// ice_set_vf_bw, bnxt_set_vf_bw. Without link the fake takes every rate.
func upToLink(link int, lowest, highest uint32) error {
	if link > 0 && int64(max(lowest, highest)) > int64(link) {
		return refuse(syscall.EINVAL, "rates go up to the link's speed")
	}
	return nil
}

// cxgb4_mgmt_set_vf_rate: 0 is taken at any time.
func cxgb4Rate(link int, lowest, highest uint32) error {
	if lowest > 0 || highest > 0 && (link == 0 || int64(highest) > int64(link)) {
		return refuse(syscall.EINVAL, "cxgb4 takes rates with link, up to its speed, without a minimum")
	}
	return nil
}

// ixgbe_set_vf_mac finds no filter to delete. kernel.Do looks first and does
// not ask it to; nobody else should want it either.
func ixgbeMAC(have, want vf.MAC) error {
	if have.IsZero() && want.IsZero() {
		return fmt.Errorf("clear a MAC that is clear: %w", syscall.ENOMEM)
	}
	return nil
}

// cxgb4_mgmt_set_vf_mac wants an address.
func cxgb4MAC(_, want vf.MAC) error {
	if !want.IsUnicast() {
		return refuse(syscall.EINVAL, "cxgb4 does not clear a MAC")
	}
	return nil
}
