package rtnl

import (
	"encoding/binary"
	"fmt"

	"golang.org/x/sys/unix"
)

// netnsaNSID and netnsaFD are attributes of RTM_GETNSID (linux/net_namespace.h).
const (
	netnsaNSID = 1
	netnsaFD   = 3
)

// NetnsID returns the number that the netns of the socket has for the netns that fd is open on. ok
// is false if it has none.
func (c *Conn) NetnsID(fd int) (id int32, ok bool, err error) {
	header := make([]byte, 4) // struct rtgenmsg, padded
	answers, err := c.Do(Request{Type: unix.RTM_GETNSID, Body: AppendUint32(header, netnsaFD, uint32(fd))})
	if err != nil {
		return 0, false, err
	}
	if len(answers) != 1 || len(answers[0]) < len(header) {
		return 0, false, fmt.Errorf("netlink gave %d numbers of a netns", len(answers))
	}
	attrs, err := Attrs(answers[0][len(header):])
	for _, a := range attrs {
		if a.Type == netnsaNSID {
			id = int32(a.Uint32())
			return id, id >= 0, err // -1: NETNSA_NSID_NOT_ASSIGNED
		}
	}
	return 0, false, err
}

// XDPSockets lists the indices of the links that sockets of AF_XDP are bound to, in the netns of
// the socket, which DialSockDiag opened (linux/xdp_diag.h). There are none if the kernel cannot
// list them.
func (c *Conn) XDPSockets() ([]int, error) {
	const (
		sockDiagByFamily = 20
		showInfo         = 1 << 0 // XDP_SHOW_INFO
		diagInfo         = 1      // XDP_DIAG_INFO
		sizeofRequest    = 20     // struct xdp_diag_req
		sizeofAnswer     = 16     // struct xdp_diag_msg
	)
	body := make([]byte, sizeofRequest)
	body[0] = unix.AF_XDP
	binary.NativeEndian.PutUint32(body[8:], showInfo)
	var out []int
	answers, err := c.Do(Request{Type: sockDiagByFamily, Flags: unix.NLM_F_DUMP, Body: body})
	for _, answer := range answers {
		if len(answer) < sizeofAnswer {
			return out, fmt.Errorf("netlink described an AF_XDP socket in %d bytes", len(answer))
		}
		attrs, err := Attrs(answer[sizeofAnswer:])
		if err != nil {
			return out, err
		}
		for _, a := range attrs {
			if a.Type == diagInfo {
				out = append(out, int(a.Uint32()))
			}
		}
	}
	return out, err
}
