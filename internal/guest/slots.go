package guest

import (
	"bytes"
	"encoding/xml"
	"strconv"
	"strings"
)

// Slots has how many PCI devices of the host a definition has room for. QEMU's machines give the limits:
//
//   - q35, and other machines with PCI Express: pcie.0 has 32 slots of 8 functions, and a device of the
//     host has a pcie-root-port of its own, which is one function. libvirt adds these ports as it needs
//     them. Bus numbers end at 255, and each port has one.
//   - i440fx (pc): pci.0 has 32 slots, and a device of the host has one. So R4 found about 30 VFs to be
//     the limit. libvirt adds a pci-bridge of 31 slots when pci.0 is full. QEMU advises against more
//     than 9 of them, since each takes 4 KiB of the I/O ports.
//
// Sources: docs/pcie.txt of QEMU, sections 2.2, 3, 4 and 5.1; qemu_domain_address.c of libvirt.
type Slots struct {
	Machine string // of <type>, e.g. pc-q35-9.2; empty if the definition has none
	Express bool
	Most    int // devices of the host, beside the guest's own devices
	Easily  int // of Most, those that need no pci-bridge
	// Free is how many pcie-root-ports have no device: as many VFs can be plugged in while the guest
	// runs.
	Free int
}

// Limits of QEMU's PCI buses.
const (
	slotsOfBus    = 32
	functionsSlot = 8
	mostBuses     = 256
	mostBridges   = 9
	chipset       = 2 // slots: the host bridge, and PIIX3 or ICH9
)

// pciParts has the parts of a domain that take PCI slots.
type pciParts struct {
	XMLName xml.Name `xml:"domain"`
	Type    struct {
		Machine string `xml:"machine,attr"`
	} `xml:"os>type"`
	Devices struct {
		All []struct {
			XMLName xml.Name
			Type    string `xml:"type,attr"`
			Model   string `xml:"model,attr"`
			Index   string `xml:"index,attr"`
			Address struct {
				Type string `xml:"type,attr"`
				Bus  string `xml:"bus,attr"`
				Slot string `xml:"slot,attr"`
			} `xml:"address"`
		} `xml:",any"`
	} `xml:"devices"`
}

// readSlots counts the slots of a definition that Parse accepts. A device without an address counts as
// one that needs a slot or port once libvirt gives it one, if it is one of the host.
func readSlots(text []byte) (Slots, error) {
	var d pciParts
	if err := xml.NewDecoder(bytes.NewReader(text)).Decode(&d); err != nil {
		return Slots{}, err
	}
	s := Slots{Machine: d.Type.Machine}
	s.Express = s.Machine != "pc" && !strings.HasPrefix(s.Machine, "pc-i440fx") && !strings.HasPrefix(s.Machine, "pc-0.") && !strings.HasPrefix(s.Machine, "pc-1.")
	rootSlots, busUsers := map[int]bool{}, map[int]int{}
	var ports []int // their buses
	behind, switches := 0, 0
	for _, dev := range d.Devices.All {
		bus, slot, placed := parseAddress(dev.Address.Type, dev.Address.Bus, dev.Address.Slot)
		pci := dev.XMLName.Local == "controller" && dev.Type == "pci"
		host := dev.XMLName.Local == "hostdev" && dev.Type == "pci" || dev.XMLName.Local == "interface" && dev.Type == "hostdev"
		if placed {
			busUsers[bus]++
		}
		switch {
		case pci && dev.Model == "pcie-root-port":
			index, _ := strconv.Atoi(dev.Index)
			ports = append(ports, index)
		case pci && dev.Index == "0", host:
		case pci:
			switches++ // each has a bus number of its own
			rootSlots[slot] = rootSlots[slot] || placed && bus == 0
		case placed && bus == 0:
			rootSlots[slot] = true
		case placed:
			behind++
		}
	}
	taken := 0
	for slot, is := range rootSlots {
		if is && slot != 0 && slot != slotsOfBus-1 && (s.Express || slot != 1) {
			taken++
		}
	}
	left := max(slotsOfBus-chipset-taken, 0)
	for _, index := range ports {
		if busUsers[index] == 0 {
			s.Free++
		}
	}
	if s.Express {
		s.Most = max(min(left*functionsSlot, mostBuses-1-switches)-behind, 0)
		s.Easily = s.Most
		return s, nil
	}
	s.Easily = left
	s.Most = max(left+mostBridges*(slotsOfBus-1)-behind, left)
	return s, nil
}

// parseAddress reads the address of a device in the guest.
func parseAddress(kind, bus, slot string) (b, s int, ok bool) {
	if kind != "pci" {
		return 0, 0, false
	}
	n, err := strconv.ParseUint(bus, 0, 8)
	if err != nil {
		return 0, 0, false
	}
	m, err := strconv.ParseUint(slot, 0, 5)
	return int(n), int(m), err == nil
}
