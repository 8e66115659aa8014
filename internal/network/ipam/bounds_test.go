package ipam

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// An author of networks must not be able to keep culvertd busy with them. Each of these
// configurations once took minutes and gigabytes, or a kernel call for each element.
func TestLongListsAreRefused(t *testing.T) {
	list := func(n int, element string) string { return strings.Repeat(element+",", n-1) + element }
	const subnet = `{"subnet":"10.0.0.0/24"}`
	for name, raw := range map[string]string{
		"one set":   `{"type":"host-local","ranges":[[` + list(20000, subnet) + `]]}`,
		"many sets": `{"type":"host-local","ranges":[` + list(20000, "["+subnet+"]") + `]}`,
		"excludes":  `{"type":"host-local","subnet":"10.0.0.0/8","exclude":[` + list(20000, `"10.0.0.0/32"`) + `]}`,
		"static":    `{"type":"static","addresses":[` + list(20000, `{"address":"10.0.0.1/24"}`) + `]}`,
		"routes":    `{"type":"host-local","subnet":"10.0.0.0/8","routes":[` + list(20000, `{"dst":"10.0.0.0/8"}`) + `]}`,
	} {
		_, err := Parse(json.RawMessage(raw))
		if text := fmt.Sprint(err); !strings.Contains(text, "want at most") || len(text) > 8000 {
			t.Errorf("%s: %.200s", name, text)
		}
	}
}

// A configuration with the longest allowed lists is parsed and served, at next to no cost.
func TestLongestListsAreServed(t *testing.T) {
	var ranges, excludes []string
	for i := range maxRanges - 1 {
		ranges = append(ranges, fmt.Sprintf(`{"subnet":"10.%d.0.0/16"}`, i))
	}
	for i := range maxExcludes {
		excludes = append(excludes, fmt.Sprintf(`"10.0.%d.%d"`, i/256, i%256))
	}
	c, err := Parse(json.RawMessage(`{"type":"host-local","ranges":[[` + strings.Join(ranges, ",") + `]],"exclude":[` + strings.Join(excludes, ",") + `]}`))
	if err != nil {
		t.Fatal(err)
	}
	r, err := c.Allocate(nobody, nil, nil)
	if err != nil || len(r.Addresses) != 1 {
		t.Errorf("%v, %v", r, err)
	}
}
