package step

import "fmt"

func (SetAutoprobe) step()   {}
func (SetNumVFs) step()      {}
func (SetPFUp) step()        {}
func (WaitCarrier) step()    {}
func (SetPFMTU) step()       {}
func (AddPFAddress) step()   {}
func (DelPFAddress) step()   {}
func (SetVFMAC) step()       {}
func (SetVFVLAN) step()      {}
func (SetVFSwitch) step()    {}
func (SetVFLinkState) step() {}
func (SetVFRate) step()      {}
func (Bind) step()           {}
func (Unbind) step()         {}
func (Reset) step()          {}
func (Move) step()           {}
func (Rename) step()         {}
func (SetMTU) step()         {}
func (SetLinkMAC) step()     {}
func (SetUp) step()          {}
func (ClearPromisc) step()   {}
func (AddAddress) step()     {}
func (DelAddress) step()     {}
func (AddRoute) step()       {}
func (Announce) step()       {}

func (SetDefaultRoute) step() {}

func onOff(on bool) string {
	if on {
		return "on"
	}
	return "off"
}

func netns(path string) string {
	if path == "" {
		return "the host"
	}
	return path
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
	return fmt.Sprintf("move VF %s from %s to %s as %s", s.VF, netns(s.From), netns(s.To), s.Name)
}
func (s Rename) String() string {
	return fmt.Sprintf("name VF %s %s in %s", s.VF, s.Name, netns(s.Netns))
}
func (s SetMTU) String() string {
	return fmt.Sprintf("set MTU %d on VF %s in %s", s.MTU, s.VF, netns(s.Netns))
}
func (s SetLinkMAC) String() string {
	return fmt.Sprintf("set link address %s on VF %s in %s", s.MAC, s.VF, netns(s.Netns))
}
func (s SetUp) String() string {
	verb := "take down"
	if s.Up {
		verb = "bring up"
	}
	return fmt.Sprintf("%s VF %s in %s", verb, s.VF, netns(s.Netns))
}
func (s ClearPromisc) String() string {
	return fmt.Sprintf("clear promiscuity of VF %s in %s", s.VF, netns(s.Netns))
}
func (s AddAddress) String() string {
	return fmt.Sprintf("add address %s to VF %s in %s", s.Address, s.VF, netns(s.Netns))
}
func (s DelAddress) String() string {
	return fmt.Sprintf("remove address %s from VF %s in %s", s.Address, s.VF, netns(s.Netns))
}
func (s AddRoute) String() string {
	return fmt.Sprintf("add route %s through VF %s in %s", s.Route, s.VF, netns(s.Netns))
}
func (s SetDefaultRoute) String() string {
	return fmt.Sprintf("set the default route of %s to %v through %s", netns(s.Netns), s.Gateways, s.Interface)
}
func (s Announce) String() string {
	return fmt.Sprintf("announce %v of VF %s in %s", s.Addresses, s.VF, netns(s.Netns))
}
