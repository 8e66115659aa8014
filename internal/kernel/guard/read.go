package guard

import (
	"encoding/binary"
	"errors"
	"fmt"
	"reflect"
	"slices"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"

	"github.com/culvert-net/culvert/internal/kernel/rtnl"
	"github.com/culvert-net/culvert/internal/vf"
)

// A process with NET_ADMIN in the pod may add as many tables, chains and rules as it likes. So
// Culvert asks the kernel for one table or chain by its name, and ends the list of a chain's rules
// at the first rule that differs from the guard's. The lists of google/nftables would hold all of
// these in memory.

// query is rtnl.Conn.Visit on a socket of netfilter.
type query func(rtnl.Request, func(body []byte) error) error

// ask is a query on a socket of its own: if Culvert does not read a list to its end, the kernel
// keeps the rest for that socket.
func ask(r rtnl.Request, visit func(body []byte) error) error {
	c, err := rtnl.DialNetfilter()
	if err != nil {
		return err
	}
	defer c.Close()
	return c.Visit(r, visit)
}

// Read returns the guard of a VF. It returns the zero value if there is none, as on a kernel
// without nftables. The guard is Altered if a rule differs from the rules that Set writes.
func (Tables) Read(pci vf.PCIAddr) (vf.Guard, error) {
	return confirmAltered(func() (vf.Guard, error) { return readTable(ask, tableOf(pci)) })
}

// confirmAltered reads a guard again if it seems to be altered, or if a list changed while it was
// read. Such a read may have met a Set that replaces the guard.
func confirmAltered(read func() (vf.Guard, error)) (g vf.Guard, err error) {
	for range readTries {
		if g, err = read(); !g.Altered && !errors.Is(err, rtnl.ErrInterrupted) {
			return g, err
		}
	}
	return g, err
}

// readTries is the number of reads that must all find a guard altered before Read reports it so.
const readTries = 3

// errAltered ends the read of a guard that is not as Set writes it.
var errAltered = errors.New("the guard is altered")

func readTable(q query, table *nftables.Table) (vf.Guard, error) {
	t, err := findTable(q, table)
	if err != nil || t == nil {
		return vf.Guard{}, ignoreUnable(err)
	}
	g, err := readText(q, table)
	if err == nil {
		err = t.compare(q, table, chainsOf(g))
	}
	if errors.Is(err, errAltered) || errors.Is(err, unix.ENOENT) { // ENOENT: it was removed meanwhile
		return vf.Guard{Altered: true}, nil
	}
	if err != nil {
		return vf.Guard{}, fmt.Errorf("read nftables: %w", err)
	}
	return g, nil
}

// tableExists reports whether a table exists. The error wraps vf.ErrUnable where the kernel has no
// nftables: nfnetlink then answers EINVAL, and a kernel without nfnetlink refuses the socket.
// Callers ask it before each Flush, which on such a kernel waits for answers that never come.
func tableExists(q query, table *nftables.Table) (bool, error) {
	t, err := findTable(q, table)
	return t != nil, err
}

// tableState has the kernel's report about a table.
type tableState struct {
	flags uint32 // NFT_TABLE_F_*; Set writes none. A dormant table drops nothing.
	use   uint32 // number of chains, sets, objects and flow tables (nft_use_inc in nf_tables_api.c)
}

// findTable asks the kernel for a table by its name. It returns nil if there is none.
func findTable(q query, table *nftables.Table) (*tableState, error) {
	var t *tableState
	err := q(newRequest(unix.NFT_MSG_GETTABLE, 0, table, unix.NFTA_TABLE_NAME, table.Name), func(body []byte) error {
		attrs, err := rtnl.NetfilterAttrs(body)
		t = &tableState{flags: bigEndian(attrs[unix.NFTA_TABLE_FLAGS]), use: bigEndian(attrs[unix.NFTA_TABLE_USE])}
		return err
	})
	switch {
	case errors.Is(err, unix.ENOENT):
		return nil, nil //nolint:nilnil // there is none
	case errors.Is(err, unix.EINVAL), errors.Is(err, unix.EPROTONOSUPPORT):
		return nil, fmt.Errorf("%w: this kernel has no nftables (module nf_tables), which a guard needs: load the module, or take guard out of the network: %w", vf.ErrUnable, err)
	case err != nil:
		return nil, fmt.Errorf("read a table of nftables: %w", err)
	}
	return t, nil
}

// readText reads the guard from the text in the first rules of a table's chains.
func readText(q query, table *nftables.Table) (g vf.Guard, err error) {
	var text []byte
	for _, chain := range textChains {
		part, err := readPart(q, table, chain)
		if err != nil {
			return g, err
		}
		text = append(text, part...)
		if len(part) < textPart {
			break
		}
	}
	if g, err = vf.ParseGuard(string(text)); err != nil {
		return g, errAltered // the text is not Culvert's
	}
	return g, nil
}

// readPart reads the user data of the first rule of a chain.
func readPart(q query, table *nftables.Table, chain string) (part []byte, err error) {
	read := errors.New("the first rule was read")
	err = visitRules(q, table, chain, func(attrs rtnl.Values) error {
		part = slices.Clone(attrs[unix.NFTA_RULE_USERDATA])
		return read
	})
	switch {
	case errors.Is(err, read):
		return part, nil
	case err == nil:
		return nil, errAltered // no rules
	}
	return nil, err
}

// compare returns errAltered if a table does not have these chains with their rules, and no others.
func (t *tableState) compare(q query, table *nftables.Table, want []chain) error {
	if t.flags != 0 || t.use != uint32(len(want)) {
		return errAltered
	}
	for _, w := range want {
		have, err := readChain(q, table, w.name)
		if err != nil {
			return err
		}
		if !isSameChain(have, chainAt(table, w.name, "")) {
			return errAltered
		}
		if err := compareRules(q, table, w); err != nil {
			return err
		}
	}
	return nil
}

// compareRules returns errAltered at the first rule of a chain that is not the wanted one.
func compareRules(q query, table *nftables.Table, want chain) error {
	n := 0
	err := visitRules(q, table, want.name, func(attrs rtnl.Values) error {
		if n == len(want.rules) {
			return errAltered
		}
		exprs, err := parseExprs(attrs[unix.NFTA_RULE_EXPRESSIONS])
		if err != nil {
			return err
		}
		if !reflect.DeepEqual(exprs, want.rules[n]) {
			return errAltered
		}
		n++
		return nil
	})
	if err == nil && n < len(want.rules) {
		return errAltered
	}
	return err
}

func visitRules(q query, table *nftables.Table, chain string, visit func(rtnl.Values) error) error {
	r := newRequest(unix.NFT_MSG_GETRULE, unix.NLM_F_DUMP, table, unix.NFTA_RULE_TABLE, table.Name)
	r.Body = rtnl.AppendString(r.Body, unix.NFTA_RULE_CHAIN, chain)
	return q(r, func(body []byte) error {
		attrs, err := rtnl.NetfilterAttrs(body)
		if err != nil {
			return err
		}
		return visit(attrs)
	})
}

// readChain reads the fields of a chain that isSameChain compares.
func readChain(q query, table *nftables.Table, name string) (*nftables.Chain, error) {
	r := newRequest(unix.NFT_MSG_GETCHAIN, 0, table, unix.NFTA_CHAIN_TABLE, table.Name)
	r.Body = rtnl.AppendString(r.Body, unix.NFTA_CHAIN_NAME, name)
	c := &nftables.Chain{}
	err := q(r, func(body []byte) error {
		attrs, err := rtnl.NetfilterAttrs(body)
		if err != nil {
			return err
		}
		c.Type = nftables.ChainType(rtnl.Attr{Value: attrs[unix.NFTA_CHAIN_TYPE]}.Text())
		if b, ok := attrs[unix.NFTA_CHAIN_POLICY]; ok {
			policy := nftables.ChainPolicy(bigEndian(b))
			c.Policy = &policy
		}
		if b, ok := attrs[unix.NFTA_CHAIN_HOOK]; ok {
			hook, err := rtnl.AttrValues(b)
			if err != nil {
				return err
			}
			number, priority := nftables.ChainHook(bigEndian(hook[unix.NFTA_HOOK_HOOKNUM])), nftables.ChainPriority(int32(bigEndian(hook[unix.NFTA_HOOK_PRIORITY])))
			c.Hooknum, c.Priority = &number, &priority
		}
		return nil
	})
	return c, err
}

func isSameChain(have, want *nftables.Chain) bool {
	return have.Type == want.Type && reflect.DeepEqual(have.Hooknum, want.Hooknum) &&
		reflect.DeepEqual(have.Priority, want.Priority) && reflect.DeepEqual(have.Policy, want.Policy)
}

// parseExprs reads the expressions of a rule. The error is errAltered for a kind of expression that
// no guard has.
func parseExprs(b []byte) (out []expr.Any, err error) {
	elements, err := rtnl.Attrs(b)
	if err != nil {
		return nil, err
	}
	for _, element := range elements {
		attrs, err := rtnl.AttrValues(element.Value)
		if err != nil {
			return nil, err
		}
		e, err := parseExpr(rtnl.Attr{Value: attrs[unix.NFTA_EXPR_NAME]}.Text(), attrs[unix.NFTA_EXPR_DATA])
		if err != nil {
			return nil, err
		}
		out = append(out, e)
	}
	return out, nil
}

func parseExpr(name string, data []byte) (e expr.Any, err error) {
	switch name {
	case "payload":
		e = &expr.Payload{}
	case "cmp":
		e = &expr.Cmp{}
	case "bitwise":
		e = &expr.Bitwise{}
	case "immediate": // a verdict, unless it is for another register
		var set expr.Immediate
		if err := expr.Unmarshal(byte(nftables.TableFamilyNetdev), data, &set); err != nil {
			return nil, err
		}
		if set.Register != unix.NFT_REG_VERDICT {
			return nil, errAltered
		}
		e = &expr.Verdict{}
	default:
		return nil, errAltered
	}
	return e, expr.Unmarshal(byte(nftables.TableFamilyNetdev), data, e)
}

// newRequest returns a request of nftables with its first attribute, which names the table.
func newRequest(kind, flags uint16, table *nftables.Table, attr uint16, name string) rtnl.Request {
	r := rtnl.NetfilterRequest(unix.NFNL_SUBSYS_NFTABLES, kind, flags, byte(table.Family))
	r.Body = rtnl.AppendString(r.Body, attr, name)
	return r
}

// bigEndian returns a number of nftables; 0 if it is not there.
func bigEndian(b []byte) uint32 {
	if len(b) < 4 {
		return 0
	}
	return binary.BigEndian.Uint32(b)
}
