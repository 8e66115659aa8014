package filter

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/google/nftables"
	"golang.org/x/sys/unix"

	"github.com/culvert-net/culvert/internal/kernel/rtnl"
)

// lookup asks the kernel for parts of a pod's table, each by its name or key. A process with
// NET_ADMIN in the pod may add as many tables, chains, sets and elements as it likes. The lists of
// google/nftables hold all of them in culvertd's memory (TestI7PodsOwnTables).
type lookup struct {
	conn  *rtnl.Conn
	table *nftables.Table
}

// hasTable reports whether the table exists.
func (l lookup) hasTable() (bool, error) {
	return l.exists(l.request(unix.NFT_MSG_GETTABLE, unix.NFTA_TABLE_NAME))
}

// hasChain reports whether the table has a chain.
func (l lookup) hasChain(name string) (bool, error) {
	r := l.request(unix.NFT_MSG_GETCHAIN, unix.NFTA_CHAIN_TABLE)
	r.Body = rtnl.AppendString(r.Body, unix.NFTA_CHAIN_NAME, name)
	return l.exists(r)
}

func (l lookup) exists(r rtnl.Request) (bool, error) {
	err := l.conn.Visit(r, func([]byte) error { return nil })
	if errors.Is(err, unix.ENOENT) {
		return false, nil
	}
	return err == nil, err
}

// choice is the backend that affinity chose for a Frontend.
type choice struct {
	key, target []byte
	expires     time.Duration
}

// findChoice asks for the choice of a Frontend by its key; the zero value if there is none. The
// kernel refuses the key if the pod has replaced the map by one of another kind.
func (l lookup) findChoice(key []byte) (choice, error) {
	r := l.request(unix.NFT_MSG_GETSETELEM, unix.NFTA_SET_ELEM_LIST_TABLE)
	r.Body = rtnl.AppendString(r.Body, unix.NFTA_SET_ELEM_LIST_SET, choicesName)
	element := rtnl.AppendNested(nil, unix.NFTA_SET_ELEM_KEY, rtnl.AppendAttr(nil, unix.NFTA_DATA_VALUE, key))
	r.Body = rtnl.AppendNested(r.Body, unix.NFTA_SET_ELEM_LIST_ELEMENTS, rtnl.AppendNested(nil, unix.NFTA_LIST_ELEM, element))
	var found choice
	err := l.conn.Visit(r, func(body []byte) (err error) {
		found, err = parseChoice(body)
		return err
	})
	if refused := (*rtnl.KernelError)(nil); errors.As(err, &refused) {
		return choice{}, nil
	}
	return found, err
}

// parseChoice reads an answer that has one element of a map. A part that the element lacks is the
// zero value.
func parseChoice(body []byte) (choice, error) {
	attrs, err := rtnl.NetfilterAttrs(body)
	nested := func(b []byte) rtnl.Values {
		values, nestedErr := rtnl.AttrValues(b)
		err = errors.Join(err, nestedErr)
		return values
	}
	element := nested(nested(attrs[unix.NFTA_SET_ELEM_LIST_ELEMENTS])[unix.NFTA_LIST_ELEM])
	c := choice{
		key:    nested(element[unix.NFTA_SET_ELEM_KEY])[unix.NFTA_DATA_VALUE],
		target: nested(element[unix.NFTA_SET_ELEM_DATA])[unix.NFTA_DATA_VALUE],
	}
	if b := element[unix.NFTA_SET_ELEM_EXPIRATION]; len(b) == 8 {
		c.expires = time.Duration(binary.BigEndian.Uint64(b)) * time.Millisecond
	}
	return c, err
}

// request returns a request whose first attribute names the table.
func (l lookup) request(kind, attr uint16) rtnl.Request {
	r := rtnl.NetfilterRequest(unix.NFNL_SUBSYS_NFTABLES, kind, 0, byte(l.table.Family))
	r.Body = rtnl.AppendString(r.Body, attr, l.table.Name)
	return r
}

// keepChoices reads the choices that have not expired and whose backend remains, from a table that
// culvertd is about to replace.
func (l lookup) keepChoices(frontends []frontend) (kept []nftables.SetElement, err error) {
	for _, f := range frontends {
		if f.Affinity <= 0 {
			continue
		}
		c, err := l.findChoice(f.key())
		if err != nil {
			return nil, fmt.Errorf("read the choice of affinity for %s: %w", f.Frontend, err)
		}
		if string(c.key) == string(f.key()) && c.expires > 0 && f.hasTarget(c.target) {
			kept = append(kept, nftables.SetElement{Key: c.key, Val: c.target, Timeout: min(c.expires, f.Affinity)})
		}
	}
	return kept, nil
}
