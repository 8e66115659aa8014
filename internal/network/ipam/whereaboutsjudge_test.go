package ipam

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/culvert-net/culvert/internal/vf"
)

// JudgeWhereabouts refuses what whereabouts 0.9.2 refuses (pkg/config/config.go, pkg/types/types.go,
// pkg/allocate, pkg/iphelpers), and warns of what it ignores.
func TestJudgeWhereabouts(t *testing.T) {
	for keys, want := range map[string]string{
		`"range":"10.1.0.0/24"`:            "",
		`"range":"10.001.0.5/29"`:          "",
		`"range":"10.1.0.0-10.1.0.255/24"`: "",
		`"range":"fd00::/120","range_start":"fd00::9","range_end":"fd00::9"`:                                 "",
		`"range":"10.1.0.0/24","gateway":"10.1.0.1","node_slice_size":"/26","kubernetes":{"kubeconfig":"x"}`: "",
		`"ipRanges":[{"range":"10.1.0.0/24"},{"range":"fd00::/64","exclude":["fd00::/120"]}]`:                "",
		`"range":"10.1.0.4-10.1.0.4/24"`:                                        "",
		`"range":"192.168.1.10/32"`:                                             "refused: ipam.range: \"192.168.1.10/32\" is too small to hand out from: want /30 or shorter",
		`"range":"192.168.1.10/31"`:                                             "refused: ipam.range: \"192.168.1.10/31\" is too small",
		`"range":"fd00::1/128"`:                                                 "refused: ipam.range: \"fd00::1/128\" is too small to hand out from: want /126",
		`"range":"nonsense","rangestart":"10.0.0.1"`:                            "warning: ipam.rangestart 10.0.0.1: unknown key, ignored: did you mean range_start?; refused: ipam.range: \"nonsense\": want an IP address",
		`"range":"10.1.0.0"`:                                                    "refused: ipam.range: \"10.1.0.0\": want a range",
		`"range":"10.1.0.0/33"`:                                                 "refused: ipam.range: \"10.1.0.0/33\": want a range",
		`"range":"10.1.0.4-10.1.0.9"`:                                           "refused: ipam.range: \"10.1.0.4-10.1.0.9\": want a range",
		`"range":"10.1.0.4 - 10.1.0.9/24"`:                                      "refused: ipam.range: \" 10.1.0.9\": want an IP address",
		`"range":"10.2.0.4-10.1.0.9/24"`:                                        "refused: ipam.range: \"10.2.0.4-10.1.0.9/24\": 10.2.0.4 is not in subnet 10.1.0.0/24",
		`"range":["10.1.0.0/24"]`:                                               "refused: ipam.range [\"10.1.0.0/24\"]: want a string",
		`"range":"10.1.0.9-10.1.0.4/24"`:                                        "warning: ipam.range 10.1.0.9-10.1.0.4/24: the end 10.1.0.4 is before the start, and whereabouts ignores it: it gives addresses up to the end of 10.1.0.0/24",
		`"range":"10.1.0.4-10.1.0.9/24","range_end":"10.1.0.6"`:                 "warning: ipam.range_end 10.1.0.6: ignored, since range has a start and an end of its own",
		`"range":"10.1.0.0/24","range_start":"10.2.0.9"`:                        "warning: ipam.range_start 10.2.0.9: is not in 10.1.0.0/24, and whereabouts ignores it: it takes 10.1.0.1",
		`"range":"10.1.0.0/24","range_end":"first"`:                             "warning: ipam.range_end first: no IP address, and whereabouts ignores it: it takes 10.1.0.254",
		`"range":"10.1.0.0/24","range_start":"10.1.0.9","range_end":"10.1.0.4"`: "warning: ipam.range_end 10.1.0.4: is before range_start, and whereabouts ignores it: it gives addresses up to 10.1.0.254",
		`"range":"10.1.0.0/24","Range_Start":"10.1.0.9"`:                        "warning: ipam.Range_Start 10.1.0.9: read as range_start: write it so",
		`"range":"10.1.0.0/24","rangeEnd":"10.1.0.9"`:                           "warning: ipam.rangeEnd 10.1.0.9: unknown key, ignored: did you mean range_end?",
		`"subnet":"10.1.0.0/24"`:                                                "warning: ipam.subnet 10.1.0.0/24: unknown key, ignored; warning: ipam.range: missing: whereabouts gives addresses only if its file on the nodes has a range, and Culvert gives none",
		`"ipRanges":[{"range":"10.1.0.0/24"}],"range_start":"10.1.0.9"`:         "warning: ipam.range_start 10.1.0.9: ignored, since there is no range beside it: write it into ipRanges",
		`"ipRanges":[{"range":"10.1.0.7/32"}]`:                                  "refused: ipam.ipRanges[0].range: \"10.1.0.7/32\" is too small",
		`"ipRanges":[{"subnet":"10.1.0.0/24"}]`:                                 "warning: ipam.ipRanges[0].subnet 10.1.0.0/24: unknown key, ignored; refused: ipam.ipRanges[0].range: missing",
		`"ipRanges":[{"range":"10.1.0.0/24","range_start":"x"}]`:                "warning: ipam.ipRanges[0].range_start x: no IP address, and whereabouts ignores it: it takes 10.1.0.1; refused: ipam.ipRanges[0].range_start: \"x\": want an IP address",
		`"ipRanges":"10.1.0.0/24"`:                                              "refused: ipam.ipRanges 10.1.0.0/24: want a list of objects",
		`"range":"10.1.0.0/24","exclude":["first"]`:                             "refused: ipam.exclude [\"first\"]: element 0: \"first\": want an address or a subnet",
		`"range":"10.1.0.0/24","exclude":["10.1.0.0/24"]`:                       "refused: ipam: invalid: no address is left: ",
		`"range":"10.1.0.0/24","gateway":"router"`:                              "refused: ipam.gateway: \"router\": want an IP address",
		`"range":"10.1.0.0/24","addresses":[{"address":"10.9.0.1"}]`:            "refused: ipam.addresses[0].address: \"10.9.0.1/\": want an address with its prefix length",
		`"range":"10.1.0.4-10.1.0.4/24","gateway":"10.1.0.4"`:                   "warning: ipam: where Culvert gives out the addresses of whereabouts, it refuses pods: ",
		`"ipRanges":[{"range":"10.1.0.0/24"},{"range":"10.1.0.0/25"}]`:          "warning: ipam: where Culvert gives out the addresses of whereabouts, it refuses pods: ipam.ipRanges ",
	} {
		warnings, err := JudgeWhereabouts(json.RawMessage(`{"type":"whereabouts",` + keys + `}`))
		var got []string
		for _, w := range warnings {
			got = append(got, "warning: "+w)
		}
		if err != nil {
			got = append(got, "refused: "+err.Error())
			if !errors.Is(err, vf.ErrInvalid) {
				t.Errorf("%s: the error is not a vf.ErrInvalid", keys)
			}
		}
		if text := strings.Join(got, "; "); !strings.HasPrefix(text, want) || (want == "") != (text == "") {
			t.Errorf("%s\n got %s\nwant %s", keys, text, want)
		}
	}
}

// FuzzJudgeWhereabouts: a section that Culvert reads as whereabouts has no error but for its
// addresses, and each reason is short.
func FuzzJudgeWhereabouts(f *testing.F) {
	f.Add(`{"type":"whereabouts","range":"10.1.0.4-10.1.0.9/24","exclude":["10.1.0.5/32"],"gateway":"10.1.0.1"}`)
	f.Add(`{"range":"010.001.0.0/24","ipRanges":[{"range":"fd00::/64","range_start":"fd00::5","range_end":"x"}]}`)
	f.Fuzz(func(t *testing.T, raw string) {
		warnings, err := JudgeWhereabouts(json.RawMessage(raw))
		if err != nil && !errors.Is(err, vf.ErrInvalid) {
			t.Errorf("%q: undocumented error %v", raw, err)
		}
		for _, w := range append(warnings, fmt.Sprint(err)) {
			if w == "" || len(w) > 64<<10 {
				t.Errorf("%q: reason of %d bytes", raw, len(w))
			}
		}
	})
}

// JudgeWhereabouts refuses a section if and only if whereabouts 0.9.2 refused its first pod
// (test/compat). It cannot know the file on the nodes that may have the range.
func TestJudgeAgreesWithWhereabouts(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("../../..", "test/compat/whereabouts.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var suite struct {
		Cases []struct {
			Name  string
			Input struct{ IPAM map[string]any }
			Peer  any
		}
	}
	if err := yaml.Unmarshal(text, &suite); err != nil || len(suite.Cases) < 40 {
		t.Fatalf("%d cases, %v", len(suite.Cases), err)
	}
	for _, c := range suite.Cases {
		section, err := json.Marshal(c.Input.IPAM)
		if err != nil {
			t.Fatal(err)
		}
		first := c.Peer
		if list, ok := c.Peer.([]any); ok {
			first = list[0]
		}
		refused := first == "refused" && c.Name != "neither range nor ranges"
		if _, err := JudgeWhereabouts(section); (err != nil) != refused {
			t.Errorf("%s: %v, and whereabouts says %v", c.Name, err, c.Peer)
		}
	}
}
