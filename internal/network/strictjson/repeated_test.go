package strictjson

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestFindRepeated(t *testing.T) {
	for text, want := range map[string][]string{
		`{"a": 1, "A": 2}`:             nil,
		`{"type": "a", "Type": "b"}`:   {"Type"},
		`{"type": "a", "type": "b"}`:   {"type"},
		`{"a": {"b": 1, "b": 2}}`:      {"a.b"},
		`[{"a": 1}, {"a": 1, "a": 2}]`: {"[1].a"},
		`{"plugins": [{"type": "sriov", "vlan": 5, "vlan": 6}, {"type": "rdma", "type": "sbr"}]}`: {"plugins[0].vlan", "plugins[1].type"},
		`{"type": "a", "type"`:          nil,
		`{"x.type": 1}`:                 nil,
		`{"a": 1, "a": 2, "b": tru}`:    nil, // it is no JSON
		`7`:                             nil,
		"{\"\x1b\": 1, \"\\u001b\": 2}": nil,
	} {
		if d := cmp.Diff(want, FindRepeated([]byte(text))); d != "" {
			t.Errorf("%s: -want +got\n%s", text, d)
		}
	}
	many := FindRepeated([]byte("{" + strings.Repeat(`"a": 1, `, 2*MaxProblems) + `"a": 1}`))
	deep := FindRepeated([]byte(strings.Repeat(`{"`+strings.Repeat("k", 50)+`":`, 5000) + `{"a": 1, "a": 2}` + strings.Repeat("}", 5000)))
	if len(many) != MaxProblems || len(deep) != 1 || len(deep[0]) > 2*longestPath {
		t.Errorf("%d found of many, and a path of %d bytes", len(many), len(deep[0]))
	}
}
