package rtnl

import (
	"encoding/binary"
	"fmt"
)

// Attr is one attribute of a netlink message: its type without the nested and
// byte-order flags, and its value.
type Attr struct {
	Type  uint16
	Value []byte
}

const (
	attrHeader = 4      // struct nlattr
	attrType   = 0x3fff // NLA_TYPE_MASK (linux/netlink.h)
	attrNested = 0x8000 // NLA_F_NESTED
	maxAttr    = 0xffff // nla_len is 16 bits wide and counts the header
)

func align4(n int) int { return (n + 3) &^ 3 }

// Attrs cuts b into its attributes. The values point into b. Up to three
// bytes of padding may follow the last one.
func Attrs(b []byte) ([]Attr, error) {
	var out []Attr
	for len(b) >= attrHeader {
		n := int(binary.NativeEndian.Uint16(b))
		if n < attrHeader || n > len(b) {
			return out, fmt.Errorf("netlink attribute of %d bytes where %d are left", n, len(b))
		}
		out = append(out, Attr{Type: binary.NativeEndian.Uint16(b[2:]) & attrType, Value: b[attrHeader:n]})
		b = b[min(align4(n), len(b)):]
	}
	return out, nil
}

// AppendAttr appends an attribute and its padding to b.
func AppendAttr(b []byte, typ uint16, value []byte) []byte {
	b = binary.NativeEndian.AppendUint16(b, uint16(attrHeader+len(value)))
	b = binary.NativeEndian.AppendUint16(b, typ)
	b = append(b, value...)
	return append(b, make([]byte, align4(len(value))-len(value))...)
}

// AppendNested appends an attribute whose value is attributes.
func AppendNested(b []byte, typ uint16, attrs []byte) []byte {
	return AppendAttr(b, typ|attrNested, attrs)
}

// AppendString appends a text with the terminating zero that the kernel wants.
func AppendString(b []byte, typ uint16, s string) []byte {
	return AppendAttr(b, typ, append([]byte(s), 0))
}

// AppendUint32 appends a number in the machine's byte order.
func AppendUint32(b []byte, typ uint16, v uint32) []byte {
	return AppendAttr(b, typ, binary.NativeEndian.AppendUint32(nil, v))
}

// Text returns an attribute's value as a text, without the terminating zero.
func (a Attr) Text() string {
	for i, c := range a.Value {
		if c == 0 {
			return string(a.Value[:i])
		}
	}
	return string(a.Value)
}

// Uint32 returns an attribute's value as a number; 0 when it is too short.
func (a Attr) Uint32() uint32 { return wordAt(a.Value, 0) }

// wordAt returns the i-th 32-bit number of b; 0 past its end.
func wordAt(b []byte, i int) uint32 {
	if len(b) < 4*(i+1) {
		return 0
	}
	return binary.NativeEndian.Uint32(b[4*i:])
}
