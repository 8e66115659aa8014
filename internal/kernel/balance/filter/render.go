package filter

import (
	"fmt"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"

	"github.com/culvert-net/culvert/internal/kernel/balance"
)

// choicesName is the map of affinity: Frontend -> backend.
const choicesName = "choices"

// Registers (linux/netfilter/nf_tables.h): 16 of 4 bytes, from 8 on. A key takes up to 6, a
// backend up to 5.
const (
	keyRegister    = unix.NFT_REG32_00
	targetRegister = unix.NFT_REG32_08
	numberRegister = unix.NFT_REG32_07
)

// ruler adds the rules of one table to a transaction.
type ruler struct {
	conn  *nftables.Conn
	table *nftables.Table
	v6    bool
	// words is how many registers an address takes.
	words uint32
}

// render adds a whole table to a transaction, with choices of affinity that a replaced table had.
func (c content) render(conn *nftables.Conn, table *nftables.Table, frontends []frontend, kept []nftables.SetElement) error {
	conn.AddTable(table)
	r := ruler{conn: conn, table: table, v6: table.Family == nftables.TableFamilyIPv6, words: 1}
	if r.v6 {
		r.words = 4
	}
	conn.AddChain(&nftables.Chain{Name: c.sum, Table: table})
	var balanced, refused, all []nftables.SetElement
	choices := &nftables.Set{Table: table, Name: choicesName, IsMap: true, Dynamic: true, HasTimeout: true, Size: 65535, Concatenation: true, KeyType: r.keyType(), DataType: r.targetType()}
	if err := r.addSet(choices, kept); err != nil {
		return fmt.Errorf("make the map of affinity: %w", err)
	}
	for i, f := range frontends {
		if len(f.Backends) == 0 {
			refused = append(refused, nftables.SetElement{Key: f.key()})
			continue
		}
		name := fmt.Sprintf("service-%d", i)
		if err := r.serviceChain(name, f, choices); err != nil {
			return fmt.Errorf("rules of %s: %w", f.Frontend, err)
		}
		balanced = append(balanced, nftables.SetElement{Key: f.key(), VerdictData: &expr.Verdict{Kind: expr.VerdictGoto, Chain: name}})
		all = append(all, nftables.SetElement{Key: f.key()})
	}
	if err := r.hooks(balanced, refused, all); err != nil {
		return fmt.Errorf("hooks of nftables: %w", err)
	}
	return nil
}

func (r ruler) keyType() nftables.SetDatatype {
	return nftables.MustConcatSetType(r.addressType(), nftables.TypeInetProto, nftables.TypeInetService)
}

func (r ruler) targetType() nftables.SetDatatype {
	return nftables.MustConcatSetType(r.addressType(), nftables.TypeInetService)
}

func (r ruler) addressType() nftables.SetDatatype {
	if r.v6 {
		return nftables.TypeIP6Addr
	}
	return nftables.TypeIPAddr
}

// serviceChain makes the chain of a Frontend: with affinity it sends to the backend of last time,
// and otherwise to a random one.
func (r ruler) serviceChain(name string, f frontend, choices *nftables.Set) error {
	chain := r.conn.AddChain(&nftables.Chain{Name: name, Table: r.table})
	backends := &nftables.Set{Table: r.table, Name: name, IsMap: true, KeyType: nftables.TypeInteger, DataType: r.targetType()}
	if err := r.addSet(backends, numbered(f.Backends)); err != nil {
		return err
	}
	keep := expr.Dynset{
		SrcRegKey: keyRegister, SrcRegData: targetRegister, SetName: choices.Name, SetID: choices.ID,
		Operation: unix.NFT_DYNSET_OP_UPDATE, Timeout: wholeSeconds(f.Affinity),
	}
	if f.Affinity > 0 {
		again := append(r.loadKey(), &expr.Lookup{SourceRegister: keyRegister, DestRegister: targetRegister, IsDestRegSet: true, SetName: choices.Name, SetID: choices.ID})
		r.rule(chain, append(again, &keep, r.toTarget())...)
	}
	first := append(r.loadKey(),
		&expr.Numgen{Register: numberRegister, Modulus: uint32(len(f.Backends)), Type: unix.NFT_NG_RANDOM},
		&expr.Lookup{SourceRegister: numberRegister, DestRegister: targetRegister, IsDestRegSet: true, SetName: backends.Name, SetID: backends.ID})
	if f.Affinity > 0 {
		first = append(first, &keep)
	}
	r.rule(chain, append(first, r.toTarget())...)
	return nil
}

// toTarget changes the destination to the backend in the target registers.
func (r ruler) toTarget() expr.Any {
	return &expr.NAT{Type: expr.NATTypeDestNAT, Family: uint32(r.table.Family), RegAddrMin: targetRegister, RegProtoMin: targetRegister + r.words, Specified: true}
}

func (r ruler) rule(chain *nftables.Chain, all ...expr.Any) {
	r.conn.AddRule(&nftables.Rule{Table: r.table, Chain: chain, Exprs: all})
}

// loadKey loads the destination of a packet.
func (r ruler) loadKey() []expr.Any {
	offset, length := uint32(16), uint32(4) // of the destination in an IPv4 header
	if r.v6 {
		offset, length = 24, 16
	}
	return []expr.Any{
		&expr.Payload{DestRegister: keyRegister, Base: expr.PayloadBaseNetworkHeader, Offset: offset, Len: length},
		&expr.Meta{Key: expr.MetaKeyL4PROTO, Register: keyRegister + r.words},
		&expr.Payload{DestRegister: keyRegister + r.words + 1, Base: expr.PayloadBaseTransportHeader, Offset: 2, Len: 2},
	}
}

// loadOriginalKey loads the original destination of a packet's connection, before the rules changed
// it.
func (r ruler) loadOriginalKey() []expr.Any {
	return []expr.Any{
		&expr.Ct{Register: keyRegister, Key: expr.CtKeyDST},
		&expr.Meta{Key: expr.MetaKeyL4PROTO, Register: keyRegister + r.words},
		&expr.Ct{Register: keyRegister + r.words + 1, Key: expr.CtKeyPROTODST},
	}
}

// hooks makes the chains that the kernel calls. The kernel chose the source address of a connection
// for the route to the ClusterIP, which leads through another interface than the route to the
// backend. So the chain leave masquerades the packets that leave the pod, and not those over lo.
func (r ruler) hooks(balanced, refused, all []nftables.SetElement) error {
	services := &nftables.Set{Table: r.table, Name: "services", IsMap: true, Concatenation: true, KeyType: r.keyType(), DataType: nftables.TypeVerdict}
	without := &nftables.Set{Table: r.table, Name: "refused", Concatenation: true, KeyType: r.keyType()}
	with := &nftables.Set{Table: r.table, Name: "balanced", Concatenation: true, KeyType: r.keyType()}
	for set, elements := range map[*nftables.Set][]nftables.SetElement{services: balanced, without: refused, with: all} {
		if err := r.addSet(set, elements); err != nil {
			return err
		}
	}
	output := r.conn.AddChain(&nftables.Chain{Name: "output", Table: r.table, Type: nftables.ChainTypeNAT, Hooknum: nftables.ChainHookOutput, Priority: nftables.ChainPriorityNATDest})
	r.rule(output, append(r.loadKey(), &expr.Lookup{SourceRegister: keyRegister, SetName: services.Name, SetID: services.ID, IsDestRegSet: true, DestRegister: unix.NFT_REG_VERDICT})...)

	leave := r.conn.AddChain(&nftables.Chain{Name: "leave", Table: r.table, Type: nftables.ChainTypeNAT, Hooknum: nftables.ChainHookPostrouting, Priority: nftables.ChainPriorityNATSource})
	lo := append([]byte("lo"), make([]byte, unix.IFNAMSIZ-2)...)
	r.rule(leave, append([]expr.Any{&expr.Meta{Key: expr.MetaKeyOIFNAME, Register: keyRegister}, &expr.Cmp{Op: expr.CmpOpNeq, Register: keyRegister, Data: lo}},
		append(r.loadOriginalKey(), &expr.Lookup{SourceRegister: keyRegister, SetName: with.Name, SetID: with.ID}, &expr.Masq{})...)...)

	refuse := r.conn.AddChain(&nftables.Chain{Name: "refuse", Table: r.table, Type: nftables.ChainTypeFilter, Hooknum: nftables.ChainHookOutput, Priority: nftables.ChainPriorityFilter})
	isRefused := append(r.loadKey(), &expr.Lookup{SourceRegister: keyRegister, SetName: without.Name, SetID: without.ID})
	isTCP := []expr.Any{&expr.Meta{Key: expr.MetaKeyL4PROTO, Register: keyRegister}, &expr.Cmp{Op: expr.CmpOpEq, Register: keyRegister, Data: []byte{byte(balance.TCP)}}}
	r.rule(refuse, append(append(isTCP, isRefused...), &expr.Reject{Type: unix.NFT_REJECT_TCP_RST})...)
	code := uint8(icmpPortUnreachable)
	if r.v6 {
		code = icmpv6PortUnreachable
	}
	r.rule(refuse, append(isRefused, &expr.Reject{Type: unix.NFT_REJECT_ICMP_UNREACH, Code: code})...)
	return nil
}

// Codes of linux/icmp.h and linux/icmpv6.h: ICMP_PORT_UNREACH, ICMPV6_PORT_UNREACH.
const icmpPortUnreachable, icmpv6PortUnreachable = 3, 4
