package vf

import (
	"fmt"
	"strconv"
	"strings"
)

// PCIAddr is the address of a PCI function, written dddd:bb:dd.f in
// hexadecimal as in /sys/bus/pci/devices. The zero value means "none".
//
// An address identifies a function only until the next reboot or re-plug; a PFID is permanent.
type PCIAddr struct {
	Domain   uint32
	Bus      uint8
	Device   uint8
	Function uint8
}

// ParsePCIAddr accepts "0000:3b:00.1" and, for domain 0, the short "3b:00.1".
func ParsePCIAddr(s string) (PCIAddr, error) {
	bad := func() (PCIAddr, error) {
		return PCIAddr{}, fmt.Errorf("PCI address %q: want domain:bus:device.function in hexadecimal, e.g. 0000:3b:00.1", s)
	}
	full := s
	if strings.Count(s, ":") == 1 {
		full = "0000:" + s
	}
	parts := strings.FieldsFunc(full, func(r rune) bool { return r == ':' || r == '.' })
	if len(parts) != 4 || strings.Count(full, ":") != 2 || strings.Count(full, ".") != 1 || len(parts[0]) < 4 {
		return bad()
	}
	var n [4]uint64
	for i, bits := range []int{32, 8, 5, 3} {
		v, err := strconv.ParseUint(parts[i], 16, bits)
		if err != nil {
			return bad()
		}
		n[i] = v
	}
	return PCIAddr{Domain: uint32(n[0]), Bus: uint8(n[1]), Device: uint8(n[2]), Function: uint8(n[3])}, nil
}

// IsZero reports whether a is unset.
func (a PCIAddr) IsZero() bool { return a == PCIAddr{} }

func (a PCIAddr) String() string {
	if a.IsZero() {
		return ""
	}
	const digits = "0123456789abcdef"
	b := make([]byte, 0, len("10000:00:00.0"))
	if a.Domain > 0xffff { // of Intel's VMD
		b = strconv.AppendUint(b, uint64(a.Domain), 16)
	} else {
		b = append(b, digits[a.Domain>>12&15], digits[a.Domain>>8&15], digits[a.Domain>>4&15], digits[a.Domain&15])
	}
	b = append(b, ':', digits[a.Bus>>4], digits[a.Bus&15], ':', digits[a.Device>>4], digits[a.Device&15], '.')
	return string(strconv.AppendUint(b, uint64(a.Function), 16))
}

// Compare orders addresses as the bus does.
func (a PCIAddr) Compare(b PCIAddr) int {
	for _, d := range []int{
		int(a.Domain) - int(b.Domain), int(a.Bus) - int(b.Bus),
		int(a.Device) - int(b.Device), int(a.Function) - int(b.Function),
	} {
		if d != 0 {
			return d
		}
	}
	return 0
}

// MarshalText writes the address as String does.
func (a PCIAddr) MarshalText() ([]byte, error) { return []byte(a.String()), nil }

// UnmarshalText reads what MarshalText wrote; the empty text is the zero value.
func (a *PCIAddr) UnmarshalText(b []byte) (err error) {
	if len(b) == 0 {
		*a = PCIAddr{}
		return nil
	}
	*a, err = ParsePCIAddr(string(b))
	return err
}
