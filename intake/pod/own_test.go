package pod

import (
	"strings"
	"testing"

	"github.com/culvert-net/culvert/api"
)

// Whatever a definition holds, it has configurations of Culvert's or none.
func TestOwn(t *testing.T) {
	for config, want := range map[string]int{
		``:     0,
		`null`: -1,
		`[]`:   -1,
		`{"type": "sriov", "args": {"x": "` + strings.Repeat("x", 70_000) + `"}}`: -1,
		`{}`:                              -1,
		`{"type": "sriov"}`:               1,
		`{"type": "bridge"}`:              0,
		`{"type": "sriov", "vlan": 5000}`: -1,
		`{"cniVersion": "1.0.0", "plugins": [{"type": "sriov"}, {"type": "tuning"}, {"type": "culvert", "pool": "a"}]}`: 2,
		`{"cniVersion": "1.0.0", "plugins": [null]}`:                      -1,
		`{"cniVersion": "1.0.0", "type": "culvert", "podNetworks": true}`: -1,
	} {
		got, err := Own(api.NetworkDefinition{Namespace: "d", Name: "n", Config: config})
		if (err != nil) != (want < 0) || err == nil && len(got) != want {
			t.Errorf("%.200s: %d, %v; want %d", config, len(got), err, want)
		}
		for _, c := range got {
			if c.Name != "n" {
				t.Errorf("%s: name %q", config, c.Name)
			}
		}
	}
}
