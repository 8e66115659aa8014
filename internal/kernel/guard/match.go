package guard

import (
	"encoding/binary"
	"slices"

	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"

	"github.com/culvert-net/culvert/internal/vf"
)

// register is the register with the bytes that a rule compares. It has 16 bytes.
const register = unix.NFT_REG_1

var accept, drop = &expr.Verdict{Kind: expr.VerdictAccept}, &expr.Verdict{Kind: expr.VerdictDrop}

func jumpTo(chain string) *expr.Verdict { return &expr.Verdict{Kind: expr.VerdictGoto, Chain: chain} }

// newRule returns a rule that has a verdict on frames that match all of the conditions. A frame that
// is too short for a condition does not match it.
func newRule(v *expr.Verdict, conditions ...[]expr.Any) []expr.Any {
	return append(slices.Concat(conditions...), v)
}

func loadBytes(at, length uint32) []expr.Any {
	return []expr.Any{&expr.Payload{DestRegister: register, Base: expr.PayloadBaseLLHeader, Offset: at, Len: length}}
}

func compareBytes(op expr.CmpOp, at uint32, with ...byte) []expr.Any {
	return append(loadBytes(at, uint32(len(with))), &expr.Cmp{Op: op, Register: register, Data: with})
}

func hasBytes(at uint32, want ...byte) []expr.Any { return compareBytes(expr.CmpOpEq, at, want...) }

func lacksBytes(at uint32, want ...byte) []expr.Any { return compareBytes(expr.CmpOpNeq, at, want...) }

func maskedBytes(at uint32, mask, want []byte) []expr.Any {
	return compareMasked(expr.CmpOpEq, at, mask, want)
}

// compareMasked compares the bytes that the mask leaves.
func compareMasked(op expr.CmpOp, at uint32, mask, with []byte) []expr.Any {
	length := uint32(len(mask))
	return append(loadBytes(at, length),
		&expr.Bitwise{SourceRegister: register, DestRegister: register, Len: length, Mask: mask, Xor: make([]byte, length)},
		&expr.Cmp{Op: op, Register: register, Data: with})
}

// isOwnFrame matches an EtherType in a frame from that MAC address.
func isOwnFrame(mac vf.MAC, kind uint16) []expr.Any {
	return hasBytes(atSource, binary.BigEndian.AppendUint16(mac[:], kind)...)
}

// hasLength matches the length of an IPv6 packet's payload. A receiver ignores bytes beyond it.
func hasLength(n uint16) []expr.Any {
	return hasBytes(atIPv6Length, binary.BigEndian.AppendUint16(nil, n)...)
}
