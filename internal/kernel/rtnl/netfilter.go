package rtnl

import "fmt"

// NetfilterHeader is the size of struct nfgenmsg (linux/netfilter/nfnetlink.h), which comes before
// the attributes.
const NetfilterHeader = 4

// NetfilterRequest returns a request to a subsystem of netfilter (unix.NFNL_SUBSYS_*), to which
// callers append attributes. The kind is one of the subsystem's messages.
func NetfilterRequest(subsystem, kind, flags uint16, family uint8) Request {
	const version = 0 // NFNETLINK_V0
	return Request{Type: subsystem<<8 | kind, Flags: flags, Body: []byte{family, version, 0, 0}}
}

// NetfilterAttrs returns the attributes of an answer of netfilter.
func NetfilterAttrs(body []byte) (Values, error) {
	if len(body) < NetfilterHeader {
		return nil, fmt.Errorf("netfilter message of %d bytes", len(body))
	}
	return AttrValues(body[NetfilterHeader:])
}

// Values are the values of attributes by type.
type Values map[uint16][]byte

// AttrValues cuts b into its attributes. If a type occurs twice, it returns the value of the last
// attribute.
func AttrValues(b []byte) (Values, error) {
	all, err := Attrs(b)
	out := make(Values, len(all))
	for _, a := range all {
		out[a.Type] = a.Value
	}
	return out, err
}
