package filter

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/culvert-net/culvert/internal/kernel/balance"
	"github.com/culvert-net/culvert/internal/kernel/rtnl"
)

// forgetDatagrams makes the kernel forget the UDP flows, in the thread's network namespace, from
// Frontends to backends that these no longer have. The next datagram of a socket then goes to
// another backend.
func (c content) forgetDatagrams() error {
	stale := staleFlows{}
	for _, f := range c.rules {
		if f.Protocol == balance.UDP {
			stale[netip.AddrPortFrom(f.Addr, f.Port)] = f.Backends
		}
	}
	if len(stale) == 0 {
		return nil
	}
	for _, family := range []uint8{unix.AF_INET, unix.AF_INET6} {
		if err := stale.forgetFamily(family); err != nil {
			return fmt.Errorf("forget the UDP flows of removed backends: %w", err)
		}
	}
	return nil
}

// staleFlows are the backends of Frontends.
type staleFlows map[netip.AddrPort][]netip.AddrPort

// isStale reports whether a flow goes from a Frontend to an address that is not one of its
// backends.
func (s staleFlows) isStale(f flow) bool {
	backends, ours := s[f.frontend]
	return ours && !slices.Contains(backends, f.backend)
}

// forgetFamily deletes each stale flow as the kernel lists it, so culvertd keeps none. A pod may
// have any number of flows. The kernel's list goes on after entries are deleted
// (ctnetlink_dump_table, net/netfilter/nf_conntrack_netlink.c). If deletions fail, forgetFamily
// returns the first of their errors.
func (s staleFlows) forgetFamily(family uint8) error {
	conn, err := rtnl.DialNetfilter()
	if err != nil {
		return err
	}
	defer conn.Close()
	var failed error
	err = visitFlows(family, func(f flow) error {
		if s.isStale(f) {
			failed = cmp.Or(failed, f.deleteFlow(conn, family))
		}
		return nil
	})
	return errors.Join(err, failed)
}

// visitFlows calls visit with each UDP flow of a family.
func visitFlows(family uint8, visit func(flow) error) error {
	conn, err := rtnl.DialNetfilter()
	if err != nil {
		return err
	}
	defer conn.Close()
	list := rtnl.NetfilterRequest(unix.NFNL_SUBSYS_CTNETLINK, messageGet, unix.NLM_F_DUMP, family)
	return conn.Visit(list, func(body []byte) error {
		f, err := parseFlow(body)
		if err != nil || f.protocol != unix.IPPROTO_UDP {
			return err
		}
		return visit(f)
	})
}

// Messages and attributes of linux/netfilter/nfnetlink_conntrack.h.
const (
	messageGet, messageDelete              = 1, 2       // IPCTNL_MSG_CT_*
	tupleOriginal, tupleReply              = 1, 2       // CTA_TUPLE_*
	partAddresses, partPorts               = 1, 2       // CTA_TUPLE_IP, CTA_TUPLE_PROTO
	source4, target4, source6, target6     = 1, 2, 3, 4 // CTA_IP_V*
	protocolNumber, sourcePort, targetPort = 1, 2, 3    // CTA_PROTO_*
)

// flow is a connection of the kernel's connection tracking.
type flow struct {
	protocol          uint8
	frontend, backend netip.AddrPort // the first packet's destination, and the sender of answers
	attrs             []byte         // by which the kernel identifies the flow
}

// parseFlow reads an answer of the kernel. Addresses that a flow lacks have the zero value.
func parseFlow(body []byte) (flow, error) {
	attrs, err := rtnl.NetfilterAttrs(body)
	if err != nil {
		return flow{}, err
	}
	original, err := parseTuple(attrs[tupleOriginal])
	if err != nil {
		return flow{}, err
	}
	reply, err := parseTuple(attrs[tupleReply])
	if err != nil {
		return flow{}, err
	}
	return flow{original.protocol, original.to, reply.from, body[rtnl.NetfilterHeader:]}, nil
}

// tuple is one direction of a flow.
type tuple struct {
	protocol uint8
	from, to netip.AddrPort
}

func parseTuple(b []byte) (t tuple, err error) {
	parts, err := rtnl.AttrValues(b)
	if err != nil {
		return t, err
	}
	ips, err := rtnl.AttrValues(parts[partAddresses])
	if err != nil {
		return t, err
	}
	ports, err := rtnl.AttrValues(parts[partPorts])
	if err != nil {
		return t, err
	}
	if number := ports[protocolNumber]; len(number) == 1 {
		t.protocol = number[0]
	}
	t.from = addrPort(slices.Concat(ips[source4], ips[source6]), ports[sourcePort])
	t.to = addrPort(slices.Concat(ips[target4], ips[target6]), ports[targetPort])
	return t, nil
}

func addrPort(ip, port []byte) netip.AddrPort {
	addr, ok := netip.AddrFromSlice(ip)
	if !ok || len(port) != 2 {
		return netip.AddrPort{}
	}
	return netip.AddrPortFrom(addr.Unmap(), binary.BigEndian.Uint16(port))
}

// deleteFlow deletes a flow, which may be gone.
func (f flow) deleteFlow(conn *rtnl.Conn, family uint8) error {
	r := rtnl.NetfilterRequest(unix.NFNL_SUBSYS_CTNETLINK, messageDelete, unix.NLM_F_ACK, family)
	r.Body = append(r.Body, f.attrs...)
	err := conn.Visit(r, func([]byte) error { return nil })
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	return err
}
