package rtnl

import (
	"encoding/binary"
	"fmt"

	"golang.org/x/sys/unix"
)

// answer collects the messages that the kernel sends in answer to one request.
type answer struct {
	bodies      [][]byte
	interrupted bool
	done        bool
}

// takeDatagram reads one datagram, which may hold several messages. It passes over messages
// with another sequence number or port, which answer another request.
func (a *answer) takeDatagram(b []byte, seq, pid uint32, r Request) error {
	for len(b) >= unix.SizeofNlMsghdr && !a.done {
		n := int(binary.NativeEndian.Uint32(b))
		if n < unix.SizeofNlMsghdr || n > len(b) {
			return fmt.Errorf("netlink message of %d bytes where %d are left", n, len(b))
		}
		typ, flags := binary.NativeEndian.Uint16(b[4:]), binary.NativeEndian.Uint16(b[6:])
		ours := binary.NativeEndian.Uint32(b[8:]) == seq && binary.NativeEndian.Uint32(b[12:]) == pid
		body := b[unix.SizeofNlMsghdr:n]
		b = b[min(align4(n), len(b)):]
		if !ours {
			continue
		}
		a.interrupted = a.interrupted || flags&unix.NLM_F_DUMP_INTR != 0
		switch typ {
		case unix.NLMSG_ERROR, unix.NLMSG_DONE:
			a.done = true
			return parseError(body)
		default:
			a.bodies = append(a.bodies, body)
			a.done = flags&unix.NLM_F_MULTI == 0 && r.Flags&unix.NLM_F_ACK == 0
		}
	}
	return nil
}

// Attributes of an extended acknowledgement (linux/netlink.h).
const nlmsgerrMsg = 1

// parseError reads struct nlmsgerr, or the status of NLMSG_DONE; nil when it
// says that all went well. The request is not echoed (NETLINK_CAP_ACK), so
// the header of it is followed by the attributes.
func parseError(b []byte) error {
	if len(b) < 4 {
		return fmt.Errorf("netlink acknowledgement of %d bytes, too short to say whether it was done", len(b))
	}
	errno := int32(wordAt(b, 0))
	if errno == 0 {
		return nil
	}
	e := &KernelError{Errno: unix.Errno(-errno)}
	const header = 4 + unix.SizeofNlMsghdr
	if len(b) > header {
		attrs, _ := Attrs(b[header:]) // what follows is only a message for people
		for _, at := range attrs {
			if at.Type == nlmsgerrMsg {
				e.Message = at.Text()
			}
		}
	}
	return e
}
