package desired

import (
	"fmt"
	"strings"

	"go.yaml.in/yaml/v3"
)

// readParts reads values such as enp1s0f0#0,2-7: a PF, then optionally # and the
// indexes of some of its VFs.
func readParts[T any](r *reader, v at, f form[T]) []Part[T] {
	items := []at{v}
	if v.Kind != yaml.ScalarNode || isNull(v) {
		items = r.readItems(v, "a list of "+f.want+", each optionally with VF indexes: #0,2-7")
	}
	var all []Part[T]
	for _, item := range items {
		if p, ok := readPart(r, item, f); ok {
			all = append(all, p)
		}
	}
	return all
}

func readPart[T any](r *reader, item at, f form[T]) (p Part[T], ok bool) {
	pf, indexes, some := strings.Cut(item.Value, "#")
	var err error
	if p.PF, err = f.parse(pf); err != nil || item.Kind != yaml.ScalarNode {
		r.rejectValue(item, f.want+", optionally with VF indexes: #0,2-7")
		return p, false
	}
	if some {
		if p.Indexes, err = parseIndexes(indexes); err != nil {
			r.addError(item, "%s: %s", describeValue(item), err)
		}
	}
	return p, true
}

// parseIndexes reads 0,2-7. Errors describe a valid form.
func parseIndexes(s string) ([]Range, error) {
	var all []Range
	for _, part := range strings.Split(s, ",") {
		low, high, isRange := strings.Cut(part, "-")
		if !isRange {
			high = low
		}
		first, err1 := parseNumber(low, 0, maxVFs-1)
		last, err2 := parseNumber(high, 0, maxVFs-1)
		switch {
		case err1 != nil || err2 != nil:
			return nil, fmt.Errorf("%q after # is no VF index: want indexes and ranges such as #0,2-7", part)
		case first > last:
			return nil, fmt.Errorf("a range counts up: write %d-%d", last, first)
		}
		for _, r := range all {
			if first <= r.Last && r.First <= last {
				return nil, fmt.Errorf("VF %d is named twice", max(first, r.First))
			}
		}
		all = append(all, Range{first, last})
	}
	return all, nil
}
