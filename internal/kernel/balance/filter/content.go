package filter

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/google/nftables"
	"github.com/google/nftables/binaryutil"

	"github.com/culvert-net/culvert/internal/kernel/balance"
)

// content is the content of a pod's tables.
type content struct {
	rules []frontend // sorted
	sum   string     // of rules, as the name of a chain
}

// frontend is a Frontend with its Rule.
type frontend struct {
	balance.Frontend
	*balance.Rule
}

// newContent makes the content for a view: its Frontends, and the foreign Frontends that are not in
// it.
func newContent(view, foreign balance.View) content {
	var c content
	for f, r := range foreign {
		if view[f] == nil {
			c.rules = append(c.rules, frontend{f, r})
		}
	}
	for f, r := range view {
		c.rules = append(c.rules, frontend{f, r})
	}
	slices.SortFunc(c.rules, func(a, b frontend) int { return strings.Compare(a.String(), b.String()) })
	hash := sha256.New()
	for _, f := range c.rules {
		fmt.Fprintln(hash, f.Frontend, f.Backends, f.Affinity)
	}
	c.sum = "made-of-" + hex.EncodeToString(hash.Sum(nil)[:12])
	return c
}

// of returns the Frontends of a family.
func (c content) of(family nftables.TableFamily) (out []frontend) {
	for _, f := range c.rules {
		if f.Addr.Is4() == (family == nftables.TableFamilyIPv4) {
			out = append(out, f)
		}
	}
	return out
}

// key returns a Frontend as a key of an element of a set: address, protocol and port, each padded
// to 4 bytes.
func (f frontend) key() []byte {
	port := binary.BigEndian.AppendUint16(nil, f.Port)
	return slices.Concat(f.Addr.AsSlice(), []byte{byte(f.Protocol), 0, 0, 0}, port, []byte{0, 0})
}

// target returns a backend as a value of an element of a map: address and port.
func target(at netip.AddrPort) []byte {
	return slices.Concat(at.Addr().AsSlice(), binary.BigEndian.AppendUint16(nil, at.Port()), []byte{0, 0})
}

// hasTarget reports whether the value of an element is a backend of the Frontend.
func (f frontend) hasTarget(value []byte) bool {
	return slices.ContainsFunc(f.Backends, func(at netip.AddrPort) bool { return string(target(at)) == string(value) })
}

// numbered returns the elements of a map from numbers to backends. The numbers are in the
// machine's byte order, as numgen makes them.
func numbered(backends []netip.AddrPort) (out []nftables.SetElement) {
	for i, at := range backends {
		out = append(out, nftables.SetElement{Key: binaryutil.NativeEndian.PutUint32(uint32(i)), Val: target(at)})
	}
	return out
}

// wholeSeconds rounds an affinity up to whole seconds, as package socket does.
func wholeSeconds(affinity time.Duration) time.Duration {
	return (affinity + time.Second - 1).Truncate(time.Second)
}
