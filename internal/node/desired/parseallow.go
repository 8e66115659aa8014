package desired

import (
	"maps"
	"net/netip"
	"path"
	"slices"
	"strings"

	"github.com/culvert-net/culvert/internal/vf"
)

const (
	macBits = 48
	maxVLAN = 4094
	maxRate = 1<<31 - 1
)

var allowKeys = []string{"namespaces", "namespaceSelector", "vlans", "vlanQoS", "serviceVLANs", "trust", "spoofchkOff", "macs", "addresses", "mtu", "maxTxRate", "minTxRate"}

var (
	namespaceForm = form[string]{"a namespace such as team-a, or a pattern such as team-*", parseNamespace}
	vlanForm      = form[Range]{"a VLAN ID from 0 (no VLAN) to 4094, or a range such as 100-200", parseVLANs}
	qosForm       = form[int]{"a priority from 1 to 7", func(s string) (int, error) { return parseNumber(s, 1, vf.MaxQoS) }}
	macRangeForm  = form[MACRange]{"a MAC address, optionally with the bits that count: 02:00:5e:00:00:00/24", parseMACRange}
	networkForm   = form[netip.Prefix]{"a network such as 10.1.0.0/16", parseNetwork}
	rateForm      = form[int]{"Mb/s from 1 to 2147483647", func(s string) (int, error) { return parseNumber(s, 1, maxRate) }}
)

// readAllow reads a pool's allow. It refuses a key without a value, which could be read as one that
// allows nothing or everything.
func (r *reader) readAllow(v at) *Allow {
	fields, ok := r.ReadFields(v, allowKeys...)
	if !ok {
		return nil
	}
	a := &Allow{}
	read := func(key string, f func(at)) {
		if field, ok := fields[key]; ok {
			f(field)
		}
	}
	read("namespaces", func(f at) { a.Namespaces = readEntries(r, f, namespaceForm) })
	read("namespaceSelector", func(f at) { a.NamespaceSelector = r.readLabels(f) })
	read("vlans", func(f at) { a.VLANs = readEntries(r, f, vlanForm) })
	read("vlanQoS", func(f at) { a.VLANQoS = parseScalar(r, f, qosForm) })
	read("serviceVLANs", func(f at) { a.ServiceVLANs = r.ReadBool(f) })
	read("trust", func(f at) { a.Trust = r.ReadBool(f) })
	read("spoofchkOff", func(f at) { a.SpoofChkOff = r.ReadBool(f) })
	read("macs", func(f at) { a.MACs = readEntries(r, f, macRangeForm) })
	read("addresses", func(f at) { a.Addresses = readEntries(r, f, networkForm) })
	read("mtu", func(f at) { a.MTU = parseScalar(r, f, mtuForm) })
	read("maxTxRate", func(f at) { a.MaxTxRate = parseScalar(r, f, rateForm) })
	read("minTxRate", func(f at) { a.MinTxRate = parseScalar(r, f, rateForm) })
	return a
}

// readEntries reads a list that has at least one item.
func readEntries[T any](r *reader, v at, f form[T]) []T {
	all := readList(r, v, f)
	if len(all) == 0 {
		r.AddMistake(v, "an empty list: leave the key out, or name %s", f.want)
	}
	return all
}

func (r *reader) readLabels(v at) map[string]string {
	all := r.ReadAnyMap(v, "a map of labels")
	out := map[string]string{}
	for _, key := range slices.Sorted(maps.Keys(all)) {
		out[key] = r.ReadAnyText(all[key], "a label's value")
	}
	if len(out) == 0 {
		r.AddMistake(v, "no label: leave the key out, or name one")
	}
	return out
}

func parseNamespace(s string) (string, error) {
	_, err := path.Match(s, "")
	if err == nil && (len(s) > 253 || strings.ContainsFunc(s, notInName)) {
		err = errName
	}
	return s, err
}

func parseVLANs(s string) (Range, error) {
	low, high, isRange := strings.Cut(s, "-")
	if !isRange {
		high = low
	}
	first, err := parseNumber(low, 0, maxVLAN)
	if err != nil {
		return Range{}, err
	}
	last, err := parseNumber(high, first, maxVLAN)
	return Range{first, last}, err
}

func parseMACRange(s string) (MACRange, error) {
	address, bits, some := strings.Cut(s, "/")
	m, err := vf.ParseMAC(address)
	if err != nil || !some {
		return MACRange{m, macBits}, err
	}
	n, err := parseNumber(bits, 0, macBits)
	return MACRange{m, n}, err
}

func parseNetwork(s string) (netip.Prefix, error) {
	p, err := netip.ParsePrefix(s)
	return p.Masked(), err
}
