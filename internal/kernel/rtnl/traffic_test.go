package rtnl

import (
	"encoding/binary"
	"net"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/culvert-net/culvert/internal/vf"
)

// The kernel reports the counters of a link with each reading of it, also of one without statistics
// of VFs.
func TestTrafficOfALink(t *testing.T) {
	const size = 1000
	var before, after Link
	inNewNetns(t, func() error {
		c, err := Dial()
		if err != nil {
			return err
		}
		defer c.Close()
		if before, err = c.LinkNamed("lo"); err != nil {
			return err
		}
		if err := c.SetLink(before.Index, unix.IFF_UP, unix.IFF_UP, nil); err != nil {
			return err
		}
		to, err := net.Dial("udp", "127.0.0.1:9")
		if err != nil {
			return err
		}
		defer to.Close()
		if _, err := to.Write(make([]byte, size)); err != nil {
			return err
		}
		after, err = c.Link(before.Index, false)
		return err
	})
	rise, ok := after.Traffic.Since(before.Traffic)
	if !ok || rise.TxPackets == 0 || rise.TxBytes < size || rise.RxBytes < size {
		t.Errorf("%+v, %t after a datagram of %d bytes", rise, ok, size)
	}
}

func vfStats(index uint32, counters map[uint16]uint64) []byte {
	var stats []byte
	for attr, n := range counters {
		stats = AppendAttr(stats, attr, binary.NativeEndian.AppendUint64(nil, n))
	}
	mac := append(appendWords(index), make([]byte, vfMACBytes)...)
	return AppendNested(nil, iflaVFInfo, AppendNested(AppendAttr(nil, iflaVFMAC, mac), iflaVFStats, stats))
}

// The counters of VFs are by index. Without any count the driver has no counters, and a list that is
// cut short is an error.
func TestParseVFTraffic(t *testing.T) {
	all := map[uint16]uint64{vfStatRxPackets: 1, vfStatTxPackets: 2, vfStatRxBytes: 3, vfStatTxBytes: 4, vfStatRxDropped: 5, vfStatTxDropped: 6}
	body := AppendNested(nil, unix.IFLA_VFINFO_LIST, append(vfStats(0, map[uint16]uint64{vfStatRxBytes: 0}), vfStats(2, all)...))
	want := map[int]vf.Traffic{0: {}, 2: {RxPackets: 1, TxPackets: 2, RxBytes: 3, TxBytes: 4, RxDropped: 5, TxDropped: 6}}
	got, err := parseVFTraffic(body)
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	none := AppendNested(nil, unix.IFLA_VFINFO_LIST, vfStats(0, map[uint16]uint64{vfStatRxBytes: 0}))
	if got, err := parseVFTraffic(none); got != nil || err != nil {
		t.Errorf("a driver without counters: %v, %v", got, err)
	}
	torn := AppendNested(nil, unix.IFLA_VFINFO_LIST, []byte{200, 0, 1, 0})
	if got, err := parseVFTraffic(torn); err == nil {
		t.Errorf("a list that is cut short: %v", got)
	}
	if got, err := parseVFTraffic(igb3VFs(t)[unix.SizeofIfInfomsg:]); got != nil || err != nil {
		t.Errorf("an answer without counters: %v, %v", got, err)
	}
}
