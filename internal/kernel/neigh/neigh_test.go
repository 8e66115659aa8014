package neigh

import (
	"encoding/hex"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/culvert-net/culvert/internal/vf"
)

func TestFrame(t *testing.T) {
	mac := vf.MAC{2, 0, 0x5e, 0x10, 0, 1}
	for _, tt := range []struct {
		addr string
		want []string // a line for each header
	}{
		{"10.56.0.10", []string{
			"ffffffffffff 02005e100001 0806",
			"0001 0800 06 04 0001",
			"02005e100001 0a38000a 000000000000 0a38000a",
		}},
		{"::ffff:10.56.0.10", []string{ // the same address
			"ffffffffffff 02005e100001 0806",
			"0001 0800 06 04 0001",
			"02005e100001 0a38000a 000000000000 0a38000a",
		}},
		{"fd00::10", []string{
			"333300000001 02005e100001 86dd",
			"60000000 0020 3a ff fd000000000000000000000000000010 ff020000000000000000000000000001",
			"88 00 fc6c 20000000 fd000000000000000000000000000010",
			"02 01 02005e100001",
		}},
	} {
		want := strings.ReplaceAll(strings.Join(tt.want, ""), " ", "")
		got := hex.EncodeToString(Frame(mac, netip.MustParseAddr(tt.addr)))
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.addr, diff)
		}
	}
}

// A receiver adds everything up, checksum included, and wants all ones.
func TestChecksumVerifies(t *testing.T) {
	for _, a := range []string{"fd00::10", "2001:db8::1", "fe80::1"} {
		b := Frame(vf.MAC{2, 3, 4, 5, 6, 7}, netip.MustParseAddr(a))
		src, _ := netip.AddrFromSlice(b[22:38])
		dst, _ := netip.AddrFromSlice(b[38:54])
		if got := sumICMPv6(src, dst, b[54:]); got != 0 {
			t.Errorf("%s: the sum is off by %#x", a, got)
		}
	}
}
