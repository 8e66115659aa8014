package step

import (
	"fmt"

	"github.com/culvert-net/culvert/internal/vf"
)

func onOff(on bool) string {
	if on {
		return "on"
	}
	return "off"
}

func describeNetns(path string) string {
	if path == "" {
		return "the host"
	}
	return path
}

// describeDevice names the interface that a step is about.
func describeDevice(a vf.PCIAddr, bond string) string {
	if bond != "" {
		return fmt.Sprintf("bond %s of VF %s", bond, a)
	}
	return "VF " + a.String()
}

func (s SetAutoprobe) String() string {
	return fmt.Sprintf("set driver autoprobe %s on PF %s", onOff(s.On), s.PF)
}
func (s SetNumVFs) String() string   { return fmt.Sprintf("set sriov_numvfs to %d on PF %s", s.N, s.PF) }
func (s SetPFUp) String() string     { return fmt.Sprintf("bring up PF %s", s.PF) }
func (s WaitCarrier) String() string { return fmt.Sprintf("wait for carrier on PF %s", s.PF) }
func (s AddPFAddress) String() string {
	return fmt.Sprintf("add address %s to PF %s", s.Address, s.PF)
}
func (s DelPFAddress) String() string {
	return fmt.Sprintf("remove address %s of PF %s", s.Address, s.PF)
}
func (s SetPFMTU) String() string { return fmt.Sprintf("set MTU %d on PF %s", s.MTU, s.PF) }
func (s SetVFMAC) String() string {
	return fmt.Sprintf("set vf %d mac %s on PF %s", s.Index, s.MAC, s.PF)
}
func (s SetVFVLAN) String() string {
	return fmt.Sprintf("set vf %d vlan %s on PF %s", s.Index, s.VLAN, s.PF)
}
func (s SetVFSwitch) String() string {
	return fmt.Sprintf("set vf %d %s %s on PF %s", s.Index, s.Setting, onOff(s.On), s.PF)
}
func (s SetVFLinkState) String() string {
	return fmt.Sprintf("set vf %d link_state %s on PF %s", s.Index, s.State, s.PF)
}
func (s SetVFRate) String() string {
	return fmt.Sprintf("set vf %d min_tx_rate %d max_tx_rate %d on PF %s", s.Index, s.Min, s.Max, s.PF)
}
func (s Bind) String() string {
	driver := s.Driver
	if driver == "" {
		driver = "its netdevice driver"
	}
	return fmt.Sprintf("bind VF %s to %s", s.VF, driver)
}
func (s Unbind) String() string { return fmt.Sprintf("unbind VF %s", s.VF) }
func (s Reset) String() string  { return fmt.Sprintf("reset the function of VF %s", s.VF) }
func (s Move) String() string {
	return fmt.Sprintf("move VF %s from %s to %s as %s", s.VF, describeNetns(s.From), describeNetns(s.To), s.Name)
}
func (s Rename) String() string {
	return fmt.Sprintf("name VF %s %s in %s", s.VF, s.Name, describeNetns(s.Netns))
}
func (s SetMTU) String() string {
	return fmt.Sprintf("set MTU %d on VF %s in %s", s.MTU, s.VF, describeNetns(s.Netns))
}
func (s SetLinkMAC) String() string {
	return fmt.Sprintf("set link address %s on VF %s in %s", s.MAC, s.VF, describeNetns(s.Netns))
}
func (s SetUp) String() string {
	verb := "take down"
	if s.Up {
		verb = "bring up"
	}
	return fmt.Sprintf("%s %s in %s", verb, describeDevice(s.VF, s.Bond), describeNetns(s.Netns))
}
func (s ClearPromisc) String() string {
	return fmt.Sprintf("clear promiscuity of VF %s in %s", s.VF, describeNetns(s.Netns))
}
func (s AddAddress) String() string {
	return fmt.Sprintf("add address %s to %s in %s", s.Address, describeDevice(s.VF, s.Bond), describeNetns(s.Netns))
}
func (s DetectDuplicates) String() string {
	return fmt.Sprintf("detect duplicates of %v of %s in %s", s.Addresses, describeDevice(s.VF, s.Bond), describeNetns(s.Netns))
}
func (s DelAddress) String() string {
	return fmt.Sprintf("remove address %s from VF %s in %s", s.Address, s.VF, describeNetns(s.Netns))
}
func (s AddRoute) String() string {
	return fmt.Sprintf("add route %s through %s in %s", s.Route, describeDevice(s.VF, s.Bond), describeNetns(s.Netns))
}
func (s SetGuard) String() string {
	return fmt.Sprintf("guard VF %s in %s: %s", s.VF, describeNetns(s.Netns), s.Guard)
}
func (s DelGuard) String() string {
	return fmt.Sprintf("remove the guard of VF %s from %s", s.VF, describeNetns(s.Netns))
}
func (s SetDefaultRoute) String() string {
	return fmt.Sprintf("set the default route of %s to %v through %s", describeNetns(s.Netns), s.Gateways, s.Interface)
}
func (s Announce) String() string {
	return fmt.Sprintf("announce %v of %s in %s", s.Addresses, describeDevice(s.VF, s.Bond), describeNetns(s.Netns))
}
func (s AddBond) String() string {
	return fmt.Sprintf("add bond %s (%s) in %s", s.Name, s.Bond.Mode, describeNetns(s.Netns))
}
func (s DelBond) String() string {
	return fmt.Sprintf("remove bond %s from %s", s.Name, describeNetns(s.Netns))
}
func (s Enslave) String() string {
	return fmt.Sprintf("make VF %s a member of bond %s in %s", s.VF, s.Bond, describeNetns(s.Netns))
}
func (s SetBondPrimary) String() string {
	return fmt.Sprintf("make VF %s the primary member of bond %s in %s", s.VF, s.Bond, describeNetns(s.Netns))
}
func (s SetBondActive) String() string {
	return fmt.Sprintf("let VF %s send in place of %v in bond %s in %s", s.VF, s.From, s.Bond, describeNetns(s.Netns))
}
