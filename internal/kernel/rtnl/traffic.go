package rtnl

import (
	"encoding/binary"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/culvert-net/culvert/internal/vf"
)

// The counters of struct rtnl_link_stats64 (linux/if_link.h), by their place.
const (
	statRxPackets = iota
	statTxPackets
	statRxBytes
	statTxBytes
	statRxErrors
	statTxErrors
	statRxDropped
	statTxDropped
)

// parseStats64 reads IFLA_STATS64. A counter that is past the end is 0.
func parseStats64(b []byte) vf.Traffic {
	return vf.Traffic{
		RxBytes: longAt(b, statRxBytes), RxPackets: longAt(b, statRxPackets), RxDropped: longAt(b, statRxDropped), RxErrors: longAt(b, statRxErrors),
		TxBytes: longAt(b, statTxBytes), TxPackets: longAt(b, statTxPackets), TxDropped: longAt(b, statTxDropped), TxErrors: longAt(b, statTxErrors),
	}
}

// longAt returns the i-th 64-bit number of b; 0 past its end.
func longAt(b []byte, i int) uint64 {
	if len(b) < 8*(i+1) {
		return 0
	}
	return binary.NativeEndian.Uint64(b[8*i:])
}

// iflaVFStats is IFLA_VF_STATS, and vfStat* are the attributes in it (linux/if_link.h).
const (
	iflaVFStats     = 8
	vfStatRxPackets = 0
	vfStatTxPackets = 1
	vfStatRxBytes   = 2
	vfStatTxBytes   = 3
	vfStatRxDropped = 7
	vfStatTxDropped = 8
)

// VFTraffic returns the counters that the PF with the given link index has of its VFs, by index. The
// kernel answers with zeros where the driver has no such counters (rtnl_fill_vfinfo), so VFTraffic
// returns none if all are 0.
func (c *Conn) VFTraffic(index int) (map[int]vf.Traffic, error) {
	answers, err := c.Do(Request{
		Type: unix.RTM_GETLINK,
		Body: AppendUint32(linkHeader(index, 0, 0), unix.IFLA_EXT_MASK, filterVF),
	})
	if err != nil {
		return nil, cutShort(err, true)
	}
	if len(answers) != 1 || len(answers[0]) < unix.SizeofIfInfomsg {
		return nil, fmt.Errorf("netlink described link %d %d times", index, len(answers))
	}
	return parseVFTraffic(answers[0][unix.SizeofIfInfomsg:])
}

// parseVFTraffic reads the attributes of RTM_NEWLINK.
func parseVFTraffic(b []byte) (map[int]vf.Traffic, error) {
	out, counted := map[int]vf.Traffic{}, false
	attrs, err := Attrs(b)
	for _, a := range attrs {
		if a.Type != unix.IFLA_VFINFO_LIST {
			continue
		}
		list, err := Attrs(a.Value)
		if err != nil {
			return nil, fmt.Errorf("counters of VFs: %w", err)
		}
		for _, info := range list {
			index, t, err := parseVFStats(info.Value)
			if err != nil {
				return nil, fmt.Errorf("counters of VFs: %w", err)
			}
			out[index] = t
			counted = counted || t != vf.Traffic{}
		}
	}
	if err != nil || !counted {
		return nil, err
	}
	return out, nil
}

// parseVFStats reads the index and the counters of one IFLA_VF_INFO.
func parseVFStats(b []byte) (index int, t vf.Traffic, err error) {
	attrs, err := Attrs(b)
	if err != nil {
		return 0, t, err
	}
	for _, a := range attrs {
		switch a.Type {
		case iflaVFMAC:
			index = int(a.Uint32())
		case iflaVFStats:
			stats, err := Attrs(a.Value)
			if err != nil {
				return 0, t, err
			}
			for _, s := range stats {
				if counter := vfCounter(&t, s.Type); counter != nil {
					*counter = longAt(s.Value, 0)
				}
			}
		}
	}
	return index, t, nil
}

func vfCounter(t *vf.Traffic, attr uint16) *uint64 {
	switch attr {
	case vfStatRxPackets:
		return &t.RxPackets
	case vfStatTxPackets:
		return &t.TxPackets
	case vfStatRxBytes:
		return &t.RxBytes
	case vfStatTxBytes:
		return &t.TxBytes
	case vfStatRxDropped:
		return &t.RxDropped
	case vfStatTxDropped:
		return &t.TxDropped
	}
	return nil
}
