package rtnl

import (
	"bytes"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

// The type of a message to netfilter has the subsystem in its upper byte. The body begins with
// struct nfgenmsg (linux/netfilter/nfnetlink.h).
func TestNetfilterRequest(t *testing.T) {
	const tables, get = unix.NFNL_SUBSYS_NFTABLES, unix.NFT_MSG_GETRULE
	r := NetfilterRequest(tables, get, unix.NLM_F_DUMP, unix.NFPROTO_NETDEV)
	if r.Type != 0x0a07 || r.Flags != unix.NLM_F_DUMP || !bytes.Equal(r.Body, []byte{5, 0, 0, 0}) {
		t.Errorf("%#x %#x % x", r.Type, r.Flags, r.Body)
	}
}

// NetfilterAttrs returns the attributes after the header, by type, and refuses a message that is
// cut short.
func TestNetfilterAttrs(t *testing.T) {
	header := []byte{5, 0, 0, 9}
	body := AppendString(bytes.Clone(header), unix.NFTA_RULE_TABLE, "old")
	body = AppendNested(body, unix.NFTA_RULE_EXPRESSIONS, []byte{1, 2, 3, 4})
	body = AppendString(body, unix.NFTA_RULE_TABLE, "guard")
	want := Values{
		unix.NFTA_RULE_TABLE: []byte("guard\x00"), unix.NFTA_RULE_EXPRESSIONS: []byte{1, 2, 3, 4},
	}
	got, err := NetfilterAttrs(body)
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v -want +got:\n%s", err, diff)
	}
	if got, err := NetfilterAttrs(header); len(got) > 0 || err != nil {
		t.Errorf("a header alone: %v, %v", got, err)
	}
	for _, cut := range [][]byte{nil, header[:3], body[:len(body)-4]} {
		if got, err := NetfilterAttrs(cut); err == nil {
			t.Errorf("%d bytes are read as %v", len(cut), got)
		}
	}
}
