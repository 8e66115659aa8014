package fake

import (
	"cmp"
	"fmt"
	"syscall"

	"github.com/culvert-net/culvert/internal/vf"
)

// Profile is a NIC and how it behaves. vf.DriverOf(Driver) says which settings its driver
// takes, refuses and rounds.
type Profile struct {
	Driver           string
	Vendor           string // four hexadecimal digits, as the next two
	Device, VFDevice string
	TotalVFs         int
	SpeedMbps        int
	MaxMTU           int
	// Offset and Stride say where VFs are on the bus, as sriov_offset and
	// sriov_stride do.
	Offset, Stride int
	// Abilities are the settings that the driver has: in the modes of Profiles, all that it does
	// not lack. For a switch that the driver lacks, the kernel reports an unknown value.
	Abilities vf.Abilities
	// SpoofChk is the value of that setting on a new VF, if the driver has the setting.
	SpoofChk bool

	// Only the fake kernel has these values, which Culvert does not compare: the errno of a VLAN
	// with priority (where vf.Driver.NoQoS is set; 0 is EINVAL) and of a MAC that is not cleared
	// (vf.Driver.ClearsMAC).
	qosErrno, macErrno syscall.Errno
	// constantRate is the max_tx_rate that the driver reports for each VF, although it sets none,
	// in Mb/s.
	constantRate uint32
	// deaf: writing sriov_numvfs succeeds and changes nothing.
	deaf bool
}

// Profiles returns the NICs that Culvert knows, by their common names. Each is made from the
// driver's source in Linux 6.12 (drivers/net/ethernet), as docs/hardware.md says; only IGB was
// compared with a real kernel, in the lab.
func Profiles() map[string]Profile {
	return map[string]Profile{
		"igb": IGB, "ixgbe": IXGBE, "i40e": I40E, "ice": ICE, "mlx5": MLX5, "mlx5-switchdev": MLX5Switchdev, "cxgb4": CXGB4, "bnxt": BNXT,
	}
}

// RareProfiles returns NICs that have fewer settings, or that few people have. The scenarios of
// test/scenario do not run on them.
func RareProfiles() map[string]Profile {
	return map[string]Profile{"bnx2x": BNX2X, "hns3": HNS3, "rvu": RVU, "ionic": Ionic}
}

// abilitiesWithout returns all settings but those named.
func abilitiesWithout(missing ...vf.Setting) vf.Abilities {
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
	IGB = addAbilities(Profile{
		Driver: "igb", Vendor: "8086", Device: "10c9", VFDevice: "10ca",
		TotalVFs: 7, SpeedMbps: 1000, MaxMTU: 9216, Offset: 128, Stride: 2, SpoofChk: true,
	})
	// IXGBE is an X520.
	IXGBE = addAbilities(Profile{
		Driver: "ixgbe", Vendor: "8086", Device: "10fb", VFDevice: "10ed",
		TotalVFs: 63, SpeedMbps: 10000, MaxMTU: 9710, Offset: 128, Stride: 2, SpoofChk: true, macErrno: syscall.ENOMEM,
	})
	// I40E is an XL710 or X710.
	I40E = addAbilities(Profile{
		Driver: "i40e", Vendor: "8086", Device: "1572", VFDevice: "154c",
		TotalVFs: 64, SpeedMbps: 10000, MaxMTU: 9702, Offset: 16, Stride: 1, SpoofChk: true,
	})
	// ICE is an E810 without DCB.
	ICE = addAbilities(Profile{
		Driver: "ice", Vendor: "8086", Device: "1592", VFDevice: "1889",
		TotalVFs: 128, SpeedMbps: 100000, MaxMTU: 9702, Offset: 8, Stride: 1, SpoofChk: true,
	})
	// MLX5 is a ConnectX-5 or later in legacy mode.
	MLX5 = addAbilities(Profile{
		Driver: "mlx5_core", Vendor: "15b3", Device: "1017", VFDevice: "1018",
		TotalVFs: 8, SpeedMbps: 25000, MaxMTU: 9978, Offset: 2, Stride: 1,
	})
	// MLX5Switchdev is one whose embedded switch is in the kernel's hands.
	MLX5Switchdev = asSwitchdev(MLX5)
	// CXGB4 is a T6.
	CXGB4 = addAbilities(Profile{
		Driver: "cxgb4", Vendor: "1425", Device: "600d", VFDevice: "680d",
		TotalVFs: 16, SpeedMbps: 100000, MaxMTU: 9600, Offset: 8, Stride: 4, qosErrno: syscall.EPROTONOSUPPORT, macErrno: syscall.EINVAL,
	})
	// BNXT is a BCM57414.
	BNXT = addAbilities(Profile{
		Driver: "bnxt_en", Vendor: "14e4", Device: "16d7", VFDevice: "16dc",
		TotalVFs: 16, SpeedMbps: 25000, MaxMTU: 9500, Offset: 16, Stride: 1, SpoofChk: true,
	})
	// BNX2X is a BCM57800.
	BNX2X = addAbilities(Profile{
		Driver: "bnx2x", Vendor: "14e4", Device: "168a", VFDevice: "16a9",
		TotalVFs: 64, SpeedMbps: 10000, MaxMTU: 9600, Offset: 8, Stride: 1, SpoofChk: true, macErrno: syscall.EINVAL, constantRate: 10000,
	})
	// HNS3 is the NIC of a Kunpeng 920.
	HNS3 = addAbilities(Profile{
		Driver: "hns3", Vendor: "19e5", Device: "a222", VFDevice: "a22f",
		TotalVFs: 63, SpeedMbps: 25000, MaxMTU: 9706, Offset: 1, Stride: 1,
	})
	// RVU is an OCTEON 10.
	RVU = addAbilities(Profile{
		Driver: "rvu_nicpf", Vendor: "177d", Device: "a063", VFDevice: "a064",
		TotalVFs: 16, SpeedMbps: 50000, MaxMTU: 9190, Offset: 1, Stride: 1, macErrno: syscall.EINVAL,
	})
	// Ionic is a DSC-25.
	Ionic = addAbilities(Profile{
		Driver: "ionic", Vendor: "1dd8", Device: "1002", VFDevice: "1003",
		TotalVFs: 16, SpeedMbps: 25000, MaxMTU: 9194, Offset: 1, Stride: 1,
	})
	// Deaf is a NIC whose driver takes a write to sriov_numvfs and makes no VFs.
	Deaf = func() Profile { p := I40E; p.deaf = true; return p }()
)

// addAbilities gives a NIC all settings except those that its driver lacks.
func addAbilities(p Profile) Profile {
	p.Abilities = abilitiesWithout(vf.DriverOf(p.Driver).Lacks...)
	return p
}

// asSwitchdev removes the VLAN settings, which belong to the embedded switch in that mode.
func asSwitchdev(p Profile) Profile {
	p.Abilities = abilitiesWithout(vf.SetVLAN, vf.SetVLANProto, vf.SetRSSQuery)
	return p
}

// VFDriver returns the netdevice driver of the NIC's VFs.
func (p Profile) VFDriver() string { return vf.DriverOf(p.Driver).VFDrivers[0] }

// effectiveRate returns the max_tx_rate that the hardware keeps to.
func (p Profile) effectiveRate(asked uint32) uint32 {
	return vf.DriverOf(p.Driver).Effective(vf.Admin{MaxTxRate: asked}).MaxTxRate
}

// refusesMAC says why a VF's admin MAC is not cleared.
func (p Profile) refusesMAC(have, want vf.MAC) error {
	switch vf.DriverOf(p.Driver).ClearsMAC {
	case vf.OnlyIfSet:
		if have.IsZero() && want.IsZero() {
			return fmt.Errorf("clear a MAC that is clear: %w", p.macErrno)
		}
	case vf.Never:
		if !want.IsUnicast() {
			return fmt.Errorf("%w: %s does not clear a MAC: %w", vf.ErrUnable, p.Driver, p.macErrno)
		}
	}
	return nil
}

// refusesVLAN says why a VLAN that the driver has is not set.
func (p Profile) refusesVLAN(v vf.VLAN) error {
	if v.QoS == 0 || !vf.DriverOf(p.Driver).NoQoS {
		return nil
	}
	return fmt.Errorf("%w: a VLAN with priority: %w", vf.ErrUnable, cmp.Or(p.qosErrno, syscall.EINVAL))
}

// refusesRates says why rates that the driver has are not set over the PF's link.
func refusesRates(pf vf.PF, lowest, highest uint32) error {
	if lowest == 0 && highest == 0 {
		if pf.CanClearRates() {
			return nil
		}
		return fmt.Errorf("%w: %s clears no rates as its link is: %w", vf.ErrUnable, pf.Driver, syscall.EINVAL)
	}
	if err := pf.Fits(vf.Spec{MinTxRate: &lowest, MaxTxRate: &highest}, vf.Admin{}, ""); err != nil {
		return fmt.Errorf("%w: %w", err, syscall.EINVAL)
	}
	return nil
}
