package ipam

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"

	"github.com/culvert-net/culvert/internal/network/strictjson"
	"github.com/culvert-net/culvert/internal/vf"
)

// JudgeWhereabouts reads a section of type whereabouts as whereabouts does (version 0.9.2). The
// error is the reason why whereabouts gives a pod no address; it wraps vf.ErrInvalid. warnings lists
// what whereabouts ignores, and why Culvert would refuse the section where it gives out the
// addresses itself.
func JudgeWhereabouts(raw json.RawMessage) (warnings []string, err error) {
	o, err := strictjson.ParseLenient(raw, "ipam")
	if err != nil {
		return nil, err
	}
	o.Known(slices.Concat(whereaboutsKeys, whereaboutsRest)...)
	o.String("network_name")
	judgeWhereaboutsRanges(o)
	strictjson.Text(o, "gateway", sloppyAddr)
	for _, in := range o.Objects("addresses") {
		in.Known("address", "gateway")
		strictjson.Text(in, "address", sloppyPrefix)
	}
	if err := o.Err(); err != nil {
		return o.Warnings(), err
	}
	if !o.Given("range") && len(o.Objects("ipRanges")) == 0 {
		return o.Warnings(), nil
	}
	own, err := judgeAllocation(raw)
	return append(o.Warnings(), own...), err
}

// judgeWhereaboutsRanges reads the ranges of a section.
func judgeWhereaboutsRanges(o *strictjson.Object) {
	ranges := o.Objects("ipRanges")
	switch {
	case o.Given("range"):
		judgeWhereaboutsRange(o)
	case len(ranges) == 0 && !o.Failed("ipRanges"):
		o.Doubt("range", "missing: whereabouts gives addresses only if its file on the nodes has a range, and Culvert gives none")
	default:
		for _, key := range []string{"range_start", "range_end", "exclude"} {
			if o.Given(key) {
				o.Doubt(key, "ignored, since there is no range beside it: write it into ipRanges")
			}
		}
	}
	for _, in := range ranges {
		in.Known(whereaboutsRangeKeys...)
		for _, key := range []string{"range_start", "range_end"} {
			strictjson.Text(in, key, parseAddr) // unlike those beside range, they must be addresses
		}
		if !in.Given("range") {
			in.Fail("range", "missing; want a range, e.g. 172.16.91.0/24")
			continue
		}
		judgeWhereaboutsRange(in)
	}
}

// judgeWhereaboutsRange reads range, range_start, range_end and exclude of o, and warns of bounds
// that whereabouts ignores.
func judgeWhereaboutsRange(o *strictjson.Object) {
	for i, s := range o.Strings("exclude") {
		if _, err := parseExclude(s); err != nil {
			o.Fail("exclude", "element %d: %v", i, err)
		}
	}
	start, end := o.String("range_start"), o.String("range_end")
	w, ok := strictjson.Text(o, "range", parseWhereaboutsRange)
	if !ok {
		return
	}
	if w.end.IsValid() {
		if w.end.Less(w.start) {
			o.Doubt("range", "the end %s is before the start, and whereabouts ignores it: it gives addresses up to the end of %s", w.end, w.subnet)
		}
		for _, key := range []string{"range_start", "range_end"} {
			if o.Given(key) {
				o.Doubt(key, "ignored, since range has a start and an end of its own")
			}
		}
		return
	}
	first, last := w.subnet.Addr().Next(), lastOf(w.subnet).Prev()
	from := doubtBound(o, "range_start", start, w.subnet, first)
	if to := doubtBound(o, "range_end", end, w.subnet, last); to.Less(from) {
		o.Doubt("range_end", "is before range_start, and whereabouts ignores it: it gives addresses up to %s", last)
	}
}

// doubtBound returns the bound that a text names, and otherwise the one that whereabouts takes in
// place of a text that is no address of the subnet.
func doubtBound(o *strictjson.Object, key, text string, subnet netip.Prefix, otherwise netip.Addr) netip.Addr {
	if text == "" {
		return otherwise
	}
	a, err := sloppyAddr(text)
	switch {
	case err != nil:
		o.Doubt(key, "no IP address, and whereabouts ignores it: it takes %s", otherwise)
	case !subnet.Contains(a):
		o.Doubt(key, "is not in %s, and whereabouts ignores it: it takes %s", subnet, otherwise)
	default:
		return a
	}
	return otherwise
}

// judgeAllocation gives out an address of a section of which none is held. It refuses a section
// that excludes all of its addresses. A section that only Culvert refuses gets a warning.
func judgeAllocation(raw json.RawMessage) (warnings []string, err error) {
	warn := func(err error) []string {
		return []string{fmt.Sprintf("ipam: where Culvert gives out the addresses of whereabouts, it refuses pods: %v", err)}
	}
	c, err := Reader{Lenient: true}.ParseWhereabouts(raw)
	if err != nil {
		return warn(err), nil
	}
	none := func(netip.Addr) (vf.Owner, bool) { return vf.Owner{}, false }
	if _, err = c.Allocate(none, nil, nil); err == nil {
		return nil, nil
	}
	for i, set := range c.Sets { // whereabouts gives out a gateway too
		c.Sets[i] = slices.Clone(set)
		for j := range c.Sets[i] {
			c.Sets[i][j].Gateway = netip.Addr{}
		}
	}
	if _, again := c.Allocate(none, nil, nil); again != nil {
		return nil, fmt.Errorf("ipam: %w: no address is left: %w", vf.ErrInvalid, again)
	}
	return warn(err), nil
}
