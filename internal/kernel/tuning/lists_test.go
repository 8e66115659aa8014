package tuning

import (
	"encoding/binary"
	"testing"

	"golang.org/x/sys/unix"
)

// nic answers as the driver of a NIC with receive rules, RSS contexts and queues does.
type nic struct {
	rules    map[uint32]byte // one byte for the action of a rule, by location
	contexts map[uint32]byte // the first byte of the key, by number
	queues   []byte          // a coalescing parameter of each
}

func (n nic) ioctl(b []byte) error {
	u32 := func(at int) uint32 { return binary.NativeEndian.Uint32(b[at:]) }
	put := func(at int, v uint32) { binary.NativeEndian.PutUint32(b[at:], v) }
	switch u32(0) {
	case unix.ETHTOOL_GRXCLSRLCNT:
		put(ruleCount, uint32(len(n.rules)))
	case unix.ETHTOOL_GRXCLSRLALL:
		if int(u32(ruleCount)) < len(n.rules) || len(b) < ruleList+4*len(n.rules) {
			return unix.EMSGSIZE
		}
		i := 0
		for location := range uint32(100) {
			if _, ok := n.rules[location]; ok {
				put(ruleList+4*i, location)
				i++
			}
		}
	case unix.ETHTOOL_GRXCLSRULE:
		v, ok := n.rules[u32(ruleLocation)]
		if !ok {
			return unix.ENOENT
		}
		b[20] = v
	case unix.ETHTOOL_GRSSH:
		v, ok := n.contexts[u32(4)]
		switch {
		case n.contexts == nil && u32(4) > 0:
			return unix.EOPNOTSUPP
		case !ok:
			return unix.ENOENT
		case u32(12) == 0:
			put(12, 40)
		default:
			b[sizeHash] = v
		}
	case unix.ETHTOOL_PERQUEUE:
		for i, v := range n.queues {
			if u32(perQueueMask+4*(i/32)) == 1<<(i%32) {
				b[perQueueData+8] = v
				return nil
			}
		}
		return unix.EINVAL
	default:
		return unix.EOPNOTSUPP
	}
	return nil
}

// I2: Culvert compares the content of rules, contexts and queues, not only their
// number.
func TestRuleContents(t *testing.T) {
	made := nic{rules: map[uint32]byte{7: 1, 9: 2}, contexts: map[uint32]byte{0: 1, 1: 1, 3: 2}, queues: make([]byte, 40)}
	other := nic{rules: map[uint32]byte{7: 1, 9: 3}, contexts: map[uint32]byte{0: 1, 1: 1, 3: 3}, queues: append(make([]byte, 39), 1)}
	moved := nic{rules: map[uint32]byte{7: 1, 8: 2}, contexts: map[uint32]byte{0: 1, 1: 1, 2: 2}, queues: make([]byte, 41)}
	many := nic{rules: map[uint32]byte{}}
	for i := range uint32(mostRules + 1) {
		many.rules[i] = 1
	}
	for name, read := range map[string]func(nic) (string, error){
		"rules":      func(n nic) (string, error) { return asker{n.ioctl}.listRules() },
		"contexts":   func(n nic) (string, error) { return asker{n.ioctl}.listContexts() },
		"coalescing": func(n nic) (string, error) { return asker{n.ioctl}.listCoalescing() },
	} {
		want, err := read(made)
		if again, _ := read(made); err != nil || want == "" || want != again {
			t.Errorf("%s: %q, then %q (%v)", name, want, again, err)
		}
		for _, n := range []nic{other, moved} {
			if got, err := read(n); err != nil || got == want {
				t.Errorf("%s of %+v read %q as of %+v (%v)", name, n, got, made, err)
			}
		}
	}
	if got, err := (asker{many.ioctl}).listRules(); got != "1025" || err != nil {
		t.Errorf("more rules than are read: %q (%v)", got, err)
	}
	if got, err := (asker{nic{}.ioctl}).listContexts(); err == nil {
		t.Errorf("a driver without contexts has %q", got)
	}
	if got, err := (asker{nic{}.ioctl}).listCoalescing(); err == nil {
		t.Errorf("a driver without queues has %q", got)
	}
}
