package blocks

import "slices"

// maxBytes bounds the blocks of an AddressPool as JSON. etcd accepts requests of up to 1.5 MiB
// (--max-request-bytes) by default, and the rest of the object is much smaller than the
// difference.
const maxBytes = 1_300_000

// Bytes returns an upper bound, and a close one, of the length of blocks and reservations as JSON
// in an AddressPool.
func (p Pool) Bytes() (n int) {
	const keys = len(`{"node":"","nodeUID":"","first":"","last":""},`)
	for _, r := range p.Reservations {
		n += len(`{"pod":"","address":"","keepSeconds":1234567890,"since":"2026-11-26T06:00:00Z"},`) + len(r.Pod) + longestText(r.Addr.Is4())
	}
	for _, b := range p.Blocks {
		n += keys + len(b.Node) + len(b.UID) + longestText(b.First.Is4())*2
		if b.Grant != "" {
			n += len(`,"grant":""`) + len(b.Grant)
		}
		if b.Claim != "" {
			n += len(`,"claim":""`) + len(b.Claim)
		}
		if !b.GoneSince.IsZero() {
			n += len(`,"nodeGoneSince":"2026-11-26T06:00:00Z"`)
		}
	}
	return n
}

// longestText is how long an address of a family is at most, as text.
func longestText(is4 bool) int {
	if is4 {
		return len("255.255.255.255")
	}
	return len("ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff")
}

// Fit returns granted, the pool that Grant made from before, if etcd accepts its object, or if
// the object is no larger than it was. Otherwise nothing is granted: nodes keep their blocks, and
// released addresses go back if the result fits. Then Fit also returns the nodes that would have
// got something.
func Fit(before, granted Pool, demands []Demand) (fits Pool, refused []string) {
	limit := max(maxBytes, before.Bytes())
	if granted.Bytes() <= limit {
		return granted, nil
	}
	fits = before
	fits.Blocks = slices.Clone(before.Blocks)
	fits.takeBack(demands)
	fits.sort()
	fits.join()
	if fits.Bytes() > limit {
		fits = before
	}
	would, has := granted.byNode(), fits.byNode()
	for _, d := range demands {
		if would.of(d.Node).have(d) > has.of(d.Node).have(d) && !slices.Contains(refused, d.Node) {
			refused = append(refused, d.Node)
		}
	}
	slices.Sort(refused)
	return fits, refused
}
